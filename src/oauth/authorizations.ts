import type { Queryable } from '../database/database.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { SecretHash } from '../domain/secrets.ts'

/** An account's standing consent to an application, as the account sees it (DESIGN §1). */
export interface Authorization {
  id: string
  clientId: string
  name: string
  website: string
  scopes: string[]
  resourceScope: ResourceScope
  /** Paths of the chosen repositories; they count when the resource scope is `specified`. */
  repositories: string[]
  grantedAt: Date
  /** When a token was issued or used last; null when the application never came for one. */
  lastUsedAt: Date | null
}

/** The account's authorizations that have not ended, latest first. */
export async function listAuthorizations(db: Queryable, accountId: string): Promise<Authorization[]> {
  const { rows } = await db.query<Authorization>(
    `select a.id, c.client_id as "clientId", c.name, c.website, a.scopes, a.resource_scope as "resourceScope",
            array(select g.name || '/' || r.name
                    from authorization_repository chosen
                    join repository r on r.id = chosen.repository_id
                    join repository_group g on g.id = r.group_id
                   where chosen.authorization_id = a.id
                   order by 1) as repositories,
            a.granted_at as "grantedAt",
            greatest(a.last_used_at,
                     (select max(created_at) from token_pair where authorization_id = a.id)) as "lastUsedAt"
       from account_authorization a
       join application c on c.id = a.application_id
      where a.account_id = $1 and a.ended_at is null
      order by a.granted_at desc, a.id desc`,
    [accountId],
  )
  return rows
}

/**
 * Ends an authorization of the account, and with it every code and token: they all ask whether it has ended.
 * Without effect when the account has no such authorization, or it has ended before.
 */
export async function endAuthorization(db: Queryable, id: string, accountId: string): Promise<void> {
  await db.query(
    `update account_authorization set ended_at = now() where id = $1 and account_id = $2 and ended_at is null`,
    [id, accountId],
  )
}

/** The name of the application whose authorization the account has ended; null when it has not. */
export async function findEndedAuthorization(
  db: Queryable,
  id: string,
  accountId: string,
): Promise<string | null> {
  const { rows } = await db.query<{ name: string }>(
    `select c.name
       from account_authorization a
       join application c on c.id = a.application_id
      where a.id = $1 and a.account_id = $2 and a.ended_at is not null`,
    [id, accountId],
  )
  return rows[0]?.name ?? null
}

/** A request that a standing authorization may answer without asking again. */
export interface RepeatedRequest {
  accountId: string
  applicationId: string
  redirectUri: string
  scopes: readonly string[]
  resourceScope: ResourceScope
  codeChallenge: string | null
}

/**
 * Issues a code under the account's standing authorization (OAUTH 47). False when there is none, or it does not
 * cover the scopes and the resource scope, or none of its chosen repositories is left.
 */
export async function issueCodeAgain(
  db: Queryable,
  request: RepeatedRequest,
  code: { hash: SecretHash; lifetimeSeconds: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into authorization_code (code_hash, authorization_id, redirect_uri, scopes, code_challenge, expires_at)
     select $1, a.id, $2, $3, $4, now() + make_interval(secs => $5)
       from account_authorization a
      where a.account_id = $6 and a.application_id = $7 and a.ended_at is null
        and covers_all(a.scopes, $3) and a.resource_scope = $8
        and (a.resource_scope <> 'specified'
          or exists (select from authorization_repository where authorization_id = a.id))`,
    [
      code.hash,
      request.redirectUri,
      request.scopes,
      request.codeChallenge,
      code.lifetimeSeconds,
      request.accountId,
      request.applicationId,
      request.resourceScope,
    ],
  )
  return rowCount === 1
}
