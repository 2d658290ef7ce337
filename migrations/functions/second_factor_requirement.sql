-- The groups that require a second factor of an account, now or after a grace period, because it is a member of the group or
-- of one of its repositories. A group may be listed more than once.
create or replace view second_factor_requirement as
select m.account_id, g.id as group_id, g.name as group_name,
       coalesce(g.second_factor_from, '-infinity') as required_from
  from group_member m
  join repository_group g on g.id = m.group_id
 where g.requires_second_factor
 union all
select m.account_id, g.id, g.name, coalesce(g.second_factor_from, '-infinity')
  from repository_member m
  join repository r on r.id = m.repository_id
  join repository_group g on g.id = r.group_id
 where g.requires_second_factor;
