import { beforeAll, describe, expect, it } from 'vitest'
import {
  decideAccess,
  type RepositoryAct,
  type ResourceScope,
  type Role,
  type Visibility,
} from '../../src/domain/permissions.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { type Access, findAccess, grantOf } from '../../src/groups/access.ts'
import {
  aDeployToken,
  aGroupMember,
  aMember,
  anAccount,
  anAdminToken,
  aPersonalToken,
  aRepository,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import {
  type ApplicationActor,
  anAccessToken,
  anApplication,
  anAuthorization,
} from '../support/oauth-actors.ts'
import { basic } from '../support/registry-actors.ts'
import { analyze } from '../support/statistics.ts'

/*
 * The permission rule of CONTRACT 1.10, written independently of src/domain/permissions.ts. The tests compare it with
 * the results of the database and of the endpoints, for every combination.
 */
type Roles = { inGroup?: Role; inRepository?: Role; isAdmin?: true }

const roles: (Role | undefined)[] = [undefined, 'guest', 'developer', 'admin']
const roleSets: Roles[] = [
  ...roles.flatMap((inGroup) =>
    roles.map((inRepository) => ({ ...(inGroup && { inGroup }), ...(inRepository && { inRepository }) })),
  ),
  { isAdmin: true },
]
const visibilities: Visibility[] = ['private', 'public']
const scopes = [
  'registry-package:r',
  'registry-package:rw',
  'registry-package-delete:rw',
  'registry-manage:r',
  'registry-manage:rw',
  'registry-delete:rw',
  'repo-basic-info:r',
  'repo-code:rw',
]
const tokenLimits = ['all', 'public', 'this one', 'another one'] as const

/**
 * For each act: the scopes that allow it (one is enough), the weakest role that may do it, and whether applications and
 * deploy tokens never do it.
 */
const rules: Record<
  RepositoryAct,
  { scopes: string[]; least: Role; isForPeople?: true; isInteractive?: true }
> = {
  describe: { scopes: ['repo-basic-info:r'], least: 'guest' },
  pull: { scopes: ['registry-package:r', 'registry-package:rw'], least: 'guest' },
  push: { scopes: ['registry-package:rw'], least: 'developer' },
  stage: { scopes: ['registry-package:rw'], least: 'developer' },
  decideStage: { scopes: ['registry-package:rw'], least: 'developer', isInteractive: true },
  endReviews: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  deletePackage: { scopes: ['registry-package-delete:rw'], least: 'admin' },
  restorePackage: { scopes: ['registry-package-delete:rw'], least: 'admin' },
  readSettings: { scopes: ['registry-manage:r', 'registry-manage:rw'], least: 'admin' },
  manage: { scopes: ['registry-manage:rw'], least: 'admin' },
  appointAdmin: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  trustPublisher: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  addWebhook: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  addSource: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  setRetention: { scopes: ['registry-package-delete:rw'], least: 'admin', isForPeople: true },
  limitPublishers: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  removeUpstream: { scopes: ['registry-manage:rw'], least: 'admin' },
  unbindNames: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  makePublic: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  forgetArchives: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  decideContest: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  liftQuarantine: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  withdrawAdvisory: { scopes: ['registry-manage:rw'], least: 'admin', isForPeople: true },
  deleteRepository: { scopes: ['registry-delete:rw'], least: 'admin' },
}
const acts = Object.keys(rules) as RepositoryAct[]
const power = { none: 0, guest: 1, developer: 2, admin: 3 }

interface Case {
  held: Roles
  visibility: Visibility
  scope: string
  limit: (typeof tokenLimits)[number]
  kind: 'access' | 'personal' | 'admin'
}

/** The right of a site administrator counts only with an admin token. */
function powerOf({ held: { inGroup, inRepository }, kind }: Case): number {
  return kind === 'admin' ? power.admin : Math.max(power[inGroup ?? 'none'], power[inRepository ?? 'none'])
}

function includesRepository({ limit, visibility }: Case): boolean {
  return limit === 'all' || limit === 'this one' || (limit === 'public' && visibility === 'public')
}

/** Only members see a private repository, and only with a token that includes it. */
function isSeen(one: Case): boolean {
  return one.visibility === 'public' || (powerOf(one) > 0 && includesRepository(one))
}

function isAllowed(one: Case, act: RepositoryAct): boolean {
  if (act === 'pull' && one.visibility === 'public') return true
  const ownPower = Math.max(powerOf(one), one.visibility === 'public' ? power.guest : 0)
  if (rules[act].isForPeople && one.kind === 'access') return false
  // No token does it, and all cases are tokens.
  if (rules[act].isInteractive) return false
  return (
    rules[act].scopes.includes(one.scope) && includesRepository(one) && ownPower >= power[rules[act].least]
  )
}

const t = useApp()

/** An application for each scope and limit. Each account authorizes all of them. */
const applications = new Map<string, ApplicationActor>()
const applicationKey = ({ scope, limit }: Pick<Case, 'scope' | 'limit'>) => `${scope} ${limit}`

beforeAll(async () => {
  for (const scope of scopes)
    for (const limit of tokenLimits)
      applications.set(applicationKey({ scope, limit }), await anApplication(t.db, { scopes: [scope] }))
})

async function aSubject({ held, visibility }: Pick<Case, 'held' | 'visibility'>) {
  const repository = await aRepository(t.db, { visibility })
  const other = await aRepository(t.db)
  const account = await anAccount(t.db, { isAdmin: held.isAdmin ?? false })
  if (held.inGroup) await aGroupMember(t.db, account, repository.group, held.inGroup)
  if (held.inRepository) await aMember(t.db, account, repository, held.inRepository)

  function limitsOf({ scope, limit }: Omit<Case, 'kind'>) {
    const resourceScope: ResourceScope = limit === 'all' || limit === 'public' ? limit : 'specified'
    const chosen = { 'this one': [repository], 'another one': [other], all: [], public: [] }[limit]
    return { scopes: [scope], resourceScope, repositories: chosen }
  }

  /**
   * Returns tokens with the same grant: one of an application, one of the account itself, and an admin token, which is
   * always for all repositories.
   */
  async function tokensFor(one: Omit<Case, 'kind'>): Promise<{ kind: Case['kind']; token: string }[]> {
    const { repositories, ...grant } = limitsOf(one)
    const repositoryIds = repositories.map(({ id }) => id)
    const application = applications.get(applicationKey(one)) as ApplicationActor
    const authorization = await anAuthorization(t.db, account, application, { ...grant, repositories })
    const access = await anAccessToken(t.db, authorization)
    const personal = await aPersonalToken(t.db, account, { ...grant, repositoryIds })
    const tokens = [
      { kind: 'access' as const, token: access },
      { kind: 'personal' as const, token: personal },
    ]
    if (!held.isAdmin || one.limit !== 'all') return tokens
    return [...tokens, { kind: 'admin', token: await anAdminToken(t.db, account, grant) }]
  }

  return { repository, tokensFor }
}

describe.each(roleSets)('an account that is %j', (held) => {
  it.each(visibilities)(
    'may do with a %s repository what CONTRACT 1.10 says, and nothing else',
    async (visibility) => {
      const { repository, tokensFor } = await aSubject({ held, visibility })
      // Without new statistics, PostgreSQL would plan queries as for the empty tables of a minute ago.
      await analyze(t.db)
      const [group = '', name = ''] = repository.path.split('/')
      for (const [scope, limit] of scopes.flatMap((each) => tokenLimits.map((one) => [each, one] as const))) {
        const tokens = await tokensFor({ held, visibility, scope, limit })
        for (const { kind, token } of tokens) {
          const one: Case = { held, visibility, scope, limit, kind }
          const access = await findAccess(t.db, { group, name, token: { hash: hashSecret(token) } })
          const allowed = acts.filter((act) => verdictOf(access, act) === 'allowed')
          expect(allowed, JSON.stringify(one)).toEqual(acts.filter((act) => isAllowed(one, act)))
        }
        // The endpoints use the same rule. Half of the combinations use each kind of token.
        const [used] = (limit === 'all') === (held.isAdmin ?? false) ? tokens.toReversed() : tokens
        const { kind, token } = used as (typeof tokens)[number]
        const one: Case = { held, visibility, scope, limit, kind }
        expect(await statusesFor(token, repository.path), JSON.stringify(one)).toEqual({
          pull: isAllowed(one, 'pull') ? 200 : isSeen(one) ? 403 : 404,
          push: isAllowed(one, 'push') ? 400 : isSeen(one) ? 403 : 404,
        })
      }
    },
  )
})

describe.each(['read', 'publish'] as const)('a deploy token to %s', (right) => {
  const own = { read: ['describe', 'pull'], publish: ['describe', 'pull', 'push', 'stage'] }[right]

  it.each(visibilities)(
    'may do with a %s repository of its group what its right allows, and nothing else',
    async (visibility) => {
      const repository = await aRepository(t.db, { visibility })
      const sister = await aRepository(t.db, { group: repository.group })
      const elsewhere = await aRepository(t.db)
      const [group = '', name = ''] = repository.path.split('/')
      const tokens = {
        all: await aDeployToken(t.db, repository.group, { right }),
        'this one': await aDeployToken(t.db, repository.group, { right, repositories: [repository, sister] }),
        'another one': await aDeployToken(t.db, repository.group, { right, repositories: [sister] }),
        // The schema cannot reject a repository of another group, so the rule must.
        'another group': await aDeployToken(t.db, elsewhere.group, { right }),
      }
      const isPublic = visibility === 'public'
      for (const [limit, token] of Object.entries(tokens)) {
        const isOwn = limit === 'all' || limit === 'this one'
        // Everybody may pull from a public repository. The token for another group may also `describe` it.
        const allowed = isOwn
          ? own
          : isPublic
            ? ['pull', ...(limit === 'another group' ? ['describe'] : [])]
            : []
        const access = await findAccess(t.db, { group, name, token: { hash: hashSecret(token) } })
        const found = acts.filter((act) => verdictOf(access, act) === 'allowed')
        expect([limit, found]).toEqual([limit, acts.filter((act) => allowed.includes(act))])
        const seen = isPublic || isOwn
        expect([limit, await statusesFor(token, repository.path)]).toEqual([
          limit,
          {
            pull: seen ? 200 : 404,
            push: allowed.includes('push') ? 400 : seen ? 403 : 404,
          },
        ])
      }
    },
  )
})

describe('a request without credentials', () => {
  it.each(visibilities)('may do with a %s repository what anybody may', async (visibility) => {
    const { repository } = await aSubject({ held: {}, visibility })
    const [group = '', name = ''] = repository.path.split('/')
    const access = await findAccess(t.db, { group, name, token: null })
    for (const act of acts) {
      const held = { ...access, id: access.repositoryId as string }
      const allowed = decideAccess(null, held, act) === 'allowed'
      expect(allowed, act).toBe(act === 'pull' && visibility === 'public')
    }
    const isOpen = visibility === 'public'
    expect(await statusesFor(null, repository.path)).toEqual({ pull: isOpen ? 200 : 401, push: 401 })
  })
})

function verdictOf(access: Access, act: RepositoryAct): string {
  return decideAccess(grantOf(access), { ...access, id: access.repositoryId as string }, act)
}

/** Returns the status of a pull, and of an upload without an archive: 400 means that the upload is permitted. */
async function statusesFor(token: string | null, path: string): Promise<{ pull: number; push: number }> {
  const headers = token === null ? {} : { authorization: basic(token) }
  const pull = await t.app.inject({ url: `/${path}/-/packages/packages.json`, headers })
  const url = `/${path}/-/packages/upload/acme/lib/1.0.0`
  const push = await t.app.inject({ method: 'PUT', url, headers, payload: 'no zip' })
  return { pull: pull.statusCode, push: push.statusCode }
}
