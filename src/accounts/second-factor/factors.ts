import type pg from 'pg'
import type { FactorRule } from '../../config.ts'
import { type Actor, type Queryable, transaction } from '../../database/database.ts'
import { keepsWayIn, type OfferedWays } from '../ways-in.ts'
import { deleteAllPasskeys, deletePasskey } from './passkeys.ts'
import { deleteRecoveryCodes } from './recovery-codes.ts'
import { deleteTotpFactor } from './totp-factors.ts'

/** The second factors of an account. */
export interface FactorSummary {
  /** When the authenticator app was confirmed; null without one. */
  totpSince: Date | null
  passkeys: number
  recoveryCodes: number
}

/** Returns the second factors of an account. */
export async function findFactors(db: Queryable, accountId: string): Promise<FactorSummary> {
  const { rows } = await db.query<FactorSummary>(
    `select (select confirmed_at from totp_factor where account_id = $1) as "totpSince",
            (select count(*)::int from passkey where account_id = $1) as passkeys,
            (select count(*)::int from recovery_code where account_id = $1) as "recoveryCodes"`,
    [accountId],
  )
  return rows[0] as FactorSummary
}

/** Returns whether a sign-in of the account needs a second factor. */
export function hasFactor({ totpSince, passkeys }: FactorSummary): boolean {
  return totpSince !== null || passkeys > 0
}

/** Why an account must have a second factor. */
export interface FactorRequirement {
  isRequired: boolean
  /** Whether the whole site requires it. */
  bySite: boolean
  /** The groups of the account that require it, at most 20. */
  groups: string[]
}

/** Returns whether an account must have a second factor, and who requires it. */
export async function findRequirement(
  db: Queryable,
  { id, isAdmin }: { id: string; isAdmin: boolean },
  rule: FactorRule,
): Promise<FactorRequirement> {
  const { rows } = await db.query<{ name: string }>(
    `select g.name from group_member m join repository_group g on g.id = m.group_id
      where m.account_id = $1 and g.requires_second_factor order by g.name limit 20`,
    [id],
  )
  const bySite = rule === 'all' || (rule === 'admins' && isAdmin)
  return { isRequired: bySite || rows.length > 0, bySite, groups: rows.map(({ name }) => name) }
}

/**
 * Removes the authenticator app of an account. The recovery codes are removed with the last factor. False without an
 * app.
 */
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
 * Removes a passkey of an account, like `removeTotp`. Refuses to remove the only way to sign in. Returns `unknown` when
 * the account has no passkey with this id.
 */
export async function removePasskey(
  db: pg.Pool,
  actor: Actor,
  accountId: string,
  id: string,
  offered: OfferedWays,
): Promise<'removed' | 'unknown' | 'only-way'> {
  return transaction(
    db,
    async (tx) => {
      if (!(await keepsWayIn(tx, accountId, offered, { passkeyId: id }))) return 'only-way'
      const isRemoved = await deletePasskey(tx, accountId, id)
      if (!hasFactor(await findFactors(tx, accountId))) await deleteRecoveryCodes(tx, accountId)
      return isRemoved ? 'removed' : 'unknown'
    },
    actor,
  )
}

/**
 * Removes all second factors of an account that lost them, without asking for one. For operators and administrators.
 * Returns how many there were.
 */
export async function resetFactors(db: pg.Pool, actor: Actor, accountId: string): Promise<number> {
  return transaction(
    db,
    async (tx) => {
      const isRemoved = await deleteTotpFactor(tx, accountId)
      const passkeys = await deleteAllPasskeys(tx, accountId)
      await deleteRecoveryCodes(tx, accountId)
      return Number(isRemoved) + passkeys
    },
    actor,
  )
}
