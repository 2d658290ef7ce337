import type pg from 'pg'
import { type Actor, type Queryable, transaction } from '../../database/database.ts'
import { deleteRecoveryCodes } from './recovery-codes.ts'
import { deleteTotpFactor } from './totp-factors.ts'

/** The second factors of an account. */
export interface FactorSummary {
  /** When the authenticator app was confirmed; null without one. */
  totpSince: Date | null
  recoveryCodes: number
}

/** Returns the second factors of an account. */
export async function findFactors(db: Queryable, accountId: string): Promise<FactorSummary> {
  const { rows } = await db.query<FactorSummary>(
    `select (select confirmed_at from totp_factor where account_id = $1) as "totpSince",
            (select count(*)::int from recovery_code where account_id = $1) as "recoveryCodes"`,
    [accountId],
  )
  return rows[0] as FactorSummary
}

/** Returns whether a sign-in of the account needs a second factor. */
export function hasFactor({ totpSince }: FactorSummary): boolean {
  return totpSince !== null
}

/** Removes the authenticator app of an account. Its recovery codes go with its last factor. False when it has no app. */
export async function removeTotp(db: pg.Pool, actor: Actor, accountId: string): Promise<boolean> {
  return transaction(
    db,
    async (tx) => {
      const isRemoved = await deleteTotpFactor(tx, accountId)
      if (!hasFactor(await findFactors(tx, accountId))) await deleteRecoveryCodes(tx, accountId)
      return isRemoved
    },
    actor,
  )
}

/**
 * Removes all second factors of an account without asking for one: for a person who lost them. For operators and
 * administrators. Returns how many there were.
 */
export async function resetFactors(db: pg.Pool, actor: Actor, accountId: string): Promise<number> {
  return transaction(
    db,
    async (tx) => {
      const isRemoved = await deleteTotpFactor(tx, accountId)
      await deleteRecoveryCodes(tx, accountId)
      return Number(isRemoved)
    },
    actor,
  )
}
