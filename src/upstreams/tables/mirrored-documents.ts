import type pg from 'pg'
import { lazily, type Queryable } from '../../database/database.ts'
import { forEachCall } from '../../database/shared-statements.ts'
import { renderFilter } from '../../documents/filter-document.ts'
import {
  type DocumentRow,
  documentColumns,
  documentOf,
  hasOldFormat,
  type StoredDocument,
} from '../../documents/stored-documents.ts'
import { sharePathLock } from '../../groups/path-locks.ts'
import type { Origin } from './mirrored-packages.ts'
import { isFreshColumn } from './upstream-documents.ts'

/** The document that a request needs. */
export interface WantedMirror {
  repositoryId: string
  packageName: string
  isDev: boolean
}

/** A document of a mirrored package, and the facts that decide whether it is served. */
export interface FoundMirror extends Origin {
  /** Null when none is stored, or it may not be served. */
  document: StoredDocument | null
  /** True when the document must be rendered before it is served. */
  isDue: boolean
  /** True when the last response of the upstream is recent enough. */
  isFresh: boolean
  /** True after a recent failure. The document is not requested then. */
  isResting: boolean
  /** Whether the upstream had the document at its last response. Null without a response. */
  isFound: boolean | null
  /** The reason why requests to the upstream have failed since `failedAt`. Null when they succeed. */
  failure: string | null
  failedAt: Date | null
  /** Whether the document has no versions, because all of them are too young. */
  isAllHeldBack: boolean
  /** True for the first use today. */
  isUnusedToday: boolean
}

/** A row of `selectMirror`. */
export type MirrorRow = Omit<FoundMirror, 'document'> & DocumentRow

/** Returns what a row of `selectMirror` says about a document. */
export function foundMirrorOf(row: MirrorRow, isDev: boolean): FoundMirror {
  const { verdict, packageId, isBound, upstreamIds, isDue, isFresh, isResting, isFound } = row
  const { failure, failedAt, isAllHeldBack, isUnusedToday } = row
  const document = documentOf({ kind: 'mirror', ownerId: packageId, isDev }, row)
  const state = { isDue, isFresh, isResting, isFound, failure, failedAt, isAllHeldBack, isUnusedToday }
  return { verdict, packageId, isBound, upstreamIds, document, ...state }
}

/** The values that the state of a mirrored document depends on. */
export interface MirrorTerms {
  baseUrl: string
  freshSeconds: number
}

/**
 * SQL: reads a `MirrorRow` for the package name and `is_dev` of the call, in the repository of the expression.
 * `baseUrl` and `freshSeconds` are the parameters with these values.
 */
export function selectMirror(repositoryId: string, baseUrl: string, freshSeconds: string): string {
  return `select o.verdict, o.package_id as "packageId", o.is_bound as "isBound", o.upstream_ids as "upstreamIds",
                 ${documentColumns},
                 coalesce(d.due_at <= now() or d.base_url <> ${baseUrl} or ${hasOldFormat('mirror')}, false) as "isDue",
                 ${isFreshColumn('s', freshSeconds)} as "isFresh",
                 coalesce(s.retry_at > now(), false) as "isResting",
                 s.is_found as "isFound", s.failure, s.failed_at as "failedAt",
                 coalesce(d.is_all_held_back, false) as "isAllHeldBack",
                 coalesce(m.used_on, '-infinity') < current_date as "isUnusedToday"
            from (select * from package_origin(${repositoryId}, call.package_name) offset 0) o
            left join mirrored_package m on m.id = o.package_id
            left join mirrored_document d on d.package_id = m.id and d.is_dev = call.is_dev and o.verdict = 'upstream'
            left join upstream u on u.id = m.upstream_id
            left join upstream_document s on s.upstream_id = m.upstream_id and s.name = call.package_name and s.is_dev = call.is_dev`
}

const selectFoundMirrors = forEachCall(
  { repository_id: 'bigint', package_name: 'text', is_dev: 'boolean' },
  selectMirror('call.repository_id', '$4', '$5'),
)

/**
 * Decides where packages come from, and reads the state of their documents. Returns one result for each wanted
 * document, in their order.
 */
export async function listFoundMirrors(
  db: Queryable,
  wanted: readonly WantedMirror[],
  { baseUrl, freshSeconds }: MirrorTerms,
): Promise<FoundMirror[]> {
  const { rows } = await db.query<MirrorRow>({
    name: 'list-found-mirrors',
    text: selectFoundMirrors,
    values: [
      wanted.map(({ repositoryId }) => repositoryId),
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ isDev }) => isDev),
      baseUrl,
      freshSeconds,
    ],
  })
  return rows.map((row, i) => foundMirrorOf(row, wanted[i]?.isDev === true))
}

/** Stores whether the upstream still serves packages. Returns whether that changed for any of them. */
export async function setGone(
  tx: pg.PoolClient,
  packageIds: readonly string[],
  isGone: boolean,
): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'set-mirrors-gone',
    text: `with changed as (
             update mirrored_package set gone_at = case when $2 then now() end
              where id = any ($1) and (gone_at is not null) <> $2 returning id
           ), due as (
             update mirrored_document d set due_at = now() from changed where d.package_id = changed.id
           )
           select from changed`,
    values: [packageIds, isGone],
  })
  return rowCount !== 0
}

/** Lists documents that must be rendered again, because a version has reached the minimum age or a rule has changed. */
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

/**
 * How many entries of an upstream's summary are stored for names that are not bound yet. Others apply at the next read
 * of the summary after the binding.
 */
const maxStoredFlags = 100_000

/** SQL: the flags of a summary. They are a parameter of the type bytea, because the bytes need no escapes. */
const listedFlags = `select f.flag ->> 0 as name, f.flag ->> 1 as constraints, f.place
         from jsonb_array_elements(convert_from($2::bytea, 'UTF8')::jsonb) with ordinality as f (flag, place)`

/** Returns whether versions are flagged by an upstream's summary. */
export async function hasSummaryFlags(db: Queryable, upstreamId: string): Promise<boolean> {
  const { rows } = await db.query<{ has: boolean }>({
    name: 'has-summary-flags',
    text: `select exists (select from upstream_flag where upstream_id = $1)
               or exists (select from mirrored_package where upstream_id = $1 and summary is not null) as has`,
    values: [upstreamId],
  })
  return rows[0]?.has === true
}

/**
 * Returns whether exactly these flags of an upstream's summary are stored and applied. It locks nothing, so that the
 * regular read of an unchanged summary delays no first request of a package.
 */
async function areFlagsSaved(db: Queryable, upstreamId: string, flags: Uint8Array): Promise<boolean> {
  const { rows } = await db.query<{ areSaved: boolean }>(
    `with listed as materialized (
       ${listedFlags}
     ), stored as (
       select name, constraints from listed where place <= ${maxStoredFlags}
     )
     select not exists (select from stored s
                          full join (select * from upstream_flag where upstream_id = $1) f on f.name = s.name
                         where f.constraints is distinct from s.constraints)
        and not exists (select from mirrored_package p left join listed l on l.name = p.name
                         where p.upstream_id = $1 and p.summary is distinct from l.constraints) as "areSaved"`,
    [upstreamId, flags],
  )
  return rows[0]?.areSaved === true
}

/**
 * Stores the versions that an upstream's summary flags as malware, also for names that are not bound yet: `bindPackages`
 * applies them. `flags` is a JSON list of names with their constraints. Renders the affected filter.json and marks changed
 * documents as due. Does nothing when the upstream was removed.
 */
export async function saveSummaryFlags(
  tx: pg.PoolClient,
  upstreamId: string,
  flags: Uint8Array,
): Promise<void> {
  if (await areFlagsSaved(tx, upstreamId, flags)) return
  await tx.query(sharePathLock('id = (select repository_id from upstream where id = $1)'), [upstreamId])
  // Wait for transactions that bind names. The next statement sees these names, and later bindings see its flags.
  const { rowCount } = await tx.query(
    'select from upstream where id = $1 and removed_at is null for no key update',
    [upstreamId],
  )
  if (rowCount === 0) return
  const { rows } = await tx.query<{ repositoryId: string }>(
    `with listed as materialized (
       ${listedFlags}
     ), stored as (
       insert into upstream_flag as f (upstream_id, name, constraints)
       select $1, l.name, l.constraints
         from listed l left join upstream_flag k on k.upstream_id = $1 and k.name = l.name
        where l.place <= ${maxStoredFlags} and l.constraints is distinct from k.constraints
       on conflict (upstream_id, name) do update set constraints = excluded.constraints
     ), removed as (
       delete from upstream_flag f
        where f.upstream_id = $1
          and not exists (select from listed l where l.name = f.name and l.place <= ${maxStoredFlags})
     ), changed as (
       update mirrored_package m set summary = s.constraints
         from (select p.id, l.constraints
                 from mirrored_package p left join listed l on l.name = p.name
                where p.upstream_id = $1) s
        where m.id = s.id and m.summary is distinct from s.constraints
       returning m.id, m.repository_id
     ), due as (
       update mirrored_document d set due_at = now() from changed c where d.package_id = c.id
     )
     select distinct repository_id as "repositoryId" from changed`,
    [upstreamId, flags],
  )
  // Use a separate statement, because it must see the change.
  for (const { repositoryId } of rows) await renderFilter(tx, repositoryId)
}
