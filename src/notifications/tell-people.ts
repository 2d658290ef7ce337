import type pg from 'pg'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import type { Job } from '../jobs/job.ts'
import { queueMails } from '../mail/mail-queue.ts'
import { nextDigestAt, readLastRound } from './choices.ts'
import { digestMail, newsMail, type ToldNews } from './news-mail.ts'

/** News of a topic and a place are told when no more of them came for a minute: what happens together is one mail. */
const quietSeconds = 60
/** News that keep coming are told after this time. */
const maxWaitSeconds = 30 * 60
/** How many digests one transaction queues at most. */
const digestsPerTransaction = 500

/**
 * Tells people what has happened: gives news that no more follows a round, and queues a mail for each person and topic, in one
 * transaction. News have one round, so each is told once. Digests read the rounds later. Without a mail server news are
 * dropped, because later it would be too late for them.
 */
export const tellPeopleJob: Job = {
  name: 'tell-people',
  everySeconds: 10,
  async run({ config, db }) {
    if (config.mail === null) {
      await db.query('delete from news')
      return
    }
    await transaction(db, async (tx) => {
      const told = await beginRound(tx)
      await queueMails(tx, config, newsMail, told)
    })
  },
}

/** Gives the news that are due the next round. Returns the mails to people who are told at once. */
async function beginRound(tx: pg.PoolClient): Promise<ToldNews[]> {
  const due = await tx.query(
    `select from news where round is null and noted_at < now() - interval '${quietSeconds} seconds' limit 1`,
  )
  if (due.rowCount === 0) return []
  // It waits for choices that are being made, and choices wait for it.
  const { rows: rounds } = await tx.query<{ round: string }>(
    'update news_round set last = last + 1 returning last as round',
  )
  const { round } = rounds[0] as { round: string }
  const { rows } = await tx.query<{ accountId: string; topic: ToldNews['topic'] }>(
    `with waiting as (
       select n.event_id, n.noted_at, r.topic, r.audience, n.repository_id, n.group_id, n.account_id, n.actor_id,
              row(r.topic, n.repository_id, n.group_id, n.account_id)::text as place
         from news n join notification_rule r using (action)
        where n.round is null
     ), due as (
       select place from waiting group by place
       having max(noted_at) < now() - interval '${quietSeconds} seconds'
              or min(noted_at) < now() - interval '${maxWaitSeconds} seconds'
     ), moved as (
       update news n set round = $1
         from waiting w join due using (place)
        where n.event_id = w.event_id
       returning w.topic, w.audience, w.repository_id, w.group_id, w.account_id, w.actor_id
     ), told as materialized (
       select distinct topic, audience, repository_id, group_id, account_id, actor_id from moved
     )
     select distinct a.id as "accountId", t.topic
       from told t
      cross join lateral audience_of(t.audience, t.repository_id, t.group_id, t.account_id) p
       join account a on a.id = p.account_id and a.email_verified_at is not null and a.disabled_at is null
       left join notification_choice c on c.account_id = a.id and c.topic = t.topic
      where coalesce(c.delivery, 'at_once') = 'at_once' and a.id is distinct from t.actor_id
      order by "accountId", t.topic`,
    [round],
  )
  return rows.map((told) => ({ ...told, after: String(BigInt(round) - 1n), upTo: round }))
}

/** Queues the digests that are due, once for each day. A person about whose topics there is nothing new gets none. */
export const sendDigestsJob: Job = {
  name: 'send-digests',
  everySeconds: 60,
  async run({ config, db }, _data, signal) {
    if (config.mail === null) return
    for (let count = digestsPerTransaction; count === digestsPerTransaction; ) {
      signal.throwIfAborted()
      count = await transaction(db, async (tx) => {
        const upTo = await readLastRound(tx)
        const due = await takeDueDigests(tx, upTo)
        const told = due.filter(({ hasNews }) => hasNews)
        await queueMails(
          tx,
          config,
          digestMail,
          told.map(({ accountId, after }) => ({ accountId, after, upTo })),
        )
        return due.length
      })
    }
  },
}

async function takeDueDigests(
  db: Queryable,
  upTo: string,
): Promise<{ accountId: string; after: string; hasNews: boolean }[]> {
  const { rows } = await db.query<{ accountId: string; after: string; hasNews: boolean }>(
    `with due as materialized (
       select account_id, told_round from digest where due_at <= now() order by due_at limit $2 for update skip locked
     ), moved as (
       update digest d set told_round = $1, due_at = ${nextDigestAt('d.hour')} from due where d.account_id = due.account_id
     )
     select account_id as "accountId", told_round as after,
            exists (select from news n join notification_rule r using (action)
                      join notification_choice c on c.account_id = due.account_id and c.topic = r.topic and c.delivery = 'daily'
                     where n.round > greatest(due.told_round, c.since_round) and n.round <= $1) as "hasNews"
       from due`,
    [upTo, digestsPerTransaction],
  )
  return rows
}

/** Deletes at most `limit` news that every digest has told. Returns how many it deleted. */
export const deleteFormerNews = sweepOf('news', 'event_id', "noted_at < now() - interval '8 days'")
