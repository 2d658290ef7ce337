-- Returns the username of an account id in JSON, "deleted account" without the account, and null for null.
create or replace function account_name_of(the_id jsonb) returns text language sql stable as $$
  select case when the_id <> 'null' then
           coalesce((select username from account where id = the_id::text::bigint), 'deleted account') end;
$$;
