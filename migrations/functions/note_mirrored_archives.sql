-- Stores the archives of documents of upstreams. URL, shasum and type of a known archive can change until its first fetch.
-- Returns the archives with fixed bytes that need a closer look: the document has another shasum, or there is an alarm.
-- `place` counts from 1. `sha1` is that of the fixed bytes, and `checked_shasum` the shasum that the first fetch had to match.
create or replace function note_mirrored_archives(
  package_ids bigint[], version_paths text[], reference_list text[], version_list text[], normalized_list text[],
  type_list text[], url_list text[], shasums text[]
) returns table (place bigint, archive_id bigint, sha1 text, checked_shasum text, alarm text)
language plpgsql as $$
begin
  insert into mirrored_archive as a (package_id, version_path, reference, version, normalized, type, url, shasum,
                                     upstream_id)
  select distinct on (n.package_id, n.version_path, n.reference) n.*, m.upstream_id
    from unnest(package_ids, version_paths, reference_list, version_list, normalized_list, type_list, url_list, shasums)
           as n (package_id, version_path, reference, version, normalized, type, url, shasum)
   cross join lateral (select upstream_id from mirrored_package where id = n.package_id limit 1) m
   order by n.package_id, n.version_path, n.reference
  on conflict on constraint mirrored_archive_is_known do update
     set url = excluded.url, shasum = excluded.shasum, type = excluded.type, upstream_id = excluded.upstream_id
   where a.sha256 is null
     and (a.url, a.shasum, a.type, a.upstream_id)
         is distinct from (excluded.url, excluded.shasum, excluded.type, excluded.upstream_id);

  -- The rows are locked now. This statement sees the fetches that ended before, and later ones see the new shasum.
  return query
  select n.place, a.id, encode(c.sha1, 'hex'), a.shasum, a.alarm
    from unnest(package_ids, version_paths, reference_list, shasums)
           with ordinality as n (package_id, version_path, reference, shasum, place)
   cross join lateral (select * from mirrored_archive m
                        where m.package_id = n.package_id and m.version_path = n.version_path
                          and m.reference = n.reference and m.sha256 is not null limit 1) a
   cross join lateral (select * from archive f where f.sha256 = a.sha256 limit 1) c
   where n.shasum <> encode(c.sha1, 'hex') or a.alarm is not null;
end
$$;
