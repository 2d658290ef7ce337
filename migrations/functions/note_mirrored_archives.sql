-- Stores the archives of documents of upstreams. URL, shasum and type of a known archive can change until its first fetch.
-- Returns the archives with fixed bytes that need a closer look: the document has another shasum, or there is an alarm.
-- `place` counts from 1. `sha1` is that of the fixed bytes, and `checked_shasum` the shasum that the first fetch had to match.
create or replace function note_mirrored_archives(
  package_ids bigint[], version_paths text[], reference_list text[], version_list text[], normalized_list text[],
  type_list text[], url_list text[], shasums text[]
) returns table (place bigint, archive_id bigint, sha1 text, checked_shasum text, alarm text)
language plpgsql as $$
begin
  -- A name that one upstream released may be bound to another one. Its archives are other ones, unless they have the
  -- announced shasum or, without one, the same URL.
  if exists (select from unnest(package_ids) as w (id)
              cross join lateral (select released_from from mirrored_package where id = w.id limit 1) m
              where m.released_from is not null) then
    with others as materialized (
      select distinct on (x.id) x.id, m.upstream_id, k.url, k.shasum,
             x.sha256 is not null and coalesce(k.shasum = encode(c.sha1, 'hex'), k.url = x.url) as is_same
        from unnest(package_ids, version_paths, reference_list, url_list, shasums)
               as k (package_id, version_path, reference, url, shasum)
       cross join lateral (select * from mirrored_package where id = k.package_id limit 1) m
        join upstream mine on mine.id = m.upstream_id
       cross join lateral (select * from mirrored_archive w
                            where w.package_id = k.package_id and w.version_path = k.version_path
                              and w.reference = k.reference limit 1) x
        join upstream other on other.id = coalesce(x.upstream_id, m.released_from) and other.url <> mine.url
        left join archive c on c.sha256 = x.sha256
       where m.released_from is not null
       order by x.id
    ), removed as (
      -- A fetch that still runs has this id, so its bytes are not stored.
      delete from mirrored_archive a using others o where a.id = o.id and not o.is_same
    )
    update mirrored_archive a
       set upstream_id = o.upstream_id, url = o.url, shasum = o.shasum, alarm = null, alarmed_at = null
      from others o where a.id = o.id and o.is_same;
  end if;

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
