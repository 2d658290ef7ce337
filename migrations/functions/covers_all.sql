-- Returns whether the granted scopes cover every requested scope. :rw covers :r (CONTRACT 1.11).
create or replace function covers_all(granted text[], asked text[]) returns boolean
language sql immutable parallel safe as $$
  select not exists (select from unnest(asked) as scope where scope <> all (granted) and scope || 'w' <> all (granted))
$$;
