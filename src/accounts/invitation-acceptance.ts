import type pg from 'pg'
import { transaction } from '../database/database.ts'
import type { Principal } from '../domain/principal.ts'
import { insertEvent } from '../events/events.ts'
import { lockRole, raiseGroupMember } from '../groups/members.ts'
import {
  type Credentials,
  insertAccount,
  type NewAccount,
  removeUnverifiedEmail,
  verifyEmail,
} from './accounts.ts'
import { type Invitation, lockInvitation, noteAcceptance } from './invitations.ts'

/** Accepts an invitation for an account, which gets the role unless it has a stronger one. Null when it has ended. */
export async function acceptInvitation(
  db: pg.Pool,
  by: Principal,
  token: string,
  account: { id: string; username: string },
): Promise<Invitation | null> {
  return transaction(
    db,
    async (tx) => {
      const invitation = await lockInvitation(tx, token)
      if (invitation) await settle(tx, by, invitation, account)
      return invitation
    },
    by,
  )
}

/**
 * Accepts an invitation with a new account. If the invitation was sent by mail, the email is verified. Null when the
 * invitation has ended. Throws the database's error when the username or email is taken or malformed.
 */
export async function acceptWithNewAccount(
  db: pg.Pool,
  by: Principal,
  token: string,
  account: Omit<NewAccount, 'isAdmin'>,
): Promise<Credentials | null> {
  return transaction(
    db,
    async (tx) => {
      const invitation = await lockInvitation(tx, token)
      if (!invitation) return null
      const isProven = invitation.isSentByMail
      const email = isProven ? invitation.email : account.email
      if (isProven && email !== null) await removeUnverifiedEmail(tx, by, email)
      const id = await insertAccount(tx, by, { ...account, email, isAdmin: false })
      if (isProven && email !== null) await verifyEmail(tx, by, id, email)
      await settle(tx, by, invitation, { id, username: account.username })
      return { accountId: id, passwordHash: account.passwordHash }
    },
    by,
  )
}

async function settle(
  tx: pg.PoolClient,
  by: Principal,
  { id, groupId, role }: Invitation,
  account: { id: string; username: string },
): Promise<void> {
  await noteAcceptance(tx, by, id, account.id)
  if (groupId === null || role === null) return
  const former = await lockRole(tx, { groupId }, account.id)
  if (!(await raiseGroupMember(tx, groupId, account.id, role))) return
  const from = former !== null && { from: { role: former } }
  const details = { username: account.username, role, ...from, by_invitation: true }
  await insertEvent(tx, { ...by, accountId: account.id }, { action: 'set-group-member', groupId, details })
}
