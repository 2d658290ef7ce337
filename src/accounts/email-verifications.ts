import type pg from 'pg'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import { brokenConstraint } from '../database/errors.ts'
import type { Principal } from '../domain/principal.ts'
import { hashSecret, makeOpaqueId } from '../domain/secrets.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import type { MailKind } from '../mail/mail-queue.ts'
import { removeUnverifiedEmail, verifyEmail } from './accounts.ts'

/** How long a link works: 3 days. */
export const verificationLifetimeSeconds = 3 * 86_400

/** An account whose email is not verified. */
interface Unverified {
  accountId: string
  username: string
  displayName: string
  email: string
}

/**
 * Creates the token of a link that verifies the account's email. An earlier link stops working. Null when there is
 * nothing to verify: no email, a verified one, or a disabled account.
 */
export async function makeVerificationToken(
  db: Queryable,
  accountId: string,
): Promise<(Unverified & { token: string }) | null> {
  const token = makeOpaqueId()
  const { rows } = await db.query<Unverified>(
    `with unverified as (
       select id, username, display_name, email from account
        where id = $1 and email is not null and email_verified_at is null and disabled_at is null
     ), made as (
       insert into email_verification (account_id, email, token_hash, expires_at)
       select id, email, $2, now() + make_interval(secs => $3) from unverified
           on conflict (account_id) do update
          set email = excluded.email, token_hash = excluded.token_hash, expires_at = excluded.expires_at
     )
     select id as "accountId", username, display_name as "displayName", email from unverified`,
    [accountId, hashSecret(token), verificationLifetimeSeconds],
  )
  return rows[0] ? { ...rows[0], token } : null
}

/** Returns the account and the email of a link that still works. Null for other links. */
export async function findVerification(db: Queryable, token: string): Promise<Unverified | null> {
  const { rows } = await db.query<Unverified>(
    `select a.id as "accountId", a.username, a.display_name as "displayName", a.email
       from email_verification v join account a on a.id = v.account_id and a.email = v.email
      where v.token_hash = $1 and v.expires_at > now() and a.disabled_at is null`,
    [hashSecret(token)],
  )
  return rows[0] ?? null
}

/**
 * Verifies the email of an account with its link, once. Other accounts that entered the email without verifying it lose
 * it. `expired`: the link is not of this account, or no longer works. `taken`: another account has verified the email.
 */
export async function spendVerificationToken(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  token: string,
): Promise<'verified' | 'expired' | 'taken'> {
  try {
    return await transaction(
      db,
      async (tx) => {
        // Of two racing requests only one deletes the row.
        const { rows } = await tx.query<{ email: string }>(
          `delete from email_verification
            where token_hash = $1 and account_id = $2 and expires_at > now() returning email`,
          [hashSecret(token), accountId],
        )
        if (!rows[0]) return 'expired'
        const { email } = rows[0]
        await removeUnverifiedEmail(tx, by, email, accountId)
        return (await verifyEmail(tx, by, accountId, email)) ? 'verified' : 'expired'
      },
      by,
    )
  } catch (error) {
    if (brokenConstraint(error) !== 'email_is_taken') throw error
    return 'taken'
  }
}

/**
 * Verifies the email of an account whose person has proved to own it in another way than by a link. Other accounts that
 * entered it without verifying it lose it. Does nothing if the account has another email, or has verified it.
 */
export async function proveEmail(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  proven: string,
): Promise<void> {
  const { rows } = await db.query<{ email: string }>(
    'select email from account where id = $1 and lower(email) = lower($2) and email_verified_at is null',
    [accountId, proven],
  )
  if (!rows[0]) return
  const { email } = rows[0]
  try {
    await transaction(
      db,
      async (tx) => {
        await removeUnverifiedEmail(tx, by, email, accountId)
        await verifyEmail(tx, by, accountId, email)
      },
      by,
    )
  } catch (error) {
    // Another account has verified it a moment ago.
    if (brokenConstraint(error) !== 'email_is_taken') throw error
  }
}

/** The URL of a link's page. */
export function verificationUrl({ baseUrl }: { baseUrl: string }, token: string): string {
  return `${baseUrl}/settings/email-verification?token=${token}`
}

/** Deletes at most `limit` expired links. Returns how many it deleted. */
export const deleteExpiredVerifications = sweepOf('email_verification', 'account_id')

/** The mail with the link that verifies an account's email. The link is made when the mail is sent. */
export const verificationMail: MailKind<{ accountId: string }> = {
  name: 'email-verification',
  async compose({ config, db }, { accountId }) {
    const made = await makeVerificationToken(db, accountId)
    if (!made) return null
    return {
      to: personOf(made),
      subject: `Verify your email address for ${siteOf(config)}`,
      paragraphs: [
        `Somebody entered this email address for the account ${made.username} on ${siteOf(config)}. Verify it to get mails about your account, such as a link for a new password.`,
      ],
      link: { label: 'Verify your email address', url: verificationUrl(config, made.token) },
      advice: ['The link works once, for 3 days.', 'If this account is not yours, ignore this mail.'],
    }
  },
}
