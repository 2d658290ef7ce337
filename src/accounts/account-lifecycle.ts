import type pg from 'pg'
import { type Queryable, transaction } from '../database/database.ts'
import { retriedTransaction } from '../database/retried-transaction.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { revokeDeployTokensOf } from '../groups/deploy-tokens.ts'
import { listGroupsOnlyAdministeredBy, setGroupMember } from '../groups/members.ts'
import {
  type AccountChanges,
  type Credentials,
  changeAccount,
  deleteAccountRow,
  findAccountDetails,
  freeUsername,
  insertAccount,
  lockAccount,
  type NewAccount,
  replacePasswordHash,
  setDisabled,
  setPasswordHash,
} from './accounts.ts'
import { withdrawInvitationsOf } from './invitations.ts'
import { hashPassword } from './passwords.ts'
import { revokeAllOf } from './personal-tokens.ts'
import { deleteAllSessions, endAllSessions } from './sessions.ts'
import { forgetOrigins } from './sign-in-origins.ts'

/**
 * Creates an account with a password, and returns its id. Throws the database's error when the username or email is taken
 * or malformed.
 */
export async function createAccount(
  db: pg.Pool,
  by: Principal,
  { password, ...account }: Omit<NewAccount, 'passwordHash'> & { password: string },
): Promise<string> {
  const passwordHash = await hashPassword(password)
  return transaction(db, (tx) => insertAccount(tx, by, { ...account, passwordHash }), by)
}

/** What to update of an account. Missing members keep their values. */
export interface AccountUpdate extends AccountChanges {
  isDisabled?: boolean
  /** When the account is disabled: end everything for good, not only its sessions. */
  endsEverything?: boolean
  /** True takes the new username from an account that had it before, and for which it is reserved. */
  isReleased?: boolean
}

/**
 * Updates an account: its names, its email, its role, and whether it is disabled. All of it changes, or nothing. Returns
 * what it has ended with `endsEverything`. Throws LastAdministratorError, and the errors of `changeAccount`.
 */
export async function updateAccount(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  update: AccountUpdate,
): Promise<Ended | null> {
  return transaction(db, (tx) => updateAccountWithin(tx, by, accountId, update), by)
}

/** Does what `updateAccount` does, within a transaction. */
export async function updateAccountWithin(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  { isDisabled, endsEverything = false, isReleased = false, ...changes }: AccountUpdate,
): Promise<Ended | null> {
  // Before the change: this locks all administrators in one order.
  if (isDisabled === true || changes.isAdmin === false) await keepAnAdministrator(tx, by, accountId)
  if (isReleased && changes.username !== undefined) await freeUsername(tx, changes.username)
  await changeAccount(tx, by, accountId, changes)
  if (isDisabled === undefined) return null
  // Update the account before its sessions: this waits for a running sign-in, and then sees its session.
  await setDisabled(tx, by, accountId, isDisabled)
  if (!isDisabled) return null
  if (endsEverything) return endEverything(tx, by, accountId)
  await endAllSessions(tx, by, accountId)
  return null
}

/**
 * Disables an account. Nobody can sign in to it, its sessions end, and its tokens stop at once, because every token
 * check reads the account. Enabling it makes the tokens work again, but not the sessions. With
 * `endsEverything` it ends everything for good and returns how many.
 */
export async function disableAccount(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  endsEverything = false,
): Promise<Ended | null> {
  return updateAccount(db, by, accountId, { isDisabled: true, endsEverything })
}

/** Enables a disabled account. Tokens that were not revoked work again. */
export async function enableAccount(db: pg.Pool, by: Principal, accountId: string): Promise<void> {
  await updateAccount(db, by, accountId, { isDisabled: false })
}

/** How many things `endEverything` ended. */
export interface Ended {
  sessions: number
  tokens: number
  applications: number
  deployTokens: number
  invitations: number
}

/**
 * Ends everything with which somebody could act as an account, or for it: sessions, personal access tokens,
 * authorizations, and the deploy tokens and open invitations that the account made. Nothing revives what ended. The
 * password, second factors and linked providers stay. Change the account in the transaction before: that locks it, so
 * that `requireLivePrincipal` refuses the open requests of the ended sessions and tokens.
 */
export async function endEverything(tx: pg.PoolClient, by: Principal, accountId: string): Promise<Ended> {
  const sessions = await endAllSessions(tx, by, accountId)
  await forgetOrigins(tx, accountId)
  return {
    sessions,
    ...(await revokeAllOf(tx, by, accountId)),
    deployTokens: await revokeDeployTokensOf(tx, by, accountId),
    invitations: await withdrawInvitationsOf(tx, by, accountId),
  }
}

/**
 * Sets an account's password without checking the old one, and ends its sessions. For operators and administrators. With
 * `endsEverything` it ends everything and returns how many.
 */
export async function resetPassword(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  password: string,
  endsEverything = false,
): Promise<Ended | null> {
  const passwordHash = await hashPassword(password)
  return transaction(db, (tx) => replacePassword(tx, by, accountId, passwordHash, endsEverything), by)
}

/**
 * Sets the password that a person has chosen in place of the one that they know, ends every session of the account, and
 * forgets its known browsers and networks. Returns the new credentials. Null when the password was changed in the
 * meantime.
 */
export async function changePassword(
  db: pg.Pool,
  by: Principal,
  credentials: Credentials,
  password: string,
): Promise<Credentials | null> {
  const passwordHash = await hashPassword(password)
  return transaction(
    db,
    async (tx) => {
      if (!(await replacePasswordHash(tx, by, credentials, passwordHash))) return null
      await deleteAllSessions(tx, by, credentials.accountId)
      await forgetOrigins(tx, credentials.accountId)
      return { ...credentials, passwordHash }
    },
    by,
  )
}

/** Does what `resetPassword` does, with the hash of the new password, within a transaction. */
export async function replacePassword(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  passwordHash: string,
  endsEverything: boolean,
): Promise<Ended | null> {
  await setPasswordHash(tx, by, accountId, passwordHash)
  if (endsEverything) return endEverything(tx, by, accountId)
  await deleteAllSessions(tx, by, accountId)
  // A person who knew the old password must not keep a known browser or network.
  await forgetOrigins(tx, accountId)
  return null
}

/** Thrown when a change would leave the site without an enabled administrator. */
class LastAdministratorError extends Refusal {
  constructor() {
    super(
      errcode.failedPrecondition,
      'this is the only site administrator. Make another account a site administrator first',
      { status: 409 },
    )
  }
}

/**
 * Throws LastAdministratorError when an account is the only enabled site administrator. Locks all administrators until
 * the transaction ends: two administrators cannot remove each other at the same time. An operator may remove the last one,
 * because a command can make another.
 */
async function keepAnAdministrator(tx: pg.PoolClient, by: Principal, accountId: string): Promise<void> {
  if (by.via === 'command') return
  const { rows } = await tx.query<{ id: string }>(
    `select id from account
      where is_admin and disabled_at is null and exists (select from account where id = $1 and is_admin)
      order by id for no key update`,
    [accountId],
  )
  if (rows.length === 1 && rows[0]?.id === accountId) throw new LastAdministratorError()
}

/** Revokes all tokens of an account and withdraws all its applications, at once. Returns how many. Sessions stay. */
export async function revokeAllAccess(
  db: pg.Pool,
  by: Principal,
  accountId: string,
): Promise<{ tokens: number; applications: number }> {
  return transaction(db, (tx) => revokeAllOf(tx, by, accountId), by)
}

/**
 * The choice for groups whose only admin is deleted: an heir gets them, nobody gets them, or the deletion is refused.
 */
export type OrphanedGroups = { heir: { id: string; username: string } } | 'leave' | 'refuse'

/**
 * Reads a person's choice for the groups: the username of an heir, or nobody, so that only site administrators manage
 * them. Returns a sentence when the heir is not possible.
 */
export async function chooseHeir(
  db: Queryable,
  username: string,
  { heir, isLeft }: { heir: string | null; isLeft: boolean },
): Promise<{ orphanedGroups: OrphanedGroups } | string> {
  if (heir === null) return { orphanedGroups: isLeft ? 'leave' : 'refuse' }
  if (isLeft) return 'Choose one: another admin, or the site administrators.'
  if (heir === username) return 'The groups must go to another account.'
  const found = await findAccountDetails(db, heir)
  if (!found || found.disabledAt) return `There is no enabled account ${JSON.stringify(heir)}.`
  return { orphanedGroups: { heir: found } }
}

/** Throws errcode 10 when an heir was disabled or deleted since the choice. Otherwise that waits. */
async function keepHeir(
  tx: pg.PoolClient,
  { id, username }: { id: string; username: string },
): Promise<void> {
  const { rowCount } = await tx.query(
    'select from account where id = $1 and disabled_at is null for no key update',
    [id],
  )
  if (rowCount === 1) return
  const errmsg = `the account ${JSON.stringify(username)} was disabled or deleted a moment ago`
  throw new Refusal(errcode.aborted, errmsg)
}

/** The outcome of a deletion. With `refused`, `groups` are the groups that only this account administers. */
export type AccountDeletion = { outcome: 'deleted' | 'refused'; groups: string[] }

/**
 * Deletes an account with its sessions, tokens, authorizations and memberships. Packages and events stay. Its username
 * is free after 90 days. If it is the only admin of groups, they must get an heir or be left to site administrators.
 * Throws errcode 10 when the heir was disabled or deleted.
 */
export async function deleteAccount(
  db: pg.Pool,
  by: Principal,
  account: { id: string; username: string },
  orphanedGroups: OrphanedGroups,
): Promise<AccountDeletion> {
  // Two accounts can be the heirs of each other.
  return retriedTransaction(
    db,
    async (tx) => {
      await keepAnAdministrator(tx, by, account.id)
      // The account before its groups, as in a sign-in that changes its memberships.
      await lockAccount(tx, account.id)
      const groups = await listGroupsOnlyAdministeredBy(tx, account.id)
      const names = groups.map(({ name }) => name)
      if (groups.length > 0 && orphanedGroups === 'refuse') return { outcome: 'refused', groups: names }
      if (typeof orphanedGroups === 'object') {
        const { id, username } = orphanedGroups.heir
        await keepHeir(tx, orphanedGroups.heir)
        for (const group of groups) {
          await setGroupMember(tx, group.id, id, 'admin')
          const details = { username, role: 'admin' }
          await insertEvent(tx, by, { action: 'set-group-member', groupId: group.id, details })
        }
      }
      await deleteAccountRow(tx, by, account.id)
      return { outcome: 'deleted', groups: names }
    },
    by,
  )
}
