import type pg from 'pg'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Role } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import { hashSecret, makeOpaqueId } from '../domain/secrets.ts'
import { insertEvent, insertEvents, type NewEvent } from '../events/events.ts'

/** How long an invitation can be accepted: 7 days. */
const invitationLifetimeSeconds = 7 * 86_400

/** An invitation to create. */
export interface InvitationDraft {
  /** With an email and a mail server it is sent. Otherwise its link is shown to the person who creates it. */
  email: string | null
  /** The role that it gives in a group. Null for an invitation without a group. */
  target: { groupId: string; role: Role } | null
}

/** Returns the URL of an invitation's page. The token is in the query, because the log contains the path. */
export function invitationUrl({ baseUrl }: { baseUrl: string }, token: string): string {
  return `${baseUrl}/invitations?token=${token}`
}

/** Adds an invitation, and writes its event. A requested sign-up has none, because anybody can request one. */
export async function insertInvitation(
  db: Queryable,
  by: Principal,
  {
    madeBy,
    inviterId,
    email,
    isSentByMail,
    token,
    target,
  }: InvitationDraft & {
    madeBy: 'account' | 'command' | 'sign-up'
    inviterId: string | null
    isSentByMail: boolean
    token: string | null
  },
): Promise<{ id: string; expiresAt: Date }> {
  const { rows } = await db.query<{ id: string; expiresAt: Date } & EventOfInvitation>(
    `insert into invitation (made_by, inviter_id, email, is_sent_by_mail, token_hash, group_id, role, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8))
     returning id, expires_at as "expiresAt", ${eventOfInvitation}`,
    [
      madeBy,
      inviterId,
      email,
      isSentByMail,
      token && hashSecret(token),
      target?.groupId ?? null,
      target?.role ?? null,
      invitationLifetimeSeconds,
    ],
  )
  const [made] = rows as [(typeof rows)[0]]
  if (madeBy !== 'sign-up') await insertEvent(db, by, eventOf('invitation-created', made))
  return { id: made.id, expiresAt: made.expiresAt }
}

/** The columns of an invitation that its events need. */
interface EventOfInvitation {
  /** The inviter, or null for a command. In the event of an acceptance it is who accepts. */
  aboutId: string | null
  groupId: string | null
  details: Record<string, unknown>
}

const eventOfInvitation = `inviter_id as "aboutId", group_id as "groupId", jsonb_strip_nulls(jsonb_build_object('email', email, 'role', role,
  'group', (select name from repository_group where id = group_id))) as details`

function eventOf(
  action: 'invitation-created' | 'invitation-accepted' | 'invitation-withdrawn',
  { aboutId, groupId, details }: EventOfInvitation,
): NewEvent {
  // The activity of the group has the event of the role that an accepted invitation gives.
  const place = action !== 'invitation-accepted' && { inGroupId: groupId }
  return { action, ...(aboutId !== null && { accountId: aboutId }), ...place, details }
}

/** Marks an invitation as accepted by an account, and writes the event. */
export async function noteAcceptance(
  tx: pg.PoolClient,
  by: Principal,
  id: string,
  accountId: string,
): Promise<void> {
  const { rows } = await tx.query<EventOfInvitation>(
    `update invitation set accepted_at = now(), accepted_by = $2 where id = $1 returning ${eventOfInvitation}`,
    [id, accountId],
  )
  for (const row of rows) {
    await insertEvent(tx, by, eventOf('invitation-accepted', { ...row, aboutId: accountId }))
  }
}

/** An invitation that can be accepted. */
export interface Invitation {
  id: string
  madeBy: 'account' | 'command' | 'sign-up'
  /** The username of the person who invites. Null for a command or a sign-up. */
  inviter: string | null
  email: string | null
  /** Whether it was sent by mail. Then only the owner of the email knows the token. */
  isSentByMail: boolean
  groupId: string | null
  group: string | null
  role: Role | null
  expiresAt: Date
}

const invitationColumns = `i.id, i.made_by as "madeBy", b.username as inviter, i.email, i.is_sent_by_mail as "isSentByMail",
            i.group_id as "groupId", g.name as "group", i.role, i.expires_at as "expiresAt"`
const invitationJoins = `left join repository_group g on g.id = i.group_id
       left join account b on b.id = i.inviter_id`

/**
 * An invitation ends when it is accepted, withdrawn or 7 days old, and when its inviter may no longer invite. Without the
 * second factor that the group requires, nobody may.
 */
const isLive = `i.accepted_at is null and i.withdrawn_at is null and i.expires_at > now()
        and (i.inviter_id is null
             or b.disabled_at is null
                and (b.is_admin or exists (select from counted_group_member m
                                            where m.group_id = i.group_id and m.account_id = i.inviter_id and m.role = 'admin')))`

/** Finds an invitation that can be accepted, by its token. Null when it has ended. */
export async function findInvitation(db: Queryable, token: string): Promise<Invitation | null> {
  const { rows } = await db.query<Invitation>(
    `select ${invitationColumns} from invitation i ${invitationJoins} where i.token_hash = $1 and ${isLive}`,
    [hashSecret(token)],
  )
  return rows[0] ?? null
}

/** Creates the token of an invitation that is sent by mail. An earlier token stops working. Null when it has ended. */
export async function makeInvitationToken(
  db: Queryable,
  id: string,
): Promise<{ invitation: Invitation; token: string } | null> {
  const token = makeOpaqueId()
  const { rows } = await db.query<Invitation>(
    `with live as (
       select ${invitationColumns} from invitation i ${invitationJoins} where i.id = $1 and i.is_sent_by_mail and ${isLive}
     ), changed as (
       update invitation set token_hash = $2 where id in (select id from live)
     )
     select * from live`,
    [id, hashSecret(token)],
  )
  return rows[0] ? { invitation: rows[0], token } : null
}

/** An invitation in a list. */
export interface ListedInvitation extends Invitation {
  createdAt: Date
  isExpired: boolean
}

/** Lists the invitations to a group, or all, newest first. Leaves out accepted and withdrawn ones, and sign-ups. */
export async function listInvitations(
  db: Queryable,
  groupId: string | null,
  { after, limit }: ListPart,
): Promise<ListedInvitation[]> {
  const { rows } = await db.query<ListedInvitation>(
    `select ${invitationColumns}, i.created_at as "createdAt", i.expires_at <= now() as "isExpired"
       from invitation i ${invitationJoins}
      where ($1::bigint is null or i.group_id = $1) and ($2::bigint is null or i.id < $2)
        and i.made_by <> 'sign-up' and i.accepted_at is null and i.withdrawn_at is null
      order by i.id desc limit $3`,
    [groupId, readRowId(after), limit],
  )
  return rows
}

/**
 * Withdraws an invitation. With a group, it must be an invitation to this group. False when there is no such
 * invitation.
 */
export async function withdrawInvitation(
  db: pg.Pool,
  by: Principal,
  id: string,
  groupId: string | null,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { rows } = await tx.query<EventOfInvitation>(
      `update invitation set withdrawn_at = now()
        where id = $1 and ($2::bigint is null or group_id = $2) and made_by <> 'sign-up'
          and accepted_at is null and withdrawn_at is null
    returning ${eventOfInvitation}`,
      [id, groupId],
    )
    for (const row of rows) await insertEvent(tx, by, eventOf('invitation-withdrawn', row))
    return rows.length === 1
  })
}

/** Withdraws all open invitations that an account made, and writes the events. Returns how many. */
export async function withdrawInvitationsOf(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
): Promise<number> {
  const { rows } = await tx.query<EventOfInvitation>(
    `update invitation set withdrawn_at = now()
      where id in (select id from invitation
                    where inviter_id = $1 and accepted_at is null and withdrawn_at is null order by id for update)
  returning ${eventOfInvitation}`,
    [accountId],
  )
  const events = rows.map((row) => eventOf('invitation-withdrawn', row))
  await insertEvents(tx, by, events)
  return events.length
}

/**
 * Finds an invitation that can be accepted, and locks it. Of two racing requests, the second waits here, and then finds
 * that the invitation was accepted. Null for any other.
 */
export async function lockInvitation(tx: pg.PoolClient, token: string): Promise<Invitation | null> {
  const { rows } = await tx.query<Invitation>(
    `select ${invitationColumns} from invitation i ${invitationJoins}
      where i.token_hash = $1 and ${isLive} for update of i`,
    [hashSecret(token)],
  )
  return rows[0] ?? null
}

/** Deletes at most `limit` expired sign-ups, and other invitations a month after they expired. Returns how many. */
export const deleteExpiredInvitations = sweepOf(
  'invitation',
  'id',
  `expires_at < now() - case when made_by = 'sign-up' then interval '0' else interval '30 days' end`,
)
