import { beforeAll, describe, expect, it } from 'vitest'
import { aGroup, aGroupMember, aMember, anAccount, aRepository, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()
const look = async (url: string, cookie = '') =>
  (await t.app.inject({ url, headers: { cookie } })).body.replaceAll('&amp;', '&')
/** The paragraph of a list without rows. */
const emptyIn = (body: string) => /<p class="empty">.*<\/p>/.exec(body)?.[0] ?? ''

let admin = ''
let repository = ''
beforeAll(async () => {
  admin = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
  const publisher = await aPublisher(t)
  await publisher.push('1.0.0', { name: 'acme/one' })
  repository = `/${publisher.repository.path}`
})

describe('a list in which nothing matches the search or the filter', () => {
  it.each([
    ['/?q=zzz9', 'No repository matches “zzz9”.', '/'],
    ['/admin/accounts?q=zzz9', 'No account matches “zzz9”.', '/admin/accounts'],
    ['/admin/groups?q=zzz9', 'No group matches “zzz9”.', '/admin/groups'],
    ['/admin/repositories?q=zzz9', 'No repository matches “zzz9”.', '/admin/repositories'],
    ['/admin/applications?state=suspended', 'There are no suspended applications.', '/admin/applications'],
    ['/admin/events?ip=192.0.2.77', 'No event matches the filter.', '/admin/events'],
    ['/admin/events?ip=192.0.2.77&after=1', 'No older event matches the filter.', '/admin/events'],
    ['/docs?q=zzz9', 'No section contains “zzz9”.', '/docs'],
    ['?q=zzz9', 'No package published here matches “zzz9”.', ''],
    ['/-/upstreams?q=zzz9', 'No package from an upstream matches “zzz9”.', '/-/upstreams'],
  ])('says so, and links to the whole list: %s', async (below, sentence, all) => {
    const base = /^(\?|\/-\/)/.test(below) ? repository : ''
    const empty = emptyIn(await look(`${base}${below}`, admin))
    expect(empty).toContain(sentence)
    expect(empty).toContain(`href="${base}${all}"`)
  })

  it.each([
    ['/?after=zzz9/zzz9', 'There are no more repositories.', '/'],
    ['/admin/accounts?after=zzz9', 'There are no more accounts.', '/admin/accounts'],
    ['/admin/groups?after=zzz9', 'There are no more groups.', '/admin/groups'],
    ['/admin/repositories?after=zzz9/zzz9', 'There are no more repositories.', '/admin/repositories'],
    ['/admin/events?after=1-1', 'There are no older events.', '/admin/events'],
    ['/settings/security?after=1-1', 'There are no older events.', '/settings/security'],
    ['?after=zzz9/zzz9', 'There are no more packages.', ''],
    ['/-/activity?after=1', 'There are no older events.', '/-/activity'],
    [
      '/packages/acme/one/-/downloads?after=1',
      'There are no more downloads.',
      '/packages/acme/one/-/downloads',
    ],
  ])('that starts behind its last row does the same: %s', async (below, sentence, all) => {
    const base = /^(\?|\/-\/|\/packages\/)/.test(below) ? repository : ''
    const empty = emptyIn(await look(`${base}${below}`, admin))
    expect(empty).toContain(sentence)
    expect(empty).toContain(`href="${base}${all}"`)
  })

  it('that has no rows at all offers to create the first one', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    const cookie = await signIn(t.app, account)
    const firstIn = async (url: string) => emptyIn(await look(url, cookie))
    expect(await look(`/${group.name}`, cookie)).toContain(
      `href="/${group.name}/-/invitations/new">Invite someone</a>`,
    )
    expect(await firstIn(`/${group.name}`)).toContain(`href="/new/repository?group=${group.name}"`)
    expect(await firstIn(`/${group.name}/-/deploy-tokens`)).toContain(
      `href="/${group.name}/-/deploy-tokens/new"`,
    )
    expect(await firstIn('/settings/tokens')).toContain('href="/settings/tokens/new"')
    const { path } = await aRepository(t.db, { group })
    expect(await firstIn(`/${path}`)).toContain(`href="/${path}/-/upload"`)
    expect(await firstIn(`/${path}/-/upstreams`)).toContain(`href="/${path}/-/upstreams/new"`)
  })

  it('shows no list of events beside the reason why a filter cannot be used', async () => {
    const body = await look('/admin/events?ip=nonsense', admin)
    expect(body).toContain('Enter a valid IP address.')
    expect(emptyIn(body)).toBe('')
    expect(body).not.toContain('format=csv')
    expect(body).toContain('<details open>')
    const all = await look('/admin/events', admin)
    expect(all).toContain('format=csv')
    expect(all).toMatch(/<details>\s*<summary>Filter</)
  })
})

describe('GET /search that finds nothing', () => {
  const search = async (cookie = '') => {
    const body = await look('/search?q=zzz9', cookie)
    return body.slice(body.indexOf('<main'))
  }

  it('offers a developer to search in the repositories, to publish, and to read the documentation', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    const mine = await aRepository(t.db, { group, name: 'mine' })
    const other = await aRepository(t.db, { group, name: 'other' })
    await aMember(t.db, account, mine, 'guest')
    await aMember(t.db, account, other, 'developer')
    const body = await search(await signIn(t.app, account))
    expect(emptyIn(body)).toContain('No package or repository that you can see matches “zzz9”.')
    expect(body).toContain('Check the spelling')
    for (const { path } of [mine, other]) expect(body).toContain(`href="/${path}?q=zzz9"`)
    expect(body).toContain(`href="/${other.path}/-/upload"`)
    expect(body).not.toContain(`href="/${mine.path}/-/upload"`)
    expect(body).toContain('href="/docs?q=zzz9"')
  })

  it('does not offer a guest to publish', async () => {
    const account = await anAccount(t.db)
    const mine = await aRepository(t.db)
    await aMember(t.db, account, mine, 'guest')
    const body = await search(await signIn(t.app, account))
    expect(body).toContain(`href="/${mine.path}?q=zzz9"`)
    expect(body).not.toContain('/-/upload')
  })

  it('tells somebody without a repository how to get one', async () => {
    const body = await search(await signIn(t.app, await anAccount(t.db)))
    expect(body).toContain('You are not a member of any repository yet')
    expect(body).toContain('href="/new/group"')
  })

  it('names people too for a site administrator', async () => {
    expect(emptyIn(await search(admin))).toContain('No package, repository or person matches “zzz9”.')
  })

  it('offers a visitor to sign in', async () => {
    const body = await search()
    expect(body).toContain(`href="/login?page=${encodeURIComponent('/search?q=zzz9')}"`)
    expect(body).toContain('Check the spelling')
    expect(body).not.toContain('/-/upload')
  })
})
