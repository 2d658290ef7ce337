import { describe, expect, it } from 'vitest'
import { deleteAccount, disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { listDeployTokens, revokeDeployToken } from '../../src/groups/deploy-tokens.ts'
import { openLastUse } from '../../src/oauth/last-use.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aDeployToken, aGroupMember, anAccount, aRepository } from '../support/actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { aPackageZip, basic } from '../support/registry-actors.ts'
import { dropRows, expire } from '../support/rows.ts'
import { ask } from '../support/token-client.ts'
import { ageUseOfDeployToken, storedDeployToken } from '../support/token-rows.ts'

const t = useApp()
const pull = async (path: string, authorization: string) =>
  (await t.app.inject({ url: `/${path}/-/packages/packages.json`, headers: { authorization } })).statusCode
const push = (path: string, authorization: string, version: string) =>
  t.app.inject({
    method: 'PUT',
    url: `/${path}/-/packages/upload/acme/lib/${version}`,
    headers: { authorization },
    payload: aPackageZip('acme/lib'),
  })

describe('a deploy token', () => {
  it('publishes and installs as bearer, and with HTTP Basic under any username', async () => {
    const repository = await aRepository(t.db)
    const token = await aDeployToken(t.db, repository.group, { name: 'build server' })
    expect((await push(repository.path, basic(token), '1.0.0')).statusCode).toBe(201)
    expect((await push(repository.path, basic(token, 'build-server'), '1.1.0')).statusCode).toBe(201)
    expect((await push(repository.path, `Bearer ${token}`, '1.2.0')).statusCode).toBe(201)
    for (const authorization of [basic(token), basic(token, 'anything'), `Bearer ${token}`]) {
      expect(await pull(repository.path, authorization)).toBe(200)
    }
    const columns = ['action', 'actorId', 'tokenKind', 'tokenId'] as const
    const { id } = (await storedDeployToken(t.db, token)) ?? expect.fail()
    expect(await eventsOf(t.db, { repositoryId: repository.id, version: '1.2.0' }, columns)).toEqual([
      { action: 'publish', actorId: null, tokenKind: 'deploy', tokenId: id },
    ])
  })

  it('keeps working when the account that made it is disabled or deleted, and still names it', async () => {
    const repository = await aRepository(t.db)
    const ann = await anAccount(t.db)
    await aGroupMember(t.db, ann, repository.group, 'admin')
    const token = await aDeployToken(t.db, repository.group, { madeBy: ann })
    const place = { groupId: repository.group.id, repositoryId: null }
    const madeBy = async () => (await listDeployTokens(t.db, place, { after: null, limit: 9 }))[0]?.madeBy
    expect(await madeBy()).toBe(ann.username)
    await disableAccount(t.db, operator, ann.id)
    expect(await pull(repository.path, basic(token))).toBe(200)
    await deleteAccount(t.db, operator, ann, 'leave')
    expect(await pull(repository.path, basic(token))).toBe(200)
    expect(await madeBy()).toBe('deleted account')
  })

  it('stops at once when it is revoked, when it expires, and when its group is gone', async () => {
    const repository = await aRepository(t.db)
    const token = await aDeployToken(t.db, repository.group, { name: 'ci' })
    const place = { groupId: repository.group.id, repositoryId: null }
    expect(await revokeDeployToken(t.db, operator, place, { name: 'ci' })).toBe('ci')
    expect(await pull(repository.path, basic(token))).toBe(401)
    expect(await revokeDeployToken(t.db, operator, place, { name: 'ci' })).toBeNull()
    const second = await aDeployToken(t.db, repository.group, { name: 'ci' })
    expect(await pull(repository.path, basic(second))).toBe(200)
    await expire(t.db, 'deploy_token', { tokenHash: hashSecret(second) })
    expect(await pull(repository.path, basic(second))).toBe(401)
    const third = await aDeployToken(t.db, repository.group)
    const other = await aRepository(t.db, { visibility: 'public' })
    expect(await pull(other.path, basic(third))).toBe(200)
    await dropRows(t.db, 'repository_group', { id: repository.group.id })
    expect(await pull(other.path, basic(third))).toBe(401)
  })

  it('allows nothing after its only repository was deleted', async () => {
    const repository = await aRepository(t.db)
    const sister = await aRepository(t.db, { group: repository.group })
    const token = await aDeployToken(t.db, repository.group, { repositories: [repository] })
    await dropRows(t.db, 'repository', { id: repository.id })
    expect(await pull(sister.path, basic(token))).toBe(404)
    expect((await callApi(t, token, 'GET', '/api/repositories')).json()).toEqual([])
  })

  it('lists and describes repositories in the API, and has no account there', async () => {
    const repository = await aRepository(t.db)
    const sister = await aRepository(t.db, { group: repository.group })
    const token = await aDeployToken(t.db, repository.group, { right: 'read', repositories: [repository] })
    const listed = await callApi(t, token, 'GET', '/api/repositories')
    expect(listed.json()).toMatchObject([{ path: repository.path, role: 'guest' }])
    const described = await callApi(t, token, 'GET', `/api/repositories/${repository.path}`)
    expect([described.statusCode, described.json().role]).toEqual([200, 'guest'])
    expect((await callApi(t, token, 'GET', `/api/repositories/${repository.path}/packages`)).json()).toEqual(
      [],
    )
    expect((await callApi(t, token, 'GET', `/api/repositories/${sister.path}`)).statusCode).toBe(404)
    for (const [method, url] of [
      ['GET', '/api/user'],
      ['PATCH', '/api/user'],
      ['GET', '/api/user/emails'],
      ['GET', '/api/groups'],
      ['GET', '/api/events'],
      ['GET', `/api/groups/${repository.group.name}/deploy-tokens`],
      ['GET', `/api/repositories/${repository.path}/members`],
      ['DELETE', `/api/repositories/${repository.path}`],
    ] as const) {
      const refused = await callApi(t, token, method, url, method === 'PATCH' ? { name: 'x' } : undefined)
      expect([url, refused.statusCode]).toEqual([url, 403])
      expect(String(refused.headers['www-authenticate'])).toContain('insufficient_scope')
    }
  })

  it('is introspected as a token of its group, with its repositories by name', async () => {
    const server = await anApplication(t.db, { isResourceServer: true })
    const stranger = await anApplication(t.db)
    const repository = await aRepository(t.db)
    const sister = await aRepository(t.db, { group: repository.group })
    const all = await aDeployToken(t.db, repository.group)
    const one = await aDeployToken(t.db, repository.group, { right: 'read', repositories: [sister] })
    const seen = (await ask(t, server, 'introspect', { token: all })).json()
    expect(seen).toEqual({
      active: true,
      scope: 'registry-package:rw repo-basic-info:r',
      token_type: 'bearer',
      exp: expect.any(Number),
      iat: expect.any(Number),
      iss: expect.any(String),
      sub: `group:${repository.group.id}`,
      group: repository.group.name,
      resource_scope: 'specified',
      repositories: [repository.path, sister.path].toSorted(),
    })
    expect((await ask(t, server, 'introspect', { token: one })).json()).toMatchObject({
      scope: 'registry-package:r repo-basic-info:r',
      repositories: [sister.path],
    })
    expect((await ask(t, stranger, 'introspect', { token: all })).json()).toEqual({ active: false })
    // RFC 7009 §2.2: no client may revoke a token of somebody else.
    expect((await ask(t, server, 'revoke', { token: all })).statusCode).toBe(200)
    expect(await pull(repository.path, basic(all))).toBe(200)
  })

  it('stores its last use, and notes the first one as an event', async () => {
    const { group } = await aRepository(t.db)
    const token = await aDeployToken(t.db, group, { name: 'ci' })
    const { id, lastUsedAt } = (await storedDeployToken(t.db, token)) ?? expect.fail()
    expect(lastUsedAt).toBeNull()
    const uses = openLastUse(t.db, openLog('silent'))
    for (let i = 0; i < 2; i += 1) {
      uses.note({
        ...operator,
        token: { kind: 'deploy', tokenId: id, authorizationId: null },
        ip: '192.0.2.7',
      })
      await uses.flush()
      await ageUseOfDeployToken(t.db, { id })
    }
    expect((await storedDeployToken(t.db, token))?.lastUsedAt).toBeInstanceOf(Date)
    await revokeDeployToken(t.db, operator, { groupId: group.id, repositoryId: null }, { id })
    const events = await eventsOf(t.db, { details: { deploy_token: Number(id) } }, [
      'action',
      'details',
      'ip',
    ])
    const about = { name: 'ci', group: group.name }
    const shown = events.map(({ action, details, ip }) => ({
      action,
      name: details['name'],
      group: details['group'],
      ip,
    }))
    expect(shown).toEqual([
      { action: 'deploy-token-created', ...about, ip: null },
      { action: 'deploy-token-first-used', ...about, ip: '192.0.2.7' },
      { action: 'deploy-token-revoked', ...about, ip: null },
    ])
  })
})
