import { z } from 'zod'
import {
  addUpstream,
  approvePackages,
  removeUpstream,
  requestPackage,
  setUpstream,
} from '../registry/upstreams/configure.ts'
import { isPattern, maxPatterns } from '../registry/upstreams/patterns.ts'
import { type ListedMirror, listMirrors } from '../registry/upstreams/tables/mirrored-packages.ts'
import {
  type Upstream as KnownUpstream,
  listUpstreams,
  upstreamModes,
} from '../registry/upstreams/tables/upstreams.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import type { ApiContext } from './guards.ts'
import { guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const patterns = z
  .array(
    z
      .string()
      .max(500)
      .refine(isPattern, { message: 'must be a pattern such as vendor/* or vendor/package:^2' }),
  )
  .max(maxPatterns)

const Settings = z.strictObject({
  mode: z.enum(upstreamModes).meta({ description: 'Whether packages are offered without approval' }),
  allow: patterns.meta({
    description: 'Only these packages are offered; empty means all',
    example: ['symfony/*:^6'],
  }),
  deny: patterns.meta({ description: 'These packages are never offered', example: ['evil/*'] }),
  exempt: patterns.meta({
    description: 'The minimum age does not apply to these packages',
    example: ['acme/*'],
  }),
  minimum_age_hours: z
    .int()
    .min(0)
    .max(87_600)
    .meta({ description: 'A younger version is not offered', example: 24 }),
  position: z
    .int()
    .min(1)
    .max(1000)
    .meta({ description: 'The upstream with the lowest position is tried first', example: 1 }),
})

const UpstreamUpdate = Settings.partial().meta({
  id: 'UpstreamUpdate',
  description: 'Missing members keep their values',
})

const UpstreamDraft = Settings.partial()
  .extend({
    url: z
      .string()
      .min(1)
      .max(2000)
      .meta({ description: 'URL of the Composer repository', example: 'https://packages.example.com' }),
    name: z
      .string()
      .max(64)
      .regex(/^[a-z0-9](?:[._-]?[a-z0-9])*$/, {
        message: 'must be lower-case letters and digits, with single . _ or -',
      })
      .optional()
      .meta({ description: 'The default is made from the host of its URL', example: 'public' }),
  })
  .meta({ id: 'UpstreamDraft' })

const Upstream = z
  .object({
    ...Settings.shape,
    name: z.string().meta({ description: 'Name of the upstream', example: 'public' }),
    url: z
      .string()
      .meta({ description: 'URL of the Composer repository', example: 'https://packages.example.com' }),
    checked_at: Moment.nullable().meta({ description: 'When its packages.json was last read' }),
    failure: z.string().nullable().meta({
      description: 'Why packages.json could not be read at the last attempt',
      example: 'packages.json of the upstream is not JSON',
    }),
    created_at: Moment.meta({ description: 'When it was added' }),
  })
  .meta({ id: 'Upstream' })

const MirroredPackage = z
  .object({
    name: z.string().meta({ description: 'Name of the package', example: 'psr/log' }),
    upstream: z
      .string()
      .nullable()
      .meta({ description: 'Name of the upstream that serves it', example: 'public' }),
    description: z.string().meta({ description: 'From its composer.json', example: 'Interface for logging' }),
    first_seen_at: Moment.nullable().meta({ description: 'When an upstream first served it' }),
    last_fetched_at: Moment.nullable().meta({ description: 'When its metadata was last requested' }),
    approved_at: Moment.nullable().meta({ description: 'Null while it is not approved' }),
    requested_at: Moment.nullable().meta({ description: 'When somebody asked for its approval' }),
    requester: z
      .string()
      .nullable()
      .meta({ description: 'Username of the account that asked for its approval', example: 'alice' }),
    gone_at: Moment.nullable().meta({ description: 'When the upstream was first seen without the package' }),
    minimum_age_hours: z.int().meta({ description: 'A younger version is not offered', example: 24 }),
    alarm: z.string().nullable().meta({
      description: 'Why an archive is not served',
      example: 'its bytes differ from those of the first fetch',
    }),
  })
  .meta({ id: 'MirroredPackage' })

const packageName = z.string().min(1).max(150).meta({ description: 'Name of a package', example: 'psr/log' })
const Approval = z
  .strictObject({
    packages: z
      .array(packageName)
      .min(1)
      .max(1000)
      .meta({ description: 'Names of packages', example: ['psr/log'] }),
  })
  .meta({ id: 'Approval' })
const ApprovalRequest = z.strictObject({ package: packageName }).meta({ id: 'ApprovalRequest' })
const ApprovedPackages = z
  .object({
    approved: z
      .array(z.string())
      .meta({ description: 'The packages that were not approved before', example: ['psr/log'] }),
  })
  .meta({ id: 'ApprovedPackages' })
const ApprovalRequestState = z
  .object({
    state: z
      .enum(['requested', 'known'])
      .meta({ description: '`known` when the package is approved or requested already' }),
  })
  .meta({ id: 'ApprovalRequestState' })
const UpstreamPath = RepositoryPath.extend({
  upstream: z.string().meta({ description: 'Name of the upstream', example: 'public' }),
})
const ReleaseQuery = z.object({
  release: z
    .enum(['true', 'false'])
    .default('false')
    .meta({ description: '`true` lets other upstreams serve its packages' }),
})

/** Upstreams of a repository, and the packages from them: `…/upstreams`, `…/mirrored-packages` (DESIGN §6). */
export async function upstreamRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db, upstreamClient } = context
  const url = '/repositories/:group/:name/upstreams'
  const mirrorsUrl = '/repositories/:group/:name/mirrored-packages'
  const mayRead = guardRepository('readSettings', context)
  const mayManage = guardRepository('manage', context)
  const mayPull = guardRepository('pull', context)

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listUpstreams',
      tag: 'Upstreams',
      summary: 'List the upstreams of a repository, in the order in which they are tried',
      params: RepositoryPath,
      response: { 200: z.array(Upstream) },
    }),
    async (request) => (await listUpstreams(db, mayRead.granted(request).repositoryId)).map(describeUpstream),
  )

  app.post(
    url,
    endpoint(mayManage, {
      operationId: 'addUpstream',
      tag: 'Upstreams',
      summary: 'Add an upstream to a repository',
      params: RepositoryPath,
      body: UpstreamDraft,
      response: { 201: Upstream },
    }),
    async (request, reply) => {
      const { url, name, ...settings } = request.body
      const wanted = { url, ...(name !== undefined && { name }), ...readSettings(settings) }
      const added = await addUpstream(db, upstreamClient, mayManage.granted(request), wanted)
      return reply.code(201).send(describeUpstream(added))
    },
  )

  app.patch(
    `${url}/:upstream`,
    endpoint(mayManage, {
      operationId: 'updateUpstream',
      tag: 'Upstreams',
      summary: 'Change the settings of an upstream',
      params: UpstreamPath,
      body: UpstreamUpdate,
      response: { 200: Upstream },
    }),
    async (request) => {
      const grant = mayManage.granted(request)
      return describeUpstream(
        await setUpstream(db, grant, request.params.upstream, readSettings(request.body)),
      )
    },
  )

  app.delete(
    `${url}/:upstream`,
    endpoint(mayManage, {
      operationId: 'removeUpstream',
      tag: 'Upstreams',
      summary: 'Remove an upstream',
      params: UpstreamPath,
      querystring: ReleaseQuery,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const releasesNames = request.query.release === 'true'
      await removeUpstream(db, mayManage.granted(request), request.params.upstream, { releasesNames })
      return reply.code(204).send()
    },
  )

  app.get(
    mirrorsUrl,
    endpoint(mayPull, {
      operationId: 'listMirroredPackages',
      tag: 'Upstreams',
      summary: 'List the packages that come from upstreams, and those that wait for approval',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(MirroredPackage) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayPull.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listMirrors(db, repositoryId, part),
        ({ name }) => name,
        describeMirror,
      )
    },
  )

  app.post(
    `${mirrorsUrl}/approve`,
    endpoint(mayManage, {
      operationId: 'approvePackages',
      tag: 'Upstreams',
      summary: 'Approve packages of upstreams that offer only approved packages',
      params: RepositoryPath,
      body: Approval,
      response: { 200: ApprovedPackages },
    }),
    async (request) => ({
      approved: await approvePackages(db, mayManage.granted(request), request.body.packages),
    }),
  )

  app.post(
    `${mirrorsUrl}/request`,
    endpoint(mayPull, {
      operationId: 'requestPackage',
      tag: 'Upstreams',
      summary: 'Ask the administrators of a repository to approve a package',
      params: RepositoryPath,
      body: ApprovalRequest,
      response: {
        200: ApprovalRequestState,
      },
    }),
    async (request) => ({
      state: (await requestPackage(db, mayPull.granted(request), request.body.package))
        ? ('requested' as const)
        : ('known' as const),
    }),
  )
}

function readSettings({ minimum_age_hours, ...settings }: z.output<typeof UpstreamUpdate>) {
  const given = { ...settings, minimumAgeHours: minimum_age_hours }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

function describeUpstream(known: KnownUpstream): z.input<typeof Upstream> {
  const { name, url, mode, allow, deny, exempt, minimumAgeHours, position, failure } = known
  return {
    name,
    url,
    mode,
    allow,
    deny,
    exempt,
    minimum_age_hours: minimumAgeHours,
    position,
    checked_at: known.rootCheckedAt?.toISOString() ?? null,
    failure,
    created_at: known.createdAt.toISOString(),
  }
}

function describeMirror(mirror: ListedMirror): z.input<typeof MirroredPackage> {
  const { name, upstream, description, requester, minimumAgeHours, alarm } = mirror
  return {
    name,
    upstream,
    description,
    first_seen_at: mirror.firstSeenAt?.toISOString() ?? null,
    last_fetched_at: mirror.lastFetchedAt?.toISOString() ?? null,
    approved_at: mirror.approvedAt?.toISOString() ?? null,
    requested_at: mirror.requestedAt?.toISOString() ?? null,
    requester,
    gone_at: mirror.goneAt?.toISOString() ?? null,
    minimum_age_hours: minimumAgeHours,
    alarm,
  }
}
