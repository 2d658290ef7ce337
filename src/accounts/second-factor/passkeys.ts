import type pg from 'pg'
import { type Queryable, surplusOf, sweepOf } from '../../database/database.ts'
import { hashSecret } from '../../domain/secrets.ts'

/** How many passkeys an account may have. */
export const maxPasskeys = 20
/** How long a person may take to unlock a passkey. */
const challengeSeconds = 300
/**
 * The maximum number of stored challenges that anyone in a network can request, and of each account in a network. They
 * do not compete: a neighbor without the password cannot remove the challenge of a second step.
 */
const maxChallengesPerNetwork = 100
const maxChallengesPerAccount = 20

/** A passkey, for its owner. */
export interface Passkey {
  id: string
  name: string
  createdAt: Date
  lastUsedAt: Date | null
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

/** Adds a passkey. False when it is registered already, or the account has the maximum. */
export async function insertPasskey(
  tx: pg.PoolClient,
  passkey: Pick<
    StoredPasskey,
    'accountId' | 'credentialId' | 'publicKey' | 'signCount' | 'transports' | 'name'
  >,
): Promise<boolean> {
  // Lock the account: two registrations at once would pass the maximum.
  await tx.query('select from account where id = $1 for no key update', [passkey.accountId])
  const { rowCount } = await tx.query(
    `insert into passkey (account_id, credential_id, public_key, sign_count, transports, name)
     select $1, $2, $3, $4, $5, $6
      where (select count(*) from passkey where account_id = $1) < ${maxPasskeys}
         on conflict (credential_id) do nothing`,
    [
      passkey.accountId,
      Buffer.from(passkey.credentialId, 'base64url'),
      passkey.publicKey,
      passkey.signCount,
      passkey.transports,
      passkey.name,
    ],
  )
  return rowCount === 1
}

/**
 * Stores a use of a passkey. False when its counter did not grow: then the passkey was copied, or an older response is
 * replayed. A passkey without a counter always sends 0.
 */
export async function notePasskeyUse(db: Queryable, id: string, signCount: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update passkey set sign_count = $2, last_used_at = now()
      where id = $1 and (sign_count < $2 or (sign_count = 0 and $2 = 0))`,
    [id, signCount],
  )
  return rowCount === 1
}

/**
 * Removes a passkey of an account, unless it is the last factor and one is required. False when it was not removed.
 * `siteRequiresIt` is null for an operator, who may also remove a required factor.
 */
export async function deletePasskey(
  tx: pg.PoolClient,
  accountId: string,
  id: string,
  siteRequiresIt: boolean | null,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `delete from passkey
      where account_id = $1 and id = $2 and ($3::boolean is null or may_lose_second_factor($1, $3))`,
    [accountId, id, siteRequiresIt],
  )
  return rowCount === 1
}

/** Removes all passkeys of an account, and returns how many there were. */
export async function deleteAllPasskeys(db: Queryable, accountId: string): Promise<number> {
  const { rowCount } = await db.query('delete from passkey where account_id = $1', [accountId])
  return rowCount ?? 0
}

/** The purpose of a challenge, and its owner. */
export interface ChallengeOwner {
  /** The cookie of the browser that must present it. */
  browser: string
  /** Null in a sign-in without a password, where the account is not known yet. */
  accountId: string | null
  purpose: 'register' | 'second-step' | 'sign-in' | 'confirm'
}

/** Stores a challenge, in base64url, for five minutes. */
export async function insertChallenge(
  db: Queryable,
  challenge: string,
  { browser, accountId, purpose }: ChallengeOwner,
  network: string,
): Promise<void> {
  const [owner, kept] =
    accountId === null
      ? ['network = $5 and account_id is null', maxChallengesPerNetwork - 1]
      : ['network = $5 and account_id = $3', maxChallengesPerAccount - 1]
  await db.query(
    `with ${surplusOf('passkey_challenge', 'challenge_hash', owner, kept)}
     insert into passkey_challenge (challenge_hash, browser_hash, account_id, purpose, network, expires_at)
     values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))`,
    [hashSecret(challenge), hashSecret(browser), accountId, purpose, network, challengeSeconds],
  )
}

/** Uses up a challenge. False when it is unknown, used, expired, or belongs to another owner. */
export async function spendChallenge(
  db: Queryable,
  challenge: string,
  { browser, accountId, purpose }: ChallengeOwner,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `delete from passkey_challenge
      where challenge_hash = $1 and browser_hash = $2 and account_id is not distinct from $3::bigint
        and purpose = $4 and expires_at > now()`,
    [hashSecret(challenge), hashSecret(browser), accountId, purpose],
  )
  return rowCount === 1
}

/** Deletes at most `limit` expired challenges. Returns how many it deleted. */
export const deleteExpiredChallenges = sweepOf('passkey_challenge', 'challenge_hash')
