import { type Queryable, sweepOf } from '../database/database.ts'

/** How long ended grants and authorizations are kept, as dead token pairs are. Their tokens are dead at once. */
const isLongEnded = `ended_at < now() - interval '31 days'`

/** Deletes at most `limit` grants that ended 31 days ago. Returns how many. A pair without a grant is dead. */
export const deleteEndedGrants = sweepOf('authorization_grant', 'id', isLongEnded)

/** SQL: the authorizations that ended first, at most as many as the parameter $1. As an array, it always uses indexes. */
const longEnded = `array(select id from account_authorization where ${isLongEnded} order by ended_at limit $1)`

/**
 * Deletes at most `limit` codes of authorizations that ended 31 days ago, and at most `limit` of these authorizations,
 * those without codes. Returns how many rows.
 */
export async function deleteEndedAuthorizations(db: Queryable, limit: number): Promise<number> {
  const codes = await db.query(
    `delete from authorization_code
      where code_hash in (select code_hash from authorization_code
                           where authorization_id = any(${longEnded}) limit $1 for update skip locked)`,
    [limit],
  )
  const authorizations = await db.query(
    `delete from account_authorization
      where id in (select id from account_authorization a
                    where id = any(${longEnded})
                      and not exists (select from authorization_code where authorization_id = a.id)
                      for update skip locked)`,
    [limit],
  )
  return (codes.rowCount ?? 0) + (authorizations.rowCount ?? 0)
}

/** How many statements of a call read pairs. The other sweeps wait meanwhile. */
const statementsPerCall = 100

/**
 * Deletes grants that a later one covers, when no pair and no code needs them, and returns how many. Once a week it reads
 * all pairs in the order of their ids, `limit` in one statement, and continues in the next call after 100 statements. A
 * grant without a pair gets no new one: a refresh needs an earlier pair, which stays at least 31 days, and codes belong to
 * the later grant.
 */
export async function deleteSupersededGrants(db: Queryable, limit: number): Promise<number> {
  await beginSweep(db)
  for (let n = 0, isDone = false; !isDone; n += 1) {
    const seen = n < statementsPerCall ? await markUsedGrants(db, limit) : null
    if (seen === null) return 0
    isDone = seen < limit
  }
  let deleted = 0
  for (;;) {
    const count = await deleteUnusedGrants(db, limit)
    deleted += count
    if (count < limit) break
  }
  await endSweep(db)
  return deleted
}

/** Begins a sweep when one is due. Only one process does it. The last codes of the grants have expired after a day. */
async function beginSweep(db: Queryable): Promise<void> {
  await db.query(
    `with begun as (
       update sweep_position set pair_id = 0
        where name = 'superseded_grants' and pair_id = -1 and reached_at < now() - interval '7 days'
          and exists (select from superseded_grant where superseded_at < now() - interval '1 day')
       returning 1
     )
     update superseded_grant set is_unused = true
      where superseded_at < now() - interval '1 day' and exists (select from begun)`,
  )
}

/** Marks the grants of the next pairs as used. Returns the number of the pairs. Null when no sweep runs. */
async function markUsedGrants(db: Queryable, limit: number): Promise<number | null> {
  const { rows } = await db.query<{ isRunning: boolean; seen: number }>(
    `with running as materialized (
       select pair_id from sweep_position where name = 'superseded_grants' and pair_id >= 0
     ), step as materialized (
       select id, coalesce(grant_id, authorization_id) as grant_id
         from token_pair
        where id > (select pair_id from running)
        order by id
        limit $1
     ), used as (
       update superseded_grant set is_unused = false where is_unused and grant_id in (select grant_id from step)
     ), position as (
       update sweep_position set pair_id = (select max(id) from step)
        where name = 'superseded_grants' and pair_id >= 0 and exists (select from step)
     )
     select exists (select from running) as "isRunning", (select count(*) from step)::integer as seen`,
    [limit],
  )
  const { isRunning, seen } = rows[0] as { isRunning: boolean; seen: number }
  return isRunning ? seen : null
}

/** Deletes at most `limit` grants for which the sweep has found no pair. Returns how many. */
async function deleteUnusedGrants(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from authorization_grant
      where id in (select g.id
                     from superseded_grant s
                     join authorization_grant g on g.id = s.grant_id
                    where s.is_unused
                      and not exists (select from authorization_code c
                                       where c.authorization_id = g.authorization_id and c.grant_id = g.id
                                         and c.redeemed_at is null and c.expires_at > now())
                    limit $1 for update of g skip locked)`,
    [limit],
  )
  return rowCount ?? 0
}

async function endSweep(db: Queryable): Promise<void> {
  await db.query(
    `with ended as (
       update sweep_position set pair_id = -1, reached_at = now() where name = 'superseded_grants' returning 1
     )
     update superseded_grant set is_unused = null where is_unused is not null and exists (select from ended)`,
  )
}
