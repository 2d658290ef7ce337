import type pg from 'pg'
import { type Queryable, transaction } from '../../database/database.ts'
import type { ProviderSettings } from '../../domain/identity-provider.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { insertEvent } from '../../events/events.ts'
import { updateAccountWithin } from '../account-lifecycle.ts'
import { verifyEmail } from '../accounts.ts'
import { withFreeUsername } from '../single-sign-on/enter.ts'
import { insertAccountOfPerson } from '../single-sign-on/identities.ts'
import { usernameOf } from '../single-sign-on/person.ts'
import { syncGroups } from '../single-sign-on/provider-groups.ts'

/** The directory of a sign-in provider. Its issuer tells its users from those of other directories. */
export type PeopleDirectory = Pick<ProviderSettings, 'name' | 'label' | 'issuer' | 'groupMap'>

/** A person as a directory describes them. */
export interface DirectoryPerson {
  /** The name there, often an email, at most 254 characters. */
  userName: string
  externalId: string | null
  /** At most 100 characters, like the other names. Empty for none. */
  displayName: string
  givenName: string
  familyName: string
  /** Counts as verified, unless another account has entered it. */
  email: string | null
  /** Null when the directory does not say it: a new person is active, and another one stays as they are. */
  isActive: boolean | null
}

/** A person of a directory with the account. */
export interface DirectoryUser extends DirectoryPerson {
  /** What the directory said last. An administrator can disable the account of an active person. */
  isActive: boolean
  /** The id of the account. */
  id: string
  username: string
  isAdmin: boolean
  createdAt: Date
  changedAt: Date
  groups: { id: string; displayName: string }[]
}

/** SQL: the id in a text parameter. Null when it is none. */
export const asId = (parameter: string) =>
  `case when ${parameter}::text ~ '^[0-9]{1,18}$' then ${parameter}::text::bigint end`

/** A condition of a list: the value of an attribute, compared as the attribute is. */
export interface UserCondition {
  attribute: 'id' | 'userName' | 'externalId' | 'email' | 'active'
  value: string
}

/** SQL: whether the user d with the account a fulfils the condition whose value is the parameter. */
const conditions: Record<UserCondition['attribute'], (parameter: string) => string> = {
  id: (parameter) => `a.id = ${asId(parameter)}`,
  userName: (parameter) => `lower(d.user_name) = lower(${parameter})`,
  externalId: (parameter) => `d.external_id = ${parameter}`,
  email: (parameter) => `lower(a.email) = lower(${parameter})`,
  active: (parameter) => `d.is_active::text = ${parameter}`,
}

const columns = `a.id, a.username, a.is_admin as "isAdmin", a.display_name as "displayName", a.email,
  d.is_active as "isActive", d.user_name as "userName", d.external_id as "externalId",
  d.given_name as "givenName", d.family_name as "familyName", d.created_at as "createdAt", d.changed_at as "changedAt",
  coalesce((select json_agg(json_build_object('id', g.id::text, 'displayName', g.display_name) order by g.id)
              from directory_group_member m join directory_group g on g.id = m.group_id
             where m.account_id = a.id), '[]') as groups`

const users = 'directory_user d join account a on a.id = d.account_id'

/** Lists users of a directory by id, from an offset on, and counts all that fulfil the conditions. */
export async function listDirectoryUsers(
  db: Queryable,
  { issuer }: Pick<PeopleDirectory, 'issuer'>,
  { where = [], offset = 0, limit }: { where?: readonly UserCondition[]; offset?: number; limit: number },
): Promise<{ total: number; users: DirectoryUser[] }> {
  const isListed = ['d.issuer = $1', 'd.removed_at is null']
    .concat(where.map(({ attribute }, at) => conditions[attribute](`$${at + 2}`)))
    .join(' and ')
  const values = [issuer, ...where.map(({ value }) => value)]
  const counted = await db.query<{ total: number }>(
    `select count(*)::int as total from ${users} where ${isListed}`,
    values,
  )
  const { rows } = await db.query<DirectoryUser>(
    `select ${columns} from ${users} where ${isListed}
      order by a.id offset $${values.length + 1} limit $${values.length + 2}`,
    [...values, offset, limit],
  )
  return { total: counted.rows[0]?.total ?? 0, users: rows }
}

/** Finds a user of a directory. Throws errcode 5 when there is none. */
export async function findDirectoryUser(
  db: Queryable,
  { issuer }: Pick<PeopleDirectory, 'issuer'>,
  id: string,
): Promise<DirectoryUser> {
  const { rows } = await db.query<DirectoryUser>(
    `select ${columns} from ${users} where d.issuer = $1 and d.removed_at is null and a.id = ${asId('$2')}`,
    [issuer, id],
  )
  if (!rows[0]) throw noUser()
  return rows[0]
}

/**
 * Gives a person of a directory an account. It is a new one, unless the person had one that the directory removed, known by
 * the external id, or has one with the same verified email that no directory has managed. Such an account stays disabled if
 * an administrator has disabled it. Throws errcode 6 when the directory has such a user already, or when
 * the email belongs to a site administrator or to another directory's user.
 */
export async function provisionUser(
  db: pg.Pool,
  by: Principal,
  directory: PeopleDirectory,
  person: DirectoryPerson,
): Promise<DirectoryUser> {
  const wanted = usernameOf([person.userName, person.email, person.displayName])
  const id = await withFreeUsername(wanted, (username) =>
    transaction(db, (tx) => provisionWithin(tx, by, directory, { ...person, username }), by),
  )
  if (id === null)
    throw new Refusal(errcode.alreadyExists, `userName: no username like ${wanted} is free here`)
  return findDirectoryUser(db, directory, id)
}

async function provisionWithin(
  tx: pg.PoolClient,
  by: Principal,
  { name, issuer }: PeopleDirectory,
  person: DirectoryPerson & { username: string },
): Promise<string> {
  const { email, userName } = person
  const isActive = person.isActive ?? true
  const owner = await lockOwner(tx, issuer, person)
  if (owner?.isAdmin) throw ofAdministrator(owner.username)
  const id =
    owner?.id ??
    (await insertAccountOfPerson(tx, by, {
      ...person,
      isEmailVerified: email !== null && !(await isEntered(tx, email, null)),
    }))
  // A request that waited for the owner's account still sees the owner as free. Its row says what came first.
  const { rowCount } = await tx.query(
    `insert into directory_user as d (account_id, issuer, user_name, external_id, given_name, family_name, is_active)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (account_id) do update
        set user_name = $3, external_id = $4, given_name = $5, family_name = $6, is_active = $7, changed_at = now(),
            removed_at = null
      where d.issuer = $2 and d.removed_at is not null`,
    [id, issuer, userName, person.externalId, person.givenName, person.familyName, isActive],
  )
  if (rowCount !== 1)
    throw new Refusal(errcode.alreadyExists, 'a directory manages the account of this person already')
  await insertEvent(tx, by, {
    action: 'account-provisioned',
    accountId: id,
    details: { provider: name, user_name: userName },
  })
  if (owner) await applyChanges(tx, by, owner, { ...person, isActive })
  else if (!isActive) await updateAccountWithin(tx, by, id, { isDisabled: true })
  return id
}

/**
 * Finds the account that a new user of a directory has already, and locks it: the one that the directory removed, or one that has
 * verified the email and was never a directory's. Somebody else may have the email of a removed user.
 */
async function lockOwner(
  tx: pg.PoolClient,
  issuer: string,
  { externalId, email }: DirectoryPerson,
): Promise<KnownAccount | null> {
  const { rows } = await tx.query<KnownAccount>(
    `select a.id, a.username, a.is_admin as "isAdmin", a.email, a.display_name as "displayName",
            d.account_id is null as "isActive"
       from account a left join directory_user d on d.account_id = a.id
      where (d.issuer = $1 and d.external_id = $2 and d.removed_at is not null)
         or (d.account_id is null and lower(a.email) = lower($3) and a.email_verified_at is not null)
      order by d.account_id is null limit 1
        for no key update of a`,
    [issuer, externalId, email],
  )
  return rows[0] ?? null
}

/** What a directory can change of an account. */
type KnownAccount = Pick<DirectoryUser, 'id' | 'username' | 'isAdmin' | 'email' | 'displayName' | 'isActive'>

/** Changes what is different at an account. */
async function applyChanges(
  tx: pg.PoolClient,
  by: Principal,
  account: KnownAccount,
  { displayName, email, isActive }: DirectoryPerson & { isActive: boolean },
): Promise<void> {
  const hasNewEmail = email !== account.email
  await updateAccountWithin(tx, by, account.id, {
    ...(displayName !== account.displayName && { displayName }),
    ...(hasNewEmail && { email }),
    ...(isActive !== account.isActive && { isDisabled: !isActive }),
  })
  if (email !== null && isActive && !(await isEntered(tx, email, account.id))) {
    await verifyEmail(tx, by, account.id, email)
  }
}

/**
 * Returns whether another account has entered an email. A directory says whose email it is, but nobody has proved it: the
 * other account may be the administrator who signs in by it. So both have it, and it belongs to the first who proves it.
 */
async function isEntered(tx: pg.PoolClient, email: string, ownerId: string | null): Promise<boolean> {
  const { rowCount } = await tx.query(
    'select from account where lower(email) = lower($1) and id is distinct from $2 limit 1',
    [email, ownerId],
  )
  return rowCount === 1
}

/**
 * Changes a user of a directory, and the account with it: a user who is not active is disabled. `change` returns what the user
 * becomes. Throws errcode 5 when there is no such user, 7 for a site administrator, and the database's error when a name or
 * email is taken. Nobody ends their own account so: the token of a directory belongs to a site administrator.
 */
export async function changeDirectoryUser(
  db: pg.Pool,
  by: Principal,
  directory: PeopleDirectory,
  id: string,
  change: (current: DirectoryUser) => DirectoryPerson,
): Promise<DirectoryUser> {
  return transaction(
    db,
    async (tx) => {
      const current = await lockUser(tx, directory, id)
      const asked = change(current)
      const next = { ...asked, isActive: asked.isActive ?? current.isActive }
      await tx.query(
        `update directory_user
            set user_name = $2, external_id = $3, given_name = $4, family_name = $5, is_active = $6, changed_at = now()
          where account_id = $1`,
        [id, next.userName, next.externalId, next.givenName, next.familyName, next.isActive],
      )
      await applyChanges(tx, by, current, next)
      return findDirectoryUser(tx, directory, id)
    },
    by,
  )
}

/**
 * Removes a user of a directory: the account is disabled, everything that it has is ended, and it loses the memberships that the
 * directory gave, and its email, which somebody else may get. The account and its packages stay for administrators. Throws the errors of `changeDirectoryUser`.
 */
export async function removeDirectoryUser(
  db: pg.Pool,
  by: Principal,
  directory: PeopleDirectory,
  id: string,
): Promise<void> {
  await transaction(
    db,
    async (tx) => {
      const user = await lockUser(tx, directory, id)
      await updateAccountWithin(tx, by, id, {
        isDisabled: true,
        endsEverything: true,
        email: null,
      })
      await syncGroups(tx, by, user, { ...directory, groupMap: [] }, [])
      await tx.query('delete from directory_group_member where account_id = $1', [id])
      await tx.query('update directory_user set removed_at = now() where account_id = $1', [id])
      await insertEvent(tx, by, {
        action: 'account-deprovisioned',
        accountId: id,
        details: { provider: directory.name, user_name: user.userName },
      })
    },
    by,
  )
}

/** Finds a user of a directory, and locks the account. Throws errcode 5 when there is none, and 7 for a site administrator. */
async function lockUser(tx: pg.PoolClient, directory: PeopleDirectory, id: string): Promise<DirectoryUser> {
  await tx.query(`select from account where id = ${asId('$1')} for no key update`, [id])
  const user = await findDirectoryUser(tx, directory, id)
  if (user.isAdmin) throw ofAdministrator(user.username)
  return user
}

/** A directory could otherwise lock out the administrator who would repair it, or become that administrator. */
function ofAdministrator(username: string): Refusal {
  return new Refusal(
    errcode.permissionDenied,
    `the account ${JSON.stringify(username)} is a site administrator: directories change no administrators. Change it in the browser or by command`,
  )
}

function noUser(): Refusal {
  return new Refusal(errcode.notFound, 'there is no such user')
}
