-- Stores that archives of upstreams were downloaded today. It is a loop for the same reason as take_fetch_turns. A crash
-- of PostgreSQL may lose the day without harm, so the commit does not wait for the disk.
create or replace function note_archive_uses(ids bigint[]) returns void
language plpgsql as $$
declare
  one bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  for one in select unnest(ids) order by 1 loop
    update mirrored_archive set used_on = current_date, was_downloaded = true
     where id = one and not (was_downloaded and used_on is not distinct from current_date);
  end loop;
end
$$;
