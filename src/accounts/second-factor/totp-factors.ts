import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { SealedTable, StoredSecret } from '../../database/rekey.ts'
import type { SealedSecret } from '../../database/secret-key.ts'
import type { Principal } from '../../domain/principal.ts'
import { insertEvent } from '../../events/events.ts'

/** The authenticator app of an account. */
export interface TotpFactor extends SealedSecret {
  /** Null until a code has proven that the app has the secret. Until then it is not a second factor. */
  confirmedAt: Date | null
  /** The time of the database, in seconds since 1970. All processes check codes with this clock. */
  nowSeconds: number
}

/** Finds the authenticator app of an account, confirmed or not. */
export async function findTotpFactor(db: Queryable, accountId: string): Promise<TotpFactor | null> {
  const { rows } = await db.query<TotpFactor>(
    `select key_id as "keyId", sealed_secret as sealed, confirmed_at as "confirmedAt",
            extract(epoch from clock_timestamp())::float8 as "nowSeconds"
       from totp_factor where account_id = $1`,
    [accountId],
  )
  return rows[0] ?? null
}

/** Stores the secret of an app that is being set up. Returns false, and changes nothing, when an app is confirmed. */
export async function startTotpFactor(
  db: Queryable,
  accountId: string,
  { keyId, sealed }: SealedSecret,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into totp_factor (account_id, key_id, sealed_secret) values ($1, $2, $3)
         on conflict (account_id) do update
        set key_id = excluded.key_id, sealed_secret = excluded.sealed_secret, created_at = now(), last_time_step = 0
      where totp_factor.confirmed_at is null`,
    [accountId, keyId, sealed],
  )
  return rowCount === 1
}

/**
 * Confirms the app with the secret that was checked, and writes the event. False when it was confirmed or replaced in
 * the meantime.
 */
export async function confirmTotpFactor(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  { sealed }: SealedSecret,
  timeStep: number,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update totp_factor set confirmed_at = now(), last_time_step = $3
      where account_id = $1 and sealed_secret = $2 and confirmed_at is null`,
    [accountId, sealed, timeStep],
  )
  if (rowCount !== 1) return false
  await insertEvent(tx, by, { action: 'second-factor-added', accountId, details: { kind: 'totp' } })
  return true
}

/**
 * Puts the secret of another app in the place of the confirmed one that was read, and writes the events. False when it was
 * removed or replaced in the meantime.
 */
export async function replaceTotpFactor(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  current: SealedSecret,
  next: SealedSecret,
  timeStep: number,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update totp_factor
        set key_id = $3, sealed_secret = $4, created_at = now(), confirmed_at = now(), last_time_step = $5
      where account_id = $1 and sealed_secret = $2 and confirmed_at is not null`,
    [accountId, current.sealed, next.keyId, next.sealed, timeStep],
  )
  if (rowCount !== 1) return false
  const details = { kind: 'totp' }
  await insertEvent(tx, by, { action: 'second-factor-removed', accountId, details })
  await insertEvent(tx, by, { action: 'second-factor-added', accountId, details })
  return true
}

/**
 * Uses up the code of a time step. Afterwards neither this step nor an earlier one works. Of racing requests with one
 * code, only one gets true (RFC 6238 §5.2).
 */
export async function spendTimeStep(db: Queryable, accountId: string, timeStep: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update totp_factor set last_time_step = $2
      where account_id = $1 and confirmed_at is not null and last_time_step < $2`,
    [accountId, timeStep],
  )
  return rowCount === 1
}

/**
 * Removes the authenticator app of an account, unless it is the last factor and one is required, and writes the event.
 * False when no confirmed one was removed. `siteRequiresIt` is null for an operator, who may also remove a required factor.
 */
export async function deleteTotpFactor(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  siteRequiresIt: boolean | null,
): Promise<boolean> {
  const { rows } = await tx.query<{ wasConfirmed: boolean }>(
    `delete from totp_factor
      where account_id = $1 and ($2::boolean is null or may_lose_second_factor($1, $2))
  returning confirmed_at is not null as "wasConfirmed"`,
    [accountId, siteRequiresIt],
  )
  if (rows[0]?.wasConfirmed !== true) return false
  await insertEvent(tx, by, { action: 'second-factor-removed', accountId, details: { kind: 'totp' } })
  return true
}

/** Returns what the secret of an account is sealed for. */
export function totpOwner(accountId: string): string {
  return `totp of account ${accountId}`
}

/** The secrets of authenticator apps. */
export const totpSecrets: SealedTable = {
  remedy: 'remove these second factors with svc account reset-factors',
  async lockOthers(tx, keyId) {
    const { rows } = await tx.query<Omit<StoredSecret, 'owner'>>(
      `select f.account_id as "rowId", 'the second factor of ' || a.username as name, f.key_id as "keyId",
              f.sealed_secret as sealed
         from totp_factor f join account a on a.id = f.account_id
        where f.key_id <> $1
        order by f.account_id
          for update of f`,
      [keyId],
    )
    return rows.map((row) => ({ ...row, owner: totpOwner(row.rowId) }))
  },
  async replace(tx, secrets) {
    await tx.query(
      `update totp_factor f set key_id = n.key_id, sealed_secret = n.sealed
         from unnest($1::bigint[], $2::bytea[], $3::bytea[]) as n (account_id, key_id, sealed)
        where f.account_id = n.account_id`,
      [
        secrets.map(({ rowId }) => rowId),
        secrets.map(({ keyId }) => keyId),
        secrets.map(({ sealed }) => sealed),
      ],
    )
  },
}

/** Counts the accounts whose confirmed app is encrypted with none of these keys. */
export async function countForeignSecrets(db: Queryable, keyIds: readonly Buffer[]): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from totp_factor where confirmed_at is not null and key_id <> all($1)`,
    [keyIds],
  )
  return rows[0]?.count ?? 0
}

/** Counts the accounts with a confirmed app. */
export async function countTotpFactors(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from totp_factor where confirmed_at is not null`,
  )
  return rows[0]?.count ?? 0
}
