-- Returns the stronger of the account's roles as a member of the group and of the repository, which is one of the group.
-- Null when it has neither, and when the group requires a second factor that the account does not have. It always returns
-- one row. A call in `from` is inlined into the calling statement by PostgreSQL. Of a site administrator it is the role
-- without that right. Subqueries read the tables, because every join makes the plan of a pull larger. The roles are read
-- once and first: what a stranger may not see takes as long as what does not exist, whatever its group requires.
create or replace function role_as_member(the_account_id bigint, the_group_id bigint, the_repository_id bigint)
returns table (role member_role)
language sql stable parallel safe as $$
  select case
    when held.role is null then null
    when not (select is_factor_due(requires_second_factor, second_factor_from) from repository_group where id = the_group_id)
      or has_second_factor(the_account_id)
    then held.role
  end
    from (select greatest(
      (select m.role from repository_member m where m.repository_id = the_repository_id and m.account_id = the_account_id),
      (select m.role from group_member m where m.group_id = the_group_id and m.account_id = the_account_id)) as role
          offset 0) as held
$$;
