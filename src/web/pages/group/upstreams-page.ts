import type { FastifyReply } from 'fastify'
import type { Session } from '../../../accounts/sessions.ts'
import type { Queryable } from '../../../database/database.ts'
import { pageOf } from '../../../domain/paging.ts'
import { isAtLeast } from '../../../domain/permissions.ts'
import { findVisibleGroup } from '../../../groups/groups.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { type ListedMirror, listMirrors, maxRequests } from '../../../upstreams/tables/mirrored-packages.ts'
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

/** A rejected input. Its form is shown again with the reason. */
export interface RefusedForm {
  form: 'add' | 'set' | 'request' | 'approve' | 'claim' | 'other'
  problem: string
  upstream?: UpstreamFields
  /** The packages or the vendor that were entered in another form. */
  entered?: string
  /** The exceptions that were entered with a vendor. */
  exceptions?: string
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

const upstreamsPage = page<{
  repository: VisibleRepository
  mayManage: boolean
  mayRequest: boolean
  hasUpstreams: boolean
  mirrored: ListedMirror[]
  /** The packages that wait for approval, which are not in `mirrored`. */
  waiting: ListedMirror[]
  search: string
  isContinued: boolean
  /** The cursor of the next page: a name. Null on the last page. */
  next: string | null
  /** Null for people who are not admins. */
  upstreams: { upstream: Upstream; fields: UpstreamFields }[] | null
  /** The vendors of the group. Null for people who are not admins of the group. */
  vendors: VendorClaim[] | null
  added: UpstreamFields
  modes: typeof modeChoices
  refused: RefusedForm | null
}>('pages/upstreams')

const modeTexts: Record<UpstreamMode, string> = {
  automatic: 'All packages',
  approved: 'Only approved packages',
  off: 'Nothing',
}
const modeChoices = upstreamModes.map((value) => ({ value, text: modeTexts[value] }))

/** Shows the mirrored packages of a repository, and to its admins the upstreams and their settings. */
export async function showUpstreams(
  db: Queryable,
  reply: FastifyReply,
  session: Session | null,
  repository: VisibleRepository,
  { search, after, refused }: { search: string; after: string; refused: RefusedForm | null },
): Promise<FastifyReply> {
  const mayManage = may(repository, session, 'manage')
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
  return upstreamsPage(reply, session ?? nobody, {
    repository,
    mayManage,
    mayRequest: session !== null && upstreams.some(({ mode }) => mode === 'approved'),
    hasUpstreams: upstreams.length > 0,
    mirrored,
    waiting,
    search,
    isContinued: after !== '',
    next,
    upstreams: mayManage
      ? upstreams.map((upstream) => ({ upstream, fields: fieldsOf(upstream, refused) }))
      : null,
    vendors: mayManage ? await vendorsOf(db, repository, session) : null,
    added: (refused?.form === 'add' && refused.upstream) || emptyUpstream,
    modes: modeChoices,
    refused,
  })
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

function fieldsOf(upstream: Upstream, refused: RefusedForm | null): UpstreamFields {
  if (refused?.form === 'set' && refused.upstream?.name === upstream.name) {
    return { ...refused.upstream, url: upstream.url }
  }
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
