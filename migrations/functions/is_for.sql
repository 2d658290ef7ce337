-- Returns whether a token for some resources works at a place: the API, the registry of a repository, or with / what only a
-- token for all of svc reaches. A renamed registry stays the same resource.
create or replace function is_for(resources text[], place text) returns boolean
language sql stable parallel safe as $$
  select resources is null or place = any (resources) or '/' = any (resources)
      or (place like '/%/%/-/packages/'
          and repository_at(split_part(place, '/', 2), split_part(place, '/', 3)) in (
                select repository_at(split_part(one, '/', 2), split_part(one, '/', 3))
                  from unnest(resources) as one
                 where one like '/%/%/-/packages/'))
$$;
