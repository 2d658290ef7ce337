import type { Queryable } from '../../src/database/database.ts'

/** Lets the sign-ins and last proofs of identity of all sessions be this long ago, also those with a second factor. */
export async function setProofAges(db: Queryable, ago: string): Promise<void> {
  await db.query(
    `update session set created_at = least(created_at, now() - $1::interval), proved_at = now() - $1::interval,
                        factor_proved_at = now() - $1::interval, recovered_at = now() - $1::interval`,
    [ago],
  )
}

/** Counts the sessions of an account whose last proof of identity was less than a minute ago. */
export async function countRecentProofs(db: Queryable, account: { id: string }): Promise<number> {
  const { rows } = await db.query(
    `select from session where account_id = $1 and proved_at > now() - interval '1 minute'`,
    [account.id],
  )
  return rows.length
}

/** Sends a link to confirm access to all sessions of an account. */
export async function aConfirmationLink(
  db: Queryable,
  account: { id: string },
  token: string,
): Promise<void> {
  await db.query(
    `insert into confirmation_link (session_hash, token_hash, return_id, expires_at)
     select id_hash, sha256(convert_to($2, 'UTF8')), '', now() + interval '1 minute' from session where account_id = $1`,
    [account.id, token],
  )
}

/** A passkey, as it is stored. */
export interface StoredPasskey {
  id: string
  signCount: number
  lastUsedAt: Date | null
  /** Null: an earlier release did not ask. */
  canSignIn: boolean | null
}

/** Lists the passkeys of an account. */
export async function listStoredPasskeys(db: Queryable, account: { id: string }): Promise<StoredPasskey[]> {
  const { rows } = await db.query<StoredPasskey>(
    `select id, sign_count::int as "signCount", last_used_at as "lastUsedAt", can_sign_in as "canSignIn"
       from passkey where account_id = $1 order by id`,
    [account.id],
  )
  return rows
}

/** Sets how often the passkeys of an account were used, as their devices count it. */
export async function setSignCount(db: Queryable, account: { id: string }, count: number): Promise<void> {
  await db.query('update passkey set sign_count = $2 where account_id = $1', [account.id, count])
}

/** Gives an account a confirmed app, whose secret nobody can read. */
export async function aStoredFactor(db: Queryable, account: { id: string }): Promise<void> {
  await db.query(
    `insert into totp_factor (account_id, key_id, sealed_secret, confirmed_at) values ($1, $2, $3, now())`,
    [account.id, Buffer.alloc(8), Buffer.alloc(48)],
  )
}

/** Changes the name that the pages show for an account. */
export async function setDisplayName(db: Queryable, account: { id: string }, name: string): Promise<void> {
  await db.query('update account set display_name = $2 where id = $1', [account.id, name])
}
