import type pg from 'pg'
import type { Queryable } from '../../../database/database.ts'
import { lazily } from './lazy-commit.ts'

/** Which document of which upstream. */
export interface DocumentKey {
  upstreamId: string
  packageName: string
  isDev: boolean
}

/** What is known of a document of an upstream. */
export interface DocumentState {
  /** Null: the upstream never answered. */
  isFound: boolean | null
  lastModified: string | null
  /** Whether another process asks the upstream at this moment. */
  isChecking: boolean
  /** Whether the last answer is so young that the upstream need not be asked. */
  isFresh: boolean
  /** Whether a failure is so recent that the upstream is left alone. */
  isResting: boolean
  failure: string | null
}

/** How long a name that an upstream does not know is not asked for again. */
export const missingSeconds = 600
/**
 * SQL: whether a document need not be asked for, given the alias of its row. The change feed names every change, so
 * while it is followed without a gap, what was read after its beginning is fresh. The upstream's row is `u`.
 */
export function isFreshColumn(s: string, freshSeconds: string): string {
  return `coalesce(not ${s}.is_stale and (
    ${s}.checked_at > now() - make_interval(secs => case when ${s}.is_found then ${freshSeconds} else ${missingSeconds} end)
    or (${s}.checked_at > u.feed_from and u.feed_checked_at > now() - interval '3 minutes')), false)`
}

/** How long a process may take to ask an upstream before another one does. */
const turnSeconds = 45

/** What is known of a document. Null when the upstream was never asked for it. */
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
 * Takes the turn to ask an upstream for a document: of all processes one gets it, the others null. Null too when
 * somebody else was just answered. `lastModified` is of the content that is stored.
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

/** Notes that the upstream answered as before, or that it does not know the package. */
export async function saveAnswer(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
  answer: 'unchanged' | 'missing',
): Promise<void> {
  await db.query({
    name: 'save-upstream-answer',
    text: `update upstream_document
              set is_found = case when $4 then true else false end, checked_at = now(), failed_at = null,
                  failure = null, retry_at = null, checking_until = null
            where upstream_id = $1 and name = $2 and is_dev = $3`,
    values: [upstreamId, packageName, isDev, answer === 'unchanged'],
  })
}

/** Notes why the upstream could not be asked. It is left alone for so many seconds. */
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

/** What an upstream said about a package, to be stored. */
export interface NewContent {
  lastModified: string | null
  /** Gzipped JSON. */
  content: Buffer
  dropped: string[]
  /** The vendors of all names that versions replace or provide. */
  replaces: string[]
}

/** Stores what the upstream said. Returns what was dropped before. */
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

/** Marks documents that the change feed named: they are asked for again. Returns how many are known. */
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

/** Marks every document of an upstream: its change feed no longer reaches back far enough. */
export async function markAllStale(db: Queryable, upstreamId: string): Promise<void> {
  await db.query('update upstream_document set is_stale = true where upstream_id = $1', [upstreamId])
}

/** Stale documents of packages that were used within 30 days. */
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

/** Deletes what is remembered of unknown names, a day after it was last asked. */
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
