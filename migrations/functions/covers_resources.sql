-- Returns whether what was granted for some resources covers the requested ones. Null stands for everything, and / for the API
-- and all registries of svc (OPENID 273).
create or replace function covers_resources(granted text[], asked text[]) returns boolean
language sql immutable parallel safe as $$
  select granted is null
      or (asked is not null
          and not exists (select from unnest(asked) as one
                           where one <> all (granted) and not (one like '/%' and '/' = any (granted))))
$$;
