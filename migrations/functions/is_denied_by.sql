-- Returns whether a pattern without a constraint matches the package name. It is one expression, like matches_pattern. A
-- pattern with a constraint becomes a colon, which is no package name.
create or replace function is_denied_by(package_name text, patterns text[]) returns boolean
language sql stable parallel safe as $$
  select package_name like any (string_to_array(
    replace(replace(regexp_replace(array_to_string(patterns, E'\n'), '[^\n]*:[^\n]*', ':', 'g'), '_', '\_'), '*', '%'), E'\n'))
$$;
