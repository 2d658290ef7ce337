-- Gives the caller the turns to fetch archives of upstreams until a time. Returns the ids of these archives. Others are
-- stored or being fetched. A loop reads the index for each id. PostgreSQL may have planned a join when the table was
-- empty, and would read the whole table later. A crash of PostgreSQL may lose a turn without harm, so the commit does not
-- wait for the disk.
create or replace function take_fetch_turns(ids bigint[], until timestamptz) returns setof bigint
language plpgsql as $$
declare
  one bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  for one in select unnest(ids) order by 1 loop
    update mirrored_archive set fetching_until = until
     where id = one and not is_stored and (fetching_until is null or fetching_until <= now());
    if found then
      return next one;
    end if;
  end loop;
end
$$;
