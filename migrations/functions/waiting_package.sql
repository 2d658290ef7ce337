-- The packages of upstreams that wait for a decision of the admins of their repository, with the reason: somebody has
-- requested it, one of its archives has changed, or two upstreams have it.
create or replace view waiting_package as
  select m.repository_id, m.id as package_id, 'requested' as reason
    from mirrored_package m where m.requested_at is not null and m.approved_at is null
   union all
  select m.repository_id, m.id, 'changed'
    from mirrored_package m where m.id in (select package_id from mirrored_archive where alarm is not null)
   union all
  select m.repository_id, m.id, 'contested'
    from mirrored_package m where m.id in (select package_id from open_contest);
