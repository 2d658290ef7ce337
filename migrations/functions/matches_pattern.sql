-- Returns whether a pattern matches the package name. A pattern is `symfony/*`, or `symfony/*:^6` with a constraint.
-- The constraint is ignored here. One expression without a subquery becomes a part of the calling statement. Otherwise
-- PostgreSQL would plan the body again in each statement.
create or replace function matches_pattern(package_name text, patterns text[]) returns boolean
language sql stable parallel safe as $$
  select package_name like any (string_to_array(
    replace(replace(regexp_replace(array_to_string(patterns, E'\n'), ':[^\n]*', '', 'g'), '_', '\_'), '*', '%'), E'\n'))
$$;
