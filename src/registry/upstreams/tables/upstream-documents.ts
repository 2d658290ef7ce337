import type pg from 'pg'
import type { Queryable } from '../../../database/database.ts'
import { lazily } from '../../../database/database.ts'

/** Which document of which upstream. */
export interface DocumentKey {
  upstreamId: string
  packageName: string
  isDev: boolean
}

/** The state of a document of an upstream. */
export interface DocumentState {
  /** Null when the upstream never responded. */
  isFound: boolean | null
  lastModified: string | null
  /** Whether another process is checking at this moment. */
  isChecking: boolean
  /** Whether the last response is recent enough. */
  isFresh: boolean
  /** Whether a failure is so recent that the upstream gets no request. */
  isResting: boolean
  failure: string | null
}

/** How long a missing name is not requested again. */
export const missingSeconds = 600
/**
 * Returns an SQL condition: the document needs no check. `s` is the alias of its row, and `u` that of its upstream. The
 * change feed names every change. While it is followed without a gap, documents that were read since then are fresh.
 */
export function isFreshColumn(s: string, freshSeconds: string): string {
  return `coalesce(not ${s}.is_stale and (
    ${s}.checked_at > now() - make_interval(secs => case when ${s}.is_found then ${freshSeconds} else ${missingSeconds} end)
    or (${s}.checked_at > u.feed_from and u.feed_checked_at > now() - interval '3 minutes')), false)`
}

/** A process loses its turn to check after this time. */
const turnSeconds = 45

/** Finds the state of a document. Null when it was never requested. */
export async function findDocumentState(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
  freshSeconds: number,
): Promise<DocumentState | null> {
  const { rows } = await db.query<DocumentState>({
    name: 'find-upstream-document-state',
    text: `select s.is_found as "isFound", s.last_modified as "lastModified", s.failure,
                  coalesce(checking_until > now(), false) as "isChecking",
                  coalesce(retry_at > now(), false) as "isResting",
                  ${isFreshColumn('s', '$4')} as "isFresh"
             from upstream_document s join upstream u on u.id = s.upstream_id
            where s.upstream_id = $1 and s.name = $2 and s.is_dev = $3`,
    values: [upstreamId, packageName, isDev, freshSeconds],
  })
  return rows[0] ?? null
}

/**
 * Takes the turn to check a document. One process gets it, the others get null. Also returns null when another process
 * has just got a response. `lastModified` belongs to the stored content.
 */
export async function takeCheckTurn(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
  freshSeconds: number,
): Promise<{ lastModified: string | null } | null> {
  const { rows } = await db.query<{ lastModified: string | null }>({
    name: 'take-check-turn',
    text: `with ${lazily}
           insert into upstream_document as d (upstream_id, name, is_dev, checking_until)
           select $1, $2, $3, now() + make_interval(secs => ${turnSeconds}) from lazily
           on conflict (upstream_id, name, is_dev) do update
              set checking_until = excluded.checking_until, is_stale = false
            where (d.checking_until is null or d.checking_until <= now())
              and (d.is_stale or d.checked_at is null or d.checked_at <= now() - make_interval(secs =>
                     case when d.is_found then $4 else ${missingSeconds} end))
           returning case when content is not null then last_modified end as "lastModified"`,
    values: [upstreamId, packageName, isDev, freshSeconds],
  })
  return rows[0] ?? null
}

/** Stores that the document is unchanged, or that the upstream does not have it. */
export async function saveNoContent(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
  result: 'unchanged' | 'missing',
): Promise<void> {
  await db.query({
    name: 'save-upstream-result',
    text: `update upstream_document
              set is_found = case when $4 then true else false end, checked_at = now(), failed_at = null,
                  failure = null, retry_at = null, checking_until = null
            where upstream_id = $1 and name = $2 and is_dev = $3`,
    values: [upstreamId, packageName, isDev, result === 'unchanged'],
  })
}

/** Stores why a request failed. The upstream gets no request for the given seconds. */
export async function saveFailure(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
  { failure, restSeconds }: { failure: string; restSeconds: number },
): Promise<void> {
  await db.query({
    name: 'save-upstream-failure',
    text: `update upstream_document
              set failed_at = coalesce(failed_at, now()), failure = $4, checking_until = null,
                  retry_at = now() + make_interval(secs => $5)
            where upstream_id = $1 and name = $2 and is_dev = $3`,
    values: [upstreamId, packageName, isDev, failure, restSeconds],
  })
}

/** The content of an upstream's document, to be stored. */
export interface NewContent {
  lastModified: string | null
  /** Gzipped JSON. */
  content: Buffer
  dropped: string[]
  /** The vendors of all names that versions replace or provide. */
  replaces: string[]
}

/** Stores the content of a document. Returns the versions that were dropped before. */
export async function saveContent(
  tx: pg.PoolClient,
  { upstreamId, packageName, isDev }: DocumentKey,
  { lastModified, content, dropped, replaces }: NewContent,
): Promise<{ droppedBefore: string[] }> {
  const { rows } = await tx.query<{ droppedBefore: string[] }>({
    name: 'save-upstream-content',
    text: `with before as (
             select dropped from upstream_document where upstream_id = $1 and name = $2 and is_dev = $3
           )
           insert into upstream_document
             (upstream_id, name, is_dev, is_found, last_modified, checked_at, content, dropped, replaces)
           values ($1, $2, $3, true, $4, now(), $5, $6, $7)
           on conflict (upstream_id, name, is_dev) do update
              set is_found = true, last_modified = excluded.last_modified, checked_at = now(), failed_at = null,
                  failure = null, retry_at = null, checking_until = null, content = excluded.content,
                  dropped = excluded.dropped, replaces = excluded.replaces
           returning coalesce((select dropped from before), '{}') as "droppedBefore"`,
    values: [upstreamId, packageName, isDev, lastModified, content, dropped, replaces],
  })
  return rows[0] as { droppedBefore: string[] }
}

/** Marks documents that the change feed named, so that they are requested again. Returns how many are known. */
export async function markStale(
  db: Queryable,
  upstreamId: string,
  documents: readonly { packageName: string; isDev: boolean }[],
): Promise<number> {
  const { rowCount } = await db.query(
    `update upstream_document d set is_stale = true
       from unnest($2::text[], $3::boolean[]) as n (name, is_dev)
      where d.upstream_id = $1 and d.name = n.name and d.is_dev = n.is_dev`,
    [upstreamId, documents.map(({ packageName }) => packageName), documents.map(({ isDev }) => isDev)],
  )
  return rowCount ?? 0
}

/** Marks every document of an upstream, because its change feed does not reach back far enough. */
export async function markAllStale(db: Queryable, upstreamId: string): Promise<void> {
  await db.query('update upstream_document set is_stale = true where upstream_id = $1', [upstreamId])
}

/** Lists stale documents of packages that were used within 30 days. */
export async function listStaleInUse(
  db: Queryable,
  upstreamId: string,
  limit: number,
): Promise<{ packageName: string; isDev: boolean }[]> {
  const { rows } = await db.query<{ packageName: string; isDev: boolean }>(
    `select d.name as "packageName", d.is_dev as "isDev"
       from upstream_document d join mirrored_package m on m.upstream_id = d.upstream_id and m.name = d.name
      where d.upstream_id = $1 and d.is_stale and d.is_found and m.used_on > current_date - 30
        and coalesce(d.retry_at, '-infinity') <= now()
      order by d.name limit $2`,
    [upstreamId, limit],
  )
  return rows
}

/** Deletes rows of missing names a day after the last check. */
export async function deleteExpiredMisses(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from upstream_document
      where (upstream_id, name, is_dev) in (
        select upstream_id, name, is_dev from upstream_document
         where is_found is false and checked_at < now() - interval '1 day' and content is null
         limit $1 for update skip locked)`,
    [limit],
  )
  return rowCount ?? 0
}
