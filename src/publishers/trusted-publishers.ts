import type pg from 'pg'
import { isPackageName } from '../composer/package-name.ts'
import type { AppContext } from '../context.ts'
import { accountName } from '../database/account-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { isPlainText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { coversPackage, type PublisherRightName } from '../domain/publisher.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { readRowId } from '../domain/row-id.ts'
import { insertEvent } from '../events/events.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'
import { lockRepository } from '../groups/repositories.ts'
import { hasSiteRights } from '../groups/site-rights.ts'
import { reservedDays, reservedNames } from '../packages/tables/reserved-names.ts'
import { isPattern } from '../upstreams/documents/patterns.ts'
import {
  type ClaimCondition,
  defaultIssuers,
  type PublisherProvider,
  type PublisherTerms,
  projectConditionOf,
} from './providers.ts'
import { endPublisherTokens, type LastExchange } from './publisher-tokens.ts'

/** A trusted publisher of a repository: CI jobs that get a token without a secret. */
export interface NamedPublisher extends PublisherTerms {
  id: string
  /** Patterns of the packages that its tokens are for. */
  packages: string[]
}

/** A trusted publisher as the admins of its repository see it. */
export interface TrustedPublisher extends NamedPublisher {
  /** The account that added it. Null for the command line, `deleted account` after that account was deleted. */
  madeBy: string | null
  createdAt: Date
  /** The names of packages that nobody else publishes first. Only packages that do not exist yet are reserved. */
  reservedNames: string[]
  /** When the reservation lapses. Null without one. */
  reservedUntil: Date | null
  /** Null before the first exchange. */
  lastExchange: LastExchange | null
}

/** A trusted publisher to add. */
export interface NewPublisher {
  provider: PublisherProvider
  /** The default is that of the provider. */
  issuer?: string | null
  project?: string | null
  workflow?: string | null
  environment?: string | null
  workflowProject?: string | null
  claims?: readonly ClaimCondition[]
  /** The default is every package. */
  packages?: readonly string[]
  right: PublisherRightName
}

const maxPublishers = 100
const maxClaims = 20
const maxPackages = 100

/**
 * Adds a trusted publisher to a repository, and writes the event. Returns its id. Throws errcode 3 for settings that break a
 * rule, 5 when the repository was deleted, and 8 when it has too many. The keys of a publisher of an operator may come from a
 * private host.
 */
export async function addPublisher(
  { config, db }: AppContext,
  { repositoryId, by }: { repositoryId: string; by: Principal },
  wanted: NewPublisher,
): Promise<string> {
  const reachesPrivateHosts = await hasSiteRights(db, by)
  const terms = readTerms(wanted, { allowsHttp: config.outbound.allowHttp && reachesPrivateHosts })
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    await lockRepository(tx, repositoryId)
    const id = await insertPublisher(tx, {
      ...terms,
      repositoryId,
      reachesPrivateHosts,
      madeBy: by.accountId,
    })
    if ((await countPublishers(tx, repositoryId)) > maxPublishers) {
      const errmsg = `a repository can have at most ${maxPublishers} trusted publishers: remove one`
      throw new Refusal(errcode.resourceExhausted, errmsg, { status: 403 })
    }
    await insertEvent(tx, by, {
      repositoryId,
      action: 'add-publisher',
      details: detailsOf(id, terms),
    })
    return id
  })
}

/**
 * Removes a trusted publisher, and ends its tokens, at once. Writes the event. `repositoryId` limits it to one repository.
 * Returns false when there is no such publisher.
 */
export async function removePublisher(
  db: pg.Pool,
  by: Principal,
  { id, repositoryId }: { id: string; repositoryId: string | null },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { rows } = await tx.query<TrustedPublisher & { repositoryId: string }>(
      `update trusted_publisher p set removed_at = now()
        where id = $1 and removed_at is null and ($2::bigint is null or repository_id = $2)
    returning ${columns}, repository_id as "repositoryId"`,
      [id, repositoryId],
    )
    const [removed] = rows
    if (!removed) return false
    await endPublisherTokens(tx, removed.repositoryId, id)
    const details = detailsOf(id, removed)
    await insertEvent(tx, by, { repositoryId: removed.repositoryId, action: 'remove-publisher', details })
    return true
  })
}

const namedColumns = `p.id, p.provider, p.issuer, p.project, p.workflow, p.environment,
  p.workflow_project as "workflowProject", p.claims, p.packages, p.token_right as "right", p.pins`
const columns = `${namedColumns}, p.created_at as "createdAt", p.last_exchange as "lastExchange",
  ${reservedNames} as "reservedNames",
  case when cardinality(${reservedNames}) > 0 then p.created_at + interval '${reservedDays} days' end as "reservedUntil",
  ${accountName('p.made_by')} as "madeBy"`

/** Lists the trusted publishers of a repository, the oldest first. `after` is the id of one of them. */
export async function listPublishers(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<TrustedPublisher[]> {
  const { rows } = await db.query<TrustedPublisher>(
    `select ${columns} from trusted_publisher p
      where p.repository_id = $1 and p.removed_at is null and ($2::bigint is null or p.id > $2)
      order by p.id limit $3`,
    [repositoryId, readRowId(after), limit],
  )
  return rows
}

/**
 * Says that nobody could publish a package if only trusted publishers did: none of the repository publishes or stages it. Null when
 * one does.
 */
export async function cautionForLimit(
  db: Queryable,
  { repositoryId, packageName }: { repositoryId: string; packageName: string },
): Promise<string | null> {
  const publishers = await listPublishers(db, repositoryId, { after: null, limit: maxPublishers })
  if (coversPackage(publishers, 'stage', packageName)) return null
  return `No trusted publisher of the repository publishes or stages ${packageName}, so nobody can publish a version of it before one is added.`
}

/** Finds a trusted publisher of a repository. Null when there is none. */
export async function findPublisher(
  db: Queryable,
  repositoryId: string,
  id: string,
): Promise<TrustedPublisher | null> {
  const { rows } = await db.query<TrustedPublisher>(
    `select ${columns} from trusted_publisher p where p.repository_id = $1 and p.id = $2 and p.removed_at is null`,
    [repositoryId, id],
  )
  return rows[0] ?? null
}

/** The trusted publishers of a repository that name an issuer, and what svc knows about the issuer. */
export interface PublishersOfIssuer {
  /** Whether a trusted publisher of any repository names it. */
  isTrustedAnywhere: boolean
  /** Whether an operator has added one of them. */
  reachesPrivateHosts: boolean
  /** Null when there is no such repository. */
  repositoryId: string | null
  publishers: NamedPublisher[]
}

/** Finds the trusted publishers of a repository, by its present or a former path, that name an issuer. */
export async function findPublishersOfIssuer(
  db: Queryable,
  { group, name, issuer }: { group: string; name: string; issuer: string },
): Promise<PublishersOfIssuer> {
  const { rows } = await db.query<PublishersOfIssuer>({
    name: 'find-publishers-of-issuer',
    // An operator's publisher comes first. One read of the index tells both about an issuer that very many name.
    text: `select named.reaches_private_hosts is not null as "isTrustedAnywhere",
                  coalesce(named.reaches_private_hosts, false) as "reachesPrivateHosts",
                  a.repository_id::text as "repositoryId",
                  coalesce((select json_agg(one order by one.id) from (
                    select ${namedColumns} from trusted_publisher p
                     where p.repository_id = a.repository_id and p.issuer = $3 and p.removed_at is null) one), '[]')
                    as publishers
             from registry_access(group_name => $1, repository_name => $2, presented_hash => null, place => null) a
             left join lateral (
               select reaches_private_hosts from trusted_publisher where issuer = $3 and removed_at is null
                order by reaches_private_hosts desc limit 1) named on true`,
    values: [group, name, issuer],
  })
  const found = rows[0] as PublishersOfIssuer
  return { ...found, publishers: found.publishers.map((one) => ({ ...one, id: String(one.id) })) }
}

/** Finds the trusted publishers that gave a token its rights. */
export async function findPublishersOfToken(
  db: Queryable,
  ids: readonly string[],
): Promise<NamedPublisher[]> {
  const { rows } = await db.query<NamedPublisher>(
    `select ${namedColumns} from trusted_publisher p where p.id = any($1) and p.removed_at is null order by p.id`,
    [ids],
  )
  return rows
}

/** Finds the pinned ids of publishers that were removed neither themselves nor with their repository. */
export async function findPins(
  db: Queryable,
  ids: readonly string[],
): Promise<Map<string, Record<string, string>>> {
  const { rows } = await db.query<{ id: string; pins: Record<string, string> }>(
    `select p.id, p.pins from trusted_publisher p
       join repository r on r.id = p.repository_id and r.group_id is not null
      where p.id = any($1) and p.removed_at is null`,
    [ids],
  )
  return new Map(rows.map(({ id, pins }) => [id, pins]))
}

/**
 * Stores that an exchange was refused because of claims. Once an hour it also writes an event, so that a job which fails again
 * and again does not fill the log.
 */
export async function noteRefusal(
  db: pg.Pool,
  by: Principal,
  repositoryId: string,
  refused: readonly { id: string; exchange: Omit<LastExchange, 'at' | 'outcome'> }[],
): Promise<void> {
  await transaction(db, async (tx) => {
    const { rows } = await tx.query<{ id: string; details: Record<string, unknown> }>(
      `with refused as (
         select p.id, coalesce(p.refusal_noted_at < now() - interval '1 hour', true) as is_noted,
                r.exchange || jsonb_build_object('at', now(), 'outcome', 'refused') as exchange
           from jsonb_to_recordset($1) as r (id bigint, exchange jsonb)
           join trusted_publisher p on p.id = r.id and p.removed_at is null
          order by p.id for no key update of p
       ), changed as (
         update trusted_publisher p
            set last_exchange = r.exchange,
                refusal_noted_at = case when r.is_noted then now() else p.refusal_noted_at end
           from refused r where p.id = r.id
       )
       select id, jsonb_build_object('publisher', id, 'differs', exchange -> 'differs', 'run', exchange -> 'run') as details
         from refused where is_noted`,
      [JSON.stringify(refused)],
    )
    for (const { id, details } of rows)
      await insertEvent(tx, actingAs(id, by), { repositoryId, action: 'refuse-publisher', details })
  })
}

/** Returns the sender of a request as a trusted publisher, for events. */
export function actingAs(publisherId: string, by: Principal): Principal {
  return { ...by, token: { kind: 'publisher', tokenId: publisherId, authorizationId: null } }
}

type Terms = Omit<PublisherTerms, 'pins'> & { packages: readonly string[] }

function detailsOf(id: string, terms: Terms): Record<string, unknown> {
  const { provider, issuer, project, workflow, environment, workflowProject, claims, packages, right } = terms
  return {
    publisher: Number(id),
    provider,
    issuer,
    ...(project !== null && { project }),
    ...(workflow !== null && { workflow }),
    ...(environment !== null && { environment }),
    ...(workflowProject !== null && { workflow_project: workflowProject }),
    ...(claims.length > 0 && { claims: claims.map(({ name, value }) => `${name}=${value}`) }),
    packages,
    right,
  }
}

async function insertPublisher(
  tx: pg.PoolClient,
  fresh: Terms & { repositoryId: string; reachesPrivateHosts: boolean; madeBy: string | null },
): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(
    `insert into trusted_publisher
       (repository_id, provider, issuer, project, workflow, environment, workflow_project, claims, packages, token_right,
        reaches_private_hosts, made_by)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
     returning id`,
    [
      fresh.repositoryId,
      fresh.provider,
      fresh.issuer,
      fresh.project,
      fresh.workflow,
      fresh.environment,
      fresh.workflowProject,
      JSON.stringify(fresh.claims),
      fresh.packages,
      fresh.right,
      fresh.reachesPrivateHosts,
      fresh.madeBy,
    ],
  )
  return (rows[0] as { id: string }).id
}

async function countPublishers(tx: pg.PoolClient, repositoryId: string): Promise<number> {
  const { rows } = await tx.query<{ count: number }>(
    'select count(*)::int as count from trusted_publisher where repository_id = $1 and removed_at is null',
    [repositoryId],
  )
  return rows[0]?.count ?? 0
}

/** Checks the settings of a trusted publisher. Throws errcode 3 with what to change. */
function readTerms(wanted: NewPublisher, { allowsHttp }: { allowsHttp: boolean }): Terms {
  const { provider, right, claims = [], packages = ['*/*'] } = wanted
  const [project, workflow, environment, workflowProject] = [
    wanted.project ?? null,
    wanted.workflow ?? null,
    wanted.environment ?? null,
    wanted.workflowProject ?? null,
  ]
  requireIssuer(wanted, allowsHttp)
  const issuer = wanted.issuer ?? defaultIssuers[provider as keyof typeof defaultIssuers]
  if (provider === 'claims') {
    if (!projectConditionOf(claims))
      throw invalid(
        'name the project with a claim that no other project has, without *, such as repository=acme/lib',
      )
    if ([project, workflow, environment, workflowProject].some((one) => one !== null))
      throw invalid(
        'the provider claims has only claims: project, workflow and environment are for the other providers',
      )
  } else {
    requireProject(provider, 'project', project)
    if (workflowProject !== null) requireProject(provider, 'workflow_project', workflowProject)
    requireWorkflow(provider, workflow)
  }
  if (environment !== null && !isText(environment, 255))
    throw invalid('environment must have 1 to 255 characters')
  requireClaims(claims)
  if (packages.length < 1 || packages.length > maxPackages || !packages.every(isPackagePattern))
    throw invalid(`packages must be 1 to ${maxPackages} patterns such as acme/* or acme/lib`)
  return { provider, issuer, project, workflow, environment, workflowProject, claims, packages, right }
}

function requireIssuer({ provider, issuer = null }: NewPublisher, allowsHttp: boolean): void {
  if (issuer === null) {
    if (provider === 'claims') throw invalid('the provider claims needs an issuer')
    return
  }
  const isUrl = /^https?:\/\/[^\s/?#@\\]+(?:\/[^\s?#@\\]*)?$/.test(issuer) && URL.canParse(issuer)
  if (!isUrl || issuer.length > 500)
    throw invalid('issuer must be a URL without credentials, query and fragment, exactly as in the claim iss')
  if (issuer.startsWith('http:') && !allowsHttp)
    throw invalid(
      'issuer must be https: an operator must allow http with OUTBOUND_HTTP=true, and add the trusted publisher',
    )
}

function requireProject(provider: PublisherProvider, name: string, value: string | null): void {
  const [shape, example] =
    provider === 'gitlab' ? [/^[\w.-]+(?:\/[\w.-]+)+$/, 'group/name'] : [/^[\w.-]+\/[\w.-]+$/, 'owner/name']
  if (value === null || value.length > 300 || !shape.test(value)) throw invalid(`${name} must be ${example}`)
}

function requireWorkflow(provider: PublisherProvider, workflow: string | null): void {
  if (workflow === null) {
    if (provider !== 'gitlab') throw invalid('workflow must be the name of a file, such as release.yml')
    return
  }
  const shape = provider === 'gitlab' ? /^[^@\s]+$/ : /^[^@/\s]+$/
  if (!shape.test(workflow) || !isText(workflow, 300))
    throw invalid(
      provider === 'gitlab'
        ? 'workflow must be the path of a file, such as .gitlab-ci.yml'
        : 'workflow must be the name of a file without its folder, such as release.yml',
    )
}

function requireClaims(claims: readonly ClaimCondition[]): void {
  if (claims.length > maxClaims) throw invalid(`there can be at most ${maxClaims} claims`)
  for (const { name, value } of claims) {
    if (!isText(name, 100) || !isText(value, 500)) throw invalid('a claim must be name=value')
  }
  if (new Set(claims.map(({ name }) => name)).size < claims.length)
    throw invalid('a claim can have only one value')
}

function isText(text: string, maxCharacters: number): boolean {
  return text.length >= 1 && text.length <= maxCharacters && isPlainText(text)
}

function isPackagePattern(pattern: string): boolean {
  return isPackageName(pattern) || (pattern.includes('*') && !pattern.includes(':') && isPattern(pattern))
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}
