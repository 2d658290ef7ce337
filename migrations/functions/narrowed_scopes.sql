-- Returns the granted scopes that are allowed. A scope with :rw of which only :r is allowed becomes :r.
create or replace function narrowed_scopes(granted text[], allowed text[]) returns text[]
language sql immutable parallel safe as $$
  select case
    when granted <@ allowed then granted
    else array(select distinct on (n) kept
                 from unnest(granted) with ordinality as g (scope, n)
                cross join lateral (values (scope), (regexp_replace(scope, ':rw$', ':r'))) as k (kept)
                where kept = any (allowed) or kept || 'w' = any (allowed)
                order by n, kept desc)
  end
$$;
