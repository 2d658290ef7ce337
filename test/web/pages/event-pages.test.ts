import { describe, expect, it } from 'vitest'
import { invite } from '../../../src/accounts/invite.ts'
import { transaction } from '../../../src/database/database.ts'
import { operator } from '../../../src/domain/principal.ts'
import { insertEvents } from '../../../src/events/events.ts'
import { deleteRepository, restoreRepository, setRepository } from '../../../src/groups/group-lifecycle.ts'
import { changeMember } from '../../../src/groups/membership.ts'
import { purgeRepository } from '../../../src/groups/repositories.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  signIn,
} from '../../support/actors.ts'
import { callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { open } from '../../support/browse.ts'

const t = useApp()

async function anAdmin(group: { id: string }, role: 'admin' | 'developer' = 'admin') {
  const account = await anAccount(t.db)
  await aGroupMember(t.db, account, group, role)
  const cookie = await signIn(t.app, account)
  return { account, look: (url: string) => open(t, url, cookie) }
}

/** Returns the rows of a page of events as text, without the time. */
function rowsOf(body: string): string[] {
  const [, table = ''] = /<tbody>(.*)<\/tbody>/s.exec(body) ?? []
  return table
    .split('</tr>')
    .slice(0, -1)
    .map((row) =>
      row
        .replace(/<td[^>]*><time.*/s, '')
        .replaceAll(/<[^>]*>/g, ' ')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    )
}

describe('/<group>/-/activity', () => {
  it('shows who did what in the group and its repositories, with old and new values', async () => {
    const repository = await aRepository(t.db)
    const { group, path } = repository
    const { account, look } = await anAdmin(group)
    const by = { ...operator, accountId: account.id, via: 'browser', ip: '192.0.2.9' } as const
    const bob = await anAccount(t.db)
    await setRepository(t.db, by, repository.id, { visibility: 'public', description: null })
    await changeMember(t.db, by, { place: { groupId: group.id }, account: bob, role: 'guest' })
    await changeMember(t.db, by, { place: { groupId: group.id }, account: bob, role: 'developer' })
    await deleteRepository(t.db, by, repository)
    // The events of another group are on another page.
    const other = await aRepository(t.db)
    await setRepository(t.db, operator, other.id, { visibility: 'public', description: null })
    const { body } = await look(`/${group.name}/-/activity`)
    const who = `${account.username} Browser, 192.0.2.9`
    expect(rowsOf(body)).toEqual([
      `Deleted the repository ${path} ${who}`,
      `Changed a role in the group ${bob.username}: guest → developer ${who}`,
      `Gave a role in the group ${bob.username} is guest ${who}`,
      `Changed the settings of the repository ${path} visibility: private → public ${who}`,
    ])
    expect(body).toContain(`href="/${group.name}/-/activity" aria-current="page">Activity`)
  })

  it('keeps the events of a repository that was removed for good', async () => {
    const repository = await aRepository(t.db)
    const { look } = await anAdmin(repository.group)
    await deleteRepository(t.db, operator, repository)
    await restoreRepository(t.db, operator, repository.group, repository.path.split('/')[1] ?? '')
    await deleteRepository(t.db, operator, repository)
    await transaction(t.db, (tx) => purgeRepository(tx, repository.id))
    const { body } = await look(`/${repository.group.name}/-/activity?repository=${repository.path}`)
    expect(rowsOf(body).map((row) => row.split(' ', 3).join(' '))).toEqual([
      'Deleted the repository',
      'Restored the repository',
      'Deleted the repository',
    ])
  })

  it('is for admins of the group', async () => {
    const repository = await aRepository(t.db)
    const url = `/${repository.group.name}/-/activity`
    const developer = await anAdmin(repository.group, 'developer')
    const stranger = await anAdmin(await aGroup(t.db))
    expect((await developer.look(url)).statusCode).toBe(403)
    expect((await stranger.look(url)).statusCode).toBe(404)
    expect((await stranger.look(`${url}?format=csv`)).statusCode).toBe(404)
    expect((await t.app.inject(url)).statusCode).toBe(303)
  })

  it('shows no email of an invitation, no client IP of an event of an account, and tells no unknown usernames', async () => {
    const group = await aGroup(t.db)
    const { account, look } = await anAdmin(group)
    const by = { ...operator, accountId: account.id, via: 'browser', ip: '192.0.2.77' } as const
    const target = { groupId: group.id, role: 'developer' } as const
    await invite(t.db, t.config, by, { email: 'carol@example.net', target })
    const { body } = await look(`/${group.name}/-/activity`)
    expect(rowsOf(body)).toEqual([`Invitation created ${group.name}, developer ${account.username} Browser`])
    const json = await look(`/${group.name}/-/activity?format=json`)
    expect(JSON.parse(json.body)).toMatchObject({
      action: 'invitation-created',
      account: account.username,
      group: group.name,
      ip: null,
      user_agent: null,
      details: { role: 'developer' },
    })
    expect(body + json.body).not.toMatch(/carol@example\.net|192\.0\.2\.77/)
    const unknown = await look(`/${group.name}/-/activity?account=${aName('nobody')}`)
    expect([unknown.statusCode, rowsOf(unknown.body)]).toEqual([200, []])
    const ignored = await look(`/${group.name}/-/activity?ip=192.0.2.77`)
    expect(rowsOf(ignored.body)).toHaveLength(1)
  })

  it('keeps its filter on the next page and in the exports', async () => {
    const repository = await aRepository(t.db)
    const { group, path } = repository
    const { account, look } = await anAdmin(group)
    const by = { ...operator, accountId: account.id, via: 'browser' } as const
    const about = { repositoryId: repository.id, action: 'publish', packageName: 'acme/lib' } as const
    await insertEvents(
      t.db,
      by,
      Array.from({ length: 70 }, (_, i) => ({ ...about, version: `1.0.${i}` })),
    )
    await insertEvents(t.db, { ...by, via: 'command', accountId: null }, [{ ...about, version: '2.0.0' }])
    const filter = `action=packages&repository=${encodeURIComponent(path)}&package=acme%2Flib&means=browser`
    const url = `/${group.name}/-/activity?account=${account.username}&${filter}`
    const first = await look(url)
    expect(first.body).toContain('70 events match')
    const [, next = ''] = /href="([^"]*after=[^"]*)">Older/.exec(first.body) ?? []
    expect(next).toContain('means=browser')
    const second = await look(next.replaceAll('&amp;', '&'))
    expect(second.body).toContain('70 events match')
    expect((await look(`${url}&until=2020-01-01`)).body).toContain('No event matches the filter.')
    expect((await look(`/${group.name}/-/activity`)).body).not.toContain('events match')
    const versions = [...rowsOf(first.body), ...rowsOf(second.body)].map((row) => /1\.0\.\d+/.exec(row)?.[0])
    expect(versions).toEqual(Array.from({ length: 70 }, (_, i) => `1.0.${69 - i}`))
    const csv = await look(`${url}&format=csv`)
    const [head = '', ...lines] = csv.body.trim().split('\r\n')
    expect(lines).toHaveLength(70)
    expect(new Set(lines.map((line) => line.split(',').at(-5)))).toEqual(new Set([group.name]))
    expect(head.split(',').at(-5)).toBe('group')
    expect(csv.body).not.toContain('2.0.0')
  })
})

describe('/admin/events', () => {
  it('shows events of accounts and of repositories in the order of time', async () => {
    const repository = await aRepository(t.db)
    const admin = await anAccount(t.db, { isAdmin: true })
    const cookie = await signIn(t.app, admin)
    const by = { ...operator, accountId: admin.id, via: 'browser' } as const
    await setRepository(t.db, by, repository.id, { visibility: 'public', description: null })
    await deleteRepository(t.db, by, repository)
    const rows = async (query: string) =>
      rowsOf((await open(t, `/admin/events?${query}`, cookie)).body).map(
        (row) => row.split(` ${admin.username}`)[0],
      )
    expect(await rows(`account=${admin.username}`)).toEqual([
      `Deleted the repository ${repository.path}`,
      `Changed the settings of the repository ${repository.path} visibility: private → public`,
      'Signed in password',
      expect.stringContaining('Account created'),
    ])
    expect(await rows(`action=delete-repository&repository=${repository.path}`)).toEqual([
      `Deleted the repository ${repository.path}`,
    ])
    expect(await rows(`action=settings&actor=${admin.username}`)).toHaveLength(2)
    expect(await rows(`account=${admin.username}&means=command`)).toEqual([
      expect.stringContaining('Account created'),
    ])
    for (const query of ['action=dance', 'means=magic', 'repository=acme', `actor=${aName('nobody')}`])
      expect((await open(t, `/admin/events?${query}`, cookie)).statusCode).toBe(400)
  })
})

describe('GET /api/groups/{group}/events', () => {
  it('shows an admin what the page shows, with both scopes', async () => {
    const repository = await aRepository(t.db)
    const { group, path } = repository
    const { account } = await anAdmin(group)
    await setRepository(t.db, operator, repository.id, { visibility: 'public', description: null })
    const url = `/api/groups/${group.name}/events`
    const get = async (scopes: string[], query = '') =>
      callApi(t, await aPersonalToken(t.db, account, { scopes }), 'GET', `${url}${query}`)
    expect((await get(['group-manage:r'])).statusCode).toBe(403)
    const found = await get(['group-manage:r', 'registry-manage:r'], '?action=settings&means=command')
    expect(found.json()).toMatchObject([
      {
        action: 'change-repository',
        repository: path,
        group: group.name,
        via: 'command',
        details: { visibility: 'public', from: { visibility: 'private' } },
      },
    ])
    const wrong = await get(['group-manage:r', 'registry-manage:r'], '?action=dance')
    expect(wrong.statusCode).toBe(400)
  })
})

it('the API describes an event in the same way for its repository, its group and the site', async () => {
  const repository = await aRepository(t.db)
  const { group, path } = repository
  const account = await anAccount(t.db, { isAdmin: true })
  await aGroupMember(t.db, account, group, 'admin')
  const by = {
    ...operator,
    accountId: account.id,
    via: 'browser',
    ip: '192.0.2.9',
    userAgent: 'curl/8',
  } as const
  await setRepository(t.db, by, repository.id, { visibility: 'public', description: null })
  const scopes = ['group-manage:r', 'registry-manage:r']
  const [mine, ofSite] = [
    await aPersonalToken(t.db, account, { scopes }),
    await aPersonalToken(t.db, account, { scopes, isAdmin: true }),
  ]
  const first = async (token: string, url: string) =>
    (await callApi(t, token, 'GET', url)).json<object[]>()[0]
  const ofRepository = await first(mine, `/api/repositories/${path}/events`)
  expect(ofRepository).toMatchObject({ account: account.username, package: null, ip: '192.0.2.9' })
  expect(await first(mine, `/api/groups/${group.name}/events`)).toEqual({
    ...ofRepository,
    ...{ repository: path, group: group.name, about_account: null, application: null, via: 'browser' },
    ...{ user_agent: null, request_id: null },
  })
  expect(await first(ofSite, `/api/events?repository=${path}`)).toEqual({
    ...(await first(mine, `/api/groups/${group.name}/events`)),
    user_agent: 'curl/8',
  })
})
