-- The groups that require a second factor of an account, because it is a member of the group or of one of its repositories.
-- A group may be listed more than once.
create or replace view required_second_factor as
select m.account_id, g.name as group_name
  from group_member m
  join repository_group g on g.id = m.group_id
 where g.requires_second_factor
 union all
select m.account_id, g.name
  from repository_member m
  join repository r on r.id = m.repository_id
  join repository_group g on g.id = r.group_id
 where g.requires_second_factor;
