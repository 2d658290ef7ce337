-- Returns role_in_repository for callers that do not know the group. Returns no row when there is no repository.
create or replace function account_role(the_account_id bigint, the_repository_id bigint) returns table (role member_role)
language sql stable parallel safe as $$
  select own.role
    from repository r
   cross join lateral role_in_repository(the_account_id, r.group_id, r.id) own
   where r.id = the_repository_id
$$;
