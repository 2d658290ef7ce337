-- Stores that archives of upstreams are in the archive store. The first fetch of an archive sets its hash. Returns a value
-- for each archive, in their order: false when the bytes differ from the first fetch, or from a shasum that the upstream has
-- announced during the first fetch. It waits for the lock of the archives first, because the rows may change during that
-- time. It is a loop for the same reason as take_fetch_turns.
create or replace function save_fetched_archives(
  archive_lock bigint, ids bigint[], sha256s bytea[], sha1s bytea[], sizes bigint[], are_downloads boolean[]
) returns setof boolean
language plpgsql as $$
declare
  are_saved boolean[] := array_fill(false, array[cardinality(ids)]);
  i bigint;
begin
  perform pg_advisory_xact_lock_shared(archive_lock);
  insert into archive (sha256, sha1, size)
  select distinct on (f.sha256) f.sha256, f.sha1, f.size
    from unnest(sha256s, sha1s, sizes) as f (sha256, sha1, size)
   order by f.sha256
  on conflict (sha256) do update set size = excluded.size where false;
  for i in select place from unnest(ids) with ordinality as fetched (id, place) order by id loop
    update mirrored_archive
       set sha256 = sha256s[i], is_stored = true, fetched_at = now(), used_on = current_date,
           was_downloaded = was_downloaded or are_downloads[i],
           fetching_until = null, alarm = null, alarmed_at = null
     where id = ids[i]
       and (sha256 = sha256s[i] or sha256 is null and coalesce(shasum, encode(sha1s[i], 'hex')) = encode(sha1s[i], 'hex'));
    are_saved[i] := found;
  end loop;
  return query select unnest(are_saved);
end
$$;
