-- For the previous release.
create or replace function forget_account_names(
  the_account_id bigint, last_username text, created_at timestamptz, deleted_at timestamptz)
returns void language sql as $$
  select forget_names(the_account_id, last_username, created_at, deleted_at);
$$;
