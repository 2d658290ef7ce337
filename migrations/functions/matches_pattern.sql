-- Returns whether a pattern matches the package name. A pattern is `symfony/*`, or `symfony/*:^6` with a constraint.
-- The constraint is ignored here.
create or replace function matches_pattern(package_name text, patterns text[]) returns boolean
language sql immutable parallel safe as $$
  select exists (select from unnest(patterns) as pattern
                  where package_name like replace(replace(split_part(pattern, ':', 1), '_', '\_'), '*', '%'))
$$;
