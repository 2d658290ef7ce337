-- Returns whether a pattern without a constraint matches the package name.
create or replace function is_denied_by(package_name text, patterns text[]) returns boolean
language sql immutable parallel safe as $$
  select matches_pattern(package_name, array(select p from unnest(patterns) p where position(':' in p) = 0))
$$;
