import { describe, expect, it } from 'vitest'
import type { Role } from '../../../src/domain/permissions.ts'
import { aGroupMember, aMember, anAccount, aPersonalToken, aRepository } from '../../support/actors.ts'
import { callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { basic } from '../../support/registry-actors.ts'

const t = useApp()

/** A member of a new group, with a token for its API. */
async function aManager({
  role = 'admin' as Role,
  scopes = ['group-manage:rw', 'registry-package:rw', 'repo-basic-info:r'],
  isLimited = false,
} = {}) {
  const repository = await aRepository(t.db)
  const account = await anAccount(t.db)
  await aGroupMember(t.db, account, repository.group, role)
  const limits = isLimited
    ? { resourceScope: 'specified' as const, repositoryIds: [repository.id] }
    : { resourceScope: 'all' as const }
  const token = await aPersonalToken(t.db, account, { scopes, ...limits })
  const url = `/api/groups/${repository.group.name}/deploy-tokens`
  const call = (method: 'GET' | 'POST' | 'DELETE', below = '', body?: object) =>
    callApi(t, token, method, `${url}${below}`, body)
  return { repository, account, call }
}

describe('/api/groups/<group>/deploy-tokens', () => {
  it('makes, lists and revokes deploy tokens; the token itself is returned once', async () => {
    const { repository, account, call } = await aManager()
    const made = await call('POST', '', { name: ' ci ', right: 'publish', repositories: [repository.path] })
    expect(made.statusCode).toBe(201)
    const { token, ...about } = made.json()
    expect(about).toEqual({
      id: expect.any(Number),
      name: 'ci',
      right: 'publish',
      repositories: [repository.path],
      made_by: account.username,
      created_at: expect.any(String),
      last_used_at: null,
      expires_at: expect.any(String),
    })
    expect(Date.parse(about.expires_at) - Date.parse(about.created_at)).toBeCloseTo(90 * 86_400_000, -5)
    const forever = (await call('POST', '', { name: 'all', right: 'read', expires_in_days: null })).json()
    expect(forever).toMatchObject({ repositories: null, expires_at: null })
    const pull = async () =>
      (
        await t.app.inject({
          url: `/${repository.path}/-/packages/packages.json`,
          headers: { authorization: basic(token) },
        })
      ).statusCode
    expect(await pull()).toBe(200)
    const listed = await call('GET')
    expect(listed.body).not.toContain(token)
    expect(listed.json().map(({ name }: { name: string }) => name)).toEqual(['all', 'ci'])
    const first = await call('GET', '?limit=1')
    expect(first.json()).toHaveLength(1)
    expect(first.headers.link).toContain('rel="next"')
    expect((await call('DELETE', `/${about.id}`)).statusCode).toBe(204)
    expect(await pull()).toBe(401)
    expect((await call('DELETE', `/${about.id}`)).statusCode).toBe(404)
  })

  it.each([
    ['a name that is taken', { name: 'taken', right: 'read' }, 409],
    ['an empty name', { name: ' ', right: 'read' }, 400],
    ['a right that does not exist', { name: 'x', right: 'admin' }, 400],
    ['no repository', { name: 'x', right: 'read', repositories: [] }, 400],
    ['an unknown repository', { name: 'x', right: 'read', repositories: ['nobody/nothing'] }, 404],
    ['a lifetime of no day', { name: 'x', right: 'read', expires_in_days: 0 }, 400],
    ['an unknown member', { name: 'x', right: 'read', scope: 'all' }, 400],
  ])('refuses %s', async (_what, body, status) => {
    const { call } = await aManager()
    await call('POST', '', { name: 'taken', right: 'read' })
    const refused = await call('POST', '', body)
    expect([refused.statusCode, typeof refused.json().errmsg]).toEqual([status, 'string'])
    expect((await call('GET')).json()).toHaveLength(1)
  })

  it('refuses a repository of another group', async () => {
    const { call } = await aManager()
    const { repository } = await aManager()
    const refused = await call('POST', '', { name: 'x', right: 'read', repositories: [repository.path] })
    expect(refused.statusCode).toBe(404)
  })

  it('is for admins of the group, with a token for all repositories', async () => {
    const draft = { name: 'x', right: 'read' }
    for (const about of [
      { role: 'developer' as const },
      { isLimited: true },
      { scopes: ['group-manage:r'] },
    ]) {
      const { call } = await aManager(about)
      expect((await call('POST', '', draft)).statusCode).toBe(403)
    }
    const { repository } = await aManager()
    const outsider = await anAccount(t.db)
    const token = await aPersonalToken(t.db, outsider, { scopes: ['group-manage:rw'] })
    const url = `/api/groups/${repository.group.name}/deploy-tokens`
    expect((await callApi(t, token, 'GET', url)).statusCode).toBe(404)
    await aMember(t.db, outsider, repository, 'admin')
    expect((await callApi(t, token, 'GET', url)).statusCode).toBe(403)
  })

  it('makes no token that may do more than the token that makes it', async () => {
    const { call } = await aManager({
      scopes: ['group-manage:rw', 'registry-package:r', 'repo-basic-info:r'],
    })
    expect((await call('POST', '', { name: 'x', right: 'publish' })).statusCode).toBe(403)
    expect((await call('POST', '', { name: 'x', right: 'read' })).statusCode).toBe(201)
  })
})
