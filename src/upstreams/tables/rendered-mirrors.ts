import type pg from 'pg'
import { byteaArray } from '../../database/shared-statements.ts'
import { renderFilter } from '../../documents/filter-document.ts'
import { sharePathLock } from '../../groups/path-locks.ts'
import type { LicensedVersions } from '../documents/packed-content.ts'
import type { MalwareFlag } from '../documents/read-document.ts'
import type { OriginVerdict } from './mirrored-packages.ts'

/** The rules for a document of a mirrored package. */
export interface MirrorRules {
  /** Whether the package may still come from its upstream. */
  verdict: OriginVerdict
  repositoryId: string
  /** The repository's path, `acme/php`. */
  path: string
  packageName: string
  upstreamName: string
  allow: string[]
  deny: string[]
  exempt: string[]
  minimumAgeHours: number
  keepsSource: boolean
  isGone: boolean
  /** A constraint on the versions that the upstream's summary flags as malware. Null without such versions. */
  flagged: string | null
  /** The keys of the versions that an admin has allowed before the minimum age. */
  early: string[]
  now: Date
}

/**
 * Locks the row of a package until the transaction ends, after the rules of its upstream, so that they cannot change
 * until then. The path of its repository cannot change either.
 */
export async function lockMirror(tx: pg.PoolClient, packageId: string): Promise<void> {
  await tx.query(
    `with paths as materialized (
       ${sharePathLock('id = (select repository_id from mirrored_package where id = $1)')}
     ), rules as materialized (
       select u.id from mirrored_package m join upstream u on u.id = m.upstream_id
        where m.id = $1 and (select count(*) from paths) >= 0 for share of u
     )
     select from mirrored_package where id = $1 and (select count(*) from rules) >= 0 for no key update`,
    [packageId],
  )
}

/** Reads the stored content of an upstream's document: gzipped JSON. Null when there is none. */
export async function findMirrorContent(
  tx: pg.PoolClient,
  packageId: string,
  isDev: boolean,
): Promise<Buffer | null> {
  const { rows } = await tx.query<{ content: Buffer | null }>({
    name: 'find-mirror-content',
    text: `select s.content
             from mirrored_package m
             join upstream_document s on s.upstream_id = m.upstream_id and s.name = m.name and s.is_dev = $2
            where m.id = $1`,
    values: [packageId, isDev],
  })
  return rows[0]?.content ?? null
}

/**
 * Lists the rules for packages, in their order. Because of the limit, PostgreSQL uses the index of the packages. It may
 * have made the plan when the table was empty.
 */
export async function listMirrorRules(
  tx: pg.PoolClient,
  packages: readonly { packageId: string }[],
): Promise<MirrorRules[]> {
  const { rows } = await tx.query<MirrorRules>({
    name: 'list-mirror-rules',
    text: `select o.verdict, m.repository_id as "repositoryId", g.name || '/' || r.name as path, m.name as "packageName",
                  u.name as "upstreamName", u.allow, u.deny, u.exempt, u.minimum_age_hours as "minimumAgeHours",
                  u.keeps_source as "keepsSource", m.gone_at is not null as "isGone",
                  m.summary as flagged, now() as now,
                  array(select version_key from early_version e where e.package_id = m.id) as early
             from unnest((select $1::bigint[])) with ordinality as w (id, place)
            cross join lateral (select * from mirrored_package where id = w.id limit 1) m
             join repository r on r.id = m.repository_id
             join repository_group g on g.id = r.group_id
             join upstream u on u.id = m.upstream_id
            cross join lateral package_origin(m.repository_id, m.name) o
            order by w.place`,
    values: [packages.map(({ packageId }) => packageId)],
  })
  return rows
}

/** An archive of a document whose bytes are fixed by the first fetch. */
export interface FixedArchive {
  /** The index of the document. */
  place: number
  versionPath: string
  reference: string
  version: string
  url: string
  /** The shasum in the document. */
  shasum: string | null
  archiveId: string
  /** The SHA-1 of the bytes, in lower-case hex. */
  sha1: string
  /** The shasum that the first fetch had to match. Null when the upstream announced none. */
  checkedShasum: string | null
  alarm: string | null
}

/** A document, and its archives as a JSON list of `ListedArchive`. */
interface ArchiveList {
  packageId: string
  archives: Uint8Array
}

/** SQL: the documents of the parameters $1 and $2, with their archives as bytes of JSON. The bytes need no escapes. */
const listedDocuments =
  'unnest((select $1::bigint[]), (select $2::bytea[])) with ordinality as d (package_id, archives, place)'

/**
 * Stores the archives of documents. URL and shasum of a known archive can change until its first fetch. After that, they
 * are fixed: returns the archives that have another shasum now, or an alarm.
 */
export async function noteArchives(
  tx: pg.PoolClient,
  lists: readonly ArchiveList[],
): Promise<FixedArchive[]> {
  const { rows } = await tx.query<FixedArchive>({
    name: 'note-mirrored-archives',
    text: `with listed as materialized (
             select d.package_id, d.place, a.*, row_number() over (order by d.place) as n
               from ${listedDocuments}
              cross join lateral jsonb_to_recordset(convert_from(d.archives, 'UTF8')::jsonb)
                      as a (version_path text, reference text, version text, normalized text, type text, url text,
                            shasum text)
           ), gathered as (
             select array_agg(package_id order by n) as ids, array_agg(version_path order by n) as paths,
                    array_agg(reference order by n) as reference_list, array_agg(version order by n) as versions,
                    array_agg(normalized order by n) as normalized_list, array_agg(type order by n) as types,
                    array_agg(url order by n) as urls, array_agg(shasum order by n) as shasums
               from listed
           )
           select l.place::int - 1 as place, l.version_path as "versionPath", l.reference, l.version, l.url, l.shasum,
                  f.archive_id as "archiveId", f.sha1, f.checked_shasum as "checkedShasum", f.alarm
             from gathered g
            cross join lateral note_mirrored_archives(g.ids, g.paths, g.reference_list, g.versions, g.normalized_list,
                                                      g.types, g.urls, g.shasums) f
             join listed l on l.n = f.place
            order by f.place`,
    values: [lists.map(({ packageId }) => packageId), byteaArray(lists.map(({ archives }) => archives))],
  })
  return rows
}

/** A document whose versions may have no publication time. */
interface DatedList extends ArchiveList {
  hasUndatedArchives: boolean
  /** The normalized versions without an archive and without a publication time: a JSON list. */
  metapackages: Uint8Array
  /** Whether the document has a minimum age. */
  isAged: boolean
}

/**
 * Returns the times at which the versions of documents were first seen, as JSON: in milliseconds, by the path and
 * reference of an archive, or by a normalized version. Only versions without a publication time need this, for the
 * minimum age. Those without an archive are noted here, even without a minimum age, because an upstream may get one later.
 * Null for a document without such versions. The transaction has locked the rows of the packages.
 */
export async function listFirstSeen(
  tx: pg.PoolClient,
  lists: readonly DatedList[],
): Promise<(string | null)[]> {
  const needed = lists.filter(
    ({ hasUndatedArchives, isAged, metapackages }) =>
      (hasUndatedArchives && isAged) || metapackages.length > 2,
  )
  if (needed.length === 0) return lists.map(() => null)
  const { rows } = await tx.query<{ seen: string }>({
    name: 'list-first-seen',
    text: `with given as materialized (
             select * from unnest((select $1::bigint[]), (select $2::bytea[]), (select $3::bytea[]), (select $4::boolean[]))
                      with ordinality as d (package_id, archives, metapackages, is_aged, place)
           ), listed as materialized (
             select g.place, g.package_id, v.normalized
               from given g
              cross join lateral jsonb_array_elements_text(convert_from(g.metapackages, 'UTF8')::jsonb) as v (normalized)
           ), noted as (
             insert into mirrored_metapackage (package_id, normalized)
             select distinct package_id, normalized from listed on conflict do nothing
           ), seen as (
             select l.place, l.normalized as key,
                    coalesce((select k.first_seen_at from mirrored_metapackage k
                               where k.package_id = l.package_id and k.normalized = l.normalized), now()) as at
               from listed l
             union all
             select g.place, a.version_path || '/' || a.reference, m.first_seen_at
               from given g
              cross join lateral jsonb_to_recordset(convert_from(g.archives, 'UTF8')::jsonb)
                      as a (version_path text, reference text, is_undated boolean)
              cross join lateral (select first_seen_at from mirrored_archive w
                                   where w.package_id = g.package_id and w.version_path = a.version_path
                                     and w.reference = a.reference limit 1) m
              where g.is_aged and a.is_undated
           )
           select coalesce((select json_object_agg(s.key, extract(epoch from s.at) * 1000) from seen s
                             where s.place = g.place), '{}')::text as seen
             from given g order by g.place`,
    values: [
      needed.map(({ packageId }) => packageId),
      byteaArray(needed.map(({ archives }) => archives)),
      byteaArray(needed.map(({ metapackages }) => metapackages)),
      needed.map(({ isAged }) => isAged),
    ],
  })
  const seenOf = new Map(needed.map((list, i) => [list, rows[i]?.seen ?? null]))
  return lists.map((list) => seenOf.get(list) ?? null)
}

/** What a document tells about a package as a whole. */
interface PackageDescription {
  packageId: string
  description: string | null
  flags: readonly MalwareFlag[]
  licenses: readonly LicensedVersions[]
}

/**
 * Stores the descriptions of packages, their licences, and the versions that are flagged as malware. Renders filter.json of
 * repositories whose flagged versions changed. The transaction has locked the rows of the packages, so their places do not
 * change.
 */
export async function saveDescriptions(
  tx: pg.PoolClient,
  packages: readonly PackageDescription[],
): Promise<void> {
  const { rows } = await tx.query<{ repositoryId: string }>({
    name: 'save-descriptions',
    text: `with before as materialized (
             select m.row_location, m.repository_id, m.flags as old_flags, m.description as old_description,
                    coalesce(n.description, m.description) as description, n.flags, n.licenses,
                    m.licenses as old_licenses
               from unnest((select $1::bigint[]), (select $2::text[]), (select $3::jsonb[]), (select $4::jsonb[]))
                    as n (id, description, flags, licenses)
              cross join lateral (select *, ctid as row_location from mirrored_package where id = n.id limit 1) m
              -- It expects few rows then, and reads no others, also when it knows no statistics.
              limit (select cardinality($1::bigint[]))
           ), changed as (
             update mirrored_package m set description = b.description, flags = b.flags, licenses = b.licenses
               from before b
              where m.ctid = b.row_location
                and (b.description, b.flags, b.licenses) is distinct from (b.old_description, b.old_flags, b.old_licenses)
             returning b.repository_id, b.old_flags <> b.flags as is_flagged_anew
           )
           select distinct repository_id as "repositoryId" from changed where is_flagged_anew order by 1`,
    values: [
      packages.map(({ packageId }) => packageId),
      packages.map(({ description }) => description),
      packages.map(({ flags }) => JSON.stringify(flags)),
      packages.map(({ licenses }) => JSON.stringify(licenses)),
    ],
  })
  // Use a separate statement, because it must see the change.
  for (const { repositoryId } of rows) await renderFilter(tx, repositoryId)
}
