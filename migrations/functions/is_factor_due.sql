-- Returns whether a group that requires a second factor does so already: its grace period has ended, or it has none.
-- PostgreSQL inlines it into the calling statement.
create or replace function is_factor_due(is_required boolean, since timestamptz) returns boolean
language sql stable parallel safe as $$
  select is_required and coalesce(since <= now(), true)
$$;
