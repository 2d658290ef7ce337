import type pg from 'pg'
import type { AppContext } from '../context.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { queueMails } from '../mail/mail-queue.ts'
import { newsMail } from './news-mail.ts'
import { type NewsDelivery, type Topic, topicNames } from './topics.ts'
import type { Subscription } from './unsubscribe-link.ts'

/** What a person has chosen: how each topic is told, and the hour of the digest in UTC. */
export type Choices = Record<Topic, NewsDelivery> & { digestHour: number }

const usual: NewsDelivery = 'at_once'
const usualHour = 7

/** Returns SQL for the time of the next digest at an hour in UTC. */
export function nextDigestAt(hour: string): string {
  const today = `((date_trunc('day', now() at time zone 'UTC') + make_interval(hours => ${hour})) at time zone 'UTC')`
  return `(${today} + case when ${today} <= now() then interval '1 day' else interval '0' end)`
}

/** Returns the choices of an account. */
export async function findChoices(db: Queryable, accountId: string): Promise<Choices> {
  const { rows } = await db.query<{ chosen: Partial<Record<Topic, NewsDelivery>>; hour: number | null }>(
    `select (select coalesce(jsonb_object_agg(topic, delivery), '{}') from notification_choice where account_id = $1) as chosen,
            (select hour from digest where account_id = $1) as hour`,
    [accountId],
  )
  const { chosen = {}, hour = null } = rows[0] ?? {}
  const all = Object.fromEntries(topicNames.map((topic) => [topic, chosen[topic] ?? usual]))
  return { ...(all as Record<Topic, NewsDelivery>), digestHour: hour ?? usualHour }
}

/**
 * Changes choices of an account, and returns all. What is missing keeps its value. What waits for the digest of a topic that
 * is told at once from now on is told now. Throws errcode 3 for an hour that a day does not have.
 */
export async function changeChoices(
  { config, db }: AppContext,
  accountId: string,
  changes: Partial<Choices>,
): Promise<Choices> {
  const { digestHour, ...chosen } = changes
  if (digestHour !== undefined && !(Number.isInteger(digestHour) && digestHour >= 0 && digestHour <= 23))
    throw new Refusal(errcode.invalidArgument, 'the hour of the digest must be from 0 to 23')
  return transaction(db, async (tx) => {
    // A round that runs ends first, so each round comes before the choice or after it.
    const round = await readLastRound(tx)
    // Two changes of one account, and its digest, come one after the other.
    await tx.query(
      `insert into digest as d (account_id, hour, told_round, due_at)
       values ($1, coalesce($2, ${usualHour}), $3, ${nextDigestAt(`coalesce($2, ${usualHour})`)})
           on conflict (account_id) do update set hour = coalesce($2, d.hour), due_at = ${nextDigestAt('coalesce($2, d.hour)')}`,
      [accountId, digestHour ?? null, round],
    )
    const { rows } = await tx.query<{ topic: Topic; after: string }>(
      `with wanted as (
         select topic, delivery from jsonb_each_text($2) as w (topic, delivery)
       ), former as materialized (
         select c.topic, c.delivery, greatest(c.since_round, d.told_round) as told
           from notification_choice c join digest d using (account_id) where c.account_id = $1
       ), changed as (
         insert into notification_choice as c (account_id, topic, delivery, since_round)
         select $1, topic, delivery, $3 from wanted
             on conflict (account_id, topic) do update set delivery = excluded.delivery, since_round = excluded.since_round
          where c.delivery <> excluded.delivery
         returning topic, delivery
       )
       select f.topic, f.told as after
         from changed n join former f using (topic)
        where f.delivery = 'daily' and n.delivery = 'at_once' and f.told < $3`,
      [accountId, JSON.stringify(chosen), round],
    )
    const waiting = rows.map(({ topic, after }) => ({ accountId, topic, after, upTo: round }))
    await queueMails(tx, config, newsMail, waiting)
    return findChoices(tx, accountId)
  })
}

/** Ends the mails of a link: those about a topic, or the digest with all of its topics. Does nothing for a deleted account. */
export async function unsubscribe(db: pg.Pool, accountId: string, what: Subscription): Promise<void> {
  await transaction(db, async (tx) => {
    const round = await readLastRound(tx)
    await tx.query(
      what === 'digest'
        ? `update notification_choice set delivery = 'off', since_round = $2 where account_id = $1 and delivery = 'daily'`
        : `insert into notification_choice as c (account_id, topic, delivery, since_round)
           select id, '${what}', 'off', $2 from account where id = $1
               on conflict (account_id, topic) do update set delivery = 'off', since_round = $2 where c.delivery <> 'off'`,
      [accountId, round],
    )
  })
}

/** Returns the number of the last round. No round begins before the transaction ends. */
export async function readLastRound(tx: pg.PoolClient): Promise<string> {
  const { rows } = await tx.query<{ last: string }>('select last from news_round for share')
  return (rows[0] as { last: string }).last
}
