-- The group members whose role counts. While a group requires a second factor, a member without one has no role.
create or replace view counted_group_member as
select m.group_id, m.account_id, m.role
  from group_member m
  join repository_group g on g.id = m.group_id
 where not g.requires_second_factor or has_second_factor(m.account_id);
