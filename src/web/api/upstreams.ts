import * as z from 'zod'
import {
  addUpstream,
  approvePackages,
  removeUpstream,
  requestPackage,
  setUpstream,
} from '../../upstreams/configure.ts'
import { decideContest } from '../../upstreams/contested-names.ts'
import { allowEarly } from '../../upstreams/early-versions.ts'
import { forgetArchives } from '../../upstreams/forget-archives.ts'
import { type ListedMirror, listMirrors } from '../../upstreams/tables/mirrored-packages.ts'
import { listUpstreams, type Upstream } from '../../upstreams/tables/upstreams.ts'
import { type ApiScope, endpoint, NoContent } from './endpoint.ts'
import { type ApiContext, guardRepository, requireOnRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'
import {
  Allowance,
  AllowedVersions,
  Approval,
  ApprovalRequest,
  ApprovalRequestState,
  ApprovedPackages,
  ContestDecision,
  ForgottenArchives,
  MirroredPackageBody,
  ReleaseQuery,
  UpstreamBody,
  UpstreamDraft,
  UpstreamPath,
  UpstreamUpdate,
  VersionToForget,
} from './upstream-schemas.ts'

/** Upstreams of a repository, and the packages from them: `…/upstreams`, `…/mirrored-packages`. */
export async function upstreamRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db, upstreamClient } = context
  const url = '/repositories/:group/:name/upstreams'
  const mirrorsUrl = '/repositories/:group/:name/mirrored-packages'
  const mayRead = guardRepository('readSettings', context)
  const mayManage = guardRepository('manage', context)
  const mayRemove = guardRepository('removeUpstream', context)
  const mayForget = guardRepository('forgetArchives', context)
  const mayDecide = guardRepository('decideContest', context)
  const mayPull = guardRepository('pull', context)

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listUpstreams',
      tag: 'Upstreams',
      summary: 'List the upstreams of a repository, in the order in which they are tried',
      params: RepositoryPath,
      response: { 200: z.array(UpstreamBody) },
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
      response: { 201: UpstreamBody },
    }),
    async (request, reply) => {
      const { url, name, ...settings } = request.body
      const wanted = { url, ...(name !== undefined && { name }), ...readSettings(settings) }
      const added = await addUpstream(context, upstreamClient, mayManage.granted(request), wanted)
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
      response: { 200: UpstreamBody },
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
    endpoint(mayRemove, {
      operationId: 'removeUpstream',
      tag: 'Upstreams',
      summary: 'Remove an upstream',
      description: 'Applications cannot release its names for other upstreams.',
      params: UpstreamPath,
      querystring: ReleaseQuery,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const releasesNames = request.query.release === 'true'
      const grant = mayRemove.granted(request)
      if (releasesNames) requireOnRepository(grant, 'unbindNames')
      await removeUpstream(db, grant, request.params.upstream, { releasesNames })
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
      response: { 200: z.array(MirroredPackageBody) },
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
    `${mirrorsUrl}/allow`,
    endpoint(mayManage, {
      operationId: 'allowVersions',
      tag: 'Upstreams',
      summary: 'Offer versions of a package before they have the minimum age of their upstream',
      description: 'Without `version`, all versions that are held back now (`held_back`).',
      params: RepositoryPath,
      body: Allowance,
      response: { 200: AllowedVersions },
    }),
    async (request) => {
      const { package: packageName, version = null } = request.body
      return { allowed: await allowEarly(context, mayManage.granted(request), { packageName, version }) }
    },
  )

  app.post(
    `${mirrorsUrl}/forget`,
    endpoint(mayForget, {
      operationId: 'forgetArchives',
      tag: 'Upstreams',
      summary: 'Forget the stored archive of a version, when it has changed at the upstream',
      description:
        'The next request fetches what the upstream serves, and the bytes must match the checksum that the upstream announces. Archives that the upstream no longer offers stay stored, because lock files may need them.',
      params: RepositoryPath,
      body: VersionToForget,
      response: { 200: ForgottenArchives },
    }),
    async (request) => {
      const { package: packageName, version } = request.body
      const grant = mayForget.granted(request)
      const upstreams = { config, db, client: upstreamClient }
      const forgotten = await forgetArchives(upstreams, grant, { packageName, version })
      return { forgotten: forgotten.map(({ version, sha256, alarm }) => ({ version, sha256, alarm })) }
    },
  )

  app.post(
    `${mirrorsUrl}/decide`,
    endpoint(mayDecide, {
      operationId: 'decideContest',
      tag: 'Upstreams',
      summary: 'Decide which upstream serves a package that several upstreams have',
      description:
        'Needed when an upstream has published a package that an upstream after it serves already (`contested_by`). The package is not offered until then.',
      params: RepositoryPath,
      body: ContestDecision,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { package: packageName, upstream: upstreamName } = request.body
      await decideContest(db, mayDecide.granted(request), { packageName, upstreamName })
      return reply.code(204).send()
    },
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

function readSettings({ minimum_age_hours, keeps_source, ...settings }: z.output<typeof UpstreamUpdate>) {
  const given = { ...settings, minimumAgeHours: minimum_age_hours, keepsSource: keeps_source }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

function describeUpstream(known: Upstream): z.input<typeof UpstreamBody> {
  const { name, url, mode, allow, deny, exempt, minimumAgeHours, position, failure } = known
  return {
    name,
    url,
    mode,
    allow,
    deny,
    exempt,
    minimum_age_hours: minimumAgeHours,
    keeps_source: known.keepsSource,
    position,
    uses_credentials: known.usesCredentials,
    credential_hosts: known.credentialHosts,
    reaches_private_hosts: known.reachesPrivateHosts,
    checked_at: known.rootCheckedAt?.toISOString() ?? null,
    failure,
    failed_at: known.failedAt?.toISOString() ?? null,
    created_at: known.createdAt.toISOString(),
  }
}

function describeMirror(mirror: ListedMirror): z.input<typeof MirroredPackageBody> {
  const { name, upstream, description, requester, minimumAgeHours, alarm, alarms } = mirror
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
    contested_by: mirror.contestedBy,
    alarm,
    alarms: alarms.map(({ version, reason }) => ({ version, reason })),
    held_back: mirror.heldBack.slice(0, 100),
    left_out: mirror.leftOut,
  }
}
