import type pg from 'pg'
import { type Queryable, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'
import { coversResources } from '../domain/resources.ts'
import { readRowId } from '../domain/row-id.ts'
import { covers } from '../domain/scopes.ts'
import { insertEvent } from '../events/events.ts'

/** The access that several grants give to the same repositories, at the same resources. */
export interface AuthorizedAccess {
  scopes: string[]
  resourceScope: ResourceScope
  /** Paths of the chosen repositories, when the resource scope is `specified`. */
  repositories: string[]
  /** Where its tokens work (RFC 8707). Null: everywhere. */
  resources: string[] | null
}

/** All grants of an account to an application, as the account sees them (CONTRACT 1.5). */
export interface Authorization {
  id: string
  clientId: string
  name: string
  website: string
  /** The access of its live grants, with one element for each set of repositories and resources. */
  access: AuthorizedAccess[]
  /** The time of the last consent. */
  grantedAt: Date
  /** When a token was last issued or used; null when the application never fetched one. */
  lastUsedAt: Date | null
}

/** SQL for the authorizations of the account $1 that have not ended. */
const live = `
     select a.id, c.client_id as "clientId", c.name, c.website, a.granted_at as "grantedAt",
            a.last_used_at as "lastUsedAt", together.access
       from account_authorization a
       join application c on c.id = a.application_id
      cross join lateral (
        select json_agg(json_build_object('scopes', scopes, 'resourceScope', resource_scope, 'repositories', repositories,
                                          'resources', resources)
                        order by first_id) as access
          from (select min(g.id) as first_id, g.resource_scope, chosen.repositories, g.resources,
                       array_agg(distinct scope) as scopes
                  from authorization_grant g
                 cross join unnest(g.scopes) as scope
                 cross join lateral (
                   select array(select o.name || '/' || r.name
                                  from repository r join repository_group o on o.id = r.group_id
                                 where r.id = any (g.repository_ids)
                                 order by 1) as repositories) as chosen
                 where g.authorization_id = a.id and g.ended_at is null
                 group by g.resource_scope, chosen.repositories, g.resources) as same_reach) as together
      where a.account_id = $1 and a.ended_at is null`

/** Returns the account's authorizations that have not ended, latest first. */
export async function listAuthorizations(db: Queryable, accountId: string): Promise<Authorization[]> {
  const { rows } = await db.query<Authorization>(`${live} order by a.granted_at desc, a.id desc`, [accountId])
  return rows
}

/** Finds the account's authorization of an application that has not ended. Null without one. */
export async function findAuthorization(
  db: Queryable,
  accountId: string,
  clientId: string,
): Promise<Authorization | null> {
  const { rows } = await db.query<Authorization>(`${live} and c.client_id = $2`, [accountId, clientId])
  return rows[0] ?? null
}

/** What an application asks for, and the repositories that are chosen for it. */
export interface AskedAccess {
  scopes: readonly string[]
  resourceScope: ResourceScope
  repositories: readonly string[]
  resources: readonly string[] | null
}

/**
 * Returns the scopes with which a new grant would give more than the application already has (OAUTH 153). A scope is not
 * new when it has the scope in each of the repositories, for these resources.
 */
export function newScopes(
  { access }: Pick<Authorization, 'access'>,
  { scopes, resourceScope, repositories, resources }: AskedAccess,
): string[] {
  const isHeld = (scope: string, path: string | null) =>
    access.some(
      (had) =>
        covers(had.scopes, scope) &&
        coversResources(had.resources, resources) &&
        (had.resourceScope === 'all' ||
          (path === null ? had.resourceScope === resourceScope : had.repositories.includes(path))),
    )
  const places = resourceScope === 'specified' && repositories.length > 0 ? repositories : [null]
  return scopes.filter((scope) => !places.every((path) => isHeld(scope, path)))
}

/**
 * Withdraws an authorization of the account: all tokens that the application has for it stop at once. Writes the event.
 * Returns the name of the application. Null when the account has no such authorization, or it has already ended.
 */
export async function withdrawAuthorization(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  id: string,
): Promise<string | null> {
  return transaction(db, async (tx) => {
    // Every check of a code or token reads whether its grant has ended, and the grants end with the authorization.
    const { rows } = await tx.query<{ name: string; applicationId: string }>(
      `update account_authorization a set ended_at = now()
         from application c
        where a.id = $1 and a.account_id = $2 and a.ended_at is null and c.id = a.application_id
    returning c.name, c.id as "applicationId"`,
      [id, accountId],
    )
    const [withdrawn] = rows
    if (!withdrawn) return null
    const { applicationId, name } = withdrawn
    await insertEvent(tx, by, { action: 'authorization-withdrawn', accountId, applicationId })
    return name
  })
}

/**
 * What a grant is for its account: the login of a device or command line, a sign-in with svc in a browser, or other access of
 * the application, which it may use while the person is away.
 */
export type GrantKind = 'device' | 'sign-in' | 'access'

/** One act of consent that has not ended. */
export interface LiveGrant {
  id: string
  authorizationId: string
  kind: GrantKind
  /** The client IP of the device. Null for other kinds. */
  deviceIp: string | null
  /** Null for a grant of the release before grants. */
  grantedAt: Date | null
  /** When a token was last issued or used. Null if never, and for a client that is not public. */
  lastUsedAt: Date | null
}

const grantColumns = `g.id, g.authorization_id as "authorizationId", host(g.device_ip) as "deviceIp",
  g.granted_at as "grantedAt", g.last_used_at as "lastUsedAt", grant_kind(g) as kind`

/**
 * Lists the account's live grants of every application, newest first, with at most `limit` of each. The account has at most 20
 * of a public client, and of another one those that no later consent has made superfluous.
 */
export async function listLiveGrants(db: Queryable, accountId: string, limit: number): Promise<LiveGrant[]> {
  const { rows } = await db.query<LiveGrant>(
    `select g.*
       from account_authorization a
      cross join lateral (
        select ${grantColumns} from authorization_grant g
         where g.authorization_id = a.id and g.ended_at is null
         order by g.id desc limit $2) as g
      where a.account_id = $1 and a.ended_at is null`,
    [accountId, limit],
  )
  return rows
}

/** Lists the live grants of one authorization of the account, newest first. */
export async function listLiveGrantsOf(
  db: Queryable,
  { accountId, authorizationId }: { accountId: string; authorizationId: string },
  { after, limit }: ListPart,
): Promise<LiveGrant[]> {
  const { rows } = await db.query<LiveGrant>(
    `select ${grantColumns}
       from authorization_grant g join account_authorization a on a.id = g.authorization_id and a.ended_at is null
      where g.authorization_id = $1 and g.account_id = $2 and g.ended_at is null and ($3::bigint is null or g.id < $3)
      order by g.id desc limit $4`,
    [authorizationId, accountId, readRowId(after), limit],
  )
  return rows
}

/** Finds a live grant of the account, with its application. Null without one. */
export async function findLiveGrant(
  db: Queryable,
  accountId: string,
  id: string,
): Promise<(LiveGrant & { clientId: string; name: string }) | null> {
  const { rows } = await db.query<LiveGrant & { clientId: string; name: string }>(
    `select ${grantColumns}, c.client_id as "clientId", c.name
       from authorization_grant g
       join account_authorization a on a.id = g.authorization_id and a.ended_at is null
       join application c on c.id = g.application_id
      where g.id = $1 and g.account_id = $2 and g.ended_at is null`,
    [id, accountId],
  )
  return rows[0] ?? null
}

/**
 * Ends one grant of the account: its tokens stop at once, and the other grants of the application stay (OPENID 211). The end of
 * the last one ends the authorization. Writes the event. Returns null when the account has no such grant, or it has ended.
 */
export async function endGrant(
  db: Queryable,
  by: Principal,
  accountId: string,
  id: string,
): Promise<{ isLast: boolean } | null> {
  const { rows } = await db.query<{ isLast: boolean | null }>(
    'select end_grant(the_grant_id => $1, the_account_id => $2, the_actor => $3) as "isLast"',
    [id, accountId, describePrincipal(by)],
  )
  const isLast = rows[0]?.isLast ?? null
  return isLast === null ? null : { isLast }
}
