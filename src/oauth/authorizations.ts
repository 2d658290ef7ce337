import type pg from 'pg'
import { type Queryable, transaction } from '../database/database.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { coversResources } from '../domain/resources.ts'
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
