import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Principal } from '../domain/principal.ts'
import { insertEvent, insertEvents, type NewEvent } from '../events/events.ts'
import { revokeAdminTokens } from './personal-tokens.ts'
import { isRunning } from './sessions.ts'

/** A person who signs in, without secrets (CONTRACT 1.1). */
export interface Account {
  id: string
  username: string
  displayName: string
  email: string | null
  isAdmin: boolean
}

export interface NewAccount {
  username: string
  displayName: string
  email: string | null
  isAdmin: boolean
  /** argon2id, from `hashPassword`. */
  passwordHash: string
}

/**
 * Adds an account, writes the event, and returns its id. Throws the database's error when the username or email is
 * taken or malformed.
 */
export async function insertAccount(db: Queryable, by: Principal, account: NewAccount): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into account (username, display_name, email, is_admin, password_hash)
     select $1, $2, $3, $4::boolean, $5
      where refuse_malformed_account(the_username => $1, the_display_name => $2, the_email => $3)
     returning id`,
    [account.username, account.displayName, account.email, account.isAdmin, account.passwordHash],
  )
  const { id } = rows[0] as { id: string }
  const details = { username: account.username }
  await insertEvent(db, by, { action: 'account-created', accountId: id, details })
  return id
}

/** Finds an account by username, disabled or not. Null when there is none. */
export async function findAccountByUsername(db: Queryable, username: string): Promise<Account | null> {
  const { rows } = await db.query<Account>(
    `select id, username, display_name as "displayName", email, is_admin as "isAdmin"
       from account
      where username = $1`,
    [username],
  )
  return rows[0] ?? null
}

/** Returns whether an account is a site administrator. */
export async function isAdministrator(db: Queryable, accountId: string): Promise<boolean> {
  const { rows } = await db.query<{ isAdmin: boolean }>(
    'select is_admin as "isAdmin" from account where id = $1',
    [accountId],
  )
  return rows[0]?.isAdmin === true
}

/** Returns whether the database has no accounts, as a new one. */
export async function hasNoAccounts(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isEmpty: boolean }>(
    `select not exists (select from account) as "isEmpty"`,
  )
  return rows[0]?.isEmpty === true
}

/** The account and hash that a password is checked against. */
export interface Credentials {
  accountId: string
  /** Null for an account without a password. */
  passwordHash: string | null
}

/**
 * Returns the form of a username or email by which accounts are found and attempts are counted. If a lookup used another
 * one, such as PostgreSQL's `lower`, a spelling could reach an account under a counter of its own.
 */
export function normalizeLogin(login: string): string {
  // Letter by letter, like PostgreSQL: the lower case of a whole text depends on the order of its letters.
  return login.trim().replace(/./gsu, (letter) => letter.toLowerCase())
}

/** SQL: the condition that an account has the username or email $1, which `normalizeLogin` returned. */
export const hasLogin = '(username = $1 or lower(email) = $1)'

/**
 * SQL: the order of the accounts with a login. Of several accounts that entered an email, the one that verified it has it, or
 * else the first one.
 */
export const likeliestFirst = 'order by disabled_at is not null, email_verified_at is null, email_since, id'

/**
 * Finds credentials by username or email. Null when there is no such account or it is disabled.
 */
export async function findCredentials(
  db: Queryable,
  login: string,
): Promise<(Credentials & { isAdmin: boolean }) | null> {
  const { rows } = await db.query<Credentials & { isAdmin: boolean }>({
    name: 'find-credentials',
    text: `select id as "accountId", password_hash as "passwordHash", is_admin as "isAdmin"
             from account
            where disabled_at is null and ${hasLogin}
            ${likeliestFirst}
            limit 1`,
    values: [normalizeLogin(login)],
  })
  return rows[0] ?? null
}

/** Lists the names under which a person signs in to an account: its username and email. */
export async function listLogins(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.query<{ login: string }>(
    `select login from account, unnest(array[username, email]) as login where id = $1 and login is not null`,
    [accountId],
  )
  return rows.map(({ login }) => login)
}

/** Finds the credentials of a signed-in account. Null when it was disabled. */
export async function findCredentialsById(db: Queryable, accountId: string): Promise<Credentials | null> {
  const { rows } = await db.query<Credentials>(
    `select id as "accountId", password_hash as "passwordHash"
       from account
      where id = $1 and disabled_at is null`,
    [accountId],
  )
  return rows[0] ?? null
}

/** Replaces the hash of the checked password, and writes the event. False when the password was changed in the meantime. */
export async function replacePasswordHash(
  db: Queryable,
  by: Principal,
  { accountId, passwordHash }: Credentials,
  newHash: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update account set password_hash = $3 where id = $1 and password_hash = $2`,
    [accountId, passwordHash, newHash],
  )
  if (rowCount !== 1) return false
  await insertEvent(db, by, { action: 'password-changed', accountId })
  return true
}

/** Stores a new hash of the same password, without an identity event. False when the password was changed. */
export async function renewHash(
  db: Queryable,
  { accountId, passwordHash }: Credentials,
  newHash: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    'update account set password_hash = $3 where id = $1 and password_hash = $2',
    [accountId, passwordHash, newHash],
  )
  return rowCount === 1
}

/** Sets an account's password without checking the old one, and writes the event. For operators and administrators. */
export async function setPasswordHash(
  db: Queryable,
  by: Principal,
  accountId: string,
  newHash: string,
): Promise<void> {
  const { rowCount } = await db.query('update account set password_hash = $2 where id = $1', [
    accountId,
    newHash,
  ])
  if (rowCount === 1) await insertEvent(db, by, { action: 'password-changed', accountId })
}

/** An account as administrators see it. */
export interface AccountDetails extends Account {
  createdAt: Date
  /** When its email was verified; null when it was not. */
  emailVerifiedAt: Date | null
  /** Null while it is enabled. */
  disabledAt: Date | null
  /** When one of its sessions was last used; null when it has none. */
  lastSeenAt: Date | null
  /** When somebody last signed in to it; null when no sign-in is known. */
  lastSignInAt: Date | null
  /** The number of its sessions that have not ended. */
  sessions: number
  tokens: number
  groups: string[]
}

/** What a list of accounts can be limited to. A disabled account is only `disabled`. */
export const accountStates = ['without-second-factor', 'administrator', 'disabled'] as const
export type AccountState = (typeof accountStates)[number]

const conditionOfState: Record<AccountState, string> = {
  'without-second-factor':
    'a.disabled_at is null and not exists (select from second_factor f where f.account_id = a.id)',
  administrator: 'a.disabled_at is null and a.is_admin',
  disabled: 'a.disabled_at is not null',
}

/** Which accounts are listed. Missing and null members do not limit the list. */
export interface AccountFilter {
  /** Only accounts whose username, name or email contains this text. */
  search?: string | undefined
  state?: AccountState | null | undefined
}

/** Lists the accounts by username; `after` is a username. */
export async function listAccounts(
  db: Queryable,
  { after, limit }: ListPart,
  { search = '', state = null }: AccountFilter = {},
): Promise<AccountDetails[]> {
  const condition = `a.username > $1 and ($3 = '' or strpos(a.username, lower($3)) > 0
        or strpos(lower(a.display_name), lower($3)) > 0 or strpos(lower(a.email), lower($3)) > 0)
        and ${state === null ? 'true' : conditionOfState[state]}
      order by a.username limit $2`
  return selectDetails(db, condition, [after ?? '', limit, search])
}

/** Lists the usernames of enabled site administrators, for people who need access. */
export async function listSiteAdministrators(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ username: string }>(
    'select username from account where is_admin and disabled_at is null order by id limit $1',
    [limit],
  )
  return rows.map(({ username }) => username)
}

/** How many accounts there are, and how many of them are in each state. */
export type AccountCounts = Record<'all' | AccountState, number>

/** Counts the accounts. */
export async function countAccounts(db: Queryable): Promise<AccountCounts> {
  const { rows } = await db.query<AccountCounts>(
    `select count(*)::int as all, ${accountStates.map((state) => `(count(*) filter (where ${conditionOfState[state]}))::int as "${state}"`).join(', ')}
       from account a`,
  )
  return rows[0] as AccountCounts
}

/** Finds an account with its details. Null when there is none. */
export async function findAccountDetails(db: Queryable, username: string): Promise<AccountDetails | null> {
  return (await selectDetails(db, 'a.username = $1', [username]))[0] ?? null
}

/** Returns an account for the administration by its id. Null when it was deleted. */
export async function findAccountDetailsById(db: Queryable, id: string): Promise<AccountDetails | null> {
  return (await selectDetails(db, 'a.id = $1', [id]))[0] ?? null
}

async function selectDetails(db: Queryable, condition: string, values: unknown[]): Promise<AccountDetails[]> {
  const { rows } = await db.query<AccountDetails>(
    // A new password deletes the origins of earlier sign-ins.
    `select a.id, a.username, a.display_name as "displayName", a.email, a.is_admin as "isAdmin",
            a.email_verified_at as "emailVerifiedAt", a.created_at as "createdAt", a.disabled_at as "disabledAt",
            s.seen as "lastSeenAt", s.sessions,
            coalesce((select max(last_used_at) from sign_in_origin where account_id = a.id), s.started)
              as "lastSignInAt",
            (select count(*)::int from personal_token t
              where t.account_id = a.id and t.revoked_at is null and t.expires_at > now()) as tokens,
            array(select g.name from group_member m join repository_group g on g.id = m.group_id
                   where m.account_id = a.id order by 1 limit 1000) as groups
       from account a
       cross join lateral (select max(last_seen_at) as seen, max(created_at) as started, 
                                  count(*) filter (where ${isRunning})::int as sessions
                             from session where account_id = a.id and expires_at > now()) s
      where ${condition}`,
    values,
  )
  return rows
}

/** The changes of an account. Missing members stay as they are. */
export interface AccountChanges {
  username?: string
  displayName?: string
  /** Null removes it. */
  email?: string | null
  isAdmin?: boolean
}

/**
 * Removes an email from the accounts that have not verified it, for a person who has proved to own the email. Writes the
 * events. `ownerId` is the account of this person, if there is one already.
 */
export async function removeUnverifiedEmail(
  tx: pg.PoolClient,
  by: Principal,
  email: string,
  ownerId: string | null = null,
): Promise<void> {
  // Locks in one order: otherwise two owners, who release the email of each other, would wait for each other.
  await tx.query(
    `select from account where lower(email) = lower($1) and email_verified_at is null
      order by id for no key update`,
    [email],
  )
  const { rows } = await tx.query<{ id: string; email: string }>(
    `update account a set email = null
       from account former
      where former.id = a.id and lower(a.email) = lower($1) and a.email_verified_at is null
        and a.id is distinct from $2
  returning a.id, former.email`,
    [email, ownerId],
  )
  const events = rows.map(({ id, email: from }) => ({
    action: 'email-changed' as const,
    accountId: id,
    details: { from, to: null, from_was_verified: false },
  }))
  await insertEvents(tx, by, events)
}

/** Ends the reservation of a former username, so that another account can get it. */
export async function freeUsername(tx: pg.PoolClient, username: string): Promise<void> {
  await tx.query('delete from reserved_username where username = $1', [username])
}

/**
 * Changes an account, and writes the events. Its last ten former usernames are reserved for 90 days. Throws with the rule
 * that a value breaks, such as `username_is_taken` or `email_is_taken`. With the role of a site administrator, its admin
 * tokens end.
 */
export async function changeAccount(
  db: Queryable,
  by: Principal,
  id: string,
  changes: AccountChanges,
): Promise<void> {
  const { username, displayName, email, isAdmin } = changes
  await noteChanges(db, by, id, async (before) => {
    if (isAdmin !== undefined && isAdmin !== before.isAdmin) await revokeAdminTokens(db, by, id)
    await db.query(
      `update account
          set username = coalesce($2, username), display_name = coalesce($3, display_name),
              email = case when $4 then $5 else email end, is_admin = coalesce($6, is_admin)
        where id = $1 and refuse_malformed_account(the_username => $2, the_display_name => $3, the_email => $5)`,
      [id, username, displayName, email !== undefined, email, isAdmin],
    )
  })
}

/** Disables or enables an account, and writes the event. Disabling it twice keeps the first time. */
export async function setDisabled(
  db: Queryable,
  by: Principal,
  id: string,
  isDisabled: boolean,
): Promise<void> {
  await noteChanges(db, by, id, () =>
    db.query(
      'update account set disabled_at = case when $2 then coalesce(disabled_at, now()) end where id = $1',
      [id, isDisabled],
    ),
  )
}

/** Stores that an account has proved to own its email, and writes the event. False when it has another one, or is disabled. */
export async function verifyEmail(db: Queryable, by: Principal, id: string, email: string): Promise<boolean> {
  let isVerified = false
  await noteChanges(db, by, id, async () => {
    const { rowCount } = await db.query(
      'update account set email_verified_at = now() where id = $1 and email = $2 and disabled_at is null',
      [id, email],
    )
    isVerified = rowCount === 1
  })
  return isVerified
}

/** The values of an account whose changes have events. */
interface AccountValues {
  username: string
  email: string | null
  isVerified: boolean
  isAdmin: boolean
  isDisabled: boolean
}

/** Runs a change of an account, and writes an event for each value that it changed. Does nothing without the account. */
async function noteChanges(
  db: Queryable,
  by: Principal,
  accountId: string,
  change: (before: AccountValues) => Promise<unknown>,
): Promise<void> {
  const before = await lockState(db, accountId)
  if (!before) return
  await change(before)
  const after = await lockState(db, accountId)
  const events = after ? [...eventsOfChange(before, after)].map((event) => ({ ...event, accountId })) : []
  await insertEvents(db, by, events)
}

async function lockState(db: Queryable, accountId: string): Promise<AccountValues | undefined> {
  const { rows } = await db.query<AccountValues>(
    `select username, email, email_verified_at is not null as "isVerified", is_admin as "isAdmin",
            disabled_at is not null as "isDisabled"
       from account where id = $1 for no key update`,
    [accountId],
  )
  return rows[0]
}

function* eventsOfChange(before: AccountValues, after: AccountValues): Generator<NewEvent> {
  if (after.username !== before.username) {
    yield { action: 'account-renamed', details: { from: before.username, to: after.username } }
  }
  if (after.email !== before.email) {
    // The former address gets a notice if it was verified.
    const details = { from: before.email, to: after.email, from_was_verified: before.isVerified }
    yield { action: 'email-changed', details }
  }
  if (after.isVerified && !before.isVerified) {
    yield { action: 'email-verified', details: { email: after.email } }
  }
  if (after.isAdmin !== before.isAdmin) yield { action: after.isAdmin ? 'admin-granted' : 'admin-removed' }
  if (after.isDisabled !== before.isDisabled) {
    yield { action: after.isDisabled ? 'account-disabled' : 'account-enabled' }
  }
}

/**
 * Deletes an account with all its rows, and reserves its username for 90 days. Writes the event. Afterwards no event
 * contains its names.
 */
export async function deleteAccountRow(tx: pg.PoolClient, by: Principal, id: string): Promise<void> {
  const { rows } = await tx.query<{ username: string; createdAt: string }>(
    `with expired as (delete from reserved_username where reserved_until < now()),
          deleted as (delete from account where id = $1 returning username, created_at),
          reserved as (
            insert into reserved_username (username, reserved_until)
            select username, now() + interval '90 days' from deleted
            on conflict (username) do update set reserved_until = excluded.reserved_until, account_id = null)
     select username, created_at::text as "createdAt" from deleted`,
    [id],
  )
  const [deleted] = rows
  if (!deleted) return
  await insertEvent(tx, by, { action: 'account-deleted', accountId: id })
  await tx.query(
    'select forget_names(the_account_id => $1, last_username => $2, created_at => $3, deleted_at => now())',
    [id, deleted.username, deleted.createdAt],
  )
}

/**
 * Locks an account until the transaction ends. Returns whether it has a password, and whether it is a site administrator. Null
 * when it no longer exists.
 */
export async function lockAccount(
  tx: pg.PoolClient,
  accountId: string,
): Promise<{ hasPassword: boolean; isAdmin: boolean } | null> {
  const { rows } = await tx.query<{ hasPassword: boolean; isAdmin: boolean }>(
    `select password_hash is not null as "hasPassword", is_admin as "isAdmin"
       from account where id = $1 for no key update`,
    [accountId],
  )
  return rows[0] ?? null
}
