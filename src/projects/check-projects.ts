import { type Queryable, transaction } from '../database/database.ts'
import { background } from '../domain/principal.ts'
import { enqueueNew, enqueueUnlessDue, type Job } from '../jobs/job.ts'
import { openUpstreamAdvisories } from '../upstreams/advisories.ts'
import { openUpstreamClient } from '../upstreams/client/fetch.ts'
import { judgeLocked, settleFindings } from './findings.ts'

/** How often all locks are compared with what the upstreams say now. What svc itself learns is compared at once. */
const checkSeconds = 3600

const checkJob = { name: 'check-projects', singleton: ({ groupId }: { groupId: string }) => groupId }

/** Queues the comparison of the locks of a repository's group with an advisory, quarantine or abandonment that has changed. */
export async function queueProjectCheck(db: Queryable, repositoryId: string): Promise<void> {
  const { rows } = await db.query<{ groupId: string }>(
    `select r.group_id as "groupId" from repository r
      where r.id = $1 and exists (select from project j where j.group_id = r.group_id)`,
    [repositoryId],
  )
  for (const { groupId } of rows) await enqueueUnlessDue(db, checkJob, { groupId })
}

/** Queues the comparison of the locks of a group with its rules. */
export async function queueGroupCheck(db: Queryable, groupId: string): Promise<void> {
  const { rowCount } = await db.query('select from project where group_id = $1 limit 1', [groupId])
  if (rowCount === 1) await enqueueUnlessDue(db, checkJob, { groupId })
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
      const judgement = await judgeLocked(db, openUpstreamAdvisories({ db, client }, log), {
        groupId,
        ids,
        log,
      })
      signal.throwIfAborted()
      await transaction(db, async (tx) => {
        // Projects first, as when one is deleted.
        await tx.query('select from project where group_id = $1 order by id for key share', [groupId])
        // A lock that is posted meanwhile comes before or after the comparison.
        await tx.query(
          `select from project_lock l join project j on j.id = l.project_id
            where j.group_id = $1 order by l.project_id, l.environment for no key update of l`,
          [groupId],
        )
        // It was judged when it was posted, with packages that are not in this judgement.
        const unjudged = await listLockedPackages(tx, groupId, ids)
        await settleFindings(tx, background, { groupId, lock: null, unjudged }, judgement)
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
