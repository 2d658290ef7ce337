import { describe, expect, it } from 'vitest'
import { operator } from '../../../src/domain/principal.ts'
import { createDeployToken, revokeDeployToken } from '../../../src/groups/deploy-tokens.ts'
import { changeMember } from '../../../src/groups/membership.ts'
import { claimVendorByHand } from '../../../src/upstreams/claims.ts'
import { aGroupMember, anAccount, aPersonalToken, aRepository } from '../../support/actors.ts'
import { aCaller, callApi, everyScope } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { listPersonalTokenIds } from '../../support/token-rows.ts'

const t = useApp()

describe('GET, PUT and DELETE …/members[/<username>]', () => {
  it('give, show, change and take away a role on the repository', async () => {
    const { call, account, repository } = await aCaller(t)
    const bob = await anAccount(t.db, { displayName: 'Bob' })
    const url = `/members/${bob.username}`
    expect((await call('GET', url)).statusCode).toBe(404)
    const member = {
      username: bob.username,
      name: 'Bob',
      role: 'guest',
      group_role: null,
      repository_role: 'guest',
    }
    const made = await call('PUT', url, { role: 'guest' })
    expect([made.statusCode, made.json()]).toEqual([200, member])
    expect((await call('GET', url)).json()).toEqual(member)
    expect((await call('PUT', url, { role: 'developer' })).json().role).toBe('developer')
    const listed = (await call('GET', '/members')).json()
    expect(listed.map(({ username }: { username: string }) => username)).toEqual(
      [account.username, bob.username].toSorted(),
    )
    const token = await aPersonalToken(t.db, bob, { scopes: everyScope })
    const seen = () => callApi(t, token, 'GET', `/api/repositories/${repository.path}`)
    expect((await seen()).json().role).toBe('developer')
    expect((await call('DELETE', url)).statusCode).toBe(204)
    expect((await seen()).statusCode).toBe(404)
    expect((await call('DELETE', url)).statusCode).toBe(404)
  })

  it('leave a role on the group alone', async () => {
    const group = (await aRepository(t.db)).group
    const repository = await aRepository(t.db, { group })
    const { call } = await aCaller(t, { repository })
    const bob = await anAccount(t.db)
    await aGroupMember(t.db, bob, group, 'developer')
    const response = await call('PUT', `/members/${bob.username}`, { role: 'guest' })
    expect(response.json()).toMatchObject({
      role: 'developer',
      group_role: 'developer',
      repository_role: 'guest',
    })
    await call('DELETE', `/members/${bob.username}`)
    expect((await call('GET', `/members/${bob.username}`)).json().role).toBe('developer')
    expect((await call('DELETE', `/members/${bob.username}`)).statusCode).toBe(404)
  })

  it('list in parts', async () => {
    const { call } = await aCaller(t)
    for (let i = 0; i < 3; i += 1) {
      await call('PUT', `/members/${(await anAccount(t.db)).username}`, { role: 'guest' })
    }
    const first = await call('GET', '/members?limit=3')
    const next = /<http:\/\/svc\.test.*(\/members.*)>/.exec(String(first.headers.link))?.[1]
    const second = await call('GET', next)
    const names = [...first.json(), ...second.json()].map(({ username }) => username)
    expect([names.length, new Set(names).size, second.headers.link]).toEqual([4, 4, undefined])
  })

  it('refuse unknown accounts and roles', async () => {
    const { call } = await aCaller(t)
    expect((await call('PUT', '/members/nobody', { role: 'guest' })).statusCode).toBe(404)
    for (const body of [{}, { role: 'owner' }, { role: null }, []]) {
      expect((await call('PUT', '/members/nobody', body)).statusCode).toBe(400)
    }
  })
})

describe('PATCH and DELETE /api/repositories/<group>/<name>', () => {
  it('change description and visibility, each alone', async () => {
    const { call, ask } = await aCaller(t)
    expect((await call('PATCH', '', { description: ' For all ' })).json()).toMatchObject({
      description: 'For all',
      visibility: 'private',
    })
    expect((await call('PATCH', '', { visibility: 'public' })).json()).toMatchObject({
      description: 'For all',
      visibility: 'public',
    })
    const response = await ask('packages.json', { headers: { authorization: undefined } })
    expect(response.statusCode).toBe(200)
  })

  it('change the name, and serve the old URL too', async () => {
    const repository = await aRepository(t.db)
    const { call } = await aCaller(t, { repository })
    const path = `${repository.group.name}/renamed`
    expect((await call('PATCH', '', { name: 'renamed', description: 'New' })).json()).toMatchObject({
      path,
      description: 'New',
    })
    expect((await call('GET')).json().path).toBe(path)
    await aRepository(t.db, { group: repository.group, name: 'taken' })
    const conflict = await call('PATCH', '', { name: 'taken', description: 'Not this' })
    expect([conflict.statusCode, conflict.json().errcode]).toEqual([409, 6])
    expect((await call('GET')).json().description).toBe('New')
    expect((await call('DELETE')).statusCode).toBe(204)
  })

  it.each([
    { name: 'Not-A-Name' },
    { name: '' },
    { name: 1 },
    { description: 'x'.repeat(351) },
    { description: 'a\0b' },
    { visibility: 'secret' },
    { description: 1 },
  ])('refuse %j', async (body) => {
    const { call } = await aCaller(t)
    expect((await call('PATCH', '', body)).statusCode).toBe(400)
  })

  it('delete a repository with everything in it, except its events', async () => {
    const { call, push, ask, repository } = await aCaller(t)
    await push('1.0.0')
    expect((await call('DELETE')).statusCode).toBe(204)
    expect((await call('GET')).statusCode).toBe(404)
    expect((await ask('packages.json')).statusCode).toBe(404)
    const events = await eventsOf(t.db, { repositoryId: repository.id }, ['action', 'details'])
    expect(events).toEqual([
      expect.objectContaining({ action: 'publish' }),
      { action: 'delete-repository', details: { path: repository.path } },
    ])
  })
})

describe('GET …/events', () => {
  it('lists who did what, with which token, when and from where, latest first', async () => {
    const { call, push, account } = await aCaller(t)
    const lib = '/packages/acme/lib'
    await push('1.0.0')
    await call('PATCH', lib, { abandoned: true, replacement: 'acme/new' })
    await call('PATCH', lib, { abandoned: false })
    const { advisory_id } = (
      await call('POST', `${lib}/advisories`, { title: 'x', affected_versions: '*' })
    ).json()
    await call('DELETE', `${lib}/advisories/${advisory_id}`)
    await call('POST', `${lib}/1.0.0/quarantine`, { reason: 'bad' })
    await call('DELETE', `${lib}/1.0.0/quarantine`)
    await call('DELETE', `${lib}/1.0.0`)
    await call('POST', `${lib}/1.0.0/restore`)
    await call('DELETE', lib)
    await call('POST', `${lib}/restore`)
    await call('DELETE', `${lib}/1.0.0?purge=true`)
    const bob = await anAccount(t.db)
    await call('PUT', `/members/${bob.username}`, { role: 'guest' })
    await call('DELETE', `/members/${bob.username}`)
    await call('PATCH', '', { description: 'new' })
    const events = (await call('GET', '/events?limit=100')).json()
    const [tokenId] = await listPersonalTokenIds(t.db, account)
    for (const event of events) {
      expect(event).toMatchObject({
        id: expect.any(Number),
        account: account.username,
        token: { kind: 'personal', id: Number(tokenId) },
        ip: '127.0.0.1',
        happened_at: expect.stringMatching(/Z$/),
      })
    }
    const told = events
      .toReversed()
      .map((event: Record<string, unknown>) => [
        event['action'],
        event['package'],
        event['version'],
        event['details'],
      ])
    const versions = ['1.0.0']
    expect(told).toEqual([
      ['publish', 'acme/lib', '1.0.0', expect.objectContaining({ sha256: expect.any(String) })],
      ['abandon', 'acme/lib', null, { replacement: 'acme/new' }],
      ['unabandon', 'acme/lib', null, { from: { replacement: 'acme/new' } }],
      ['advise', 'acme/lib', null, expect.objectContaining({ advisory_id, title: 'x' })],
      ['withdraw', 'acme/lib', null, { advisory_id }],
      ['quarantine', 'acme/lib', '1.0.0', { reason: 'bad' }],
      ['release', 'acme/lib', '1.0.0', {}],
      ['delete', 'acme/lib', '1.0.0', {}],
      ['restore', 'acme/lib', '1.0.0', {}],
      ['delete', 'acme/lib', null, { count: 1, versions }],
      ['restore', 'acme/lib', null, { count: 1, versions }],
      ['purge', 'acme/lib', '1.0.0', {}],
      ['set-member', null, null, { username: bob.username, role: 'guest' }],
      ['remove-member', null, null, { username: bob.username, from: { role: 'guest' } }],
      ['change-repository', null, null, { description: 'new', from: { description: '' } }],
    ])
    const part = await call('GET', '/events?limit=1')
    const next = /<http:\/\/svc\.test.*(\/events.*)>/.exec(String(part.headers.link))?.[1]
    expect([...part.json(), ...(await call('GET', next)).json()]).toEqual(events.slice(0, 2))
  })

  it('has no event of a rejected change', async () => {
    const { call } = await aCaller(t)
    await call('DELETE', '/packages/acme/none')
    await call('PUT', '/members/nobody', { role: 'guest' })
    await call('DELETE', `/members/${(await anAccount(t.db)).username}`)
    expect((await call('GET', '/events')).json()).toEqual([])
  })

  it('shows an admin of the repository only those events of the group that concern it', async () => {
    const repository = await aRepository(t.db)
    const { call, account } = await aCaller(t, { repository })
    const { group } = repository
    const sister = await aRepository(t.db, { group })
    const by = { ...operator, ip: '192.0.2.7' }
    const wanted = { groupId: group.id, right: 'read', expiry: { inDays: 1 } } as const
    const make = (name: string, repositories: { id: string; path: string }[] | 'all') =>
      createDeployToken(t, by, { ...wanted, name, repositories })
    const place = { groupId: group.id, repositoryId: null }
    await make('all', 'all')
    await make('both', [repository, sister])
    await make('sister', [sister])
    for (const name of ['both', 'sister']) await revokeDeployToken(t.db, by, place, { name })
    // Another token with the name of an earlier one.
    await make('both', [sister])
    await claimVendorByHand(t.db, by, group, { vendor: 'acme', exceptions: [], force: false })
    const bob = await anAccount(t.db)
    await changeMember(t.db, by, { place: { groupId: group.id }, account: bob, role: 'guest' })

    const events = async () =>
      ((await call('GET', '/events')).json() as Record<string, unknown>[]).map(({ action, details, ip }) => [
        action,
        details,
        ip,
      ])
    expect(await events()).toEqual([
      ['set-group-member', { username: bob.username, role: 'guest' }, null],
      ['revoke-deploy-token', { name: 'both' }, null],
      ['create-deploy-token', { name: 'both', right: 'read', repositories: [repository.path] }, null],
      ['create-deploy-token', { name: 'all', right: 'read', repositories: 'all' }, null],
    ])

    await aGroupMember(t.db, account, group, 'admin')
    const all = await events()
    // Those of the group only are in its own activity: other tokens, claims.
    expect(all.map(([action]) => action)).toEqual([
      'set-group-member',
      'revoke-deploy-token',
      'create-deploy-token',
      'create-deploy-token',
    ])
    expect(all).toContainEqual([
      'create-deploy-token',
      { name: 'both', right: 'read', repositories: [repository.path, sister.path] },
      by.ip,
    ])
    const limited = await aPersonalToken(t.db, account, {
      scopes: everyScope,
      resourceScope: 'specified',
      repositoryIds: [repository.id],
    })
    const url = `/api/repositories/${repository.path}/events`
    expect((await callApi(t, limited, 'GET', url)).json()).toHaveLength(4)
  })
})
