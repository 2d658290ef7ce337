-- The group members whose role counts. While a group requires a second factor, a member without one has no role.
-- A subquery reads the group, because every join makes the plan of a pull larger.
create or replace view counted_group_member as
select m.group_id, m.account_id, m.role
  from group_member m
 where not (select is_factor_due(requires_second_factor, second_factor_from) from repository_group where id = m.group_id)
    or has_second_factor(m.account_id);
