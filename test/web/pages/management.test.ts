import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../../src/accounts/account-lifecycle.ts'
import type { Role } from '../../../src/domain/permissions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { insertEvents } from '../../../src/events/events.ts'
import { listRepositoryEvents } from '../../../src/events/registry-events.ts'
import { findRepositoryByPath } from '../../../src/groups/repositories.ts'
import {
  aGroup,
  aGroupMember,
  aMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  post,
  roleIn,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { membersOf } from '../../support/group-rows.ts'
import { aPublisher, basic } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()
const look = (url: string, cookie = '') => t.app.inject({ url, headers: { cookie } })

/** A signed-in person, with the form token. */
async function aVisitor() {
  const account = await anAccount(t.db)
  const cookie = await signIn(t.app, account)
  const csrf_token = csrfTokenIn(await look('/settings/account', cookie))
  const send = (url: string, form: Record<string, string>) =>
    post(t.app, url, cookie, { csrf_token, ...form })
  return { account, cookie, send, open: (url: string) => look(url, cookie) }
}

/** A member of a repository. */
async function aRepositoryMember(role: Role) {
  const visitor = await aVisitor()
  const repository = await aRepository(t.db)
  await aMember(t.db, visitor.account, repository, role)
  return { ...visitor, repository, url: `/${repository.path}` }
}

const roleOf = (account: { id: string }, repository: { id: string }) => roleIn(t.db, account, repository)
const lastEvent = async (repository: { id: string }) => {
  const events = await eventsOf(t.db, { repositoryId: repository.id }, ['action', 'actorId', 'details'])
  const last = events.at(-1)
  return last && { action: last.action, accountId: last.actorId, details: last.details }
}

describe('/new/group', () => {
  it('creates a group whose first admin is its creator, and says so once', async () => {
    const { cookie, send, open } = await aVisitor()
    const name = aName('team')
    const created = await send('/new/group', { name })
    expect([created.statusCode, created.headers.location]).toEqual([303, `/${name}`])
    const notice = created.cookies.find(({ name }) => name === 'svc_notice')?.value
    const shown = await look(`/${name}`, `${cookie}; svc_notice=${notice}`)
    expect(shown.body).toContain(`Group ${name} created`)
    expect(shown.cookies.find(({ name }) => name === 'svc_notice')?.value).toBe('')
    expect((await open(`/${name}/-/members`)).statusCode).toBe(200)
  })

  it.each(['', 'A', 'a b', 'search', `${'a'.repeat(65)}`])(
    'refuses the name “%s” with a reason',
    async (name) => {
      const { send } = await aVisitor()
      const response = await send('/new/group', { name })
      expect(response.statusCode).toBe(400)
      expect(response.body).toContain('role="alert"')
    },
  )

  it('refuses the name of a group that was deleted a short time ago', async () => {
    const { send } = await aVisitor()
    const former = await aGroup(t.db)
    await dropRows(t.db, 'repository_group', { id: former.id })
    const response = await send('/new/group', { name: former.name })
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain('This name belonged to another group')
  })

  it('needs a session and the token of its form', async () => {
    const { cookie } = await aVisitor()
    expect((await look('/new/group')).headers.location).toMatch(/^\/login/)
    expect((await post(t.app, '/new/group', cookie, { name: 'x' })).statusCode).toBe(403)
  })
})

it('does not show a notice of another session', async () => {
  const [one, two] = [await aVisitor(), await aVisitor()]
  const left = await one.send('/new/group', { name: aName('team') })
  const notice = left.cookies.find(({ name }) => name === 'svc_notice')?.value
  expect((await look('/', `${two.cookie}; svc_notice=${notice}`)).body).not.toContain('You are its admin')
  expect((await look('/', `${one.cookie}; svc_notice=${'a'.repeat(60)}`)).statusCode).toBe(200)
})

describe('/new/repository', () => {
  it('creates one in a group for its admins only', async () => {
    const { account, send } = await aVisitor()
    const group = await aGroup(t.db)
    const form = { group: group.name, name: 'php', visibility: 'private', description: 'Ours' }
    expect((await send('/new/repository', form)).statusCode).toBe(404)
    await aGroupMember(t.db, account, group, 'developer')
    expect((await send('/new/repository', form)).statusCode).toBe(403)
    await aGroupMember(t.db, account, group, 'admin')
    expect((await send('/new/repository', form)).headers.location).toBe(`/${group.name}/php`)
    const again = await send('/new/repository', form)
    expect([again.statusCode, again.body.includes('already has a repository')]).toEqual([400, true])
    for (const wrong of [{ name: 'A b' }, { visibility: 'secret' }, { description: 'x'.repeat(351) }]) {
      expect((await send('/new/repository', { ...form, name: 'other', ...wrong })).statusCode).toBe(400)
    }
  })
})

it('writes one event when a group is created, one when a repository is, and none for a refusal', async () => {
  const { account, send, open } = await aVisitor()
  const group = aName('team')
  const form = { group, name: 'php', visibility: 'private', description: '' }
  for (const again of [303, 400]) {
    expect((await send('/new/group', { name: group })).statusCode).toBe(again)
    expect((await send('/new/repository', form)).statusCode).toBe(again)
  }
  const repository = await findRepositoryByPath(t.db, `${group}/php`)
  const reader = { accountId: account.id, resourceScope: 'all', tokenKind: null, tokenId: null } as const
  const events = await listRepositoryEvents(t.db, repository?.id ?? '', { after: null, limit: 10 }, reader)
  expect(events.map(({ action, actor }) => [action, actor])).toEqual([
    ['create-repository', account.username],
    ['create-group', account.username],
  ])
  const { body } = await open(`/${group}/php/-/activity`)
  expect(body).toContain('Created the repository')
  expect(body).toContain(`Created the group</strong> <span class="muted">${account.username} is admin`)
})

describe('/<group>/<name>/-/members', () => {
  it('gives, changes and takes away a role, each with its event', async () => {
    const { account, repository, url, send, open } = await aRepositoryMember('admin')
    const other = await anAccount(t.db)
    const given = await send(`${url}/-/members`, { username: other.username, role: 'guest' })
    expect(given.headers.location).toBe(`${url}/-/members`)
    expect(await roleOf(other, repository)).toBe('guest')
    expect(await lastEvent(repository)).toMatchObject({
      action: 'set-member',
      accountId: account.id,
      details: { username: other.username, role: 'guest' },
    })
    const { body } = await open(`${url}/-/members`)
    const row = body.split(`>${other.username}</th>`)[1]?.split('</tr>')[0]
    expect(row).toContain('<td>guest</td>')
    expect([...(row ?? '').matchAll(/name="role" value="(\w+)"/g)].map(([, role]) => role)).toEqual([
      'developer',
      'admin',
    ])
    await send(`${url}/-/members`, { username: other.username, role: 'developer' })
    expect(await roleOf(other, repository)).toBe('developer')
    const question = await open(`${url}/-/members/remove?username=${other.username}`)
    expect(question.body).toContain(`Remove ${other.username} from`)
    expect(question.body).not.toContain('single repositories')
    await send(`${url}/-/members/remove`, { username: other.username })
    expect(await roleOf(other, repository)).toBeNull()
    expect(await lastEvent(repository)).toMatchObject({ action: 'remove-member' })
  })

  it.each([
    [{ username: 'nobody-here', role: 'guest' }, 400],
    [{ username: 'nobody-here', role: 'owner' }, 400],
    [{ username: '' }, 400],
  ])('refuses %j', async (form, status) => {
    const { url, send } = await aRepositoryMember('admin')
    expect((await send(`${url}/-/members`, form as Record<string, string>)).statusCode).toBe(status)
  })

  it('does not add a removed member again when a stale page changes the role', async () => {
    const { account, repository, url, send } = await aRepositoryMember('admin')
    const other = await anAccount(t.db)
    const { username } = other
    const refused = await send(`${url}/-/members`, { username, role: 'developer', row: 'yes' })
    expect([refused.statusCode, await roleOf(other, repository)]).toEqual([400, null])
    expect(refused.body).toContain(`${username} has no direct role in ${repository.path}.`)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    const ofGroup = `/${group.name}/-/members`
    const inGroup = async (form: Record<string, string>) => {
      const { statusCode } = await send(ofGroup, { username, ...form })
      const member = (await membersOf(t.db, group)).find(({ accountId }) => accountId === other.id)
      return [statusCode, member?.role ?? null]
    }
    expect(await inGroup({ role: 'guest', row: 'yes' })).toEqual([400, null])
    expect(await inGroup({ role: 'guest' })).toEqual([303, 'guest'])
    expect(await inGroup({ role: 'admin', row: 'yes' })).toEqual([303, 'admin'])
    expect(await inGroup({ role: 'developer', row: 'yes' })).toEqual([303, 'developer'])
  })

  it('keeps the last admin of a group, and says that roles on its repositories stay', async () => {
    const { account, send, open } = await aVisitor()
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    const { username } = account
    const question = await open(`/${group.name}/-/members/remove?username=${username}`)
    expect(question.body).toContain('Roles on single repositories stay: remove them there.')
    const refused = await send(`/${group.name}/-/members/remove`, { username })
    expect([refused.statusCode, refused.body.includes('is the last admin')]).toEqual([400, true])
    const demoted = await send(`/${group.name}/-/members`, { username, role: 'guest' })
    expect(demoted.statusCode).toBe(400)
  })

  it('shows a refused change above the list, and a refused new member in its form', async () => {
    const { account, send } = await aVisitor()
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    const { username } = account
    const url = `/${group.name}/-/members`
    const changed = (await send(url, { username, role: 'guest', row: 'yes' })).body
    expect(changed).toMatch(
      new RegExp(`role="alert"[^>]*>${username} is the last admin[^]*<table class="rows"`),
    )
    for (const form of [url, `${url}/new`]) {
      const { body } = await send(form, { username: 'nobody-here', role: 'developer' })
      expect(body).not.toContain('<table class="rows"')
      expect(body).toContain(
        'There is no account “nobody-here”. Check the username, or invite the person with a link.',
      )
      expect(body).toMatch(
        /role="alert"[\s\S]*aria-describedby="problem"[\s\S]*value="nobody-here"[\s\S]*value="developer" selected/,
      )
    }
    const removed = (await send(`${url}/remove`, { username })).body
    expect(removed).toContain('is the last admin')
  })
})

describe('the admins of a place', () => {
  const adminsOn = (body: string) => /<h2 id="admins">Admins<\/h2>\s*<p>([^<]*)<\/p>/.exec(body)?.[1] ?? null

  it('are named to its members, and to nobody else', async () => {
    const [member, visitor] = [await aVisitor(), await aVisitor()]
    const group = await aGroup(t.db)
    const repository = await aRepository(t.db, { group, visibility: 'public' })
    const [ofGroup, ofRepository, disabled] = [
      await anAccount(t.db),
      await anAccount(t.db),
      await anAccount(t.db),
    ]
    await aGroupMember(t.db, ofGroup, group, 'admin')
    await aGroupMember(t.db, disabled, group, 'admin')
    await disableAccount(t.db, operator, disabled.id)
    await aMember(t.db, ofRepository, repository, 'admin')
    await aGroupMember(t.db, member.account, group, 'guest')
    const page = async (url: string, { open } = member) => adminsOn((await open(`/${url}`)).body)
    expect(await page(group.name)).toBe(ofGroup.username)
    const both = [ofGroup.username, ofRepository.username].toSorted().join(' and ')
    expect(await page(repository.path)).toBe(both)
    expect([await page(group.name, visitor), await page(repository.path, visitor)]).toEqual([null, null])
    expect(adminsOn((await look(`/${repository.path}`)).body)).toBeNull()
  })
})

describe('leaving a group', () => {
  it('ends the own role of a member, after a question', async () => {
    const { account, open, send } = await aVisitor()
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'developer')
    expect((await open(`/${group.name}`)).body).toContain(`href="/${group.name}/-/leave"`)
    expect((await open(`/${group.name}/-/leave`)).body).toContain(`Leave ${group.name}?`)
    expect((await send(`/${group.name}/-/leave`, {})).headers.location).toBe('/')
    expect((await open(`/${group.name}`)).statusCode).toBe(404)
    const events = await eventsOf(t.db, { groupId: group.id }, ['action', 'actorId'])
    expect(events.at(-1)).toMatchObject({ action: 'remove-group-member', actorId: account.id })
    expect((await send(`/${group.name}/-/leave`, {})).statusCode).toBe(404)
  })

  it('is refused to the last admin', async () => {
    const { account, send } = await aVisitor()
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    const refused = await send(`/${group.name}/-/leave`, {})
    expect([refused.statusCode, refused.body.includes('You are the last admin')]).toEqual([409, true])
  })
})

describe('the role of the reader', () => {
  const badge = (body: string) =>
    /<h1>.*<\/h1>\s+<(?:p|div) class="badges">[\s\S]*?<\/(?:p|div)>/.exec(body)?.[0] ?? ''

  it('is beside the name on each tab of a group', async () => {
    const { account, open } = await aVisitor()
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    for (const tab of ['', '/-/members', '/-/invitations', '/-/deploy-tokens', '/-/settings']) {
      expect(badge((await open(`/${group.name}${tab}`)).body), tab).toContain('badge">admin<')
    }
  })

  it('is beside the name on each tab of a repository', async () => {
    const { url, open } = await aRepositoryMember('admin')
    const below = ['setup', 'upstreams', 'members', 'activity', 'settings', 'deploy-tokens', 'upload']
    for (const tab of ['', ...below.map((one) => `/-/${one}`)]) {
      expect(badge((await open(`${url}${tab}`)).body), tab).toContain('badge">admin<')
    }
  })
})

describe('the management pages of a repository', () => {
  const pages = ['members', 'settings', 'activity']

  it.each(['guest', 'developer'] as const)('are refused to a %s', async (role) => {
    const { url, open, send, repository } = await aRepositoryMember(role)
    for (const page of pages) {
      const denied = await open(`${url}/-/${page}`)
      expect(denied.statusCode).toBe(403)
      expect(denied.body).toContain(`href="${url}">Go back to ${repository.path}</a>`)
    }
    const forms = { members: { username: 'x', role: 'guest' }, 'settings/delete': { path: repository.path } }
    for (const [page, form] of Object.entries(forms)) {
      expect((await send(`${url}/-/${page}`, form as Record<string, string>)).statusCode).toBe(403)
    }
    expect((await open(url)).body).not.toContain('/-/settings')
  })

  it('do not exist for others, and lead a visitor to the sign-in', async () => {
    const { path } = await aRepository(t.db)
    const { open } = await aVisitor()
    for (const page of pages) {
      expect((await open(`/${path}/-/${page}`)).statusCode).toBe(404)
      expect((await look(`/${path}/-/${page}`)).headers.location).toMatch(/^\/login/)
    }
  })

  it('change description and visibility, with the event', async () => {
    const { repository, url, send, open } = await aRepositoryMember('admin')
    const asPublic = { visibility: 'public', is_sure: 'yes' }
    const saved = await send(`${url}/-/settings`, { description: 'New <one>', ...asPublic })
    expect(saved.statusCode).toBe(303)
    expect((await open(`${url}/-/settings`)).body).toContain('value="New &lt;one&gt;"')
    expect(await lastEvent(repository)).toMatchObject({
      action: 'change-repository',
      details: { description: 'New <one>', visibility: 'public' },
    })
    await send(`${url}/-/settings`, { visibility: 'public' })
    expect((await open(`${url}/-/settings`)).body).toContain('name="description" value=""')
    const long = await send(`${url}/-/settings`, { description: 'x'.repeat(351), visibility: 'public' })
    expect([long.statusCode, long.body.includes('at most 350 characters')]).toEqual([400, true])
    expect(long.body).toMatch(/<h2>Settings<\/h2>[\s\S]*<p class="problem" role="alert" id="problem">/)
  })

  it('ask before a private repository becomes public, and name what everybody can see then', async () => {
    const { repository, url, send, open } = await aRepositoryMember('admin')
    const form = { description: 'New', visibility: 'public' }
    const empty = await send(`${url}/-/settings`, form)
    expect([empty.statusCode, empty.body.includes('It has no package yet.')]).toEqual([200, true])
    const { push } = await aPublisher(t, { repository })
    const manifest = JSON.stringify({ name: 'acme/lib' })
    await push('1.0.0', { payload: aZip({ 'composer.json': manifest, 'README.md': '# Lib' }) })
    await push('1.1.0')
    await push('1.1.0', { name: 'acme/second' })
    const asked = await send(`${url}/-/settings`, form)
    expect(asked.body).toContain(`Make ${repository.path} public?`)
    expect(asked.body).toContain('see and download 2 packages, 3 versions, 1 README and 3 archives')
    expect((await open(`${url}/-/settings`)).body).toContain('value="private" checked')
    const fields = Object.fromEntries(
      [...asked.body.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [
        name,
        value,
      ]),
    )
    expect((await send(`${url}/-/settings`, fields as Record<string, string>)).statusCode).toBe(303)
    const saved = (await open(`${url}/-/settings`)).body
    expect(saved).toContain('value="public" checked')
    // A public repository is saved without a question.
    expect((await send(`${url}/-/settings`, form)).statusCode).toBe(303)
  })

  it('rename the repository, and its old pages redirect to the new ones', async () => {
    const { repository, url, send, open } = await aRepositoryMember('admin')
    const { push } = await aPublisher(t, { repository })
    await push('1.0.0')
    // The menu of the settings leads to the forms.
    const settings = await open(`${url}/-/settings`)
    for (const form of ['rename', 'delete']) {
      expect(settings.body).toContain(`href="${url}/-/settings/${form}"`)
      expect((await open(`${url}/-/settings/${form}`)).statusCode).toBe(200)
    }
    const submit = (name: string) => send(`${url}/-/settings/rename`, { name })
    const refused = await submit('Not A Name')
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain('Nothing was renamed. A repository’s name has at most 100 characters')
    expect(refused.body).toMatch(
      /role="alert" id="problem"[\s\S]*<form[^>]*"problem"[\s\S]*value="Not A Name"/,
    )
    const newPath = `${repository.path.split('/')[0]}/renamed`
    expect((await submit('renamed')).headers.location).toBe(`/${newPath}/-/settings`)
    for (const [page, status] of [
      ['', 301],
      ['/-/members?after=x', 301],
      ['/packages/acme/lib', 301],
    ] as const) {
      const moved = await open(`${url}${page}`)
      expect([moved.statusCode, moved.headers.location]).toEqual([status, `/${newPath}${page}`])
    }
    expect((await t.app.inject(`/${repository.path}`)).statusCode).toBe(404)
    const stranger = await aVisitor()
    expect((await stranger.open(url)).statusCode).toBe(404)
    const { body } = await open(`/${newPath}/-/activity`)
    expect(body).toContain(
      `Renamed the repository</strong> <span class="muted">${repository.path.split('/')[1]} → renamed`,
    )
  })

  it('delete the repository after its path is typed', async () => {
    const { repository, url, send, open } = await aRepositoryMember('admin')
    const refused = await send(`${url}/-/settings/delete`, { path: 'wrong' })
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toMatch(
      /<h2>Delete repository<\/h2>\s*<p class="problem" role="alert" id="problem">/,
    )
    expect((await open(url)).statusCode).toBe(200)
    expect((await send(`${url}/-/settings/delete`, { path: repository.path })).headers.location).toBe('/')
    expect((await open(url)).statusCode).toBe(404)
    expect(await lastEvent(repository)).toMatchObject({ action: 'delete-repository' })
  })

  it('show the events, page by page', async () => {
    const { repository, url, open, account } = await aRepositoryMember('admin')
    const { push } = await aPublisher(t, { repository })
    await push('1.0.0')
    const own = basic(await aPersonalToken(t.db, account, { name: 'my <laptop>' }))
    expect((await push('1.0.1', { headers: { authorization: own } })).statusCode).toBe(201)
    const change = { repositoryId: repository.id, action: 'change-repository' } as const
    await insertEvents(t.db, { ...operator, accountId: account.id }, Array(60).fill(change))
    const first = await open(`${url}/-/activity`)
    expect(first.body.match(/Changed the settings/g)).toHaveLength(50)
    const [, next] = /href="([^"]+)">Older events/.exec(first.body) ?? []
    const second = await open(String(next))
    expect(second.body).toContain('Published')
    expect(second.body).toContain('<code>1.0.0</code>')
    expect(second.body).toContain('Your token “my &lt;laptop&gt;”')
    expect(second.body).toContain('Personal token')
    expect(second.body).not.toContain('token #')
    const other = await anAccount(t.db)
    await aMember(t.db, other, repository, 'admin')
    const cookie = await signIn(t.app, other)
    for (const page of [String(next), `${url}/packages/acme/lib/-/activity`]) {
      const { body } = await t.app.inject({ url: page, headers: { cookie } })
      expect(body.match(/Personal token/g)).toHaveLength(2)
      expect(body).not.toContain('laptop')
    }
  })
})
