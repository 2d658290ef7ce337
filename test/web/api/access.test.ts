import { describe, expect, it } from 'vitest'
import { aMember, anAccount, anAdminToken, aPersonalToken, aRepository } from '../../support/actors.ts'
import { aCaller, callApi, everyScope, type Method } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { countLiveRepositories } from '../../support/group-rows.ts'
import { countRows } from '../../support/rows.ts'

const t = useApp()

/** Every endpoint about a repository: its scope, and the weakest role that may call it (CONTRACT 1.10, 6.2). */
const repositoryEndpoints: [Method, string, string, 'guest' | 'developer' | 'admin', object?][] = [
  ['GET', '', 'repo-basic-info:r', 'guest'],
  ['PATCH', '', 'registry-manage:rw', 'admin', {}],
  ['DELETE', '', 'registry-delete:rw', 'admin'],
  ['GET', '/packages', 'registry-package:r', 'guest'],
  ['GET', '/packages/acme/lib', 'registry-package:r', 'guest'],
  ['GET', '/packages/acme/lib/1.0.0', 'registry-package:r', 'guest'],
  ['GET', '/packages/acme/lib/advisories', 'registry-package:r', 'guest'],
  ['PATCH', '/packages/acme/lib', 'registry-package:rw', 'developer', {}],
  [
    'POST',
    '/packages/acme/lib/advisories',
    'registry-package:rw',
    'developer',
    { title: 'x', affected_versions: '*' },
  ],
  ['DELETE', '/packages/acme/lib/advisories/x', 'registry-manage:rw', 'admin'],
  ['POST', '/packages/acme/lib/1.0.0/quarantine', 'registry-package:rw', 'developer'],
  ['DELETE', '/packages/acme/lib/1.0.0/quarantine', 'registry-manage:rw', 'admin'],
  ['DELETE', '/packages/acme/lib', 'registry-package-delete:rw', 'admin'],
  ['DELETE', '/packages/acme/lib/1.0.0', 'registry-package-delete:rw', 'admin'],
  ['DELETE', '/packages/acme/lib/1.0.0?purge=true', 'registry-package-delete:rw', 'admin'],
  ['POST', '/packages/acme/lib/restore', 'registry-package-delete:rw', 'admin'],
  ['POST', '/packages/acme/lib/1.0.0/restore', 'registry-package-delete:rw', 'admin'],
  ['GET', '/members', 'registry-manage:r', 'admin'],
  ['GET', '/members/x', 'registry-manage:r', 'admin'],
  ['PUT', '/members/x', 'registry-manage:rw', 'admin', { role: 'guest' }],
  ['DELETE', '/members/x', 'registry-manage:rw', 'admin'],
  ['GET', '/events', 'registry-manage:r', 'admin'],
]
const roles = ['guest', 'developer', 'admin'] as const

describe.each(repositoryEndpoints)(
  '%s /api/repositories/<group>/<name>%s',
  (method, below, scope, weakest, body) => {
    it('requires credentials, without an error attribute (RFC 6750 §3.1)', async () => {
      const { repository } = await aCaller(t, { visibility: 'public' })
      const response = await t.app.inject({ method, url: `/api/repositories/${repository.path}${below}` })
      expect(response.statusCode).toBe(401)
      expect(response.headers['www-authenticate']).toMatch(/^Bearer realm="svc", scope=/)
      expect(response.json()).toEqual({ errcode: 16, errmsg: 'not authorized' })
    })

    it('names the scope that a token lacks, also where everyone may pull', async () => {
      for (const visibility of ['private', 'public'] as const) {
        const scopes = everyScope.filter((one) => !one.startsWith(scope.replace(/:.*/, ':')))
        const { call } = await aCaller(t, { visibility, scopes })
        const response = await call(method, below, body)
        expect(response.statusCode).toBe(403)
        expect(response.headers['www-authenticate']).toContain(
          `Bearer realm="svc", error="insufficient_scope", scope="${scope}"`,
        )
        expect(response.json()).toEqual({ errcode: 7, errmsg: `the scope ${scope} is required` })
      }
    })

    it(`allows a ${weakest}, and no weaker role`, async () => {
      for (const role of roles) {
        const { call } = await aCaller(t, { role, scopes: [scope] })
        const { statusCode, headers, body: text } = await call(method, below, body)
        const isAllowed = roles.indexOf(role) >= roles.indexOf(weakest)
        expect([role, statusCode === 403]).toEqual([role, !isAllowed])
        if (isAllowed) expect(text).not.toContain('repository not found')
        else expect(headers['www-authenticate']).not.toContain('error=')
      }
    })

    it('hides a private repository from strangers, and from tokens that do not include it', async () => {
      const { repository, account } = await aCaller(t)
      const { repository: other } = await aCaller(t)
      const stranger = await aPersonalToken(t.db, await anAccount(t.db), { scopes: everyScope })
      const publicOnly = await aPersonalToken(t.db, account, { scopes: everyScope, resourceScope: 'public' })
      const specified = await aPersonalToken(t.db, account, {
        scopes: everyScope,
        resourceScope: 'specified',
        repositoryIds: [other.id],
      })
      const unscoped = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['account-profile:r'] })
      for (const token of [stranger, publicOnly, specified, unscoped]) {
        const response = await callApi(t, token, method, `/api/repositories/${repository.path}${below}`, body)
        expect([response.statusCode, response.json()]).toEqual([
          404,
          { errcode: 5, errmsg: 'repository not found' },
        ])
      }
    })
  },
)

describe('the endpoints about repositories', () => {
  it('check the permission before the input', async () => {
    const { call } = await aCaller(t, { role: 'guest' })
    expect((await call('PATCH', '', { visibility: 'nonsense' })).statusCode).toBe(403)
    expect((await call('PUT', '/members/x', { role: 'nonsense' })).statusCode).toBe(403)
    expect((await call('GET', '/packages?limit=nonsense')).statusCode).toBe(400)
  })

  it('respond with 404 for names that cannot exist, and 405 with Allow for other methods', async () => {
    const { call, repository } = await aCaller(t)
    for (const below of ['/packages/acme/%00', '/packages/acme/lib%00/1.0.0', '/nothing', '/packages/acme']) {
      const response = await call('GET', below)
      expect([below, response.statusCode, response.json().errcode]).toEqual([below, 404, 5])
    }
    const response = await call('POST', '/members/x')
    expect([response.statusCode, response.headers['allow']]).toEqual([405, 'DELETE, GET, HEAD, PUT'])
    expect((await call('PUT', '/packages')).headers['allow']).toBe('GET, HEAD')
    expect(repository.path).toContain('/')
  })

  it('treat an empty body as no body, whatever its type', async () => {
    const { push, token, repository } = await aCaller(t)
    await push('1.0.0')
    const response = await t.app.inject({
      method: 'POST',
      url: `/api/repositories/${repository.path}/packages/acme/lib/1.0.0/quarantine`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    })
    expect([response.statusCode, response.json().quarantine_reason]).toEqual([
      200,
      'quarantined by its registry',
    ])
  })
})

describe('GET /api/repositories, /api/groups and /api/groups/<group>/repositories', () => {
  const scopes = ['repo-basic-info:r', 'group-resource:r']

  it('show the repositories and groups on which the account has a role, as far as the token allows', async () => {
    const account = await anAccount(t.db)
    const mine = await aRepository(t.db, { visibility: 'private', description: 'mine' })
    const open = await aRepository(t.db, { visibility: 'public' })
    const others = await aRepository(t.db, { group: mine.group, visibility: 'private' })
    const othersOpen = await aRepository(t.db, { group: mine.group, visibility: 'public' })
    await aMember(t.db, account, mine, 'developer')
    await aMember(t.db, account, open, 'guest')
    const lists = async (about: Parameters<typeof aPersonalToken>[2]) => {
      const token = await aPersonalToken(t.db, account, { scopes, ...about })
      const get = async (url: string) => {
        const response = await callApi(t, token, 'GET', url)
        return response.statusCode === 200 ? response.json() : response.statusCode
      }
      const paths = (found: { path: string }[] | number) =>
        typeof found === 'number' ? found : found.map(({ path }) => path).toSorted()
      return {
        repositories: paths(await get('/api/repositories')),
        groups: (await get('/api/groups')).map(({ name }: { name: string }) => name).toSorted(),
        ofMine: paths(await get(`/api/groups/${mine.group.name}/repositories`)),
      }
    }
    const both = [mine.group.name, open.group.name].toSorted()
    expect(await lists({})).toEqual({
      repositories: [mine.path, open.path].toSorted(),
      groups: both,
      ofMine: [mine.path, othersOpen.path].toSorted(),
    })
    expect(await lists({ resourceScope: 'public' })).toEqual({
      repositories: [open.path],
      groups: [open.group.name],
      ofMine: [othersOpen.path],
    })
    expect(await lists({ resourceScope: 'specified', repositoryIds: [mine.id] })).toEqual({
      repositories: [mine.path],
      groups: [mine.group.name],
      ofMine: [mine.path, othersOpen.path].toSorted(),
    })
    expect(others.path).not.toBe(mine.path)
    const token = await aPersonalToken(t.db, account, { scopes })
    expect((await callApi(t, token, 'GET', '/api/repositories')).json()).toContainEqual({
      path: mine.path,
      visibility: 'private',
      description: 'mine',
      role: 'developer',
      release: 'direct',
      two_people: false,
      registry_url: `http://svc.test/${mine.path}/-/packages/`,
      created_at: expect.any(String),
    })
  })

  it('show an administrator of the service everything, in parts', async () => {
    const admin = await anAccount(t.db, { isAdmin: true })
    const token = await anAdminToken(t.db, admin, { scopes })
    for (const list of ['/api/repositories', '/api/groups']) {
      const seen: string[] = []
      for (let url = `${list}?limit=7`; url !== ''; ) {
        const response = await callApi(t, token, 'GET', url)
        seen.push(...response.json().map(({ path, name }: Record<string, string>) => path ?? name))
        url = /<http:\/\/svc\.test(.*)>/.exec(String(response.headers.link))?.[1] ?? ''
      }
      const count = await (list.endsWith('groups')
        ? countRows(t.db, 'repository_group')
        : countLiveRepositories(t.db))
      expect([list, seen.length, new Set(seen).size]).toEqual([list, count, count])
    }
  })

  it('hide groups without a visible repository, and require their scopes', async () => {
    const { group } = await aRepository(t.db)
    const account = await anAccount(t.db)
    const token = await aPersonalToken(t.db, account, { scopes })
    for (const name of [group.name, 'nothing', 'no%2Fthing']) {
      const response = await callApi(t, token, 'GET', `/api/groups/${name}/repositories`)
      expect([response.statusCode, response.json().errcode]).toEqual([404, 5])
    }
    const unscoped = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
    for (const [url, scope] of [
      ['/api/repositories', 'repo-basic-info:r'],
      ['/api/groups', 'group-resource:r'],
      [`/api/groups/${group.name}/repositories`, 'group-resource:r'],
    ] as const) {
      const response = await callApi(t, unscoped, 'GET', url)
      expect([response.statusCode, response.json().errmsg]).toEqual([403, `the scope ${scope} is required`])
      expect((await t.app.inject(url)).statusCode).toBe(401)
    }
  })
})
