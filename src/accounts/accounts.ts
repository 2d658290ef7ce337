import type { Queryable } from '../database/database.ts'

/** A person who signs in, without secrets (DESIGN §1). */
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

/** Adds an account and returns its id. Throws the database's error when the username or email is taken or malformed. */
export async function insertAccount(db: Queryable, account: NewAccount): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into account (username, display_name, email, is_admin, password_hash)
     values ($1, $2, $3, $4, $5)
     returning id`,
    [account.username, account.displayName, account.email, account.isAdmin, account.passwordHash],
  )
  return (rows[0] as { id: string }).id
}

/** The account with that username, disabled or not; null when there is none. */
export async function findAccountByUsername(db: Queryable, username: string): Promise<Account | null> {
  const { rows } = await db.query<Account>(
    `select id, username, display_name as "displayName", email, is_admin as "isAdmin"
       from account
      where username = $1`,
    [username],
  )
  return rows[0] ?? null
}

/** Whether nobody has an account: a new database. */
export async function hasNoAccounts(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isEmpty: boolean }>(
    `select not exists (select from account) as "isEmpty"`,
  )
  return rows[0]?.isEmpty === true
}

/** What a password is checked against. */
export interface Credentials {
  accountId: string
  passwordHash: string
}

/** The credentials of the account with that username or email; null when there is none or it is disabled. */
export async function findCredentials(db: Queryable, login: string): Promise<Credentials | null> {
  const { rows } = await db.query<Credentials>({
    name: 'find-credentials',
    text: `select id as "accountId", password_hash as "passwordHash"
             from account
            where disabled_at is null and (username = lower($1) or lower(email) = lower($1))`,
    values: [login],
  })
  return rows[0] ?? null
}

/** The credentials of an account that is signed in; null when it was disabled. */
export async function findCredentialsById(db: Queryable, accountId: string): Promise<Credentials | null> {
  const { rows } = await db.query<Credentials>(
    `select id as "accountId", password_hash as "passwordHash"
       from account
      where id = $1 and disabled_at is null`,
    [accountId],
  )
  return rows[0] ?? null
}

/** Replaces the password that was checked. False when it was changed in the meantime. */
export async function replacePasswordHash(
  db: Queryable,
  { accountId, passwordHash }: Credentials,
  newHash: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update account set password_hash = $3 where id = $1 and password_hash = $2`,
    [accountId, passwordHash, newHash],
  )
  return rowCount === 1
}

/** Sets an account's password, whatever it was: only for an operator or administrator. */
export async function setPasswordHash(db: Queryable, accountId: string, newHash: string): Promise<void> {
  await db.query('update account set password_hash = $2 where id = $1', [accountId, newHash])
}
