import { type Queryable, sweepOf } from '../../database/database.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../../domain/secrets.ts'
import { personOf, siteOf } from '../../mail/mail.ts'
import type { MailKind } from '../../mail/mail-queue.ts'
import { type ProofMethod, proofBy } from '../sessions.ts'

/** How long a link works: 15 minutes. */
const lifetimeSeconds = 900

/**
 * Returns the email to which a link can be sent that confirms a session of the account. Null when the email is not
 * verified, and when the account has a password or a second factor: these are better proofs than a mailbox, which may be
 * open on the same screen.
 */
export async function findConfirmationEmail(db: Queryable, accountId: string): Promise<string | null> {
  const { rows } = await db.query<{ email: string }>(
    `select email from account
      where id = $1 and email_verified_at is not null and password_hash is null and not has_second_factor(id)`,
    [accountId],
  )
  return rows[0]?.email ?? null
}

/** Stores that a session waits for a link, and returns the id. An earlier link of the session stops working. */
export async function insertConfirmationLink(
  db: Queryable,
  sessionHash: SecretHash,
  returnId: string,
): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into confirmation_link (session_hash, return_id, expires_at)
     values ($1, $2, now() + make_interval(secs => $3))
         on conflict (session_hash) do update
        set token_hash = null, return_id = excluded.return_id, expires_at = excluded.expires_at
     returning id`,
    [sessionHash, returnId, lifetimeSeconds],
  )
  return (rows[0] as { id: string }).id
}

/** Returns whether a link can confirm this session: it was requested in it, and still works. */
export async function isConfirmationLink(
  db: Queryable,
  sessionHash: SecretHash,
  token: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from confirmation_link where session_hash = $1 and token_hash = $2 and expires_at > now()',
    [sessionHash, hashSecret(token)],
  )
  return rowCount === 1
}

/**
 * Confirms the session with its link, once. Returns the page to return to. Null when the link is not of this session, or
 * no longer works.
 */
export async function spendConfirmationLink(
  db: Queryable,
  sessionHash: SecretHash,
  token: string,
): Promise<string | null> {
  const { rows } = await db.query<{ returnId: string }>(
    `with spent as (
       delete from confirmation_link
        where session_hash = $1 and token_hash = $2 and expires_at > now() returning session_hash, return_id
     ), confirmed as (
       update session set ${proofBy('$3')} where id_hash in (select session_hash from spent)
     )
     select return_id as "returnId" from spent`,
    [sessionHash, hashSecret(token), 'mail' satisfies ProofMethod],
  )
  return rows[0]?.returnId ?? null
}

/** Deletes at most `limit` expired links. Returns how many it deleted. */
export const deleteExpiredConfirmationLinks = sweepOf('confirmation_link', 'id')

/** The mail with the link that confirms a session. The token of the link is made when the mail is sent. */
export const confirmationMail: MailKind<{ linkId: string }> = {
  name: 'confirm-access',
  async compose({ config, db }, { linkId }) {
    const token = makeOpaqueId()
    const { rows } = await db.query<{ username: string; displayName: string; email: string }>(
      `update confirmation_link l set token_hash = $2
         from session s join account a on a.id = s.account_id
        where l.id = $1 and l.expires_at > now() and s.id_hash = l.session_hash
          and a.email_verified_at is not null and a.disabled_at is null
    returning a.username, a.display_name as "displayName", a.email`,
      [linkId, hashSecret(token)],
    )
    if (!rows[0]) return null
    return {
      to: personOf(rows[0]),
      subject: `Confirm access to ${siteOf(config)}`,
      paragraphs: [
        `Somebody who is signed in as ${rows[0].username} on ${siteOf(config)} wants to make a change that you must confirm. If it is you, open this link in the same browser.`,
      ],
      link: {
        label: 'Confirm that it is you',
        url: `${config.baseUrl}/settings/confirm-access/link?token=${token}`,
      },
      advice: [
        'The link works once, for 15 minutes.',
        'If it was not you, do not open it. Sign in and end the sessions that you do not know.',
      ],
    }
  },
}
