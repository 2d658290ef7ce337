import type pg from 'pg'
import { type Queryable, sweepOf } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { TokenAlgorithm } from '../domain/token-algorithm.ts'

/**
 * The approval states (CONTRACT 1.4). Only an approved application can be authorized or have a working token.
 */
export const applicationStatuses = ['pending', 'approved', 'suspended', 'declined'] as const
export type ApplicationStatus = (typeof applicationStatuses)[number]

/** A registered third-party application (SPEC 2.1), without its logo and its secrets. */
export interface Application {
  id: string
  clientId: string
  name: string
  description: string | null
  website: string
  redirectUri: string
  /** Whether only the registered Redirect URL is allowed, instead of any URL on its host (SPEC 4.1). */
  exactRedirect: boolean
  /**
   * The redirect URIs of a client metadata document that are accepted, each exactly; the first is `redirectUri`. Null for all
   * other applications (OPENID 279).
   */
  redirectUris: string[] | null
  /** Whether it was made from a client metadata document without a review (OPENID 277). */
  isUnreviewed: boolean
  scopes: string[]
  resourceScope: ResourceScope
  status: ApplicationStatus
  /** The reason for its suspension or decline. Null when none was given. */
  statusReason: string | null
  /** Whether it is a program on the machines of people, which has no client secret (OPENID 201). */
  isPublic: boolean
  /** Whether it may ask with a code that the person confirms in a browser on any machine (OPENID 221). */
  isDevice: boolean
  /** The algorithm that signs its ID tokens (OPENID 243). */
  idTokenAlg: TokenAlgorithm
  /** Where the browser returns after a sign-out that it has begun (OPENID 257). Null for none. */
  postLogoutRedirectUri: string | null
  /** The URL that gets logout tokens (OPENID 258). Null for none. */
  backchannelLogoutUri: string | null
  /** Whether it may also introspect access, personal and deploy tokens that are not its own (RFC 7662). */
  isResourceServer: boolean
  createdAt: Date
  /** The username of the account that asked for it. Null when it is not known. */
  developer: string | null
  /** The username of the account that set the status. Null for a command, and while it is pending. */
  reviewer: string | null
  /** Null while it is pending, and for reviews by earlier releases. */
  reviewedAt: Date | null
}

/** Returns an application as the API and the commands show it. It contains no secret. */
export function describeApplication(application: Application) {
  return {
    client_id: application.clientId,
    name: application.name,
    description: application.description,
    status: application.status,
    status_reason: application.statusReason,
    website: application.website,
    redirect_uri: application.redirectUri,
    exact_redirect: application.exactRedirect,
    redirect_uris: application.redirectUris,
    unreviewed: application.isUnreviewed,
    scopes: application.scopes,
    resource_scope: application.resourceScope,
    public: application.isPublic,
    device: application.isDevice,
    id_token_alg: application.idTokenAlg,
    post_logout_redirect_uri: application.postLogoutRedirectUri,
    backchannel_logout_uri: application.backchannelLogoutUri,
    resource_server: application.isResourceServer,
    created_at: application.createdAt.toISOString(),
    developer: application.developer,
    reviewed_by: application.reviewer,
    reviewed_at: application.reviewedAt?.toISOString() ?? null,
  }
}

/** How an application signs people in with svc. The defaults are RS256, and no URLs. */
export type SignInSettings = Pick<
  Application,
  'idTokenAlg' | 'postLogoutRedirectUri' | 'backchannelLogoutUri'
>

/** What only the application of a client metadata document has. */
export type DocumentSettings = Pick<Application, 'redirectUris' | 'isUnreviewed'>

/** An application to insert. The schema's constraints check every limit of SPEC 2.1. */
export type NewApplication = Omit<
  Application,
  | 'id'
  | 'createdAt'
  | 'statusReason'
  | 'developer'
  | 'reviewer'
  | 'reviewedAt'
  | keyof SignInSettings
  | keyof DocumentSettings
> &
  Partial<SignInSettings> &
  Partial<DocumentSettings> & {
    /** A username. */
    developer?: string | null
    logo: Buffer
    /** Null for a public client. */
    secretHash: SecretHash | null
  }

const columns = `id, client_id as "clientId", name, description, website, redirect_uri as "redirectUri",
  exact_redirect as "exactRedirect", redirect_uris as "redirectUris", is_unreviewed as "isUnreviewed", scopes, resource_scope as "resourceScope", status, status_reason as "statusReason",
  is_public as "isPublic", is_device as "isDevice", id_token_alg as "idTokenAlg",
  post_logout_redirect_uri as "postLogoutRedirectUri", backchannel_logout_uri as "backchannelLogoutUri",
  is_resource_server as "isResourceServer", created_at as "createdAt", reviewed_at as "reviewedAt",
  (select username from account where account.id = developer_id) as developer,
  (select username from account where account.id = reviewer_id) as reviewer`

/**
 * Registers an application, with its first client secret if it is no public client. Throws when a limit of SPEC 2.1 is broken,
 * and when the client id is taken.
 */
export async function insertApplication(db: Queryable, application: NewApplication): Promise<Application> {
  return (await insert(db, application, '')) as Application
}

/** Registers an application unless there is one with this client id. Returns null when there is. */
export async function addApplication(
  db: Queryable,
  application: NewApplication,
): Promise<Application | null> {
  return await insert(db, application, 'on conflict (client_id) do nothing')
}

async function insert(
  db: Queryable,
  application: NewApplication,
  onConflict: string,
): Promise<Application | null> {
  const { rows } = await db.query<Application>(
    `with registered as (
       insert into application (client_id, name, description, website, redirect_uri, exact_redirect, logo, scopes,
                                resource_scope, status, is_public, is_device, is_resource_server,
                                developer_id, id_token_alg, post_logout_redirect_uri, backchannel_logout_uri,
                                redirect_uris, is_unreviewed)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $14, $15, $11, (select id from account where username = $13),
               $16, $17, $18, $19, $20)
       ${onConflict}
       returning ${columns}
     ), secret as (
       insert into application_secret (secret_hash, application_id) select $12::bytea, id from registered where $12::bytea is not null
     )
     table registered`,
    [
      application.clientId,
      application.name,
      application.description,
      application.website,
      application.redirectUri,
      application.exactRedirect,
      application.logo,
      application.scopes,
      application.resourceScope,
      application.status,
      application.isResourceServer,
      application.secretHash,
      application.developer ?? null,
      application.isPublic,
      application.isDevice,
      application.idTokenAlg ?? 'RS256',
      application.postLogoutRedirectUri ?? null,
      application.backchannelLogoutUri ?? null,
      application.redirectUris ?? null,
      application.isUnreviewed ?? false,
    ],
  )
  return rows[0] ?? null
}

/** Finds an application by client identifier, with any status. Null when there is none. */
export async function findApplicationByClientId(
  db: Queryable,
  clientId: string,
): Promise<Application | null> {
  const { rows } = await db.query<Application>({
    name: 'find-application-by-client-id',
    text: `select ${columns} from application where client_id = $1`,
    values: [clientId],
  })
  return rows[0] ?? null
}

/** Lists all applications, or those in one state, oldest first. `after` is the client id of one of them. */
export async function listApplications(
  db: Queryable,
  { after, limit }: ListPart = { after: null, limit: 1000 },
  status: ApplicationStatus | null = null,
): Promise<Application[]> {
  const { rows } = await db.query<Application>(
    `select ${columns} from application
      where ($1::text is null or id > (select id from application where client_id = $1))
        and ($3::text is null or status = $3)
      order by id limit $2`,
    [after, limit, status],
  )
  return rows
}

/**
 * Lists the names of the applications that administrators have registered or reviewed, so there are few. An unreviewed one
 * takes its name away from nobody.
 */
export async function listApplicationNames(db: Queryable): Promise<Pick<Application, 'clientId' | 'name'>[]> {
  const { rows } = await db.query<Pick<Application, 'clientId' | 'name'>>(
    'select client_id as "clientId", name from application where not is_unreviewed order by id',
  )
  return rows
}

/** The maximum number of applications of a developer that are listed. */
const maxOfDeveloper = 100

/** Lists the applications of a developer, the newest first. */
export async function listApplicationsOfDeveloper(db: Queryable, accountId: string): Promise<Application[]> {
  const { rows } = await db.query<Application>(
    `select ${columns} from application where developer_id = $1 order by id desc limit $2`,
    [accountId, maxOfDeveloper],
  )
  return rows
}

/** Counts the applications in each state; a state without one is left out. */
export async function countApplications(db: Queryable): Promise<Partial<Record<ApplicationStatus, number>>> {
  const { rows } = await db.query<{ status: ApplicationStatus; count: number }>(
    'select status, count(*)::int as count from application group by status',
  )
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}

/**
 * Takes over what the document of an unreviewed application says now: its redirect URIs, and scopes that are new in it. Null
 * when there is no such application.
 */
export async function updateUnreviewedApplication(
  db: Queryable,
  clientId: string,
  { redirectUris, scopes }: { redirectUris: readonly string[]; scopes: readonly string[] },
): Promise<Application | null> {
  const { rows } = await db.query<Application>(
    `update application
        set redirect_uri = ($2::text[])[1], redirect_uris = $2,
            scopes = array(select unnest(scopes) union select unnest($3::text[]) order by 1)
      where client_id = $1 and is_unreviewed
     returning ${columns}`,
    [clientId, redirectUris, scopes],
  )
  return rows[0] ?? null
}

/** Deletes unreviewed applications that nobody has authorized for a month, at most `limit`. Returns how many. */
export const deleteUnusedApplications = sweepOf(
  'application',
  'id',
  `is_unreviewed and status = 'approved' and created_at < now() - interval '30 days'
   and not exists (select from account_authorization where application_id = application.id)`,
)

/**
 * Sets the state and its reason. An approval is a review. Every token check reads the state, so the change works at once. Null when there is no
 * such application.
 */
export async function setApplicationStatus(
  db: Queryable,
  clientId: string,
  status: ApplicationStatus,
  reason: string | null = null,
): Promise<Application | null> {
  const { rows } = await db.query<Application>(
    `update application
        set status = $2, status_reason = $3, is_unreviewed = is_unreviewed and $2 <> 'approved'
      where client_id = $1 returning ${columns}`,
    [clientId, status, reason],
  )
  return rows[0] ?? null
}

/** Locks an application, so that its secrets change one after another. */
export async function lockApplication(tx: pg.PoolClient, clientId: string): Promise<void> {
  await tx.query('select from application where client_id = $1 for no key update', [clientId])
}

/**
 * Adds a client secret. Earlier secrets work for at most `overlapSeconds` more. Null when there is no such application.
 */
export async function rotateClientSecret(
  db: Queryable,
  clientId: string,
  secretHash: SecretHash,
  overlapSeconds: number,
): Promise<Application | null> {
  const { rows } = await db.query<Application>(
    `with rotated as (
       select ${columns} from application where client_id = $1
     ), older as (
       update application_secret s
          set expires_at = least(s.expires_at, now() + make_interval(secs => $3))
         from rotated r
        where s.application_id = r.id and s.expires_at > now()
     ), newer as (
       insert into application_secret (secret_hash, application_id) select $2, id from rotated
     )
     table rotated`,
    [clientId, secretHash, overlapSeconds],
  )
  return rows[0] ?? null
}

/** The properties of a logo, without its bytes. */
export interface LogoHead {
  /** SHA-256 in lower-case hex. */
  sha256: string
  /** The content type, from the first bytes. */
  type: string
  /** The size in bytes. */
  size: number
}

/** A logo as pages show it. */
export interface Logo extends LogoHead {
  image: Buffer
}

const logoHeadColumns = `encode(sha256(logo), 'hex') as sha256, image_type(logo) as type, octet_length(logo) as size`

/** Finds the logo of an application that was approved at some time. Null for other applications. */
export async function findLogo(db: Queryable, clientId: string): Promise<Logo | null> {
  const { rows } = await db.query<Logo>({
    name: 'find-logo',
    text: `select logo as image, ${logoHeadColumns}
             from application where client_id = $1 and status in ('approved', 'suspended')`,
    values: [clientId],
  })
  return rows[0] ?? null
}

/** Finds the same as `findLogo`, without the bytes. */
export async function findLogoHead(db: Queryable, clientId: string): Promise<LogoHead | null> {
  const { rows } = await db.query<LogoHead>({
    name: 'find-logo-head',
    text: `select ${logoHeadColumns} from application where client_id = $1 and status in ('approved', 'suspended')`,
    values: [clientId],
  })
  return rows[0] ?? null
}

/** Finds the logo of an application in any state, for administrators. Null when there is no such application. */
export async function findLogoForReview(db: Queryable, clientId: string): Promise<Logo | null> {
  const { rows } = await db.query<Logo>(
    `select logo as image, ${logoHeadColumns} from application where client_id = $1`,
    [clientId],
  )
  return rows[0] ?? null
}

/** The users of an application, and its client secrets. */
export interface ApplicationUse {
  /** How many accounts have authorized it now. */
  accounts: number
  /** When a token was last issued or used. Null when none was. Authorizations that ended a month ago do not count. */
  lastUsedAt: Date | null
  /** The valid secrets, newest first. `expiresAt` is null for a secret that works until it is rotated. */
  secrets: { createdAt: Date; expiresAt: Date | null }[]
}

/** Reads who uses an application, and when its secrets expire. */
export async function findApplicationUse(db: Queryable, applicationId: string): Promise<ApplicationUse> {
  const { rows } = await db.query<Omit<ApplicationUse, 'secrets'>>(
    `select (count(*) filter (where ended_at is null))::int as accounts, max(last_used_at) as "lastUsedAt"
       from account_authorization where application_id = $1`,
    [applicationId],
  )
  const secrets = await db.query<ApplicationUse['secrets'][number]>(
    `select created_at as "createdAt", nullif(expires_at, 'infinity') as "expiresAt"
       from application_secret
      where application_id = $1 and expires_at > now()
      order by created_at desc limit 20`,
    [applicationId],
  )
  return { ...(rows[0] as Omit<ApplicationUse, 'secrets'>), secrets: secrets.rows }
}
