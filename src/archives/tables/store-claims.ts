import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'

/** A process that has been silent for this long does not keep the claim any more. Must be longer than four steps. */
export const silentSeconds = 90

/** A step of the claim. */
export interface ClaimStep {
  incarnation: string
  counter: number
  nonce: string
}

/** The claim of this database: its latest step, and the nonce of the step before. */
export interface OwnClaim extends ClaimStep {
  previousNonce: string
  /** Why this database has lost its claim. Null while it has the claim. */
  lostBecause: string | null
}

const columns = `incarnation, counter::float8 as counter, nonce, previous_nonce as "previousNonce", lost_because as "lostBecause"`

/** Reads the claim of this database. */
export async function findClaim(db: Queryable): Promise<OwnClaim> {
  const { rows } = await db.query<OwnClaim>(`select ${columns} from store_claim`)
  const [claim] = rows
  if (!claim) throw new Error('The table store_claim must have one row. Restore a backup.')
  return claim
}

/** Locks the claim of this database: until the transaction ends, no process makes a step and none loses it. */
export async function lockClaim(tx: pg.PoolClient): Promise<void> {
  await tx.query('select from store_claim for no key update')
}

/**
 * Lets a process make the next step. Returns null when another process made the last one recently, or when the claim is
 * lost. A copy of the database contains such a recent step. So its processes wait, until the store shows that the original
 * is alive.
 */
export async function takeClaimTurn(db: Queryable, keeper: string): Promise<OwnClaim | null> {
  const { rows } = await db.query<OwnClaim>(
    `update store_claim set keeper = $1, kept_at = now()
      where lost_because is null
        and (keeper = $1 or kept_at < now() - interval '${silentSeconds} seconds')
     returning ${columns}`,
    [keeper],
  )
  return rows[0] ?? null
}

/** Makes the step after the given one. Returns false when another process was faster. */
export async function advanceClaim(
  db: Queryable,
  keeper: string,
  { incarnation, counter }: ClaimStep,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update store_claim set counter = counter + 1, previous_nonce = nonce, nonce = gen_random_uuid()
      where keeper = $1 and incarnation = $2 and counter = $3 and lost_because is null`,
    [keeper, incarnation, counter],
  )
  return rowCount === 1
}

/** Lets another process make the next step at once, because this one stops. */
export async function endClaimTurn(db: Queryable, keeper: string): Promise<void> {
  await db.query(`update store_claim set kept_at = '-infinity' where keeper = $1`, [keeper])
}

/** Stores that the claim is lost, unless it was made again. */
export async function loseClaim(db: Queryable, incarnation: string, because: string): Promise<void> {
  await db.query('update store_claim set lost_because = $2 where incarnation = $1 and lost_because is null', [
    incarnation,
    because,
  ])
}

/** Makes a new claim, which is ahead of the given counter. */
export async function renewClaim(db: Queryable, counter: number): Promise<OwnClaim> {
  const { rows } = await db.query<OwnClaim>(
    `update store_claim
        set incarnation = gen_random_uuid(), counter = greatest(counter, $1::bigint) + 1, nonce = gen_random_uuid(),
            previous_nonce = gen_random_uuid(), kept_at = '-infinity', lost_because = null
     returning ${columns}`,
    [counter],
  )
  return rows[0] as OwnClaim
}
