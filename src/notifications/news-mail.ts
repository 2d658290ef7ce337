import type { Queryable } from '../database/database.ts'
import { formatCount, formatNumber } from '../domain/formats.ts'
import { findEvents } from '../events/told-events.ts'
import type { JobContext } from '../jobs/job.ts'
import { type Mail, type MailSection, personOf, siteOf } from '../mail/mail.ts'
import type { MailKind } from '../mail/mail-queue.ts'
import { describeNews, headlineOf, urlOfNews } from './news-words.ts'
import { type Topic, topics } from './topics.ts'
import { type Subscription, signUnsubscription } from './unsubscribe-link.ts'

/** The news that a mail tells: those of a topic and of rounds after `after`, up to `upTo`. */
export interface ToldNews {
  accountId: string
  topic: Topic
  after: string
  upTo: string
}

/** How many places and kinds of news a mail lists, and how many of each. It counts the others. */
const maxSections = 30
const maxLines = 10

/** The mail that tells a person at once about a topic. */
export const newsMail: MailKind<ToldNews> = {
  name: 'news',
  isBulk: true,
  async compose(context, { topic, ...wanted }) {
    const found = await readNews(context, { ...wanted, topics: [topic] })
    const [first] = found?.sections ?? []
    if (!found || !first) return null
    const { sections, count } = found
    const subject =
      sections.length === 1
        ? first.title
        : `${topics[topic].words}: ${first.title}, and ${count - first.count} more`
    return mailOf(context, found, subject, topic)
  },
}

/** The one mail of a day, with all topics that a person has chosen for it. */
export const digestMail: MailKind<Omit<ToldNews, 'topic'>> = {
  name: 'digest',
  isBulk: true,
  async compose(context, wanted) {
    const found = await readNews(context, { ...wanted, topics: null })
    if (!found || found.sections.length === 0) return null
    return mailOf(context, found, `Daily digest: ${formatCount(found.count, 'notification')}`, 'digest')
  },
}

/**
 * Mails of earlier releases that are topics now. Processes of one may queue some during the upgrade. The events of these mails
 * are news, so nothing is sent for them.
 */
export const formerMails = [
  'token-expires',
  'webhook-disabled',
  'affected-projects',
  'reservation-lapses',
].map((name): MailKind => ({ name, compose: async () => null }))

async function mailOf(
  { config, db }: JobContext,
  { accountId, person, sections, more }: FoundNews,
  subject: string,
  what: Subscription,
): Promise<Mail> {
  const settings = `${config.baseUrl}/settings/notifications`
  const token = await signUnsubscription(db, accountId, what)
  const left = more === 0 ? [] : [`There is more: ${formatCount(more, 'notification')}.`]
  return {
    to: person,
    subject: `${subject} (${siteOf(config)})`,
    paragraphs: [],
    sections,
    advice: [...left, `Choose what you are told, and how: ${settings}`],
    unsubscribe: {
      url: `${config.baseUrl}/unsubscribe?token=${token}`,
      words:
        what === 'digest' ? 'End these digests' : `End these mails about ${topics[what].words.toLowerCase()}`,
    },
  }
}

interface FoundNews {
  accountId: string
  person: Mail['to']
  sections: (MailSection & { count: number })[]
  /** How many news there are, and how many of them no section has. */
  count: number
  more: number
}

/** News of one action in one place. */
interface NewsGroup {
  count: number
  /** The ids of the first events. */
  eventIds: string[]
  total: number
}

/**
 * Reads the news that a person is told, as things are now: who has no access any more, is disabled or has no verified email
 * is told nothing, and nobody is told what does not hold any more. Null without a person. `topics` is null for those of the
 * digest.
 */
async function readNews(
  { config, db }: JobContext,
  {
    accountId,
    topics: wanted,
    after,
    upTo,
  }: { accountId: string; topics: readonly Topic[] | null; after: string; upTo: string },
): Promise<FoundNews | null> {
  const person = await findPerson(db, accountId)
  if (!person) return null
  const { rows: groups } = await db.query<NewsGroup>(
    // A push of 10,000 versions is one kind of news: who may be told is asked once for each kind.
    `with kind as materialized (
       select distinct action, repository_id, group_id, account_id from news where round > $2 and round <= $3
     ), told as materialized (
       select k.*, r.topic, case when $4::text[] is null then c.since_round else 0 end as since
         from kind k
         join notification_rule r using (action)
         left join notification_choice c on c.account_id = $1 and c.topic = r.topic
        where case when $4::text[] is null then c.delivery = 'daily'
                   else r.topic = any($4) and coalesce(c.delivery, '') <> 'off' end
          and exists (select from audience_of(r.audience, k.repository_id, k.group_id, k.account_id) p where p.account_id = $1)
     )
     select count(*)::int as count, (array_agg(n.event_id::text order by n.event_id))[1:${maxLines}] as "eventIds",
            sum(count(*)) over ()::int as total
       from told t
       join news n on n.action = t.action and n.repository_id is not distinct from t.repository_id
                  and n.group_id is not distinct from t.group_id and n.account_id is not distinct from t.account_id
      where n.round > $2 and n.round > t.since and n.round <= $3 and n.actor_id is distinct from $1
        and (t.topic = 'releases' or exists (select from event e where e.id = n.event_id and is_news_still(e)))
      group by t.topic, t.action, t.repository_id, t.group_id, t.account_id
      order by min(array_position($5::text[], t.topic)), min(n.event_id)
      limit ${maxSections}`,
    [accountId, after, upTo, wanted, order],
  )
  const events = await findEvents(
    db,
    groups.flatMap(({ eventIds }) => eventIds),
  )
  const sections = groups.flatMap(({ count, eventIds }) => {
    const told = eventIds.flatMap((id) => events.get(id) ?? [])
    // Events may have been removed because of their age.
    const [first] = told
    if (!first) return []
    const lines = told.map(describeNews)
    if (count > told.length) lines.push(`and ${formatNumber(count - told.length)} more`)
    return { title: headlineOf(first, count), url: urlOfNews(config.baseUrl, first, count), lines, count }
  })
  const count = groups[0]?.total ?? 0
  const listed = sections.reduce((sum, section) => sum + section.count, 0)
  return { accountId, person, sections, count, more: count - listed }
}

/** What asks for a decision comes first. */
const order: Topic[] = ['alarms', 'advisories', 'tokens', 'approvals', 'releases']

/** Finds the recipient of mails to an account. Null when it is disabled, or has no verified email. */
async function findPerson(db: Queryable, accountId: string): Promise<Mail['to'] | null> {
  const { rows } = await db.query<{ username: string; displayName: string; email: string }>(
    `select username, display_name as "displayName", email from account
      where id = $1 and email_verified_at is not null and disabled_at is null`,
    [accountId],
  )
  return rows[0] ? personOf(rows[0]) : null
}
