import type pg from 'pg'
import { type Queryable, transaction } from '../database/database.ts'
import { background } from '../domain/principal.ts'
import { enqueue, enqueueNew, type Job } from '../jobs/job.ts'
import { openUpstreamAdvisories } from '../upstreams/advisories.ts'
import { openUpstreamClient } from '../upstreams/client/fetch.ts'
import { askUpstreams, holdLocks, judgeLocked, settleFindings } from './findings.ts'

/** How often all locks are compared with what the upstreams say now. What svc itself learns is compared at once. */
const checkSeconds = 3600

const checkJob = { name: 'check-projects', singleton: ({ groupId }: { groupId: string }) => groupId }

/**
 * Queues the comparison of the locks of a repository's group with an advisory, quarantine or abandonment that has changed. The
 * first lock file of the group may be on its way, and a comparison that waits may begin before the change is there: so neither
 * makes this one unnecessary.
 */
export async function queueProjectCheck(tx: pg.PoolClient, repositoryId: string): Promise<void> {
  const { rows } = await tx.query<{ groupId: string }>(
    `select group_id as "groupId" from repository where id = $1 and group_id is not null`,
    [repositoryId],
  )
  for (const { groupId } of rows) await queueGroupCheck(tx, groupId)
}

/** Queues the comparison of the locks of a group with its rules. */
export async function queueGroupCheck(tx: pg.PoolClient, groupId: string): Promise<void> {
  await enqueue(tx, checkJob, { groupId })
}

/** Queues the check of each group that has projects. */
export const checkAllProjectsJob: Job = {
  name: 'check-all-projects',
  everySeconds: checkSeconds,
  async run({ db }) {
    const { rows } = await db.query<{ groupId: string }>('select distinct group_id as "groupId" from project')
    await enqueueNew(
      db,
      rows.map((data) => ({ job: checkJob, data })),
    )
  },
}

/** Compares all locks of a group with what is known now. */
export const checkProjectsJob: Job<{ groupId: string }> = {
  ...checkJob,
  hasOwnSlots: true,
  async run({ config, db, log }, { groupId }, signal) {
    const ids = await listLockedPackages(db, groupId)
    await noteLockedPackages(db, groupId, ids)
    const client = openUpstreamClient(config)
    try {
      const list = openUpstreamAdvisories({ db, client }, log)
      const sayings = await askUpstreams(db, list, { groupId, ids, log })
      signal.throwIfAborted()
      await transaction(db, async (tx) => {
        await holdLocks(tx, groupId)
        // Projects first, as when one is deleted.
        await tx.query('select from project where group_id = $1 order by id for key share', [groupId])
        // They were judged when their lock was stored. What was learned since then is for the next comparison.
        const unjudged = await listLockedPackages(tx, groupId, ids)
        const judgement = await judgeLocked(tx, { groupId, ids }, sayings)
        await settleFindings(tx, background, { groupId, lock: null, unjudged }, judgement)
        if (unjudged.length > 0) await queueGroupCheck(tx, groupId)
      })
    } finally {
      await client.close()
    }
  },
}

/** Notes that lock files of a group have named packages, so that its rules know their licences. */
export async function noteLockedPackages(
  db: Queryable,
  groupId: string,
  ids: readonly number[],
): Promise<void> {
  await db.query(
    `insert into group_locked_package (group_id, package_id)
     select $1, p.id from locked_package p where p.id = any($2) order by p.id
         on conflict do nothing`,
    [groupId, ids],
  )
}

/** Lists the ids of the packages that the locks of a group name, without the known ones. */
async function listLockedPackages(
  db: Queryable,
  groupId: string,
  known: readonly number[] = [],
): Promise<number[]> {
  const { rows } = await db.query<{ id: number }>(
    `select distinct u.id from project j join project_lock l on l.project_id = j.id
      cross join lateral unnest(l.packages) as u (id) where j.group_id = $1 and u.id <> all($2::integer[])`,
    [groupId, known],
  )
  return rows.map(({ id }) => id)
}

/**
 * Deletes at most `limit` locked packages that no lock names any more. A lock that names one notes it within a week, so
 * that a month later none can be about to do so. Returns how many it has looked at: those in use are looked at again in a
 * month.
 */
export async function deleteUnusedLockedPackages(db: Queryable, limit: number): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `with old as materialized (
       select p.id, exists (select from project_lock l where l.packages @> array[p.id]) as is_used
         from locked_package p where p.used_on < current_date - 30
        order by p.used_on limit $1 for update skip locked
     ), kept as (
       update locked_package set used_on = current_date where id in (select id from old where is_used)
     ), deleted as (
       delete from locked_package where id in (select id from old where not is_used)
     )
     select count(*)::int as count from old`,
    [limit],
  )
  return rows[0]?.count ?? 0
}
