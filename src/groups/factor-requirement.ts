import type pg from 'pg'
import type { Config } from '../config.ts'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import { maxGraceDays } from '../domain/factor-grace.ts'
import { formatTime } from '../domain/formats.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Role } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { enqueue, type Job } from '../jobs/job.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'

/** Whether the members of a group need a second factor, as somebody chooses it. */
export type FactorChoice =
  | { isRequired: false }
  /**
   * `graceDays`: members without one keep their roles for so long; 0 for none. Undefined: none, but a grace period that
   * runs stays as it is.
   */
  | { isRequired: true; graceDays?: number | undefined }

/**
 * Requires a second factor of the members of a group, at once or after a grace period, or no longer. Writes the event, and
 * a job sends the mails. A choice can end a grace period earlier and never makes it longer: for that, the requirement must
 * end first. Throws errcode 9 when the person who requires it has no second factor, and would lose the own role.
 */
export async function requireFactorOfMembers(
  db: pg.Pool,
  by: Principal,
  group: { id: string },
  choice: FactorChoice,
): Promise<void> {
  const graceDays = choice.isRequired ? choice.graceDays : undefined
  if (
    graceDays !== undefined &&
    !(Number.isInteger(graceDays) && graceDays >= 0 && graceDays <= maxGraceDays)
  )
    throw new Refusal(errcode.invalidArgument, `the grace period must have 0 to ${maxGraceDays} days`)
  await transaction(db, async (tx) => {
    const details = choice.isRequired
      ? await requireFactor(tx, by, group.id, graceDays ?? null)
      : await waiveFactor(tx, group.id)
    if (!details) return
    await insertEvent(tx, by, { action: 'set-group', groupId: group.id, details })
    await enqueue(tx, noteRequiredFactorsJob, undefined)
  })
}

/** The details of the event about a change of the rule: the new values, and the former ones under `from`. */
type ChangeDetails = Record<string, unknown>

/** One statement decides what changes. Returns null when nothing does. */
async function requireFactor(
  tx: pg.PoolClient,
  { accountId }: Principal,
  groupId: string,
  graceDays: number | null,
): Promise<ChangeDetails | null> {
  const { rows } = await tx.query<{ since: Date; wasRequired: boolean; formerSince: Date | null }>(
    `with former as materialized (
       select id, requires_second_factor as is_required, second_factor_from as since
         from repository_group where id = $1 for no key update
     )
     update repository_group g
        set requires_second_factor = true, second_factor_from = wanted.since
       from former f, (select now() + make_interval(days => coalesce($2, 0)) as since) wanted
      where g.id = f.id
        and (not f.is_required or ($2 is not null and wanted.since < f.since and f.since > now()))
        and ($3::bigint is null or has_second_factor($3))
  returning g.second_factor_from as since, f.is_required as "wasRequired", f.since as "formerSince"`,
    [groupId, graceDays, accountId],
  )
  const [changed] = rows
  if (changed) {
    const { since, wasRequired, formerSince } = changed
    const isOn = { requires_second_factor: true }
    if (wasRequired) return { ...isOn, second_factor_from: since, from: { second_factor_from: formerSince } }
    const wasOff = { requires_second_factor: false }
    return (graceDays ?? 0) === 0
      ? { ...isOn, from: wasOff }
      : { ...isOn, second_factor_from: since, from: { ...wasOff, second_factor_from: null } }
  }
  await requireOwnFactor(tx, accountId)
  return null
}

/** Throws errcode 9 when an account has no second factor, and so may not require one of others. */
export async function requireOwnFactor(db: Queryable, accountId: string | null): Promise<void> {
  if (accountId === null) return
  const { rows } = await db.query<{ has: boolean }>('select has_second_factor($1) as has', [accountId])
  if (rows[0]?.has) return
  throw new Refusal(
    errcode.failedPrecondition,
    'add a second factor to your own account first, at /settings/second-factor, to keep your role in the group',
    { status: 409 },
  )
}

async function waiveFactor(tx: pg.PoolClient, groupId: string): Promise<ChangeDetails | null> {
  const { rowCount } = await tx.query(
    `update repository_group set requires_second_factor = false, second_factor_from = null
      where id = $1 and requires_second_factor`,
    [groupId],
  )
  return rowCount === 1 ? { requires_second_factor: false, from: { requires_second_factor: true } } : null
}

/** Returns whether an account is a member of the group or of its repositories, but lacks the factor that it requires now. */
export async function lacksRequiredFactor(
  db: Queryable,
  groupName: string,
  accountId: string,
): Promise<boolean> {
  const { rows } = await db.query<{ lacks: boolean }>(
    `select exists (select from second_factor_requirement
                     where account_id = $2 and group_name = $1 and required_from <= now())
            and not has_second_factor($2) as lacks`,
    [groupName, accountId],
  )
  return rows[0]?.lacks === true
}

/** A member of a group or of its repositories who has no second factor. */
export interface MemberWithoutFactor {
  username: string
  displayName: string
  /** The role in the group. Null for a member of single repositories. */
  groupRole: Role | null
  /** Whether a mail about the second factor reaches the person: the email is verified. */
  getsMail: boolean
}

const withoutFactor = `account a
  left join group_member m on m.group_id = $1 and m.account_id = a.id
 where a.disabled_at is null and not has_second_factor(a.id)
   and (m.account_id is not null
        or a.id in (select o.account_id from repository_member o join repository r on r.id = o.repository_id
                     where r.group_id = $1))`

/** Lists the members of a group and of its repositories who have no second factor, by username. */
export async function listMembersWithoutFactor(
  db: Queryable,
  groupId: string,
  { after, limit }: ListPart,
): Promise<MemberWithoutFactor[]> {
  const { rows } = await db.query<MemberWithoutFactor>(
    `select a.username, a.display_name as "displayName", m.role as "groupRole",
            a.email_verified_at is not null as "getsMail"
       from ${withoutFactor} and a.username > $2
      order by a.username limit $3`,
    [groupId, after ?? '', limit],
  )
  return rows
}

/** Counts the members of a group and of its repositories, all and those without a second factor. */
export async function countMembersWithoutFactor(
  db: Queryable,
  groupId: string,
): Promise<{ members: number; withoutFactor: number }> {
  const { rows } = await db.query<{ members: number; withoutFactor: number }>(
    `select (select count(*)::int from (
               select m.account_id from group_member m where m.group_id = $1
                union
               select o.account_id from repository_member o join repository r on r.id = o.repository_id
                where r.group_id = $1) all_members
               join account a on a.id = all_members.account_id and a.disabled_at is null) as members,
            (select count(*)::int from ${withoutFactor}) as "withoutFactor"`,
    [groupId],
  )
  return rows[0] as { members: number; withoutFactor: number }
}

const noticesPerTransaction = 500
/** People get the second mail this many days before the end, and in the middle of a shorter grace period. */
const reminderDays = 3

/**
 * Queues the mails to people who need a second factor soon and have none: one when it is announced, one before the grace
 * period ends. Whoever becomes a member meanwhile gets them too.
 */
export const noteRequiredFactorsJob: Job = {
  name: 'note-required-factors',
  everySeconds: 3600,
  async run({ config, db }, _data, signal) {
    if (config.mail === null) return
    for (const note of [announce, remind]) {
      for (;;) {
        signal.throwIfAborted()
        const count = await transaction(db, async (tx) => {
          const noticeIds = await note(tx, config)
          for (const noticeId of noticeIds) await queueMail(tx, config, requiredFactorMail, { noticeId })
          return noticeIds.length
        })
        if (count < noticesPerTransaction) break
      }
    }
  },
}

/** SQL: the requirements whose grace period runs. $1 and $2 are the rule of the site. */
const comingRequirements = `(
  select account_id, group_id, required_from from second_factor_requirement where required_from > now()
   union
  select id, null, $2::timestamptz from account
   where $2 > now() and ($1 = 'all' or ($1 = 'admins' and is_admin)))`

const mayGetMail = 'a.email_verified_at is not null and a.disabled_at is null and not has_second_factor(a.id)'

async function announce(
  tx: pg.PoolClient,
  { requireSecondFactor: site }: Pick<Config, 'requireSecondFactor'>,
): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `insert into second_factor_notice (account_id, group_id, required_from)
     select c.account_id, c.group_id, c.required_from
       from ${comingRequirements} c join account a on a.id = c.account_id
      where ${mayGetMail}
        and not exists (select from second_factor_notice n
                         where n.account_id = c.account_id and n.required_from = c.required_from
                           and coalesce(n.group_id, 0) = coalesce(c.group_id, 0))
      limit ${noticesPerTransaction}
         on conflict do nothing
     returning id`,
    [site.of, site.from],
  )
  return rows.map(({ id }) => id)
}

async function remind(tx: pg.PoolClient): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `update second_factor_notice set reminded_at = now()
      where id in (
        select n.id from second_factor_notice n join account a on a.id = n.account_id
         where n.reminded_at is null and n.required_from > now() and ${mayGetMail}
           and now() > n.required_from - least(make_interval(days => ${reminderDays}),
                                               (n.required_from - n.announced_at) / 2)
         limit ${noticesPerTransaction}
           for update of n skip locked)
     returning id`,
  )
  return rows.map(({ id }) => id)
}

/** Deletes at most `limit` notices about requirements that began a month ago. Returns how many it deleted. */
export const deleteFormerFactorNotices = sweepOf(
  'second_factor_notice',
  'id',
  "required_from < now() - interval '30 days'",
)

/** The mail that asks a person to add a second factor before one is required. */
export const requiredFactorMail: MailKind<{ noticeId: string }> = {
  name: 'second-factor-required',
  async compose({ config, db }, { noticeId }) {
    const notice = await findNotice(db, noticeId, config)
    if (!notice) return null
    const { username, groupName, requiredFrom, isReminder } = notice
    const who = groupName ?? siteOf(config)
    const end =
      groupName === null
        ? 'you cannot use the site in your browser until you add one'
        : `you and your tokens have no access to ${groupName} and its repositories until you add one`
    return {
      to: personOf(notice),
      subject: isReminder
        ? `${who} requires a second factor soon (${siteOf(config)})`
        : `${who} requires a second factor from ${formatTime(requiredFrom)} on (${siteOf(config)})`,
      paragraphs: [
        `The account ${username} on ${siteOf(config)} has no second factor. From ${formatTime(requiredFrom)} on, ${who} requires one. Then ${end}.`,
      ],
      link: { label: 'Set up a second factor', url: `${config.baseUrl}/settings/second-factor` },
      advice: ['An authenticator app or a passkey takes two minutes.'],
    }
  },
}

interface Notice {
  username: string
  displayName: string
  email: string
  /** Null when the site requires it. */
  groupName: string | null
  requiredFrom: Date
  isReminder: boolean
}

/** Finds a notice whose mail is still needed. Null when the requirement changed or began, or the person has a factor. */
async function findNotice(
  db: Queryable,
  id: string,
  { requireSecondFactor: site }: Pick<Config, 'requireSecondFactor'>,
): Promise<Notice | null> {
  const { rows } = await db.query<Notice>(
    `select a.username, a.display_name as "displayName", a.email, g.name as "groupName",
            n.required_from as "requiredFrom", n.reminded_at is not null as "isReminder"
       from second_factor_notice n
       join account a on a.id = n.account_id
       left join repository_group g on g.id = n.group_id
      where n.id = $3 and ${mayGetMail}
        and exists (select from ${comingRequirements} c
                     where c.account_id = n.account_id and c.required_from = n.required_from
                       and coalesce(c.group_id, 0) = coalesce(n.group_id, 0))`,
    [site.of, site.from, id],
  )
  return rows[0] ?? null
}
