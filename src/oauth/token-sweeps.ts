import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'

/**
 * Wipes the seals whose grace period has ended (CONTRACT 5.3) and returns how many. `limit` bounds one statement. It
 * reads new pairs in the order of their ids, and each names the pair that it superseded. This needs no index on the
 * seals, which every refresh would have to update.
 */
export async function wipeSeals(db: Queryable, limit: number): Promise<number> {
  return sweepInSteps(db, limit, {
    // Wait a minute, so that all pairs with smaller ids are committed.
    text: `with step as materialized (
             select p.id, p.predecessor_id,
                    p.created_at > now() - interval '1 minute'
                      or exists (select from token_pair o
                                  where o.id = p.predecessor_id and o.sealed_successor is not null
                                    and o.refresh_expires_at > now()) as is_early
               from token_pair p
              where p.id > (select pair_id from sweep_position where name = 'sealed_pairs')
              order by p.id
              limit $1
           ), done as materialized (
             select id, predecessor_id from step
              where id < coalesce((select min(id) from step where is_early), 9223372036854775807)
           ), wiped as (
             update token_pair set sealed_successor = null
              where id in (select id from token_pair
                            where id in (select predecessor_id from done) and sealed_successor is not null
                            order by id for no key update)
             returning 1
           ), position as (
             update sweep_position set pair_id = (select max(id) from done)
              where name = 'sealed_pairs' and exists (select from done)
           )
           select (select count(*) from done)::integer as seen, (select count(*) from wiped)::integer as swept`,
    values: [limit],
  })
}

/**
 * Deletes pairs that have been dead for 30 days and returns how many. Until then, reuse of a refresh token still
 * revokes the live tokens of its authorization (OAUTH 106). Most pairs die within a day. They are deleted 31 days after
 * they were created.
 */
export async function deleteExpiredPairs(db: Queryable, limit: number): Promise<number> {
  const deleted = await sweepInSteps(db, limit, {
    text: `with step as materialized (
             select id, created_at > now() - interval '31 days' as is_early, ${isDead} as is_dead
               from token_pair
              where id > (select pair_id from sweep_position where name = 'expired_pairs')
              order by id
              limit $1
           ), done as materialized (
             select id, is_dead from step
              where id < coalesce((select min(id) from step where is_early), 9223372036854775807)
           ), deleted as (
             delete from token_pair where id in (select id from done where is_dead) returning 1
           ), position as (
             update sweep_position set pair_id = (select max(id) from done)
              where name = 'expired_pairs' and exists (select from done)
           )
           select (select count(*) from done)::integer as seen, (select count(*) from deleted)::integer as swept`,
    values: [limit],
  })
  return deleted + (await deleteRemainingPairs(db, limit))
}

/** Once a day, checks the pairs again that `deleteExpiredPairs` skipped because they were live. */
function deleteRemainingPairs(db: Queryable, limit: number): Promise<number> {
  return sweepInSteps(db, limit, {
    text: `with step as materialized (
             select id, ${isDead} as is_dead
               from token_pair
              where id > (select pair_id from sweep_position
                           where name = 'remaining_pairs' and reached_at < now() - interval '1 day')
                and id <= (select pair_id from sweep_position where name = 'expired_pairs')
              order by id
              limit $1
           ), deleted as (
             delete from token_pair where id in (select id from step where is_dead) returning 1
           ), position as (
             update sweep_position
                set pair_id = case when (select count(*) from step) < $1 then 0 else (select max(id) from step) end,
                    reached_at = case when (select count(*) from step) < $1 then now() else reached_at end
              where name = 'remaining_pairs' and reached_at < now() - interval '1 day'
           )
           select (select count(*) from step)::integer as seen, (select count(*) from deleted)::integer as swept`,
    values: [limit],
  })
}

/** SQL. */
const isDead = `(refresh_expires_at < now() - interval '30 days' and access_expires_at < now() - interval '30 days'
                 and sealed_successor is null)`

/** The time for which used codes are kept at least: the default lifetime of a refresh token, and 31 days. */
const usedCodeSeconds = 211 * 86_400

/**
 * Deletes codes and returns how many: unused ones a day after they expired, used ones after 211 days, or later if tokens
 * live longer with the present configuration. By then the pair that a code made has been dead for 30 days unless it was
 * refreshed. A second use until then ends all pairs that came from the code (OAUTH 85).
 */
export async function deleteExpiredCodes(
  db: Queryable,
  limit: number,
  { lifetimes }: Pick<Config, 'lifetimes'>,
): Promise<number> {
  const tokenSeconds = Math.max(lifetimes.refreshToken, lifetimes.accessToken)
  const unused = await sweepInSteps(db, limit, {
    text: `with step as materialized (
             select code_hash, expires_at, redeemed_at
               from authorization_code
              where expires_at > (select reached_at from sweep_position where name = 'unused_codes')
                and expires_at < now() - interval '1 day'
              order by expires_at
              limit $1
           ), deleted as (
             delete from authorization_code
              where code_hash in (select code_hash from step where redeemed_at is null) and redeemed_at is null
             returning 1
           ), position as (
             update sweep_position set reached_at = (select max(expires_at) from step)
              where name = 'unused_codes' and exists (select from step)
           )
           select (select count(*) from step)::integer as seen, (select count(*) from deleted)::integer as swept`,
    values: [limit],
  })
  const used = await sweepInSteps(db, limit, {
    text: `with deleted as (
             delete from authorization_code
              where code_hash in (select code_hash from authorization_code
                                   where expires_at < now() - make_interval(secs => $2)
                                   limit $1 for update skip locked)
             returning 1
           )
           select count(*)::integer as seen, count(*)::integer as swept from deleted`,
    values: [limit, Math.max(usedCodeSeconds, tokenSeconds + 31 * 86_400)],
  })
  return unused + used
}

/** Repeats a statement until it sees fewer rows than `limit`. Returns how many rows it changed in all. */
async function sweepInSteps(
  db: Queryable,
  limit: number,
  statement: { text: string; values: unknown[] },
): Promise<number> {
  let total = 0
  for (;;) {
    const { rows } = await db.query<{ seen: number; swept: number }>(statement)
    const { seen, swept } = rows[0] ?? { seen: 0, swept: 0 }
    total += swept
    if (seen < limit) return total
  }
}
