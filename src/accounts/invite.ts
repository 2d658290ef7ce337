import type pg from 'pg'
import type { Config } from '../config.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { countAttempt } from '../database/failure-limit.ts'
import { formatTime } from '../domain/formats.ts'
import type { Principal } from '../domain/principal.ts'
import { makeOpaqueId } from '../domain/secrets.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'
import { siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'
import { type InvitationDraft, insertInvitation, invitationUrl, makeInvitationToken } from './invitations.ts'

/** A new invitation. */
export interface MadeInvitation {
  id: string
  /** The URL to pass on, shown once. Null when it is sent by mail. */
  url: string | null
  expiresAt: Date
}

/**
 * Says why people cannot create accounts with an invitation. Null when they can. Such an account has a password, so it
 * needs sign-in with passwords.
 */
export function explainNoNewAccounts({
  signUp,
  passwordSignIn,
}: Pick<Config, 'signUp' | 'passwordSignIn'>): string | null {
  if (signUp === 'closed') return 'SIGN_UP is closed: only administrators can create accounts'
  if (passwordSignIn === 'on') return null
  return `PASSWORD_SIGN_IN is ${passwordSignIn}: people get an account when they sign in with a provider`
}

/**
 * Creates an invitation. `by` must be an administrator, an admin of the group, or the operator. Throws the database's
 * error for a malformed email.
 */
export async function invite(
  db: pg.Pool,
  config: Pick<Config, 'mail' | 'baseUrl'>,
  by: Principal,
  { email, target }: InvitationDraft,
): Promise<MadeInvitation> {
  const isSentByMail = email !== null && config.mail !== null
  const token = isSentByMail ? null : makeOpaqueId()
  return transaction(
    db,
    async (tx) => {
      await requireLivePrincipal(tx, by)
      const { id, expiresAt } = await insertInvitation(tx, by, {
        madeBy: by.accountId === null ? 'command' : 'account',
        inviterId: by.accountId,
        email,
        isSentByMail,
        token,
        target,
      })
      if (isSentByMail) await queueMail(tx, config, invitationMail, { invitationId: id })
      return { id, url: token && invitationUrl(config, token), expiresAt }
    },
    by,
  )
}

/** Counts an invitation by an account. Returns 0 when it is allowed, or the seconds until the next one is. */
export async function countInvitation(db: Queryable, accountId: string): Promise<number> {
  const subject = `invitations by account ${accountId}`
  return countAttempt(db, [{ subject, attempts: 100, windowSeconds: 86_400 }])
}

/**
 * The mail of an invitation or of a sign-up. Its token is created when it is sent, and proves that the email is right.
 */
export const invitationMail: MailKind<{ invitationId: string }> = {
  name: 'invitation',
  async compose({ config, db }, { invitationId }) {
    const made = await makeInvitationToken(db, invitationId)
    if (!made?.invitation.email) return null
    const { madeBy, inviter, email, group, role, expiresAt } = made.invitation
    const site = siteOf(config)
    const place = group === null ? site : `the group ${group} on ${site}, as ${role}`
    const isSignUp = madeBy === 'sign-up'
    return {
      to: { address: email, name: '' },
      subject: isSignUp ? `Your new account on ${site}` : `You are invited to ${group ?? site}`,
      paragraphs: [
        isSignUp
          ? `Somebody asked for an account on ${site} with this email address.`
          : `${inviter ?? 'An operator of the server'} invites you to ${place}.`,
      ],
      link: {
        label: isSignUp ? 'Create your account' : 'Accept the invitation',
        url: invitationUrl(config, made.token),
      },
      advice: [
        `The link works once, until ${formatTime(expiresAt)}.`,
        'If you did not expect this mail, ignore it: nothing happens without the link.',
      ],
    }
  },
}
