import type { FastifyReply } from 'fastify'
import type { Session } from '../../../accounts/sessions.ts'
import type { Queryable } from '../../../database/database.ts'
import { pageOf } from '../../../domain/paging.ts'
import { isAtLeast } from '../../../domain/permissions.ts'
import { findVisibleGroup } from '../../../groups/groups.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import {
  type ListedMirror,
  listMirroredVendors,
  listMirrors,
  type MirroredVendor,
  maxRequests,
} from '../../../upstreams/tables/mirrored-packages.ts'
import {
  listUpstreams,
  type Upstream,
  type UpstreamMode,
  upstreamModes,
} from '../../../upstreams/tables/upstreams.ts'
import { listVendorClaims, type VendorClaim } from '../../../upstreams/tables/vendor-claims.ts'
import { nobody, page } from '../../pages.ts'
import { may } from '../permit.ts'

const mirrorsPerPage = 100

/** The fields of the form of an upstream, as the browser sends them. */
export interface UpstreamFields {
  url: string
  name: string
  mode: UpstreamMode
  /** Patterns, one per line, as in `deny` and `exempt`. */
  allow: string
  deny: string
  exempt: string
  minimumAgeHours: number
  keepsSource: boolean
  /** Empty for the last position. */
  position: number | ''
}

const emptyUpstream: UpstreamFields = {
  url: '',
  name: '',
  mode: 'automatic',
  allow: '',
  deny: '',
  exempt: '',
  minimumAgeHours: 0,
  keepsSource: false,
  position: '',
}

/** The parts that all pages of the upstreams have. */
interface UpstreamsView {
  repository: VisibleRepository
  mayManage: boolean
  problem: string | null
}

const packagesPage = page<
  UpstreamsView & {
    mayRequest: boolean
    hasUpstreams: boolean
    mirrored: ListedMirror[]
    /** The packages that wait for approval, which are not in `mirrored`. */
    waiting: ListedMirror[]
    search: string
    isContinued: boolean
    /** The cursor of the next page: a name. Null on the last page. */
    next: string | null
  }
>('pages/upstreams')
const listPage = page<UpstreamsView & { upstreams: Upstream[] }>('pages/upstream-list')
const vendorsPage = page<
  UpstreamsView & {
    /** The vendors of the group. Null for people who are not admins of the group. */
    claims: VendorClaim[] | null
    vendors: MirroredVendor[]
    isContinued: boolean
    next: string | null
  }
>('pages/upstream-vendors')
const upstreamFormPage = page<
  UpstreamsView & {
    /** The upstream whose settings are changed. Null for a new one. */
    name: string | null
    /** Null for a new one, and after a rejected change. */
    upstream: Upstream | null
    fields: UpstreamFields
    modes: typeof modeChoices
  }
>('pages/upstream-form')
const namesFormPage = page<
  UpstreamsView & {
    form: 'request' | 'approve' | 'claim'
    /** The packages or the vendor that were entered. */
    entered: string
    /** The exceptions that were entered with a vendor. */
    exceptions: string
  }
>('pages/upstream-names')

const modeTexts: Record<UpstreamMode, string> = {
  automatic: 'All packages',
  approved: 'Only approved packages',
  off: 'Nothing',
}
const modeChoices = upstreamModes.map((value) => ({ value, text: modeTexts[value] }))

/** Who looks at which repository, and why the last input was rejected. */
export interface UpstreamsVisit {
  db: Queryable
  reply: FastifyReply
  session: Session | null
  repository: VisibleRepository
  problem?: string | null
}

function viewOf({ session, repository, problem = null }: UpstreamsVisit): UpstreamsView {
  return { repository, mayManage: may(repository, session, 'manage'), problem }
}

/** Shows the mirrored packages of a repository, and those that wait for approval. */
export async function showPackages(
  visit: UpstreamsVisit,
  { search = '', after = '' } = {},
): Promise<FastifyReply> {
  const { db, reply, session, repository } = visit
  const upstreams = await listUpstreams(db, repository.id)
  const { rows: mirrored, next } = await pageOf(
    (part) => listMirrors(db, repository.id, { ...part, search, isWaiting: false }),
    { after, limit: mirrorsPerPage },
    ({ name }) => name,
  )
  // All of them: a package that waits is in no other list.
  const waiting = await listMirrors(db, repository.id, {
    search,
    isWaiting: true,
    after: null,
    limit: maxRequests,
  })
  return packagesPage(reply, session ?? nobody, {
    ...viewOf(visit),
    mayRequest: session !== null && upstreams.some(({ mode }) => mode === 'approved'),
    hasUpstreams: upstreams.length > 0,
    mirrored,
    waiting,
    search,
    isContinued: after !== '',
    next,
  })
}

/** Shows the upstreams of a repository to its admins. */
export async function showUpstreamList(visit: UpstreamsVisit): Promise<FastifyReply> {
  const { db, reply, session, repository } = visit
  const upstreams = await listUpstreams(db, repository.id)
  return listPage(reply, session ?? nobody, { ...viewOf(visit), upstreams })
}

/** Shows which vendors come from which upstreams, and to admins of the group which ones it has claimed. */
export async function showVendors(visit: UpstreamsVisit, { after = '' } = {}): Promise<FastifyReply> {
  const { db, reply, session, repository } = visit
  const { rows: vendors, next } = await pageOf(
    (part) => listMirroredVendors(db, repository.id, part),
    { after, limit: mirrorsPerPage },
    ({ vendor }) => vendor,
  )
  return vendorsPage(reply, session ?? nobody, {
    ...viewOf(visit),
    claims: await vendorsOf(db, repository, session),
    vendors,
    isContinued: after !== '',
    next,
  })
}

/** Shows the form of a new upstream, or the settings of one. */
export async function showUpstreamForm(
  visit: UpstreamsVisit,
  name: string | null,
  fields: UpstreamFields = emptyUpstream,
  upstream: Upstream | null = null,
): Promise<FastifyReply> {
  const { reply, session } = visit
  const view = { ...viewOf(visit), name, fields, upstream, modes: modeChoices }
  return upstreamFormPage(reply, session ?? nobody, view)
}

/** Shows the form that asks for packages, approves them, or claims a vendor. */
export async function showNamesForm(
  visit: UpstreamsVisit,
  form: 'request' | 'approve' | 'claim',
  { entered = '', exceptions = '' } = {},
): Promise<FastifyReply> {
  const { reply, session } = visit
  return namesFormPage(reply, session ?? nobody, { ...viewOf(visit), form, entered, exceptions })
}

/** Claims are made for a whole group, so they are shown to its admins only. */
async function vendorsOf(
  db: Queryable,
  { path }: VisibleRepository,
  session: Session | null,
): Promise<VendorClaim[] | null> {
  const [name = ''] = path.split('/')
  const group = await findVisibleGroup(db, name, session?.account.id ?? null)
  return group && isAtLeast(group.role, 'admin') ? listVendorClaims(db, group.id) : null
}

/** Returns the settings of an upstream as fields. */
export function fieldsOf(upstream: Upstream): UpstreamFields {
  const { url, name, mode, allow, deny, exempt, minimumAgeHours, keepsSource, position } = upstream
  const lines = (patterns: string[]) => patterns.join('\n')
  return {
    url,
    name,
    mode,
    allow: lines(allow),
    deny: lines(deny),
    exempt: lines(exempt),
    minimumAgeHours,
    keepsSource,
    position,
  }
}
