import { describe, expect, it } from 'vitest'
import { changeRepository } from '../../../src/groups/repositories.ts'
import {
  aGroup,
  aGroupMember,
  aMember,
  anAccount,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { addFirstVersions, addPackages, markQuarantined } from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { setDisplayName } from '../../support/session-rows.ts'

const t = useApp()
const look = (url: string, cookie = '') => t.app.inject({ url, headers: { cookie } })

describe('the frame of every page', () => {
  it('keeps the menu of the signed-in person on error pages', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    for (const url of ['/no-such-group', '/a/b/c/d/e', '/settings/account/verification', '/?q=a&q=b']) {
      const { body, statusCode } = await look(url, cookie)
      expect(statusCode).toBeGreaterThanOrEqual(400)
      expect(body).toContain(`Signed in as ${account.username}`)
      expect(body).toContain('action="/search"')
      expect(body, 'no item of the menu is active').not.toContain('<a href="/" aria-current')
    }
    expect((await look('/', cookie)).body).toContain('<a href="/" aria-current="page">Repositories')
  })

  it('names the request on error pages', async () => {
    const { body } = await look('/search?q=a&q=b')
    expect(body).toMatch(/include the request ID:<br><code class="copy">[\w-]+<\/code>/)
  })

  it('returns to the page after the sign-in, also to one that does not exist', async () => {
    const account = await anAccount(t.db)
    const { body } = await look('/acme/php?q=x')
    const [, link] = /<a href="(\/login\?page=[^"]+)"/.exec(body) ?? []
    const toForm = await look(String(link))
    const form = await look(String(toForm.headers.location))
    const [, returnId] = /name="return" value="([^"]+)"/.exec(form.body) ?? []
    const fields = { csrf_token: csrfTokenIn(form), return: String(returnId) }
    const signedIn = await post(t.app, '/login', cookiesOf(form), {
      ...fields,
      username: account.username,
      password,
    })
    expect(signedIn.headers.location).toBe('/acme/php?q=x')
  })

  it.each(['//evil.test', '/\\evil.test', 'https://evil.test'])('never redirects to %s', async (page) => {
    const { headers } = await look(`/login?${new URLSearchParams({ page })}`)
    expect(headers.location).toBe('/login')
  })

  it.each([
    ['/acme/', '/acme'],
    ['/acme/php/?q=1', '/acme/php?q=1'],
    ['/settings/', '/settings'],
    ['/docs/', '/docs'],
    ['/docs/packages/', '/docs/packages'],
    ['/acme/php/-/members/', '/acme/php/-/members'],
    ['/acme/php/packages/acme/lib/?version=1.0.0', '/acme/php/packages/acme/lib?version=1.0.0'],
    ['/admin/accounts/', '/admin/accounts'],
  ])('redirects %s to %s', async (from, to) => {
    const { statusCode, headers } = await look(from)
    expect([statusCode, headers.location]).toEqual([301, to])
  })

  it.each(['//evil.test/', '//evil.test//', '/%2Fevil.test/', '/%5Cevil.test/x/'])(
    'does not redirect %s',
    async (url) => {
      expect((await look(url)).statusCode).toBe(404)
    },
  )

  it('redirects /settings to the account', async () => {
    expect((await look('/settings')).headers.location).toBe('/settings/account')
  })
})

describe('text that other people choose', () => {
  it('shows its invisible characters on every page', async () => {
    const hidden = 'Ma\u200bri\u2060on'
    const { account, repository, push } = await aPublisher(t, { role: 'admin' })
    const manifest = {
      description: hidden,
      authors: [{ name: hidden }],
      keywords: [hidden],
      require: { 'acme/lib': '*' },
    }
    for (const version of ['0.9.0', '1.0.0']) await push(version, { manifest })
    await changeRepository(t.db, repository.id, { description: hidden, visibility: null })
    await setDisplayName(t.db, account, hidden)
    await markQuarantined(t.db, repository, hidden, { version: '0.9.0' })
    const cookie = await signIn(t.app, account)
    const home = `/${repository.path}`
    const pages = ['', '/-/members', '/packages/acme/lib', '/packages/acme/lib/-/versions']
    for (const url of [
      '/',
      `/search?q=acme`,
      `/${repository.path.split('/')[0]}`,
      ...pages.map((below) => home + below),
    ]) {
      const { statusCode, body } = await look(url, cookie)
      expect([url, statusCode]).toEqual([url, 200])
      const [, main = ''] = body.split('<main')
      expect(main, url).toContain('Ma[U+200B]ri[U+2060]on')
      expect(main, url).not.toMatch(/[\u200b\u2060]/)
    }
  })
})

describe('GET /<group>', () => {
  it('lists the repositories that the visitor may see, and hides a group without one', async () => {
    const group = await aGroup(t.db)
    const open = await aRepository(t.db, { group, visibility: 'public' })
    const closed = await aRepository(t.db, { group })
    const account = await anAccount(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    const visitor = await look(`/${group.name}`)
    expect(visitor.body).toContain(`href="/${open.path}"`)
    expect(visitor.body).not.toContain(closed.path)
    const member = await look(`/${group.name}`, await signIn(t.app, account))
    expect(member.body).toContain(`href="/${closed.path}"`)
    const { group: hidden } = await aRepository(t.db)
    expect((await look(`/${hidden.name}`)).statusCode).toBe(404)
    expect((await look(`/${hidden.name}`, await signIn(t.app, account))).statusCode).toBe(404)
  })

  it('shows the visibility, the number of packages and the last release of each repository', async () => {
    const repository = await aRepository(t.db, { visibility: 'public' })
    const { account, push } = await aPublisher(t, { repository })
    const empty = await aRepository(t.db, { group: repository.group })
    await push('1.0.0', { name: 'acme/one' })
    await push('1.0.0', { name: 'acme/two' })
    const lineOf = (body: string, path: string) => {
      const item = body.slice(body.indexOf(`href="/${path}"`))
      return item.slice(0, item.indexOf('</li>')).replaceAll(/\s*<[^>]*>\s*/g, ' ')
    }
    const visitor = await look(`/${repository.group.name}`)
    expect(lineOf(visitor.body, repository.path)).toMatch(/ public .*2 packages · last published on \d/)
    await aGroupMember(t.db, account, repository.group, 'guest')
    const member = await look(`/${repository.group.name}`, await signIn(t.app, account))
    expect(lineOf(member.body, empty.path)).toMatch(/ private .*0 packages/)
    expect(lineOf(member.body, empty.path)).not.toContain('last published')
  })

  it('shows a group to a member of one of its repositories', async () => {
    const account = await anAccount(t.db)
    const mine = await aRepository(t.db)
    const other = await aRepository(t.db, { group: mine.group })
    await aMember(t.db, account, mine, 'guest')
    const { body } = await look(`/${mine.group.name}`, await signIn(t.app, account))
    expect(body).toContain(`href="/${mine.path}"`)
    expect(body).not.toContain(other.path)
  })

  it.each(['new', 'search', 'admin', 'docs', 'invitations', 'password-reset', 'explore', 'status', 'hooks'])(
    'cannot be called %s, the first segment of other URLs',
    async (name) => {
      await expect(aGroup(t.db, name)).rejects.toMatchObject({
        constraint: 'group_name_is_not_the_first_segment_of_another_url',
      })
    },
  )
})

describe('GET /search', () => {
  it('finds packages and repositories that the person may see, and no others', async () => {
    const publisher = await aPublisher(t, { role: 'developer' })
    await publisher.push('1.0.0', { name: 'acme/zebra', manifest: { description: 'Stripes & more' } })
    const other = await aPublisher(t)
    await other.push('1.0.0', { name: 'other/zebra' })
    const open = await aPublisher(t, { visibility: 'public' })
    await open.push('1.0.0', { name: 'open/zebra' })
    const hits = (body: string) => [...body.matchAll(/packages\/(\w+\/zebra)"/g)].map(([, name]) => name)
    const cookie = await signIn(t.app, publisher.account)
    expect(hits((await look('/search?q=ZEBRA', cookie)).body)).toEqual(['acme/zebra', 'open/zebra'])
    expect(hits((await look('/search?q=stripes', cookie)).body)).toEqual(['acme/zebra'])
    expect(hits((await look('/search?q=zebra')).body)).toEqual(['open/zebra'])
    const { body } = await look(`/search?q=${encodeURIComponent(publisher.repository.path)}`, cookie)
    expect(body).toContain(`href="/${publisher.repository.path}"`)
    const hidden = await look(`/search?q=${encodeURIComponent(other.repository.path)}`, cookie)
    expect(hidden.body).not.toContain(`href="/${other.repository.path}"`)
  })

  it('finds people for site administrators only', async () => {
    const sought = await anAccount(t.db, { displayName: 'Zora Needle' })
    const admin = await anAccount(t.db, { isAdmin: true })
    const found = await look('/search?q=needle', await signIn(t.app, admin))
    expect(found.body).toContain(`href="/admin/accounts/${sought.username}"`)
    const other = await look('/search?q=needle', await signIn(t.app, sought))
    expect(other.body).not.toContain(`/admin/accounts/${sought.username}`)
    expect((await look('/search?q=needle')).body).not.toContain(sought.username)
  })

  it('finds a package through the index, among more packages than it reads', async () => {
    const { account, repository, push } = await aPublisher(t)
    await push('1.0.0', {
      name: 'acme/a-very-long-name-of-a-needle',
      manifest: { description: 'Finds haystacks' },
    })
    const straws = Array.from({ length: 3000 }, (_, i) => ({ name: `straw/s${i + 1}`, description: 'Straw' }))
    await addPackages(t.db, repository, straws)
    await addFirstVersions(t.db, repository)
    const names = (body: string) => [...body.matchAll(/packages\/([\w-]+\/[\w-]+)"/g)].map(([, name]) => name)
    const admin = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
    const stranger = await signIn(t.app, await anAccount(t.db))
    const member = await signIn(t.app, account)
    for (const q of ['OF-A-needle', 'haystacks']) {
      for (const cookie of [admin, member]) {
        expect(names((await look(`/search?q=${q}`, cookie)).body)).toEqual([
          'acme/a-very-long-name-of-a-needle',
        ])
      }
      expect(names((await look(`/search?q=${q}`, stranger)).body)).toEqual([])
    }
    expect(names((await look('/search?q=straw%2Fs1', member)).body)[0]).toBe('straw/s1')
    expect(names((await look('/search?q=straw', stranger)).body)).toEqual([])
  })

  it.each(['', '?q=', '?q=%25', '?q=%3Cb%3E', '?q=%00', '?q=a&q=b'])('accepts %s', async (query) => {
    const { statusCode, body } = await look(`/search${query}`)
    expect([200, 400, 404]).toContain(statusCode)
    expect(body).not.toContain('<b>')
  })
})
