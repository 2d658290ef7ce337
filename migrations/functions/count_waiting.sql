-- Counts the packages of upstreams of a repository that wait for a decision of its admins: those that somebody has
-- requested, those with an archive that has changed, and those that two upstreams have.
create or replace function count_waiting(the_repository_id bigint) returns integer
language sql stable as $$
  select count(*)::int
    from (select m.id from mirrored_package m
           where m.repository_id = the_repository_id and m.requested_at is not null and m.approved_at is null
           union
          select m.id from mirrored_archive a join mirrored_package m on m.id = a.package_id
           where m.repository_id = the_repository_id and a.alarm is not null
           union
          select m.id from open_contest c join mirrored_package m on m.id = c.package_id
           where m.repository_id = the_repository_id) waiting
$$;
