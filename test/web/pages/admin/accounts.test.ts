import { describe, expect, it } from 'vitest'
import { anIdentity, dateSignInOrigins, listUsernames, storedAccount } from '../../../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  anAccount,
  aPersonalToken,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  post,
  signIn,
} from '../../../support/actors.ts'
import { anAdministrator } from '../../../support/admin-actors.ts'
import { useApp } from '../../../support/app.ts'
import { installationId } from '../../../support/archive-rows.ts'
import { open } from '../../../support/browse.ts'
import { aFailedJob, aJobKind, aStoredJob } from '../../../support/job-rows.ts'
import { anApplication } from '../../../support/oauth-actors.ts'
import { dropRows } from '../../../support/rows.ts'
import { aStoredFactor } from '../../../support/session-rows.ts'

describe('/admin', () => {
  const t = useApp()

  it('responds with 404 to everybody except site administrators, for every method', async () => {
    const { account, cookie } = await anAdministrator(t)
    const { clientId } = await anApplication(t.db)
    const ordinary = await signIn(t.app, await anAccount(t.db))
    const unknown = await open(t, '/no/where', ordinary)
    const pages = [
      ...['/admin', '/admin/accounts', `/admin/accounts/${account.username}`, '/admin/applications'],
      ...['/admin/applications/new', `/admin/applications/${clientId}`, '/admin/groups', '/admin/system'],
      ...[`/admin/applications/${clientId}/edit`, `/admin/applications/${clientId}/logo`],
    ]
    const sentence = 'This page does not exist, or you do not have access to it.'
    expect(unknown.body).toContain(sentence)
    for (const url of pages) {
      for (const visitor of ['', ordinary]) {
        const response = await open(t, url, visitor)
        expect(response.statusCode, url).toBe(404)
        expect(response.body).toContain(sentence)
        const sent = await post(t.app, url, visitor, { act: 'enable' })
        expect(sent.statusCode, url).toBe(404)
      }
      expect((await open(t, url, cookie)).statusCode, url).toBe(200)
    }
  })

  it('shows counts and pending work', async () => {
    const { cookie } = await anAdministrator(t)
    await anApplication(t.db, { status: 'pending' })
    await aFailedJob(t.db, 'collect-garbage')
    const unsafe = await anAccount(t.db)
    const { body } = await open(t, '/admin', cookie)
    const needed = /href="([^"]+)">(\d+) accounts have no second factor</.exec(body) ?? []
    expect(needed[1]).toBe('/admin/accounts?state=without-second-factor')
    await aStoredFactor(t.db, unsafe)
    expect((await open(t, '/admin', cookie)).body).toContain(
      `${Number(needed[2]) - 1} account${needed[2] === '2' ? ' has' : 's have'} no second factor`,
    )
    expect(body).toContain('1 application waits')
    expect(body).toContain('1 background job has failed')
  })

  it('/admin/accounts/<username> shows the sign-in providers of an account, and unlinks one', async () => {
    const { cookie } = await anAdministrator(t)
    const { id, username } = await anAccount(t.db)
    await anIdentity(t.db, { id }, { issuer: 'https://id.test', subject: 'u-17', provider: 'corp' })
    const url = `/admin/accounts/${username}`
    const page = await open(t, url, cookie)
    expect(page.body).toContain('<code>u-17</code> at https://id.test')
    const unlink = () =>
      post(t.app, `${url}/identities`, cookie, { csrf_token: csrfTokenIn(page), issuer: 'https://id.test' })
    expect((await unlink()).statusCode).toBe(303)
    expect((await open(t, url, cookie)).body).not.toContain('u-17')
    expect((await unlink()).statusCode).toBe(409)
    const events = await open(t, `/admin/events?account=${username}`, cookie)
    expect(events.body).toMatch(/unlinked/i)
  })

  it('/admin/system shows version, database, store, jobs and disk', async () => {
    const { cookie } = await anAdministrator(t)
    await dropRows(t.db, 'job_kind', { name: 'collect-garbage' })
    await aJobKind(t.db, 'collect-garbage', { succeededAt: new Date('2026-01-02T03:04Z') })
    for (const kind of ['idle-job', 'failing-job']) await aJobKind(t.db, kind)
    await aStoredJob(t.db, 'failing-job', { key: 'a' })
    await aFailedJob(t.db, 'failing-job', 'no route to <host>')
    const { body } = await open(t, '/admin/system', cookie)
    expect(body).toContain('svc 0.1.0')
    expect(body).toContain(await installationId(t.db))
    expect(body).toContain(t.config.dataDir)
    const rowOf = (job: string) => {
      const row = body.slice(body.indexOf(`<th scope="row">${job}</th>`))
      return row.slice(0, row.indexOf('</tr>')).replaceAll(/\s*<[^>]*>\s*/g, ' ')
    }
    expect(rowOf('collect-garbage')).toContain('2 Jan 2026, 03:04 UTC')
    expect(rowOf('idle-job')).toMatch(/idle.*Never/)
    expect(rowOf('failing-job')).toMatch(/1 queued\s+1 failed\s+no route to &lt;host&gt;\s+Never/)
    expect(body).toContain('Find the reason in the log of the server')
    expect(body).toMatch(/<dt>Last garbage collection<\/dt><dd>(?:Never|<time)/)
    expect(body).toContain('href="/docs/operations#back-up">How to back up</a>')
    expect(body).toMatch(/<dt>Free<\/dt><dd>[\d.]+ [kMGT]B of/)
  })

  it('/admin/groups lists groups and the repositories of one, with counts, in pages', async () => {
    const { account, cookie } = await anAdministrator(t)
    const group = await aGroup(t.db, 'zeta')
    await aGroupMember(t.db, account, group, 'admin')
    for (let i = 0; i < 51; i += 1) {
      await aRepository(t.db, { group, name: `repo-${String(i).padStart(2, '0')}` })
      await aGroup(t.db, `many-${String(i).padStart(2, '0')}`)
    }
    const first = await open(t, '/admin/groups', cookie)
    const next = /href="(\/admin\/groups\?after=[^"]+)"/.exec(first.body)?.[1] ?? ''
    const second = await open(t, next, cookie)
    expect(second.body).toContain('51 repositories')
    expect(second.body).toContain(`Admins: ${account.username}`)
    expect(first.body).not.toContain('51 repositories')
    const of = await open(t, '/admin/groups?group=zeta', cookie)
    expect(of.body).toContain('zeta/repo-00')
    expect(of.body).toContain('0 packages')
    expect(of.body).toMatch(/href="\/zeta\/repo-00\/-\/members">0 direct members</)
    expect(of.body).not.toContain('zeta/repo-50')
    const rest = await open(t, '/admin/groups?group=zeta&after=zeta%2Frepo-49', cookie)
    expect(rest.body).toContain('zeta/repo-50')
    expect(rest.body).not.toContain('zeta/repo-49')
    expect((await open(t, '/admin/groups?group=nobody', cookie)).statusCode).toBe(404)
  })
})

describe('/admin/accounts', () => {
  const t = useApp()

  it('finds accounts by username, name and email, page by page', async () => {
    const { cookie } = await anAdministrator(t)
    for (let i = 0; i < 51; i += 1) {
      await anAccount(t.db, { username: `worker-${String(i).padStart(2, '0')}` })
    }
    await anAccount(t.db, { username: 'zoe', displayName: 'Zoë <b>', email: 'Found@example.com' })
    const first = await open(t, '/admin/accounts?q=WORKER', cookie)
    expect(first.body).toContain('worker-49')
    expect(first.body).not.toContain('worker-50')
    const next = /href="(\/admin\/accounts\?q=WORKER[^"]*after=[^"]+)"/.exec(first.body)?.[1] ?? ''
    expect((await open(t, next.replaceAll('&amp;', '&'), cookie)).body).toContain('worker-50')
    for (const q of ['zoe', 'zoë', 'found@']) {
      const { body } = await open(t, `/admin/accounts?q=${encodeURIComponent(q)}`, cookie)
      expect(body).toContain('Zoë &lt;b&gt;')
      expect(body).not.toContain('worker-')
    }
    expect((await open(t, '/admin/accounts?q=nobody-at-all', cookie)).body).toContain(
      'No account matches “nobody-at-all”.',
    )
  })

  it('lists the accounts without a second factor, the administrators and the disabled ones', async () => {
    const { account: admin, cookie, csrf_token } = await anAdministrator(t)
    const [safe, unsafe, disabled] = [await anAccount(t.db), await anAccount(t.db), await anAccount(t.db)]
    await aStoredFactor(t.db, safe)
    await post(t.app, `/admin/accounts/${disabled.username}`, cookie, { csrf_token, act: 'disable' })
    const all = [admin, safe, unsafe, disabled]
    const listed = async (state: string) => {
      const { body } = await open(t, `/admin/accounts?state=${state}`, cookie)
      return all.filter(({ username }) => body.includes(`href="/admin/accounts/${username}"`))
    }
    expect(await listed('without-second-factor')).toEqual([admin, unsafe])
    expect(await listed('administrator')).toEqual([admin])
    expect(await listed('disabled')).toEqual([disabled])
    const found = await open(t, `/admin/accounts?state=disabled&q=${unsafe.username}`, cookie)
    expect(found.body).toContain(`No account matches “${unsafe.username}”.`)
    expect((await open(t, '/admin/accounts?state=happy', cookie)).statusCode).toBe(400)
  })

  it('continues a filtered list with its filter and search', async () => {
    const { cookie } = await anAdministrator(t)
    for (let i = 10; i < 62; i += 1) await anAccount(t.db, { username: `no-factor-${i}` })
    const first = await open(t, '/admin/accounts?state=without-second-factor&q=no-factor', cookie)
    const next = /href="(\/admin\/accounts\?[^"]*after=[^"]+)"/.exec(first.body)?.[1] ?? ''
    expect([...new URLSearchParams(next.replaceAll('&amp;', '&').split('?')[1])]).toEqual([
      ['q', 'no-factor'],
      ['state', 'without-second-factor'],
      ['after', 'no-factor-59'],
    ])
  })

  it('tells accounts without a known sign-in from those that signed out', async () => {
    const { cookie } = await anAdministrator(t)
    const account = await anAccount(t.db)
    const look = async () => (await open(t, `/admin/accounts?q=${account.username}`, cookie)).body
    expect(await look()).toContain('data-label="Last seen">not known')
    const signedIn = await signIn(t.app, account)
    expect(await look()).toContain('data-label="Last seen"><time')
    const settings = await open(t, '/settings/account', signedIn)
    await post(t.app, '/logout', signedIn, { csrf_token: csrfTokenIn(settings) })
    await dateSignInOrigins(t.db, account, new Date('2026-01-02T03:04Z'))
    const signedOut = await look()
    expect(signedOut).toMatch(/data-label="Last seen"><time[^>]*>2 Jan 2026</)
    expect(signedOut).not.toContain('not known')
    const page = await open(t, `/admin/accounts/${account.username}`, cookie)
    expect(page.body).toMatch(/<dt>Last sign-in<\/dt><dd><time/)
  })

  it('makes an account, whose password is shown once and works', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const form = {
      csrf_token,
      username: 'newcomer',
      display_name: 'New',
      email: 'n@example.com',
      admin: 'yes',
    }
    const made = await post(t.app, '/admin/accounts', cookie, form)
    expect(made.statusCode).toBe(200)
    const password = /<code id="password">(\w+)</.exec(made.body)?.[1] ?? ''
    expect(await signsIn('newcomer', password)).toBe(true)
    const newcomer = await storedAccount(t.db, { username: 'newcomer' })
    expect(newcomer).toMatchObject({ email: 'n@example.com', isAdmin: true })
  })

  it.each([
    ['a taken username', { username: 'taken' }, 'This username is taken.'],
    ['a bad username', { username: 'Not Good' }, 'A username has at most 39 characters'],
    ['a bad email', { email: 'no address' }, 'Enter a valid email address'],
    ['a value that the form does not have', { admin: 'no' }, 'has a value that is not allowed'],
  ])('makes no account with %s', async (_what, difference, words) => {
    const { cookie, csrf_token } = await anAdministrator(t)
    await dropRows(t.db, 'account', { username: 'taken' })
    await anAccount(t.db, { username: 'taken' })
    const before = await listUsernames(t.db)
    const form = { csrf_token, username: 'somebody', ...difference }
    const response = await post(t.app, '/admin/accounts', cookie, form)
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain(words)
    expect(await listUsernames(t.db)).toEqual(before)
  })

  it('disables and enables an account', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const account = await anAccount(t.db)
    const theirs = await signIn(t.app, account)
    const authorization = `Bearer ${await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })}`
    const user = () => t.app.inject({ url: '/api/user', headers: { authorization } })
    const url = `/admin/accounts/${account.username}`

    const disabled = await post(t.app, url, cookie, { csrf_token, act: 'disable' })
    expect([disabled.statusCode, disabled.headers.location]).toEqual([303, url])
    expect((await open(t, '/settings/account', theirs)).statusCode).toBe(303)
    expect((await user()).statusCode).toBe(401)
    const page = await open(t, url, `${cookie}; ${cookiesOf(disabled)}`)
    expect(page.body).toContain('This account was disabled')
    expect(page.body).toContain(`${account.username} is disabled.`)

    await post(t.app, url, cookie, { csrf_token, act: 'enable' })
    expect((await user()).statusCode).toBe(200)
  })

  it('makes a site administrator, and an ordinary account again', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const account = await anAccount(t.db)
    const theirs = await signIn(t.app, account)
    const url = `/admin/accounts/${account.username}`
    const ask = async () => (await open(t, `${url}/ask?act=make-admin`, cookie)).body
    expect(await ask()).toMatch(/<p>A site administrator may do everything in the browser[^“]*<\/p>/)
    const tokens = [
      { name: 'managing', scopes: ['group-manage:rw'] },
      { name: 'reading', scopes: ['group-manage:r'] },
      { name: 'narrow', scopes: ['group-manage:rw'], resourceScope: 'public' as const },
      { name: 'other', scopes: ['registry-package:rw'] },
    ]
    for (const token of tokens) await aPersonalToken(t.db, account, token)
    expect(await ask()).toContain('Existing tokens and applications get no new rights.')
    const hint = 'For site administration'
    expect((await open(t, '/settings/tokens/new', theirs)).body).not.toContain(hint)
    await post(t.app, url, cookie, { csrf_token, act: 'make-admin' })
    expect((await open(t, '/settings/tokens/new', theirs)).body).toContain(hint)
    expect((await open(t, '/admin', theirs)).statusCode).toBe(200)
    await post(t.app, url, cookie, { csrf_token, act: 'unmake-admin' })
    expect((await open(t, '/admin', theirs)).statusCode).toBe(404)
  })

  it('sets a new password, which ends the sessions', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const account = await anAccount(t.db)
    const theirs = await signIn(t.app, account)
    const response = await post(t.app, `/admin/accounts/${account.username}/password`, cookie, { csrf_token })
    const password = /<code id="password">(\w+)</.exec(response.body)?.[1] ?? ''
    expect((await open(t, '/settings/account', theirs)).statusCode).toBe(303)
    expect(await signsIn(account.username, password)).toBe(true)
  })

  it('does not let administrators lock themselves out', async () => {
    const { account, cookie, csrf_token } = await anAdministrator(t)
    for (const act of ['disable', 'unmake-admin']) {
      const response = await post(t.app, `/admin/accounts/${account.username}`, cookie, { csrf_token, act })
      expect(response.statusCode).toBe(409)
    }
    expect((await open(t, '/admin', cookie)).statusCode).toBe(200)
  })

  it('refuses forms that another site sent, unknown acts and unknown accounts', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const account = await anAccount(t.db)
    const url = `/admin/accounts/${account.username}`
    const forms: [string, Record<string, string>, number][] = [
      [url, { csrf_token: 'guessed', act: 'disable' }, 403],
      [`${url}/password`, {}, 403],
      ['/admin/accounts', { username: 'forged' }, 403],
      [url, { csrf_token, act: 'promote' }, 400],
      [url, { csrf_token }, 400],
      ['/admin/accounts/nobody-at-all', { csrf_token, act: 'disable' }, 404],
      ['/admin/accounts/%00', { csrf_token, act: 'disable' }, 404],
    ]
    for (const [to, form, status] of forms) {
      expect((await post(t.app, to, cookie, form)).statusCode, `${to} ${JSON.stringify(form)}`).toBe(status)
    }
    await signIn(t.app, account)
    expect(await storedAccount(t.db, { username: 'forged' })).toBeUndefined()
  })

  async function signsIn(username: string, password: string): Promise<boolean> {
    const form = await t.app.inject('/login')
    const fields = { csrf_token: csrfTokenIn(form), username, password }
    return (await post(t.app, '/login', cookiesOf(form), fields)).statusCode === 303
  }
})
