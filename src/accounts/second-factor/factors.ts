import type pg from 'pg'
import type { FactorRule, SiteFactorRule } from '../../config.ts'
import { type Queryable, transaction } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { lockAccount } from '../accounts.ts'
import { keepsWayIn, type OfferedWays } from '../ways-in.ts'
import { deleteAllPasskeys, deletePasskey, listPasskeys } from './passkeys.ts'
import { deleteRecoveryCodes } from './recovery-codes.ts'
import { deleteTotpFactor } from './totp-factors.ts'

/** The second factors of an account. */
export interface FactorSummary {
  /** When the authenticator app was confirmed; null without one. */
  totpSince: Date | null
  /** When the last accepted code of the app was shown; null without one. */
  totpLastUsedAt: Date | null
  passkeys: number
  recoveryCodes: number
}

/** Returns the second factors of an account. */
export async function findFactors(db: Queryable, accountId: string): Promise<FactorSummary> {
  const { rows } = await db.query<FactorSummary>(
    `select (select confirmed_at from totp_factor where account_id = $1) as "totpSince",
            (select least(now(), to_timestamp(last_time_step * 30.0)) from totp_factor
              where account_id = $1 and confirmed_at is not null) as "totpLastUsedAt",
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

/** Who requires a second factor of an account. */
export interface FactorRequirement {
  /** The name of the group. Null for the whole site. */
  group: string | null
  /** The end of the grace period. Null when it is required already. */
  dueAt: Date | null
}

/** Lists who requires a second factor of an account, now or after a grace period: the site first, then at most 20 groups. */
export async function listRequirements(
  db: Queryable,
  { id, isAdmin }: { id: string; isAdmin: boolean },
  site: SiteFactorRule,
): Promise<FactorRequirement[]> {
  const { rows } = await db.query<FactorRequirement>(
    `select by as "group", case when since > now() then since end as "dueAt"
       from (select null as by, coalesce($3::timestamptz, '-infinity') as since where $2
              union
             select group_name, required_from from second_factor_requirement where account_id = $1) required
      order by by nulls first limit 21`,
    [id, isRequiredBySite(site.of, isAdmin), site.from],
  )
  return rows
}

/** Returns whether the whole site requires a second factor of an account, now or after the grace period. */
function isRequiredBySite(rule: FactorRule, isAdmin: boolean): boolean {
  return rule === 'all' || (rule === 'admins' && isAdmin)
}

/**
 * Removes the authenticator app of an account. The recovery codes are removed with the last factor. Returns `required`
 * when the app is the last factor and one is required, and `unknown` without an app.
 */
export async function removeTotp(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  rule: FactorRule,
): Promise<'removed' | 'unknown' | 'required'> {
  return transaction(
    db,
    async (tx) => {
      const account = await lockAccount(tx, accountId)
      const isRemoved = await deleteTotpFactor(
        tx,
        by,
        accountId,
        isRequiredBySite(rule, account?.isAdmin === true),
      )
      const left = await findFactors(tx, accountId)
      if (!hasFactor(left)) await deleteRecoveryCodes(tx, accountId)
      if (isRemoved) return 'removed'
      return left.totpSince === null ? 'unknown' : 'required'
    },
    by,
  )
}

/**
 * Removes a passkey of an account, like `removeTotp`. Refuses to remove the only way to sign in. Returns `unknown` when
 * the account has no passkey with this id. Without a rule it also removes a required factor, for operators.
 */
export async function removePasskey(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  id: string,
  offered: OfferedWays,
  rule: FactorRule | null,
): Promise<'removed' | 'unknown' | 'only-way' | 'required'> {
  return transaction(
    db,
    async (tx) => {
      const account = await lockAccount(tx, accountId)
      if (!(await keepsWayIn(tx, accountId, offered, { passkeyId: id }))) return 'only-way'
      const siteRequiresIt = rule && isRequiredBySite(rule, account?.isAdmin === true)
      const isRemoved = await deletePasskey(tx, by, accountId, id, siteRequiresIt)
      if (!hasFactor(await findFactors(tx, accountId))) await deleteRecoveryCodes(tx, accountId)
      if (isRemoved) return 'removed'
      return (await listPasskeys(tx, accountId)).some((one) => one.id === id) ? 'required' : 'unknown'
    },
    by,
  )
}

/**
 * Removes all second factors of an account that lost them, without asking for one. For operators and administrators.
 * Returns how many there were.
 */
export async function resetFactors(db: pg.Pool, by: Principal, accountId: string): Promise<number> {
  return transaction(
    db,
    async (tx) => {
      const isRemoved = await deleteTotpFactor(tx, by, accountId, null)
      const passkeys = await deleteAllPasskeys(tx, by, accountId)
      await deleteRecoveryCodes(tx, accountId)
      return Number(isRemoved) + passkeys
    },
    by,
  )
}
