import type { Queryable } from '../../src/database/database.ts'
import { hashSecret, makeClientId, makeSecret } from '../../src/domain/secrets.ts'
import { type Application, insertApplication, type NewApplication } from '../../src/oauth/applications.ts'

/** The smallest valid image: one transparent pixel. */
export const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

export interface ApplicationActor extends Application {
  clientSecret: string
  /** The Authorization header with which it authenticates. */
  basic: string
}

/** A registered application. It is approved by default. */
export async function anApplication(
  db: Queryable,
  differences: Partial<NewApplication> = {},
): Promise<ApplicationActor> {
  const clientSecret = makeSecret('client')
  const application = await insertApplication(db, {
    clientId: makeClientId(),
    name: 'Package Mirror',
    description: 'Mirrors packages',
    website: 'https://app.example.com',
    redirectUri: 'https://app.example.com/callback',
    exactRedirect: false,
    logo: pixel,
    scopes: ['account-profile:r', 'account-email:r', 'registry-package:rw'],
    resourceScope: 'all',
    status: 'approved',
    isPublic: false,
    isDevice: false,
    isResourceServer: false,
    secretHash: differences.isPublic ? null : hashSecret(clientSecret),
    ...differences,
  })
  return { ...application, clientSecret, basic: basicOf(application.clientId, clientSecret) }
}

/** HTTP Basic credentials without percent-encoding. */
export function basicOf(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

export interface AuthorizationActor {
  id: string
  accountId: string
  application: ApplicationActor
  scopes: string[]
}

/** An account's consent to an application. By default it covers everything that the application may request. */
export async function anAuthorization(
  db: Queryable,
  account: { id: string },
  application: ApplicationActor,
  {
    scopes = application.scopes,
    resourceScope = application.resourceScope,
    repositories = [] as { id: string }[],
  } = {},
): Promise<AuthorizationActor> {
  const { rows } = await db.query<{ id: string }>(
    `with given as (
       insert into account_authorization (account_id, application_id)
       values ($1, $2)
       returning id
     )
     insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope,
                                      repository_ids)
     select id, id, $1, $2, $3, $4, $5 from given
     returning id`,
    [account.id, application.id, scopes, resourceScope, repositories.map(({ id }) => id)],
  )
  return { id: (rows[0] as { id: string }).id, accountId: account.id, application, scopes }
}

/** Adds a later consent to an authorization. Returns the id of its grant. */
export async function aLaterGrant(
  db: Queryable,
  { id, scopes: all }: AuthorizationActor,
  { scopes = all, deviceIp = null as string | null, isUsed = false } = {},
): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into authorization_grant (authorization_id, account_id, application_id, scopes, resource_scope, repository_ids,
                                      device_ip, last_used_at)
     select authorization_id, account_id, application_id, $2, resource_scope, repository_ids, $3, case when $4 then now() end
       from authorization_grant where id = $1
     returning id`,
    [id, scopes, deviceIp, isUsed],
  )
  return (rows[0] as { id: string }).id
}

/** Creates a token pair of the authorization. Returns the plain access token. */
export async function anAccessToken(db: Queryable, { id, scopes }: AuthorizationActor): Promise<string> {
  const access = makeSecret('access')
  await db.query(
    `insert into token_pair (authorization_id, access_hash, access_scopes, access_expires_at,
                             refresh_hash, refresh_scopes, refresh_expires_at)
     values ($1, $2, $3, now() + interval '1 hour', $4, $3, now() + interval '1 hour')`,
    [id, hashSecret(access), scopes, hashSecret(makeSecret('refresh'))],
  )
  return access
}

/** Creates an unused code of the authorization. Returns the plain code. */
export async function aCode(
  db: Queryable,
  authorization: AuthorizationActor,
  {
    redirectUri = authorization.application.redirectUri,
    codeChallenge = null as string | null,
    scopes = authorization.scopes,
  } = {},
): Promise<string> {
  const code = makeSecret('code')
  await db.query(
    `insert into authorization_code (code_hash, authorization_id, redirect_uri, scopes, code_challenge, expires_at)
     values ($1, $2, $3, $4, $5, now() + interval '10 minutes')`,
    [hashSecret(code), authorization.id, redirectUri, scopes, codeChallenge],
  )
  return code
}
