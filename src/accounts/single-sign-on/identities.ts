import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { insertEvent } from '../../events/events.ts'
import type { ProvenPerson } from './person.ts'

/** A person at a provider, linked to an account. */
export interface Identity {
  issuer: string
  subject: string
  /** The provider's name when the identity was last used. */
  provider: string
  /** The email that the provider sent at the last sign-in. */
  email: string | null
  linkedAt: Date
  lastUsedAt: Date | null
}

/** An account that may belong to a person who signs in. */
export interface FoundAccount {
  id: string
  username: string
  isDisabled: boolean
  /** Whether it has the person's email, and verified it here too. Anybody can enter the email of somebody else. */
  hasEmail: boolean
}

/**
 * Finds the account of a person, the one that the provider's directory has created for them and that nobody is linked with,
 * and the account that may be theirs: it has their verified email, or their name. One statement finds all. Otherwise an account that another request just created for this person could be mistaken for
 * somebody else's. An account with another identity of the issuer belongs to another person.
 */
export async function findAccountsOfPerson(
  db: Queryable,
  { issuer, subject, objectId, email, isEmailVerified, username }: ProvenPerson,
): Promise<{ linked: FoundAccount | null; provisioned: FoundAccount | null; similar: FoundAccount | null }> {
  const hasEmail = 'coalesce(lower(a.email) = lower($3) and a.email_verified_at is not null, false)'
  const account = `json_build_object('id', a.id::text, 'username', a.username, 'isDisabled', a.disabled_at is not null,
                                     'hasEmail', ${hasEmail})`
  const isFree = 'not exists (select from account_identity i where i.account_id = a.id and i.issuer = $1)'
  const { rows } = await db.query<{
    linked: FoundAccount | null
    provisioned: FoundAccount | null
    similar: FoundAccount | null
  }>(
    `select (select ${account} from account_identity i join account a on a.id = i.account_id
              where i.issuer = $1 and i.subject = $2) as linked,
            (select ${account} from directory_user d join account a on a.id = d.account_id
              where d.issuer = $1 and d.removed_at is null and not a.is_admin and ${isFree}
                and (d.external_id in ($2, $5) or lower(d.user_name) = lower($3) or ${hasEmail})
              order by d.external_id in ($2, $5) desc nulls last, lower(d.user_name) = lower($3) desc nulls last
              limit 1) as provisioned,
            (select ${account} from account a
              where (a.username = $4 or lower(a.email) = lower($3)) and ${isFree}
              order by ${hasEmail} desc, a.disabled_at is null desc, lower(a.email) = lower($3) desc nulls last
              limit 1) as similar`,
    [issuer, subject, isEmailVerified ? email : null, username, objectId],
  )
  return rows[0] ?? { linked: null, provisioned: null, similar: null }
}

/**
 * Creates an account without a password, and writes the event. Its email counts as verified if the provider says so. Throws with the broken rule, such as `username_is_taken`, `username_is_reserved` or `email_is_taken`.
 */
export async function insertAccountOfPerson(
  tx: pg.PoolClient,
  by: Principal,
  person: { username: string; displayName: string; email: string | null; isEmailVerified: boolean },
): Promise<string> {
  const { username, displayName, email, isEmailVerified } = person
  const { rows } = await tx.query<{ id: string }>(
    `insert into account (username, display_name, email, email_verified_at)
     values ($1, $2, $3, case when $3::text is not null and $4 then now() end)
     returning id`,
    [username, displayName, email, isEmailVerified],
  )
  const { id } = rows[0] as { id: string }
  await insertEvent(tx, by, { action: 'account-created', accountId: id, details: { username } })
  return id
}

/** The account that gets an identity, and the hash of the password that the person has just sent, if they sent one. */
export interface IdentityOwner {
  accountId: string
  passwordHash: string | null
}

/**
 * Links a person to an account, and writes the event. False when the password was changed after its check, or the account
 * was disabled. Throws with `identity_is_linked` when the person is linked already, and with
 * `account_has_an_identity_of_the_issuer` when the account has another identity there.
 */
export async function insertIdentity(
  tx: pg.PoolClient,
  by: Principal,
  { accountId, passwordHash }: IdentityOwner,
  provider: string,
  { issuer, subject, email }: ProvenPerson,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    // The lock waits for a running change of the password.
    `with owner as (select id from account
                     where id = $3 and disabled_at is null and ($6::text is null or password_hash = $6) for share)
     insert into account_identity (issuer, subject, account_id, provider, email)
     select $1, $2, id, $4, $5 from owner`,
    [issuer, subject, accountId, provider, email, passwordHash],
  )
  if (rowCount !== 1) return false
  await insertEvent(tx, by, { action: 'identity-linked', accountId, details: { provider } })
  return true
}

/**
 * Stores that an identity was used, with the provider's current email and name. The account keeps its own. Returns whether the
 * directory of the provider manages the account.
 */
export async function noteIdentityUse(
  db: Queryable,
  provider: string,
  { issuer, subject, email }: ProvenPerson,
): Promise<boolean> {
  const { rows } = await db.query<{ isProvisioned: boolean }>(
    `update account_identity i set last_used_at = now(), provider = $3, email = $4
      where issuer = $1 and subject = $2
  returning exists (select from directory_user d
                     where d.account_id = i.account_id and d.issuer = i.issuer and d.removed_at is null) as "isProvisioned"`,
    [issuer, subject, provider, email],
  )
  return rows[0]?.isProvisioned === true
}

/** Lists the identities of an account. */
export async function listIdentities(db: Queryable, accountId: string): Promise<Identity[]> {
  const { rows } = await db.query<Identity>(
    `select issuer, subject, provider, email, linked_at as "linkedAt", last_used_at as "lastUsedAt"
       from account_identity
      where account_id = $1
      order by provider, issuer`,
    [accountId],
  )
  return rows
}

/** The ways in which the person of an account can confirm a sensitive action. */
export interface ConfirmationWays {
  hasPassword: boolean
  /** The issuers of its identities. */
  issuers: string[]
}

/** Returns whether an account has a password, and the issuers of its identities. */
export async function findConfirmationWays(db: Queryable, accountId: string): Promise<ConfirmationWays> {
  const { rows } = await db.query<ConfirmationWays>(
    `select password_hash is not null as "hasPassword",
            array(select issuer from account_identity where account_id = $1) as issuers
       from account where id = $1`,
    [accountId],
  )
  return rows[0] ?? { hasPassword: true, issuers: [] }
}

/** Removes an account's identity of an issuer, and writes the event. False when there was none. */
export async function deleteIdentity(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  issuer: string,
): Promise<boolean> {
  const { rows } = await tx.query<{ provider: string }>(
    'delete from account_identity where account_id = $1 and issuer = $2 returning provider',
    [accountId, issuer],
  )
  for (const details of rows) {
    await insertEvent(tx, by, { action: 'identity-unlinked', accountId, details: { ...details } })
  }
  return rows.length === 1
}
