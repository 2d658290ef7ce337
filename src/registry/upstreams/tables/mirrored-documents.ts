import type pg from 'pg'
import type { Queryable } from '../../../database/database.ts'
import { lazily } from '../../../database/database.ts'
import { forEachCall } from '../../../database/shared-statements.ts'
import type { DocumentBytes } from '../../documents/document-bytes.ts'
import type { EncodedDocument, Encoding } from '../../documents/encodings.ts'
import type { UpstreamDist } from '../judge.ts'
import type { MalwareFlag } from '../offer.ts'
import type { Origin } from './mirrored-packages.ts'
import { isFreshColumn } from './upstream-documents.ts'

/** Which document of a repository is wanted. */
export interface WantedMirror {
  repositoryId: string
  packageName: string
  isDev: boolean
}

/** A document of a mirrored package, and the facts that decide whether it is served. */
export interface FoundMirror extends Origin {
  /** Null when there is no such document. */
  revision: string | null
  lastModified: Date
  /** True when it must be rendered before it is served. */
  isDue: boolean
  /** True when the last response of the upstream is recent enough. */
  isFresh: boolean
  /** True after a recent failure: the upstream gets no request. */
  isResting: boolean
  /** Whether the upstream had the document at its last response. Null without a response. */
  isFound: boolean | null
  /** Why requests to the upstream have failed since `failedAt`. Null when they work. */
  failure: string | null
  failedAt: Date | null
  /** True for the first use today. */
  isUnusedToday: boolean
}

/**
 * Decides where packages come from, and reads their documents' state: one for each wanted document, in that order.
 */
export async function listFoundMirrors(
  db: Queryable,
  wanted: readonly WantedMirror[],
  { baseUrl, freshSeconds }: { baseUrl: string; freshSeconds: number },
): Promise<FoundMirror[]> {
  const { rows } = await db.query<FoundMirror>({
    name: 'list-found-mirrors',
    text: forEachCall(
      { repository_id: 'bigint', package_name: 'text', is_dev: 'boolean' },
      `select o.verdict, o.package_id as "packageId", o.is_bound as "isBound", o.upstream_ids as "upstreamIds",
                  d.revision, d.last_modified as "lastModified",
                  coalesce(d.due_at <= now() or d.base_url <> $4, false) as "isDue",
                  ${isFreshColumn('s', '$5')} as "isFresh",
                  coalesce(s.retry_at > now(), false) as "isResting",
                  s.is_found as "isFound", s.failure, s.failed_at as "failedAt",
                  coalesce(m.used_on, '-infinity') < current_date as "isUnusedToday"
             from package_origin(call.repository_id, call.package_name) o
             left join mirrored_package m on m.id = o.package_id
             left join mirrored_document d on d.package_id = m.id and d.is_dev = call.is_dev and o.verdict = 'upstream'
             left join upstream u on u.id = m.upstream_id
             left join upstream_document s on s.upstream_id = m.upstream_id and s.name = call.package_name and s.is_dev = call.is_dev`,
    ),
    values: [
      wanted.map(({ repositoryId }) => repositoryId),
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ isDev }) => isDev),
      baseUrl,
      freshSeconds,
    ],
  })
  return rows
}

/** Reads a document's bytes in a content coding. Null when the document is gone. */
export async function findMirrorBytes(
  db: Queryable,
  packageId: string,
  encoding: Encoding,
  isDev: boolean,
): Promise<DocumentBytes | null> {
  const { rows } = await db.query<DocumentBytes>({
    name: 'find-mirror-bytes',
    text: `select revision, last_modified as "lastModified",
                  case $2 when 'br' then brotli when 'gzip' then gzip else plain end as bytes
             from mirrored_document where package_id = $1 and is_dev = $3`,
    values: [packageId, encoding, isDev],
  })
  return rows[0] ?? null
}

/** A mirrored package whose row the transaction has locked, with the source of its document. */
export interface HeldMirror {
  packageId: string
  repositoryId: string
  /** The repository's path, `acme/php`. */
  path: string
  packageName: string
  isDev: boolean
  /** Gzipped JSON. */
  content: Buffer
  allow: string[]
  deny: string[]
  exempt: string[]
  minimumAgeHours: number
  isGone: boolean
  /** A constraint on versions that the upstream's summary flags as malware; null without one. */
  flagged: string | null
  now: Date
}

/** Locks the row of a package and reads the source of one of its documents. Null when there is none. */
export async function holdMirror(
  tx: pg.PoolClient,
  packageId: string,
  isDev: boolean,
): Promise<HeldMirror | null> {
  await tx.query('select from mirrored_package where id = $1 for no key update', [packageId])
  const { rows } = await tx.query<HeldMirror>({
    name: 'hold-mirror',
    text: `select m.id as "packageId", m.repository_id as "repositoryId", g.name || '/' || r.name as path,
                  m.name as "packageName", s.is_dev as "isDev", s.content, u.allow, u.deny, u.exempt,
                  u.minimum_age_hours as "minimumAgeHours", m.gone_at is not null as "isGone", m.summary as flagged,
                  now() as now
             from mirrored_package m
             join repository r on r.id = m.repository_id
             join repository_group g on g.id = r.group_id
             join upstream u on u.id = m.upstream_id
             join upstream_document s on s.upstream_id = u.id and s.name = m.name and s.is_dev = $2
            where m.id = $1 and s.content is not null`,
    values: [packageId, isDev],
  })
  return rows[0] ?? null
}

/** An archive that a document names. */
export interface NamedDist extends UpstreamDist {
  version: string
  normalized: string
}

/**
 * Stores the archives of a document, and returns when each was first seen, in their order. URL and shasum of a known
 * archive can change until its first fetch.
 */
export async function noteArchives(
  tx: pg.PoolClient,
  packageId: string,
  dists: readonly NamedDist[],
): Promise<Date[]> {
  const values = [
    packageId,
    dists.map(({ versionPath }) => versionPath),
    dists.map(({ reference }) => reference),
    dists.map(({ version }) => version),
    dists.map(({ normalized }) => normalized),
    dists.map(({ type }) => type),
    dists.map(({ url }) => url),
    dists.map(({ shasum }) => shasum),
  ]
  await tx.query({
    name: 'note-mirrored-archives',
    text: `insert into mirrored_archive as a (package_id, version_path, reference, version, normalized, type, url, shasum)
           select distinct on (n.version_path, n.reference) $1::bigint, n.*
             from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
                    as n (version_path, reference, version, normalized, type, url, shasum)
            order by n.version_path, n.reference
           on conflict (package_id, version_path, reference) do update
              set url = excluded.url, shasum = excluded.shasum, type = excluded.type
            where a.sha256 is null
              and (a.url, a.shasum, a.type) is distinct from (excluded.url, excluded.shasum, excluded.type)`,
    values,
  })
  const { rows } = await tx.query<{ firstSeenAt: Date }>({
    name: 'list-first-seen',
    text: `select a.first_seen_at as "firstSeenAt"
             from unnest($2::text[], $3::text[]) with ordinality as n (version_path, reference, place)
             join mirrored_archive a on a.package_id = $1 and a.version_path = n.version_path
                                    and a.reference = n.reference
            order by n.place`,
    values: values.slice(0, 3),
  })
  return rows.map(({ firstSeenAt }) => firstSeenAt)
}

/**
 * Replaces a document. If its bytes changed, its Last-Modified grows by at least a second. Otherwise clients still get
 * 304.
 */
export async function saveMirror(
  tx: pg.PoolClient,
  document: { packageId: string; isDev: boolean; baseUrl: string; dueAt: Date | null },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await tx.query({
    name: 'save-mirrored-document',
    text: `insert into mirrored_document as d (package_id, is_dev, base_url, due_at, last_modified, plain, gzip, brotli)
           values ($1, $2, $3, coalesce($4::timestamptz, 'infinity'), date_trunc('second', now()), $5, $6, $7)
           on conflict (package_id, is_dev) do update
              set base_url = excluded.base_url, due_at = excluded.due_at, plain = excluded.plain, gzip = excluded.gzip,
                  brotli = excluded.brotli,
                  revision = case when d.plain = excluded.plain then d.revision else excluded.revision end,
                  last_modified = case when d.plain = excluded.plain then d.last_modified
                    else greatest(excluded.last_modified, d.last_modified + interval '1 second') end`,
    values: [document.packageId, document.isDev, document.baseUrl, document.dueAt, identity, gzip, br],
  })
}

/**
 * Stores the description of a package and the versions that are flagged as malware. Renders filter.json when the
 * flagged versions changed.
 */
export async function describeMirror(
  tx: pg.PoolClient,
  packageId: string,
  { description, flags }: { description: string | null; flags: readonly MalwareFlag[] },
): Promise<void> {
  const { rows } = await tx.query<{ repositoryId: string }>({
    name: 'describe-mirror',
    text: `with before as materialized (
             select id, repository_id, flags, description from mirrored_package where id = $1
           ), changed as (
             update mirrored_package m set description = coalesce($2, b.description), flags = $3
               from before b
              where m.id = b.id and (coalesce($2, b.description), b.flags) is distinct from (b.description, $3::jsonb)
             returning b.repository_id, b.flags <> $3::jsonb as is_flagged_anew
           )
           select repository_id as "repositoryId" from changed where is_flagged_anew`,
    values: [packageId, description, JSON.stringify(flags)],
  })
  // A separate statement, because it must see the change.
  for (const { repositoryId } of rows) await tx.query('select render_filter_document($1)', [repositoryId])
}

/** Stores whether the upstream still serves a package. True when that changed. */
export async function setGone(tx: pg.PoolClient, packageId: string, isGone: boolean): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'set-mirror-gone',
    text: `with changed as (
             update mirrored_package set gone_at = case when $2 then now() end
              where id = $1 and (gone_at is not null) <> $2 returning id
           ), due as (
             update mirrored_document d set due_at = now() from changed where d.package_id = changed.id
           )
           select from changed`,
    values: [packageId, isGone],
  })
  return rowCount === 1
}

/** Documents that must be rendered again: a version ripened, or a rule has changed. */
export async function listDueMirrors(
  db: Queryable,
  limit: number,
): Promise<{ packageId: string; isDev: boolean }[]> {
  const { rows } = await db.query<{ packageId: string; isDev: boolean }>(
    `select package_id as "packageId", is_dev as "isDev" from mirrored_document
      where due_at <= now() order by due_at limit $1`,
    [limit],
  )
  return rows
}

/** Stores that a package was used today. */
export async function noteUse(db: Queryable, packageId: string): Promise<void> {
  await db.query({
    name: 'note-mirror-use',
    text: `with ${lazily}
           update mirrored_package set used_on = current_date
            where id = $1 and used_on is distinct from current_date and exists (select from lazily)`,
    values: [packageId],
  })
}

/** Notes which versions an upstream's summary flags as malware, and renders what that changes. */
export async function saveSummaryFlags(
  tx: pg.PoolClient,
  upstreamId: string,
  flags: readonly (readonly [string, string])[],
): Promise<void> {
  const { rows } = await tx.query<{ repositoryId: string }>(
    `with said as (
       select m.id, f.constraints
         from mirrored_package m
         left join unnest($2::text[], $3::text[]) as f (name, constraints) on f.name = m.name
        where m.upstream_id = $1
     ), changed as (
       update mirrored_package m set summary = s.constraints
         from said s where m.id = s.id and m.summary is distinct from s.constraints
       returning m.id, m.repository_id
     ), due as (
       update mirrored_document d set due_at = now() from changed c where d.package_id = c.id
     )
     select distinct repository_id as "repositoryId" from changed`,
    [upstreamId, flags.map(([name]) => name), flags.map(([, constraints]) => constraints)],
  )
  // A separate statement, because it must see the change.
  for (const { repositoryId } of rows) await tx.query('select render_filter_document($1)', [repositoryId])
}
