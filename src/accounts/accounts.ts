import type { Queryable } from '../database/database.ts'

/** A person who signs in, as the world may see them (DESIGN §1). */
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

/** Adds an account and answers its id. Throws the database's error when the name or email is taken or malformed. */
export async function insertAccount(db: Queryable, account: NewAccount): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into account (username, display_name, email, is_admin, password_hash)
     values ($1, $2, $3, $4, $5)
     returning id`,
    [account.username, account.displayName, account.email, account.isAdmin, account.passwordHash],
  )
  return (rows[0] as { id: string }).id
}

/** The account of that name, disabled or not; null when there is none. */
export async function findAccountByUsername(db: Queryable, username: string): Promise<Account | null> {
  const { rows } = await db.query<Account>(
    `select id, username, display_name as "displayName", email, is_admin as "isAdmin"
       from account
      where username = $1`,
    [username],
  )
  return rows[0] ?? null
}

/** True while nobody has an account: a fresh database. */
export async function hasNoAccounts(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isEmpty: boolean }>(
    `select not exists (select from account) as "isEmpty"`,
  )
  return rows[0]?.isEmpty === true
}

/** What a sign-in is checked against. */
export interface Credentials {
  accountId: string
  passwordHash: string
  /** True when a session of the account that still counts was begun from the network. */
  isKnownNetwork: boolean
}

/** The credentials of the account with that username or email; null when there is none, or it is disabled. */
export async function findCredentials(
  db: Queryable,
  login: string,
  network: string,
): Promise<Credentials | null> {
  const { rows } = await db.query<Credentials>({
    name: 'find-credentials',
    text: `select a.id as "accountId", a.password_hash as "passwordHash",
                  exists (select from session s
                           where s.account_id = a.id and s.network = $2 and s.expires_at > now()) as "isKnownNetwork"
             from account a
            where a.disabled_at is null and (a.username = lower($1) or lower(a.email) = lower($1))`,
    values: [login, network],
  })
  return rows[0] ?? null
}

/** Sets an account's password. */
export async function replacePasswordHash(db: Queryable, accountId: string, newHash: string): Promise<void> {
  await db.query(`update account set password_hash = $2 where id = $1`, [accountId, newHash])
}

/** Stores the same password's hash with new parameters, unless the password was changed meanwhile. */
export async function renewPasswordHash(
  db: Queryable,
  { accountId, passwordHash }: Credentials,
  newHash: string,
): Promise<void> {
  await db.query(`update account set password_hash = $3 where id = $1 and password_hash = $2`, [
    accountId,
    passwordHash,
    newHash,
  ])
}
