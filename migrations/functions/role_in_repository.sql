-- Returns the account's role in the repository, which is one of the group: admin for a site administrator, else the role as
-- a member. It is for browsers: a token has the right of a site administrator only if it was made for it. It always
-- returns one row. A call in `from` is inlined into the calling statement by PostgreSQL.
create or replace function role_in_repository(the_account_id bigint, the_group_id bigint, the_repository_id bigint)
returns table (role member_role)
language sql stable parallel safe as $$
  select coalesce((select 'admin'::member_role from account where id = the_account_id and is_admin), own.role)
    from role_as_member(the_account_id, the_group_id, the_repository_id) own
$$;
