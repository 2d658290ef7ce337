import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { addUpstream, approvePackages, removeUpstream, setUpstream } from '../registry/upstreams/configure.ts'
import { isPattern, maxPatterns } from '../registry/upstreams/patterns.ts'
import { requestPackage } from '../registry/upstreams/requests.ts'
import { type ListedMirror, listMirrors } from '../registry/upstreams/tables/mirrored-packages.ts'
import {
  type Upstream as KnownUpstream,
  listUpstreams,
  upstreamModes,
} from '../registry/upstreams/tables/upstreams.ts'
import { allowedTo, param } from './admission.ts'
import type { ApiContext } from './context.ts'
import { addInterface, addList } from './interface.ts'
import { readPage } from './paging.ts'

const patterns = z
  .array(z.string().max(500).refine(isPattern, { message: 'must be such as vendor/* or vendor/package:^2' }))
  .max(maxPatterns)

const Settings = z.object({
  mode: z.enum(upstreamModes),
  allow: patterns,
  deny: patterns,
  /** The minimum age does not apply to these. */
  exempt: patterns,
  minimum_age_hours: z.int().min(0).max(87_600),
  /** Lower positions are asked first. */
  position: z.int().min(1).max(1000),
})

const NewUpstream = Settings.partial().extend({
  url: z.string().min(1).max(2000),
  name: z
    .string()
    .max(64)
    .regex(/^[a-z0-9](?:[._-]?[a-z0-9])*$/, {
      message: 'must be lower-case letters and digits, with single . _ or -',
    })
    .optional(),
})

const Upstream = Settings.extend({
  name: z.string(),
  url: z.string(),
  checked_at: z.iso.datetime().nullable(),
  /** Why packages.json could not be read at the last attempt. */
  failure: z.string().nullable(),
  created_at: z.iso.datetime(),
})

const MirroredPackage = z.object({
  name: z.string(),
  upstream: z.string().nullable(),
  description: z.string(),
  first_seen_at: z.iso.datetime().nullable(),
  last_fetched_at: z.iso.datetime().nullable(),
  approved_at: z.iso.datetime().nullable(),
  requested_at: z.iso.datetime().nullable(),
  requester: z.string().nullable(),
  gone_at: z.iso.datetime().nullable(),
  minimum_age_hours: z.int(),
  alarm: z.string().nullable(),
})

const packageNames = z.object({ packages: z.array(z.string().min(1).max(150)).min(1).max(1000) })

/** Upstreams of a repository, and what comes from them: `…/upstreams`, `…/mirrored-packages` (DESIGN §6). */
export async function upstreamRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { config, db, upstreamClient } = context
  const url = '/repositories/:group/:name/upstreams'
  const mirrorsUrl = '/repositories/:group/:name/mirrored-packages'

  addInterface(
    app,
    {
      method: 'GET',
      url,
      summary: 'The upstreams of a repository, in the order in which they are asked',
      entrance: allowedTo('readSettings', context),
      answer: z.array(Upstream),
    },
    async ({ admitted }) => (await listUpstreams(db, admitted.repositoryId)).map(describeUpstream),
  )

  addInterface(
    app,
    {
      method: 'POST',
      url,
      summary: 'Add an upstream to a repository',
      entrance: allowedTo('manage', context),
      body: NewUpstream,
      answer: Upstream,
      status: 201,
    },
    async ({ admitted, body: { url, name, ...settings } }) => {
      const wanted = { url, ...(name !== undefined && { name }), ...readSettings(settings) }
      return describeUpstream(await addUpstream(db, upstreamClient, admitted, wanted))
    },
  )

  addInterface(
    app,
    {
      method: 'PATCH',
      url: `${url}/:upstream`,
      summary: 'Change settings of an upstream',
      entrance: allowedTo('manage', context),
      body: Settings.partial(),
      answer: Upstream,
    },
    async ({ request, admitted, body }) =>
      describeUpstream(await setUpstream(db, admitted, param(request, 'upstream'), readSettings(body))),
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url: `${url}/:upstream`,
      summary: 'Remove an upstream; with release=true other upstreams may serve its packages',
      entrance: allowedTo('manage', context),
      query: z.object({ release: z.enum(['true', 'false']).default('false') }),
    },
    async ({ request, admitted, query }) => {
      await removeUpstream(db, admitted, param(request, 'upstream'), {
        releasesNames: query.release === 'true',
      })
    },
  )

  addList(
    app,
    {
      url: mirrorsUrl,
      summary: 'The packages that come from upstreams, and those that wait for approval',
      entrance: allowedTo('pull', context),
      item: MirroredPackage,
    },
    config.baseUrl,
    async ({ admitted, part }) =>
      readPage(
        part,
        (wanted) => listMirrors(db, admitted.repositoryId, wanted),
        ({ name }) => name,
        describeMirror,
      ),
  )

  addInterface(
    app,
    {
      method: 'POST',
      url: `${mirrorsUrl}/approve`,
      summary: 'Approve packages of upstreams that offer only approved ones',
      entrance: allowedTo('manage', context),
      body: packageNames,
      answer: z.object({ approved: z.array(z.string()) }),
    },
    async ({ admitted, body: { packages } }) => ({ approved: await approvePackages(db, admitted, packages) }),
  )

  addInterface(
    app,
    {
      method: 'POST',
      url: `${mirrorsUrl}/request`,
      summary: 'Ask the administrators of a repository to approve a package',
      entrance: allowedTo('pull', context),
      body: z.object({ package: z.string().min(1).max(150) }),
      answer: z.object({ state: z.enum(['requested', 'known']) }),
    },
    async ({ admitted, body }) => ({
      state: (await requestPackage(db, admitted, body.package)) ? ('requested' as const) : ('known' as const),
    }),
  )
}

function readSettings({ minimum_age_hours, ...settings }: z.output<ReturnType<typeof Settings.partial>>) {
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
