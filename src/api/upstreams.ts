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
  deny: patterns.meta({ description: 'These packages are never offered' }),
  exempt: patterns.meta({ description: 'The minimum age does not apply to these packages' }),
  minimum_age_hours: z.int().min(0).max(87_600).meta({ description: 'A younger version is not offered' }),
  position: z
    .int()
    .min(1)
    .max(1000)
    .meta({ description: 'The upstream with the lowest position is tried first' }),
})

const UpstreamUpdate = Settings.partial().meta({
  id: 'UpstreamUpdate',
  description: 'Missing members keep their values',
})

const UpstreamDraft = Settings.partial()
  .extend({
    url: z.string().min(1).max(2000).meta({ example: 'https://packages.example.com' }),
    name: z
      .string()
      .max(64)
      .regex(/^[a-z0-9](?:[._-]?[a-z0-9])*$/, {
        message: 'must be lower-case letters and digits, with single . _ or -',
      })
      .optional(),
  })
  .meta({ id: 'UpstreamDraft' })

const Upstream = z
  .object({
    ...Settings.shape,
    name: z.string(),
    url: z.string(),
    checked_at: Moment.nullable(),
    failure: z
      .string()
      .nullable()
      .meta({ description: 'Why packages.json could not be read at the last attempt' }),
    created_at: Moment,
  })
  .meta({ id: 'Upstream' })

const MirroredPackage = z
  .object({
    name: z.string().meta({ example: 'psr/log' }),
    upstream: z.string().nullable(),
    description: z.string(),
    first_seen_at: Moment.nullable(),
    last_fetched_at: Moment.nullable(),
    approved_at: Moment.nullable(),
    requested_at: Moment.nullable(),
    requester: z.string().nullable().meta({ description: 'Username' }),
    gone_at: Moment.nullable().meta({ description: 'When the upstream was first seen without the package' }),
    minimum_age_hours: z.int(),
    alarm: z.string().nullable().meta({ description: 'Why an archive is not served' }),
  })
  .meta({ id: 'MirroredPackage' })

const packageName = z.string().min(1).max(150)
const Approval = z.strictObject({ packages: z.array(packageName).min(1).max(1000) }).meta({ id: 'Approval' })
const ApprovalRequest = z.strictObject({ package: packageName }).meta({ id: 'ApprovalRequest' })
const UpstreamPath = RepositoryPath.extend({
  upstream: z.string().meta({ description: 'Name of the upstream' }),
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
      response: { 200: z.object({ approved: z.array(z.string()) }).meta({ id: 'ApprovedPackages' }) },
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
        200: z.object({ state: z.enum(['requested', 'known']) }).meta({ id: 'ApprovalRequestState' }),
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
