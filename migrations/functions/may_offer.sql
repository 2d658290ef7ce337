-- Returns whether the patterns of an upstream let it offer a package. It is one expression, like matches_pattern.
create or replace function may_offer(package_name text, allow text[], deny text[]) returns boolean
language sql stable parallel safe as $$
  select (allow = '{}' or matches_pattern(package_name, allow)) and not is_denied_by(package_name, deny)
$$;
