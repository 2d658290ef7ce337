-- Returns account_role as a single value, for statements that call it rarely.
create or replace function role_of(the_account_id bigint, the_repository_id bigint) returns member_role
language sql stable parallel safe as $$
  select role from account_role(the_account_id, the_repository_id)
$$;
