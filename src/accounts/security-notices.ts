import type { Config } from '../config.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { formatTime } from '../domain/formats.ts'
import { anAdministrator } from '../domain/site.ts'
import { type Event, isIdentityEvent } from '../events/event.ts'
import { describeBrowser, describeSubject } from '../events/event-words.ts'
import { findIdentityEvent, logIdentityEvents } from '../events/identity-events.ts'
import type { Job } from '../jobs/job.ts'
import { type Mail, personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'
import { verificationMail } from './email-verifications.ts'
import { mayUsePassword } from './passwords.ts'

const eventsPerTransaction = 500

/**
 * Handles new identity events. It writes them to the log, as JSON lines with a stable `event` such as
 * `identity.sign-in`, and queues the mails that they cause. Events of servers, commands and plain SQL are treated
 * alike. Each is mailed once. It is logged once, or twice after a crash.
 */
export const logIdentityEventsJob: Job = {
  name: 'log-identity-events',
  everySeconds: 10,
  async run({ config, db, log }, _data, signal) {
    const takeSome = () =>
      transaction(db, async (tx) => {
        const eventIds = await logIdentityEvents(tx, log, eventsPerTransaction)
        await queueNotices(tx, config, eventIds)
        return eventIds.length
      })
    while ((await takeSome()) > 0) signal.throwIfAborted()
  },
}

/** Actions that always cause a mail to their account, with the subject of the mail. */
const subjects: Record<string, string> = {
  'password-changed': 'Your password was changed',
  'token-created': 'A new token was created',
  'second-factor-added': 'A second factor was added',
  'second-factor-removed': 'A second factor was removed',
  'recovery-codes-created': 'New recovery codes were generated',
  'recovery-code-used': 'A recovery code was used',
  'identity-linked': 'A sign-in provider was linked',
  'identity-unlinked': 'A sign-in provider was unlinked',
}

/** Actions that cause a mail to their account in some cases: see `queueNotices`. */
const conditionalSubjects: Record<string, string> = {
  'sign-in': 'New sign-in to your account',
  'consent-given': 'An application was authorized',
  'email-changed': 'Your email address was changed',
}

/**
 * Queues the mails that identity events cause: notices to verified addresses, and the request to verify a new address.
 * The former address of a changed email gets a notice if it was verified. A sign-in causes a notice when the browser is
 * new. A consent causes one when no consent since the last withdrawal or end of a grant covered it. `eventIds` must be new events, each
 * given once.
 */
async function queueNotices(
  db: Queryable,
  config: Pick<Config, 'mail'>,
  eventIds: readonly string[],
): Promise<void> {
  if (config.mail === null || eventIds.length === 0) return
  for (const eventId of await listNoticedEvents(db, eventIds)) {
    await queueMail(db, config, securityNotice, { eventId })
  }
  for (const accountId of await listNewAddresses(db, eventIds)) {
    await queueMail(db, config, verificationMail, { accountId })
  }
}

async function listNoticedEvents(db: Queryable, eventIds: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select e.id
       from event e join account a on a.id = e.account_id
      where e.id = any($1) and ${isIdentityEvent}
        and case e.action
              -- Events of earlier releases do not tell whether the former email was verified.
              when 'email-changed' then coalesce((e.details ->> 'from_was_verified')::boolean, exists (
                select from event v
                 where v.account_id = e.account_id and v.action = 'email-verified' and v.id < e.id
                   and (v.details ->> 'email') = (e.details ->> 'from')))
              when 'sign-in' then a.email_verified_at is not null and e.details ? 'new_browser'
              when 'consent-given' then a.email_verified_at is not null and not exists (
                select from event c
                 where c.account_id = e.account_id and c.application_id = e.application_id
                   and c.action = 'consent-given' and c.id < e.id
                   and (c.details -> 'scopes') @> (e.details -> 'scopes')
                   and (c.details -> 'resource_scope') = (e.details -> 'resource_scope')
                   and not exists (
                     select from event w
                      where w.account_id = e.account_id and w.application_id = e.application_id
                        and w.action in ('authorization-withdrawn', 'grant-ended') and w.id between c.id and e.id))
              -- For an application, the consent has already caused a mail.
              when 'token-created' then a.email_verified_at is not null and e.application_id is null
              else a.email_verified_at is not null and e.action = any($2)
            end
      order by e.id`,
    [eventIds, Object.keys(subjects)],
  )
  return rows.map(({ id }) => id)
}

async function listNewAddresses(db: Queryable, eventIds: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ accountId: string }>(
    `select distinct a.id as "accountId"
       from event e join account a on a.id = e.account_id
      where e.id = any($1) and ${isIdentityEvent} and e.action in ('account-created', 'email-changed')
        and a.email is not null and a.email_verified_at is null`,
    [eventIds],
  )
  return rows.map(({ accountId }) => accountId)
}

/** The mail that tells a person about an event of the account. */
export const securityNotice: MailKind<{ eventId: string }> = {
  name: 'security-notice',
  async compose({ config, db }, { eventId }) {
    const event = await findIdentityEvent(db, eventId)
    const to = event && (await findAddressee(db, event))
    if (!event || !to) return null
    const subject = subjects[event.action] ?? conditionalSubjects[event.action] ?? 'Your account was changed'
    const about = describeSubject(event)
    return {
      to: personOf(to),
      subject: `${subject} (${siteOf(config)})`,
      paragraphs: [`${subject}: ${to.username} on ${siteOf(config)}.`],
      facts: [
        ...(about === '' ? [] : ([['What', about]] as const)),
        ['When', formatTime(event.happenedAt)],
        ...(event.actor === to.username ? [] : ([['By', describeOther(event)]] as const)),
        ...(event.ip === null ? [] : ([['IP', event.ip]] as const)),
        ...(event.userAgent === null ? [] : ([['Browser', describeBrowser(event.userAgent)]] as const)),
      ],
      link: { label: 'See what happened in your account', url: `${config.baseUrl}/settings/security` },
      advice: adviseOn(event.action, config, to),
    } satisfies Mail
  },
}

/** Something to do, and the page where it is done. */
type Step = readonly [what: string, path: string]

const endSessions: Step = ['End the sessions that you do not know', '/settings/sessions']
const changePassword: Step = [
  'Change your password, which ends all other sessions',
  '/settings/account/password',
]
/** For somebody who no longer knows the password. */
const resetPassword: Step = ['Set a new password, which ends all sessions', '/password-reset']

/** How an action is undone. A new password undoes none of them. */
const remedies: Record<string, Step> = {
  'sign-in': endSessions,
  'token-created': ['Revoke the token', '/settings/tokens'],
  'second-factor-added': ['Remove the second factor', '/settings/second-factor'],
  'second-factor-removed': ['Add a second factor again', '/settings/second-factor'],
  'recovery-codes-created': ['Generate new recovery codes', '/settings/second-factor#recovery'],
  'recovery-code-used': ['Generate new recovery codes', '/settings/second-factor#recovery'],
  'identity-linked': ['Unlink the provider', '/settings/account#identities'],
  'identity-unlinked': ['Link your own account at the provider again', '/settings/account#identities'],
  'consent-given': ['Withdraw the authorization', '/settings/authorizations'],
  'email-changed': ['Change the email address back', '/settings/account/sign-in'],
}

/** Returns what to do if somebody else did something in the account, one step in each line. */
function adviseOn(action: string, config: Config, { hasPassword, isAdmin }: Addressee): string[] {
  const byPassword = action === 'password-changed' ? resetPassword : changePassword
  const last = hasPassword && mayUsePassword(config, isAdmin) ? byPassword : endSessions
  const first = remedies[action] ?? last
  const steps = [...new Set([first, last])].map(([what, path]) => `${what}: ${config.baseUrl}${path}`)
  return [
    'If this was you, there is nothing to do. If not:',
    ...[...steps, `Tell ${anAdministrator(config.site)}.`].map((step, index) => `${index + 1}. ${step}`),
  ]
}

/** Describes an actor who is not the person. Somebody who uses a link from a mail is not signed in. */
function describeOther({ actor, via }: Event): string {
  if (actor !== null) return actor
  return via === 'command' ? 'an operator of the server' : 'somebody who was not signed in'
}

interface Addressee {
  username: string
  displayName: string
  email: string
  hasPassword: boolean
  isAdmin: boolean
}

/** The account's verified email, or the former one for a changed email. Null when nobody can get the mail. */
async function findAddressee(db: Queryable, event: Event): Promise<Addressee | null> {
  const former = event.action === 'email-changed' ? event.details['from'] : null
  const { rows } = await db.query<Addressee>(
    `select a.username, a.display_name as "displayName", coalesce($2, a.email) as email,
            a.password_hash is not null as "hasPassword", a.is_admin as "isAdmin"
       from event e join account a on a.id = e.account_id
      where e.id = $1 and ${isIdentityEvent} and ($2::text is not null or a.email_verified_at is not null)`,
    [event.id, typeof former === 'string' ? former : null],
  )
  return rows[0] ?? null
}
