import { describe, expect, it } from 'vitest'
import type { Role } from '../../../src/domain/permissions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { purgeVersion } from '../../../src/packages/lifecycle/deletion.ts'
import { cookiesOf, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { markDeleted } from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()

/** A member of a repository in which acme/lib has version 1.0.0. */
async function aMaintainer(role: Role = 'admin') {
  const owner = await aPublisher(t)
  await owner.push('1.0.0')
  const member = await aPublisher(t, { repository: owner.repository, role })
  const cookie = await signIn(t.app, member.account)
  const open = (url: string) => t.app.inject({ url, headers: { cookie } })
  const csrf_token = csrfTokenIn(await open('/settings/account'))
  const home = `/${owner.repository.path}/packages/acme/lib`
  const send = (below: string, form: Record<string, string>, token = csrf_token) =>
    post(t.app, `${home}/-/${below}`, cookie, { csrf_token: token, ...form })
  const events = async () =>
    (await eventsOf(t.db, { repositoryId: owner.repository.id }, ['action'])).map(({ action }) => action)
  const offered = async () => (await owner.ask('p2/acme/lib.json')).body.includes('"1.0.0"')
  return { ...member, cookie, home, open, send, events, offered, ask: owner.ask }
}

const version = '1.0.0'

describe('…/-/versions', () => {
  it('deletes a version after a confirmation and restores it without one, with the events', async () => {
    const { open, home, send, events, offered } = await aMaintainer()
    const list = await open(`${home}/-/versions`)
    const [, link] = /href="([^"]+\/delete\?[^"]+)"/.exec(list.body) ?? []
    expect((await open(String(link))).body).toContain('Delete version 1.0.0?')
    expect(await offered()).toBe(true)
    expect((await send('versions/delete', { version })).headers.location).toBe(`${home}/-/versions`)
    expect(await offered()).toBe(false)
    const { body } = await open(`${home}/-/versions`)
    expect(body).toContain(`<form method="post" action="${home}/-/versions/restore">`)
    expect(body).not.toContain('/restore?')
    await send('versions/restore', { version })
    expect(await offered()).toBe(true)
    expect(await events()).toEqual(['publish', 'delete', 'restore'])
    const refused = await send('versions/restore', { version })
    expect(refused.statusCode).toBe(409)
    expect(refused.body).toContain(`Nothing was changed. Version ${version} is not deleted.`)
    expect((await send('versions/delete', { version: '9.9.9' })).statusCode).toBe(404)
    expect((await open(`${home}/-/versions/delete?version=9.9.9`)).statusCode).toBe(404)
  })

  it('tells people who may publish who deleted a version, and admins how to restore it', async () => {
    const { account, repository, home, open, send, offered } = await aMaintainer()
    const developer = await aPublisher(t, { repository, role: 'developer' })
    const developerCookie = await signIn(t.app, developer.account)
    const guest = await aPublisher(t, { repository, role: 'guest' })
    const guestCookie = await signIn(t.app, guest.account)
    const look = (cookie: string, below = '') =>
      t.app.inject({ url: `${home}${below}?version=1.0.0`, headers: { cookie } })
    await send('versions/delete', { version })
    const said = new RegExp(
      `Version 1\\.0\\.0 was deleted by ${account.username} on \\d+ \\w+ \\d{4}, \\d\\d:\\d\\d UTC\\.`,
    )
    for (const below of ['', '/-/files', '/-/dependencies', '/-/download']) {
      const { statusCode, body } = await open(`${home}${below}?version=1.0.0`)
      expect([statusCode, said.test(body)]).toEqual([410, true])
      const hidden = await look(guestCookie, below)
      expect([hidden.statusCode, hidden.body.includes('acme/lib')]).toEqual([404, false])
    }
    const whole = await open(home)
    expect([whole.statusCode, whole.body.includes('All versions of acme/lib are deleted')]).toEqual([
      410,
      true,
    ])
    expect((await look(developerCookie)).body).toContain('An admin of the repository can restore it.')
    const row = `<p class="hint">Deleted by ${account.username} <time`
    expect((await look(developerCookie, '/-/versions')).body).toContain(row)
    expect((await look(guestCookie, '/-/versions')).body).not.toContain('Deleted by')

    const [, link = ''] =
      /href="([^"]+)">Restore 1.0.0</.exec((await open(`${home}?version=1.0.0`)).body) ?? []
    expect((await open(link)).body).toContain('Restore version 1.0.0?')
    await send('versions/restore', { version })
    expect(await offered()).toBe(true)
    expect((await open(`${home}?version=9.9.9`)).statusCode).toBe(404)
  })

  it('says that a purged version is gone, and offers no way to restore it', async () => {
    const { home, open, repository, account } = await aMaintainer()
    await purgeVersion(t.db, {
      repositoryId: repository.id,
      packageName: 'acme/lib',
      version,
      by: { ...operator, accountId: account.id },
      baseUrl: t.config.baseUrl,
    })
    const { statusCode, body } = await open(`${home}?version=1.0.0`)
    expect(statusCode).toBe(410)
    expect(body).toContain(`Version 1.0.0 was purged by ${account.username} on `)
    expect(body).not.toContain('Restore')
    expect((await open(`${home}/-/versions`)).body).toContain(`Purged by ${account.username} <time`)
  })

  it('quarantines with a reason, and releases', async () => {
    const { home, open, send, offered, events } = await aMaintainer()
    for (const reason of ['', 'x'.repeat(501), 'two\nlines']) {
      expect((await send('versions/quarantine', { version, reason })).statusCode).toBe(400)
    }
    await send('versions/quarantine', { version, reason: 'A backdoor' })
    expect(await offered()).toBe(false)
    // Composer cannot install this version, so the command is the one for another version.
    expect((await open(`${home}?version=1.0.0`)).body).toContain('composer require acme/lib</code>')
    await send('versions/release', { version })
    expect(await offered()).toBe(true)
    expect(await events()).toEqual(['publish', 'quarantine', 'release'])
  })

  it('says that a restored version stays hidden while it is quarantined', async () => {
    const { open, home, send, offered, cookie } = await aMaintainer()
    await send('versions/quarantine', { version, reason: 'A backdoor' })
    await send('versions/delete', { version })
    const question = await open(`${home}/-/versions/restore?version=${version}`)
    expect(question.body).toContain('only when its quarantine ends')
    const done = await send('versions/restore', { version })
    expect(await offered()).toBe(false)
    const notices = `${cookie}; ${cookiesOf(done)}`
    const list = await t.app.inject({ url: `${home}/-/versions`, headers: { cookie: notices } })
    expect(list.body).toContain('It is quarantined, so Composer does not find it.')
  })

  it('lets a developer quarantine and abandon, but not delete, restore or release', async () => {
    const { open, home, send, offered, events } = await aMaintainer('developer')
    for (const act of ['delete', 'restore', 'release']) {
      expect((await open(`${home}/-/versions/${act}?version=1.0.0`)).statusCode).toBe(403)
      expect((await send(`versions/${act}`, { version })).statusCode).toBe(403)
    }
    expect((await open(`${home}/-/versions`)).body).not.toContain('/delete?')
    // The menu of the package leads to the form.
    expect((await open(home)).body).toContain('/-/versions/abandon">Mark as abandoned</a>')
    await send('versions/abandon', { replacement: 'acme/better' })
    expect((await open(home)).body).toContain('acme/better')
    expect((await open(`${home}/-/versions/abandon`)).body).toContain('value="acme/better"')
    expect((await open(`${home}/-/versions/maintain`)).body).toContain('Mark acme/lib as maintained?')
    await send('versions/maintain', {})
    await send('versions/quarantine', { version, reason: 'A backdoor' })
    expect(await offered()).toBe(false)
    expect(await events()).toEqual(['publish', 'abandon', 'unabandon', 'quarantine'])
  })

  it.each(['acme/lib', 'no name', 'A//b'])('refuses the replacement %s', async (replacement) => {
    const { send } = await aMaintainer('developer')
    const { statusCode, body } = await send('versions/abandon', { replacement })
    expect(statusCode).toBe(400)
    expect(body).toMatch(
      /role="alert" id="problem">The replacement must be[\s\S]*<form [^>]*aria-describedby="problem"/,
    )
    expect(body).toContain(`value="${replacement.toLowerCase()}"`)
  })

  it('shows a guest the versions without acts, and refuses a guest, a visitor and a form without its token', async () => {
    const guest = await aMaintainer('guest')
    const list = await guest.open(`${guest.home}/-/versions`)
    expect(list.body).toContain('?version=1.0.0')
    expect(list.body).not.toMatch(/versions\/(?:delete|quarantine|abandon)|advisories\/new/)
    expect((await guest.open(`${guest.home}/-/versions/abandon`)).statusCode).toBe(403)
    expect((await guest.open(`${guest.home}/-/advisories/new`)).statusCode).toBe(403)
    expect((await guest.open(`${guest.home}/-/versions/quarantine?version=1.0.0`)).statusCode).toBe(403)
    expect((await guest.send('versions/quarantine', { version, reason: 'No' })).statusCode).toBe(403)
    await markDeleted(t.db, guest.repository)
    expect((await guest.open(`${guest.home}/-/versions`)).body).not.toContain('1.0.0')
    expect((await t.app.inject(`${guest.home}/-/versions`)).statusCode).toBe(404)
    const visitor = await t.app.inject(`${guest.home}/-/versions/delete?version=1.0.0`)
    expect(visitor.headers.location).toMatch(/^\/login/)
    const admin = await aMaintainer()
    expect((await admin.send('versions/delete', { version }, 'wrong')).statusCode).toBe(403)
    expect(await admin.offered()).toBe(true)
  })
})

describe('…/-/advisories', () => {
  const form = { title: 'Path <traversal>', affected_versions: '<1.2.3', severity: 'high' }

  it('publishes one, which Composer gets, and withdraws it after a confirmation', async () => {
    const { open, home, send, ask, events } = await aMaintainer()
    expect((await send('advisories/new', form)).statusCode).toBe(303)
    const list = await open(`${home}/-/advisories`)
    expect(list.body).toContain('Path &lt;traversal&gt;')
    expect((await ask('p2/acme/lib.json')).body).toContain('Path <traversal>')
    const [, id] = /advisory=([\w-]+)"/.exec(list.body) ?? []
    const question = await open(`${home}/-/advisories/withdraw?advisory=${id}`)
    expect(question.body).toContain(`Withdraw ${id}?`)
    await send('advisories/withdraw', { advisory: String(id) })
    expect((await open(`${home}/-/advisories`)).body).not.toContain('traversal')
    expect(await events()).toEqual(['publish', 'advise', 'withdraw'])
    expect((await send('advisories/withdraw', { advisory: String(id) })).statusCode).toBe(404)
  })

  it.each([
    [{ title: '' }, 'Give a title of at most 255 characters.'],
    [{ title: 'x'.repeat(256) }, 'Give a title of at most 255 characters.'],
    [{ affected_versions: '' }, 'The affected versions must be a version constraint'],
    [{ affected_versions: 'not > a < constraint' }, 'The affected versions must be a version constraint'],
    [{ cve: 'CVE-1' }, 'A CVE must be written as CVE-2026-12345.'],
    [{ link: 'javascript:alert(1)' }, 'The link must be an http or https URL.'],
    [{ severity: 'worst' }, ''],
  ])('refuses %j by the rules of the API', async (wrong, sentence) => {
    const { send, events } = await aMaintainer('developer')
    const refused = await send('advisories/new', { ...form, ...wrong })
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain(sentence)
    expect(await events()).toEqual(['publish'])
  })

  it('lets a developer publish and not withdraw, and a guest read', async () => {
    const developer = await aMaintainer('developer')
    expect((await developer.send('advisories/new', form)).statusCode).toBe(303)
    expect((await developer.send('advisories/withdraw', { advisory: 'x' })).statusCode).toBe(403)
    const guest = await aMaintainer('guest')
    expect((await guest.open(`${guest.home}/-/advisories`)).statusCode).toBe(200)
    expect((await guest.send('advisories/new', form)).statusCode).toBe(403)
  })
})
