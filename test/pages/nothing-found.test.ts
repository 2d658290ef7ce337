import { beforeAll, describe, expect, it } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { aPublisher } from '../support/registry-actors.ts'

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
    const base = below.startsWith('?') || below.startsWith('/-/') ? repository : ''
    const empty = emptyIn(await look(`${base}${below}`, admin))
    expect(empty).toContain(sentence)
    expect(empty).toContain(`href="${base}${all}"`)
  })

  it.each([
    ['/?after=zzz9/zzz9', 'There are no more repositories.', '/'],
    ['/admin/accounts?after=zzz9', 'There are no more accounts.', '/admin/accounts'],
    ['/admin/groups?after=zzz9', 'There are no more groups.', '/admin/groups'],
    ['/admin/repositories?after=zzz9/zzz9', 'There are no more repositories.', '/admin/repositories'],
    ['/admin/events?after=1', 'There are no older events.', '/admin/events'],
    ['/settings/security?after=1', 'There are no older events.', '/settings/security'],
    ['?after=zzz9/zzz9', 'There are no more packages.', ''],
    ['/-/activity?after=1', 'There are no older events.', '/-/activity'],
  ])('that starts behind its last row does the same: %s', async (below, sentence, all) => {
    const base = below.startsWith('?') || below.startsWith('/-/') ? repository : ''
    const empty = emptyIn(await look(`${base}${below}`, admin))
    expect(empty).toContain(sentence)
    expect(empty).toContain(`href="${base}${all}"`)
  })

  it('shows no list of events beside the reason why a filter cannot be used', async () => {
    const body = await look('/admin/events?ip=nonsense', admin)
    expect(body).toContain('Enter a valid IP address.')
    expect(emptyIn(body)).toBe('')
    expect(body).not.toContain('format=csv')
  })
})
