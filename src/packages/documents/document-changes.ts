import type { Queryable } from '../../database/database.ts'

/** A changed document, for mirrors. The name of a document for development versions ends with `~dev`. */
export interface DocumentChange {
  type: 'update' | 'resync'
  package: string
  /** Seconds since 1970. */
  time: number
}

/** A part of the changes of a repository's documents. Timestamps are ten-thousandths of a second since 1970. */
export interface ChangesPart {
  actions: DocumentChange[]
  /** The timestamp at which the next part begins. */
  timestamp: number
}

/** The maximum number of changes in one response. */
const maxChanges = 5_000

/**
 * Returns the first timestamp for a mirror. It is a minute ago, because a change has the time at which its transaction
 * began.
 */
export async function findChangesTimestamp(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ timestamp: number }>(
    `select (extract(epoch from date_trunc('second', now()) - interval '1 minute') * 10000)::float8 as timestamp`,
  )
  return (rows[0] as { timestamp: number }).timestamp
}

/**
 * Lists the package documents that changed since a timestamp, the earliest first, at most 5,000. If more documents than
 * that changed within one second, the only action is `resync`: the mirror must fetch everything again.
 */
export async function listChanges(db: Queryable, repositoryId: string, since: number): Promise<ChangesPart> {
  const timestamp = await findChangesTimestamp(db)
  const { rows } = await db.query<{ package: string; time: number }>(
    `select p.name || case when d.is_dev then '~dev' else '' end as package,
            extract(epoch from d.last_modified)::float8 as time
       from (select package_id, is_dev, last_modified
               from package_document
              where repository_id = $1 and last_modified >= to_timestamp($2::float8 / 10000)
              order by repository_id, last_modified limit ${maxChanges + 1}) d
       join package p on p.id = d.package_id
      order by d.last_modified, p.name collate "C", d.is_dev`,
    [repositoryId, since],
  )
  const actions = rows.map((row) => ({ type: 'update' as const, ...row }))
  const last = rows.at(-1)
  if (rows.length <= maxChanges || !last) return { actions, timestamp }
  // Return whole seconds only. The next part begins with the first second that is incomplete in this part.
  const complete = actions.filter(({ time }) => time < last.time)
  if (complete.length > 0) return { actions: complete, timestamp: Math.min(last.time * 10_000, timestamp) }
  return { actions: [{ type: 'resync', package: '*', time: last.time }], timestamp }
}
