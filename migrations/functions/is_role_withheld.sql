-- Returns whether an account is a member of the repository or of its group, but has no role, because the group requires a
-- second factor that the account does not have. The memberships are read once and first, so that a repository that does
-- not exist takes as long as one that a stranger may not see.
create or replace function is_role_withheld(the_account_id bigint, the_repository_id bigint) returns boolean
language sql stable parallel safe as $$
  select case when held.group_id is null then false
              else (select is_factor_due(requires_second_factor, second_factor_from)
                      from repository_group where id = held.group_id)
                   and not has_second_factor(the_account_id) end
    from (select coalesce(
      (select r.group_id from repository_member m join repository r on r.id = m.repository_id
        where m.repository_id = the_repository_id and m.account_id = the_account_id),
      (select r.group_id from repository r join group_member m on m.group_id = r.group_id
        where r.id = the_repository_id and m.account_id = the_account_id)) as group_id
          offset 0) as held
$$;
