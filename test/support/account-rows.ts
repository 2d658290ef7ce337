import { randomBytes } from 'node:crypto'
import { verifyEmail as storeVerifiedEmail } from '../../src/accounts/accounts.ts'
import type { Queryable } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'

type Id = { id: string }

/** What the database has about an account. */
export interface StoredAccount {
  id: string
  username: string
  displayName: string
  email: string | null
  emailVerifiedAt: Date | null
  isAdmin: boolean
  isDisabled: boolean
  passwordHash: string | null
}

/** Finds an account by its id, username or email. */
export async function storedAccount(
  db: Queryable,
  { id, username, email }: { id?: string; username?: string | null; email?: string },
): Promise<StoredAccount | undefined> {
  const { rows } = await db.query<StoredAccount>(
    `select id, username, display_name as "displayName", email, email_verified_at as "emailVerifiedAt",
            is_admin as "isAdmin", disabled_at is not null as "isDisabled", password_hash as "passwordHash"
       from account where id = $1 or username = $2 or email = $3`,
    [id ?? null, username ?? null, email ?? null],
  )
  if (rows.length > 1) throw new Error(`more than one account: ${rows.map((row) => row.username).join()}`)
  return rows[0]
}

/** Lists the usernames of all accounts. */
export async function listUsernames(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ username: string }>('select username from account order by id')
  return rows.map(({ username }) => username)
}

/** Marks the email of an account as verified, as its link would. */
export async function verifyEmail(db: Queryable, { id }: Id): Promise<void> {
  const email = (await storedAccount(db, { id }))?.email
  if (email) await storeVerifiedEmail(db, operator, id, email)
}

/** Marks the email of an account as not verified. */
export async function unverifyEmail(db: Queryable, { id }: Id): Promise<void> {
  await db.query('update account set email_verified_at = null where id = $1', [id])
}

/** Makes an account a site administrator, or takes that role away, without the checks of the product. */
export async function setAdministrator(db: Queryable, { id }: Id, isAdmin: boolean): Promise<void> {
  await db.query('update account set is_admin = $2 where id = $1', [id, isAdmin])
}

/** Leaves the site without administrators. */
export async function removeAdministrators(db: Queryable): Promise<void> {
  await db.query('update account set is_admin = false')
}

/** Counts the site administrators who can sign in. */
export async function countAdministrators(db: Queryable): Promise<number> {
  return (await db.query('select from account where is_admin and disabled_at is null')).rowCount ?? 0
}

/** Takes the password of an account away, as of people who sign in at a provider. */
export async function removePassword(db: Queryable, { id }: Id): Promise<void> {
  await db.query('update account set password_hash = null where id = $1', [id])
}

/** Lets the last proof of identity in the sessions of an account be this long ago. */
export async function setProofAge(db: Queryable, { id }: Id, ago: string): Promise<void> {
  await db.query('update session set proved_at = now() - $2::interval where account_id = $1', [id, ago])
}

/** Lets the last request of the sessions of an account be this long ago. */
export async function ageSessions(db: Queryable, { id }: Id, ago: string): Promise<void> {
  await db.query('update session set last_seen_at = now() - $2::interval where account_id = $1', [id, ago])
}

/** Lets the last request of a session be this long ago. */
export async function ageSession(db: Queryable, session: string, ago: string): Promise<void> {
  const aging = 'update session set last_seen_at = now() - $2::interval where id_hash = $1'
  await db.query(aging, [hashSecret(session), ago])
}

/** What the database has about a session. */
export interface StoredSession {
  /** The hash of its id. */
  idHash: Buffer
  /** How it is named in a form. */
  key: string
  network: string
  lastNetwork: string | null
  /** The seconds since its last request. */
  age: number
}

/** Lists the sessions of an account. */
export async function listStoredSessions(db: Queryable, { id }: Id): Promise<StoredSession[]> {
  const { rows } = await db.query<StoredSession>(
    `select id_hash as "idHash", encode(id_hash, 'hex') as key, network, last_network as "lastNetwork",
            extract(epoch from now() - last_seen_at)::float8 as age
       from session where account_id = $1 order by created_at, id_hash`,
    [id],
  )
  return rows
}

/** Changes the browser and the network of the newest session of an account. */
export async function moveNewestSession(
  db: Queryable,
  { id }: Id,
  { userAgent, network }: { userAgent: string; network: string },
): Promise<void> {
  await db.query(
    `update session set user_agent = $2, last_network = $3
      where account_id = $1 and created_at = (select max(created_at) from session where account_id = $1)`,
    [id, userAgent, network],
  )
}

/** Lets all failed attempts be forgotten. */
export async function forgetFailures(db: Queryable): Promise<void> {
  await db.query('delete from auth_failure')
}

/** Lets each counter of failed attempts be at this number. */
export async function setFailures(db: Queryable, failures: number): Promise<void> {
  await db.query('update auth_failure set failures = $1', [failures])
}

/** Lets the time of all counters of failed attempts pass, or of all but those at a number. */
export async function endFailureWindows(db: Queryable, { except }: { except?: number } = {}): Promise<void> {
  await db.query(
    `update auth_failure set window_ends_at = now() - interval '1 second' where failures is distinct from $1`,
    [except ?? null],
  )
}

/** Counts the counters with more than this number of failed attempts. */
export async function countFailuresAbove(db: Queryable, failures: number): Promise<number> {
  return (await db.query('select from auth_failure where failures > $1', [failures])).rowCount ?? 0
}

/** Lets the account be known from this many other browsers and networks, each a minute longer ago. */
export async function addSignInOrigins(db: Queryable, { id }: Id, count: number): Promise<void> {
  await db.query(
    `insert into sign_in_origin (account_id, origin_hash, last_used_at)
     select $1, sha256(i::text::bytea), now() - make_interval(mins => i) from generate_series(1, $2::int) as i`,
    [id, count],
  )
}

/** Lets an account be known from a browser. */
export async function addKnownBrowser(db: Queryable, { id }: Id, browser: string): Promise<void> {
  await db.query('insert into sign_in_origin (account_id, origin_hash) values ($1, $2)', [
    id,
    hashSecret(browser),
  ])
}

/** Tells whether an account is known from a browser. */
export async function knowsBrowser(db: Queryable, { id }: Id, browser: string): Promise<boolean> {
  const finding = 'select from sign_in_origin where account_id = $1 and origin_hash = $2'
  return (await db.query(finding, [id, hashSecret(browser)])).rowCount === 1
}

/** Returns the number of known browsers and networks of an account, and the minutes since the oldest was used. */
export async function describeSignInOrigins(
  db: Queryable,
  { id }: Id,
): Promise<{ count: number; oldestMinutes: number }> {
  const { rows } = await db.query<{ count: number; oldestMinutes: number }>(
    `select count(*)::int as count, (extract(epoch from now() - min(last_used_at)) / 60)::float8 as "oldestMinutes"
       from sign_in_origin where account_id = $1`,
    [id],
  )
  return rows[0] as { count: number; oldestMinutes: number }
}

/** Stores a passkey without a device: enough to be counted and removed. Returns its id. */
export async function aStoredPasskey(
  db: Queryable,
  { id }: Id,
  { name = 'Laptop', canSignIn = null as boolean | null } = {},
): Promise<string> {
  const { rows } = await db.query<Id>(
    `insert into passkey (account_id, credential_id, public_key, name, can_sign_in)
     values ($1, $2, $2, $3, $4) returning id`,
    [id, randomBytes(32), name, canSignIn],
  )
  return (rows[0] as Id).id
}

/** Stores that it is not known whether a passkey can sign in. */
export async function forgetPasskeyKind(db: Queryable, passkey: string): Promise<void> {
  await db.query('update passkey set can_sign_in = null where id = $1', [passkey])
}

/** Tells whether the database counts a confirmed second factor of the account. */
export async function hasSecondFactor(db: Queryable, { id }: Id): Promise<boolean> {
  const { rows } = await db.query<{ has: boolean }>('select has_second_factor($1) as has', [id])
  return rows[0]?.has ?? false
}

/** Returns the encrypted secret of an account's app. */
export async function sealedSecretOf(db: Queryable, { id }: Id): Promise<Buffer> {
  const { rows } = await db.query<{ secret: Buffer }>(
    'select sealed_secret as secret from totp_factor where account_id = $1',
    [id],
  )
  return rows[0]?.secret ?? Buffer.alloc(0)
}

/** Lets the secret of an account's app be encrypted with a key that no server has. */
export async function loseKeyOfFactor(db: Queryable, { id }: Id): Promise<void> {
  await db.query(`update totp_factor set key_id = '\\x0102030405060708' where account_id = $1`, [id])
}

/** Copies the encrypted secret of an app to another account. */
export async function copyFactor(db: Queryable, from: Id, to: Id): Promise<void> {
  await db.query(
    `update totp_factor f set sealed_secret = o.sealed_secret from totp_factor o
      where f.account_id = $1 and o.account_id = $2`,
    [to.id, from.id],
  )
}

/** Starts a sign-in of the account that waits for the second factor. */
export async function aSignInStep(db: Queryable, { id }: Id): Promise<void> {
  await db.query(
    `insert into sign_in_step (id_hash, account_id, credential_hash, expires_at)
     select $2, id, sha256(convert_to(password_hash, 'UTF8')), now() + interval '5 minutes'
       from account where id = $1`,
    [id, randomBytes(32)],
  )
}

/** Lets this many sign-ins at a provider have begun in a network. */
export async function addProviderSignIns(
  db: Queryable,
  provider: string,
  network: string,
  count: number,
): Promise<void> {
  await db.query(
    `insert into provider_sign_in
            (state_hash, browser_hash, provider, nonce, code_verifier, return_id, network, expires_at)
     select sha256(n::text::bytea), sha256('x'), $1, 'n', 'v', '', $2, now() + interval '5 minutes'
       from generate_series(1, $3::int) n`,
    [provider, network, count],
  )
}

/** Returns the minutes until the proofs of a person at a provider expire, the first of them. */
export async function minutesOfProof(db: Queryable, subject: string): Promise<number> {
  const { rows } = await db.query<{ minutes: number }>(
    `select (extract(epoch from min(expires_at) - now()) / 60)::float8 as minutes
       from proven_identity where person ->> 'subject' = $1`,
    [subject],
  )
  return rows[0]?.minutes ?? Number.NaN
}

/** Lets the proofs of all people at providers expire after this time. */
export async function shortenProofs(db: Queryable, after: string): Promise<void> {
  await db.query('update proven_identity set expires_at = now() + $1::interval', [after])
}

/** Returns the email that a provider told about a person. */
export async function emailAtProvider(db: Queryable, subject: string): Promise<string | null | undefined> {
  const { rows } = await db.query<{ email: string | null }>(
    'select email from account_identity where subject = $1',
    [subject],
  )
  return rows[0]?.email
}

/** Links an account to a person at a provider. */
export async function anIdentity(
  db: Queryable,
  { id }: Id,
  {
    issuer,
    subject,
    provider,
    email = null,
  }: { issuer: string; subject: string; provider: string; email?: string | null },
): Promise<void> {
  await db.query(
    'insert into account_identity (account_id, issuer, subject, provider, email) values ($1, $2, $3, $4, $5)',
    [id, issuer, subject, provider, email],
  )
}

/** Lets the known browsers and networks of an account have been used last at a time. */
export async function dateSignInOrigins(db: Queryable, { id }: Id, lastUsedAt: Date): Promise<void> {
  await db.query('update sign_in_origin set last_used_at = $2 where account_id = $1', [id, lastUsedAt])
}
