-- The upstreams that would have served a name, if they had published it before the one that serves it: they come before
-- that one in the order, and may offer the name.
create or replace view earlier_upstream as
  select m.id as package_id, m.repository_id, m.name, m.used_on, h.id as upstream_id, h.position
    from mirrored_package m
    join upstream l on l.id = m.upstream_id and l.removed_at is null
    join upstream h on h.repository_id = m.repository_id and h.removed_at is null
                   and (h.position, h.id) < (l.position, l.id)
                   and (h.mode = 'automatic' or h.mode = 'approved' and m.approved_at is not null)
                   and may_offer(m.name, h.allow, h.deny);
