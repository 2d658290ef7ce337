-- The names that two upstreams have, until an admin decides which of them serves it. A change of the order or of the rules
-- that takes the name from the earlier upstream ends the contest, too.
create or replace view open_contest as
  select c.package_id, c.upstream_id, e.position
    from contested_name c join earlier_upstream e on e.package_id = c.package_id and e.upstream_id = c.upstream_id
   where c.decided_at is null;
