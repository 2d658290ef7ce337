-- The repository members whose role counts. While the group requires a second factor, a member without one has no role.
create or replace view counted_repository_member as
select m.repository_id, m.account_id, m.role
  from repository_member m
 where not (select is_factor_due(g.requires_second_factor, g.second_factor_from) from repository r join repository_group g on g.id = r.group_id
             where r.id = m.repository_id)
    or has_second_factor(m.account_id);
