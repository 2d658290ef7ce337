import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { insertEvent, insertEvents } from '../../events/events.ts'
import { lockAccount } from '../accounts.ts'

/** How many passkeys an account may have. */
const maxPasskeys = 20

/** A passkey, for its owner. */
export interface Passkey {
  id: string
  name: string
  createdAt: Date
  lastUsedAt: Date | null
  /**
   * Whether it can replace the password: its device keeps the account (it is discoverable) and verifies the person. Null
   * when this is not known, until its first sign-in without a password.
   */
  canSignIn: boolean | null
}

/** A passkey with the values that a check needs. */
export interface StoredPasskey extends Passkey {
  accountId: string
  /** The id of the credential, in base64url. */
  credentialId: string
  publicKey: Buffer
  signCount: number
  transports: string[]
}

const columns = `id, account_id as "accountId", name, created_at as "createdAt", last_used_at as "lastUsedAt",
  can_sign_in as "canSignIn",
  translate(rtrim(replace(encode(credential_id, 'base64'), E'\\n', ''), '='), '+/', '-_') as "credentialId",
  public_key as "publicKey", sign_count::float8 as "signCount", transports`

/** Lists the passkeys of an account, oldest first. */
export async function listPasskeys(db: Queryable, accountId: string): Promise<StoredPasskey[]> {
  const { rows } = await db.query<StoredPasskey>(
    `select ${columns} from passkey where account_id = $1 order by id limit ${maxPasskeys}`,
    [accountId],
  )
  return rows
}

/** Finds a passkey by the id of its credential, in base64url. */
export async function findPasskey(db: Queryable, credentialId: string): Promise<StoredPasskey | null> {
  const { rows } = await db.query<StoredPasskey>(`select ${columns} from passkey where credential_id = $1`, [
    Buffer.from(credentialId, 'base64url'),
  ])
  return rows[0] ?? null
}

/** Adds a passkey, and writes the event. False when it is registered already, or the account has the maximum. */
export async function insertPasskey(
  tx: pg.PoolClient,
  by: Principal,
  passkey: Pick<
    StoredPasskey,
    'accountId' | 'credentialId' | 'publicKey' | 'signCount' | 'transports' | 'name' | 'canSignIn'
  >,
): Promise<boolean> {
  // Lock the account: two registrations at once would pass the maximum.
  await lockAccount(tx, passkey.accountId)
  const { rowCount } = await tx.query(
    `insert into passkey (account_id, credential_id, public_key, sign_count, transports, name, can_sign_in)
     select $1, $2, $3, $4, $5, $6, $7
      where (select count(*) from passkey where account_id = $1) < ${maxPasskeys}
         on conflict (credential_id) do nothing`,
    [
      passkey.accountId,
      Buffer.from(passkey.credentialId, 'base64url'),
      passkey.publicKey,
      passkey.signCount,
      passkey.transports,
      passkey.name,
      passkey.canSignIn,
    ],
  )
  if (rowCount !== 1) return false
  await insertEvent(tx, by, {
    action: 'second-factor-added',
    accountId: passkey.accountId,
    details: { kind: 'passkey', name: passkey.name },
  })
  return true
}

/**
 * Stores a use of a passkey. False when its counter did not grow: then the passkey was copied, or an older response is
 * replayed. A passkey without a counter always sends 0. With `isAlone`, it has just replaced the password, so it can.
 */
export async function notePasskeyUse(
  db: Queryable,
  id: string,
  signCount: number,
  isAlone: boolean,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update passkey set sign_count = $2, last_used_at = now(), can_sign_in = case when $3 then true else can_sign_in end
      where id = $1 and (sign_count < $2 or (sign_count = 0 and $2 = 0))`,
    [id, signCount, isAlone],
  )
  return rowCount === 1
}

/**
 * Removes a passkey of an account, unless it is the last factor and one is required, and writes the event. False when it
 * was not removed. `siteRequiresIt` is null for an operator, who may also remove a required factor.
 */
export async function deletePasskey(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  id: string,
  siteRequiresIt: boolean | null,
): Promise<boolean> {
  const { rows } = await tx.query<{ name: string }>(
    `delete from passkey
      where account_id = $1 and id = $2 and ($3::boolean is null or may_lose_second_factor($1, $3))
  returning name`,
    [accountId, id, siteRequiresIt],
  )
  await noteRemoved(tx, by, accountId, rows)
  return rows.length === 1
}

/** Removes all passkeys of an account, and writes the events. Returns how many there were. */
export async function deleteAllPasskeys(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
): Promise<number> {
  const { rows } = await tx.query<{ name: string }>(
    'delete from passkey where account_id = $1 returning name',
    [accountId],
  )
  await noteRemoved(tx, by, accountId, rows)
  return rows.length
}

async function noteRemoved(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  removed: readonly { name: string }[],
): Promise<void> {
  const events = removed.map(({ name }) => ({
    action: 'second-factor-removed' as const,
    accountId,
    details: { kind: 'passkey', name },
  }))
  await insertEvents(tx, by, events)
}
