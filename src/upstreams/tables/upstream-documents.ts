import type pg from 'pg'
import { lazily, type Queryable, sweepOf } from '../../database/database.ts'
import { byteaArray } from '../../database/shared-statements.ts'

/** A document of an upstream. */
export interface DocumentKey {
  upstreamId: string
  packageName: string
  isDev: boolean
}

/** The turn of a process to check a document, and the known state of the document. */
export interface CheckTurn {
  hasTurn: boolean
  /** Whether the upstream was removed. Then no process gets the turn. */
  isRemoved: boolean
  /** Changes with the row of the upstream. Empty for one that was removed. */
  upstreamVersion: string
  /** Null when the upstream never responded. */
  isFound: boolean | null
  /** Whether another process is checking at this moment. */
  isChecking: boolean
  /** Whether a failure is so recent that the document is not requested. */
  isResting: boolean
  /** The Last-Modified of the stored content. Null when there is none. */
  lastModified: string | null
}

/** How long a missing name gets no new request. */
export const missingSeconds = 600
/**
 * Returns an SQL condition that is true when a document needs no check. `s` is the alias of its row, and `u` that of
 * its upstream. A change feed lists every change. While it is followed without a gap, documents that were read since
 * its start are fresh. A turn that ended without a result makes a document stale: its process was killed.
 */
export function isFreshColumn(s: string, freshSeconds: string): string {
  return `coalesce(not ${s}.is_stale and coalesce(${s}.checking_until > now(), true) and (
    ${s}.checked_at > now() - make_interval(secs => case when ${s}.is_found then ${freshSeconds} else ${missingSeconds} end)
    or (${s}.checked_at > u.feed_from and u.feed_checked_at > now() - interval '3 minutes')), false)`
}

/** A process loses its turn to check after this time. */
const turnSeconds = 45

/**
 * Takes the turn to check each document that is due. A due document is not fresh, not resting, and not being checked by
 * another process. Only one process gets the turn. Returns the results in the order of the keys, which must all be
 * different.
 */
export async function takeCheckTurns(
  db: Queryable,
  keys: readonly DocumentKey[],
  freshSeconds: number,
): Promise<CheckTurn[]> {
  const { rows } = await db.query<CheckTurn>({
    name: 'take-check-turns',
    text: `with ${lazily}, wanted as materialized (
             select * from unnest((select $1::bigint[]), (select $2::text[]), (select $3::boolean[]))
                      with ordinality as w (upstream_id, name, is_dev, place), lazily
           ), state as materialized (
             select s.upstream_id, s.name, s.is_dev, s.is_found, ${isFreshColumn('s', '$4')} as is_fresh,
                    coalesce(s.checking_until > now(), false) as is_checking,
                    coalesce(s.retry_at > now(), false) as is_resting
               from wanted w
              cross join lateral (select * from upstream_document d
                                   where d.upstream_id = w.upstream_id and d.name = w.name and d.is_dev = w.is_dev limit 1) s
               join upstream u on u.id = s.upstream_id
           ), turn as (
             insert into upstream_document as d (upstream_id, name, is_dev, checking_until)
             select w.upstream_id, w.name, w.is_dev, now() + make_interval(secs => ${turnSeconds})
               from wanted w left join state s using (upstream_id, name, is_dev)
               join upstream u on u.id = w.upstream_id and u.removed_at is null
              where not coalesce(s.is_fresh or s.is_checking or s.is_resting, false)
              order by w.upstream_id, w.name, w.is_dev
             on conflict (upstream_id, name, is_dev) do update
                set checking_until = excluded.checking_until, is_stale = false
              where d.checking_until is null or d.checking_until <= now()
             returning upstream_id, name, is_dev, case when content is not null then last_modified end as last_modified
           )
           select t.name is not null as "hasTurn",
                  u.id is null as "isRemoved", coalesce(u.ctid || ' ' || u.xmin, '') as "upstreamVersion",
                  s.is_found as "isFound", t.last_modified as "lastModified",
                  coalesce(s.is_checking, false) as "isChecking", coalesce(s.is_resting, false) as "isResting"
             from wanted w
             left join state s using (upstream_id, name, is_dev)
             left join turn t using (upstream_id, name, is_dev)
             left join upstream u on u.id = w.upstream_id and u.removed_at is null
            order by w.place`,
    values: [
      keys.map(({ upstreamId }) => upstreamId),
      keys.map(({ packageName }) => packageName),
      keys.map(({ isDev }) => isDev),
      freshSeconds,
    ],
  })
  return rows
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

/**
 * Deletes the row of a document that the upstream does not have, unless the upstream has served its name. Returns whether
 * it did. Anybody can invent names, so no row may stay for them.
 */
export async function forgetUnbound(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'forget-unbound-document',
    text: `delete from upstream_document d
            where d.upstream_id = $1 and d.name = $2 and d.is_dev = $3
              and not exists (select from mirrored_package m where m.upstream_id = $1 and m.name = $2)`,
    values: [upstreamId, packageName, isDev],
  })
  return rowCount === 1
}

/**
 * Stores the reason why a request failed. The document is not requested for the given seconds. It is stale after that:
 * the change that its feed named is still unread.
 */
export async function saveFailure(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
  { failure, restSeconds }: { failure: string; restSeconds: number },
): Promise<void> {
  await db.query({
    name: 'save-upstream-failure',
    text: `update upstream_document
              set failed_at = coalesce(failed_at, now()), failure = $4, checking_until = null,
                  retry_at = now() + make_interval(secs => $5), is_stale = true
            where upstream_id = $1 and name = $2 and is_dev = $3`,
    values: [upstreamId, packageName, isDev, failure, restSeconds],
  })
}

/** Ends a turn without a result. Another process may check the document at once. */
export async function giveBackTurn(
  db: Queryable,
  { upstreamId, packageName, isDev }: DocumentKey,
): Promise<void> {
  await db.query({
    name: 'give-back-check-turn',
    text: `update upstream_document set checking_until = null, is_stale = true
            where upstream_id = $1 and name = $2 and is_dev = $3`,
    values: [upstreamId, packageName, isDev],
  })
}

/** The content of an upstream's document, to be stored. */
export interface NewContent extends DocumentKey {
  lastModified: string | null
  /** Gzipped JSON. */
  packed: Uint8Array
  dropped: string[]
  /** The vendors of all names that versions replace or provide. */
  replaces: string[]
}

/** Stores the contents of documents. Returns, for each document, the versions that were left out before. */
export async function saveContents(
  tx: pg.PoolClient,
  contents: readonly NewContent[],
): Promise<{ droppedBefore: string[] }[]> {
  const { rows } = await tx.query<{ droppedBefore: string[] }>({
    name: 'save-upstream-contents',
    text: `with fresh as materialized (
             select * from rows from (
               jsonb_to_recordset($1) as (upstream_id bigint, name text, is_dev boolean, last_modified text,
                                          dropped text[], replaces text[]),
               unnest((select $2::bytea[]))
             ) with ordinality as f (upstream_id, name, is_dev, last_modified, dropped, replaces, content, place)
           ), before as materialized (
             select d.*
               from fresh f
              cross join lateral (select upstream_id, name, is_dev, dropped from upstream_document s
                                   where s.upstream_id = f.upstream_id and s.name = f.name and s.is_dev = f.is_dev limit 1) d
           ), saved as (
             insert into upstream_document
               (upstream_id, name, is_dev, is_found, last_modified, checked_at, content, dropped, replaces)
             select upstream_id, name, is_dev, true, last_modified, now(), content, dropped, replaces
               from fresh order by upstream_id, name, is_dev
             on conflict (upstream_id, name, is_dev) do update
                set is_found = true, last_modified = excluded.last_modified, checked_at = now(), failed_at = null,
                    failure = null, retry_at = null, checking_until = null, content = excluded.content,
                    dropped = excluded.dropped, replaces = excluded.replaces
           )
           select coalesce(b.dropped, '{}') as "droppedBefore"
             from fresh f left join before b using (upstream_id, name, is_dev) order by f.place`,
    values: [
      JSON.stringify(
        contents.map(({ upstreamId, packageName, isDev, lastModified, dropped, replaces }) => ({
          upstream_id: upstreamId,
          name: packageName,
          is_dev: isDev,
          last_modified: lastModified,
          dropped,
          replaces,
        })),
      ),
      byteaArray(contents.map(({ packed }) => packed)),
    ],
  })
  return rows
}

/**
 * Reads the stored contents of packages: gzipped JSON. The document of development versions counts when there is no
 * other one. Names without content are left out. `content` is null when it is larger than `maxBytes`.
 */
export async function listStoredContents(
  db: Queryable,
  upstreamId: string,
  names: readonly string[],
  maxBytes: number,
): Promise<{ name: string; content: Buffer | null }[]> {
  const { rows } = await db.query<{ name: string; content: Buffer | null }>({
    name: 'list-stored-contents',
    text: `select d.name, case when octet_length(d.content) <= $3 then d.content end as content
             from unnest($2::text[]) as n (name)
            cross join lateral (select * from upstream_document
                                 where upstream_id = $1 and name = n.name and content is not null
                                 order by is_dev limit 1) d`,
    values: [upstreamId, names, maxBytes],
  })
  return rows
}

/** Marks the documents of a change feed, so that they are requested again. Returns how many of them are known. */
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

/** Marks every document of an upstream as stale. Call it when its change feed does not go back far enough. */
export async function markAllStale(db: Queryable, upstreamId: string): Promise<void> {
  await db.query('update upstream_document set is_stale = true where upstream_id = $1', [upstreamId])
}

/**
 * Lists stale documents of packages that were used within 30 days. Those whose last request failed come last, the latest
 * failure at the end.
 */
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
      order by d.retry_at nulls first, d.name limit $2`,
    [upstreamId, limit],
  )
  return rows
}

/**
 * Deletes rows of documents about which the upstream never responded, or that it does not have, a day after the last
 * check. Everyone who may pull can add such rows while the upstream fails.
 */
export const deleteExpiredMisses = sweepOf(
  'upstream_document',
  'upstream_id, name, is_dev',
  `is_found is not true and content is null
   and greatest(checked_at, failed_at, checking_until, retry_at) < now() - interval '1 day'`,
)
