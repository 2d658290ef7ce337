-- Returns whether Composer installs a version without a stability flag. This excludes development versions, alphas,
-- betas and release candidates.
create or replace function is_stable(is_dev boolean, normalized text) returns boolean
language sql immutable parallel safe as $$
  select not is_dev and normalized !~ '-(?:alpha|beta|RC)'
$$;
