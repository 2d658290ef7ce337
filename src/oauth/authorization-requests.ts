import type pg from 'pg'
import { type Queryable, surplusOf, sweepOf } from '../database/database.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { Application } from './applications.ts'

/** How long a consent page can be used. An hour is enough for a decision. */
const lifetimeSeconds = 3600
/** How many requests of an account are stored, decided or not. More open tabs than anybody has. */
const maxRequestsPerAccount = 100

/** An authorization request whose consent page is shown. Its application and redirect URI are checked. */
export interface NewAuthorizationRequest {
  accountId: string
  applicationId: string
  /** Path and query of the authorization request. */
  link: string
  /** Null for the request of a device. */
  redirectUri: string | null
  /** Percent-encoded; null when the request had none. */
  state: string | null
  scopes: readonly string[]
  resourceScope: ResourceScope
  /** The resources that it names (RFC 8707). Null: none, so it is for everything. */
  resources: readonly string[] | null
  codeChallenge: string | null
  /** The device whose request the page decides. Null for an application in the browser. */
  deviceHash: SecretHash | null
}

/** A stored request, with the application as its consent page shows it. */
export interface AuthorizationRequest {
  accountId: string
  link: string
  /** Null for the request of a device. */
  redirectUri: string | null
  /** Null for an application in the browser. */
  device: AskingDevice | null
  /** The hash of the code that an approval makes for the device. Null for an application in the browser. */
  deviceCodeHash: SecretHash | null
  scopes: string[]
  resourceScope: ResourceScope
  resources: string[] | null
  codeChallenge: string | null
  isDecided: boolean
  application: ConsentApplication
  /** The current registration of the application. It may have changed since the request. */
  registered: Pick<
    Application,
    'redirectUri' | 'exactRedirect' | 'redirectUris' | 'isPublic' | 'isDevice' | 'scopes' | 'resourceScope'
  >
}

/** A device that asks, as the person sees it. */
export interface AskingDevice {
  /** The client IP of the device. */
  ip: string
  /** How long ago the device asked. */
  ageSeconds: number
}

/** The application as people see it (SPEC 2.1). Its logo has a separate URL. */
export interface ConsentApplication {
  clientId: string
  name: string
  description: string | null
  website: string
  isUnreviewed: boolean
  /** Null if it is not described by a client metadata document. */
  redirectUris: readonly string[] | null
}

/** SQL: makes a `ConsentApplication` of the application `c`. */
export const consentApplicationJson = `json_build_object('clientId', c.client_id, 'name', c.name,
  'description', c.description, 'website', c.website, 'isUnreviewed', c.is_unreviewed, 'redirectUris', c.redirect_uris)`

/** The redirect after a decision. */
export interface Decision {
  /** Null after a decision about a device. */
  redirectUri: string | null
  /** Percent-encoded. */
  state: string | null
}

/** Stores a request until it is decided or expires. Removes the oldest requests of the account when it has many. */
export async function insertAuthorizationRequest(
  db: Queryable,
  idHash: SecretHash,
  request: NewAuthorizationRequest,
): Promise<void> {
  await db.query(
    `with ${surplusOf('authorization_request', 'id_hash', 'account_id = $2', maxRequestsPerAccount - 1)}
     insert into authorization_request (id_hash, account_id, application_id, link, redirect_uri, state, scopes,
                                        resource_scope, code_challenge, device_hash, expires_at,
                                        resources)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $11,
             least(now() + make_interval(secs => $10), (select expires_at from device_request where device_hash = $11)),
             $12)`,
    [
      idHash,
      request.accountId,
      request.applicationId,
      request.link,
      request.redirectUri,
      request.state,
      request.scopes,
      request.resourceScope,
      request.codeChallenge,
      lifetimeSeconds,
      request.deviceHash,
      request.resources,
    ],
  )
}

const openRequest = `select r.account_id as "accountId", r.link, r.redirect_uri as "redirectUri", r.scopes,
       r.resource_scope as "resourceScope", r.resources, r.code_challenge as "codeChallenge",
       r.answered_at is not null or d.is_approved is not null as "isDecided",
       case when r.device_hash is not null
            then json_build_object('ip', host(d.client_ip), 'ageSeconds', floor(extract(epoch from now() - d.created_at)))
        end as device, code_hash_of_device(r.device_hash) as "deviceCodeHash",
       ${consentApplicationJson} as application,
       json_build_object('redirectUri', c.redirect_uri, 'exactRedirect', c.exact_redirect, 'isPublic', c.is_public,
                         'isDevice', c.is_device, 'scopes', c.scopes, 'resourceScope', c.resource_scope,
                         'redirectUris', c.redirect_uris) as registered
  from authorization_request r
  join application c on c.id = r.application_id and c.status = 'approved'
  left join device_request d on d.device_hash = r.device_hash
 where r.id_hash = $1 and r.expires_at > now()`

/** Finds a request, decided or not. Null when it is unknown or expired, or its application is not approved. */
export async function findAuthorizationRequest(
  db: Queryable,
  idHash: SecretHash,
): Promise<AuthorizationRequest | null> {
  const { rows } = await db.query<AuthorizationRequest>(openRequest, [idHash])
  return rows[0] ?? null
}

/**
 * Finds a request for its decision in the same transaction. Until then the registration of its application does not
 * change: a change waits for the decision. If the change was first, the decision waits for it and sees it.
 */
export async function holdAuthorizationRequest(
  tx: pg.PoolClient,
  idHash: SecretHash,
): Promise<AuthorizationRequest | null> {
  const { rows } = await tx.query<AuthorizationRequest>(`${openRequest} for share of c`, [idHash])
  return rows[0] ?? null
}

/**
 * Approves the request, with the chosen repositories by path, and issues the code. Null when the request was decided
 * before, belongs to another account or has expired, and when the required choice of repositories is missing.
 */
export async function approveAuthorizationRequest(
  db: Queryable,
  idHash: SecretHash,
  accountId: string,
  chosen: readonly string[],
  code: { hash: SecretHash; lifetimeSeconds: number },
): Promise<Decision | null> {
  const { rows } = await db.query<Decision>({
    name: 'approve-authorization-request',
    text: `select redirect_uri as "redirectUri", state
             from approve_authorization_request(
               the_id_hash => $1, the_account_id => $2, chosen_paths => $3,
               the_code_hash => $4, code_lifetime_seconds => $5)`,
    values: [idHash, accountId, chosen, code.hash, code.lifetimeSeconds],
  })
  return rows[0] ?? null
}

/**
 * Denies the request. Null when it or its device was decided before, and when it belongs to another account or has expired.
 */
export async function denyAuthorizationRequest(
  db: Queryable,
  idHash: SecretHash,
  accountId: string,
): Promise<Decision | null> {
  const { rows } = await db.query<Decision>(
    `with denied as (
       update authorization_request r
          set answered_at = now()
         from application c
        where r.id_hash = $1 and r.account_id = $2 and r.answered_at is null and r.expires_at > now()
          and c.id = r.application_id and c.status = 'approved'
    returning r.redirect_uri, r.state, r.device_hash
     ), device as (
       update device_request set is_approved = false, account_id = $2
        where device_hash in (select device_hash from denied) and is_approved is null
    returning device_hash
     )
     -- Two pages may ask about one device. Only the first decision counts.
     select redirect_uri as "redirectUri", state from denied
      where device_hash is null or exists (select from device)`,
    [idHash, accountId],
  )
  return rows[0] ?? null
}

/** Deletes at most `limit` requests that expired more than a day ago. Returns how many it deleted. */
export const deleteExpiredRequests = sweepOf(
  'authorization_request',
  'id_hash',
  `expires_at < now() - interval '1 day'`,
)

/** A request that may be covered by an earlier grant. */
export interface RepeatedRequest {
  accountId: string
  applicationId: string
  redirectUri: string
  scopes: readonly string[]
  resourceScope: ResourceScope
  resources: readonly string[] | null
  codeChallenge: string | null
}

/** Returns whether each of the resources exists for an account. Those that it may not see do not exist for it. */
export async function areResourcesOf(
  db: Queryable,
  accountId: string,
  resources: readonly string[],
): Promise<boolean> {
  const { rows } = await db.query<{ exist: boolean }>('select are_resources_of($1, $2) as exist', [
    accountId,
    resources,
  ])
  return rows[0]?.exist === true
}

/**
 * SQL: the live grants of an account that cover the scopes, the resources, and the resource scope with a chosen repository that
 * still exists. The parameters $1 to $5 are those of `coverageOf`.
 */
const coveringGrants = `authorization_grant g
  where g.authorization_id = (select id from account_authorization
                               where account_id = $1 and application_id = $2 and ended_at is null)
    and g.ended_at is null and g.granted_at is not null
    and covers_all(g.scopes, $3) and g.resource_scope = $4 and covers_resources(g.resources, $5)
    and (g.resource_scope <> 'specified' or exists (select from repository where id = any (g.repository_ids)))`

function coverageOf(request: RepeatedRequest): unknown[] {
  const { accountId, applicationId, scopes, resourceScope, resources } = request
  return [accountId, applicationId, scopes, resourceScope, resources]
}

/** Returns whether a live grant of the account covers a request (OAUTH 47). */
export async function isCoveredByGrant(db: Queryable, request: RepeatedRequest): Promise<boolean> {
  const { rowCount } = await db.query(`select from ${coveringGrants} limit 1`, coverageOf(request))
  return rowCount === 1
}

/**
 * Issues a code that belongs to a live grant of the account (OAUTH 47). Returns false when no single grant covers the
 * request. It uses the newest that does, so the access never becomes wider. If the grant is good for more resources, the code
 * is only for the requested ones.
 */
export async function issueCodeForGrant(
  db: Queryable,
  request: RepeatedRequest,
  code: { hash: SecretHash; lifetimeSeconds: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into authorization_code
                 (code_hash, authorization_id, grant_id, redirect_uri, scopes, code_challenge, expires_at, resources)
     select $6, g.authorization_id, g.id, $7, $3, $8, now() + make_interval(secs => $9), $5
       from ${coveringGrants}
      order by g.id desc
      limit 1`,
    [...coverageOf(request), code.hash, request.redirectUri, request.codeChallenge, code.lifetimeSeconds],
  )
  return rowCount === 1
}
