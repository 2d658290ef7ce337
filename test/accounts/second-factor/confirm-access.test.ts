import { readdir, readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { secretFields } from '../../../src/web/held-forms.ts'
import { setProofAge } from '../../support/account-rows.ts'
import {
  type AccountActor,
  aGroupMember,
  anAccount,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../../support/actors.ts'
import { postFile } from '../../support/admin-actors.ts'
import { useApp } from '../../support/app.ts'
import { aPersonWithTotp, codeOf, continuedUrlIn, forgetCodes } from '../../support/factor-actors.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { countRows, dropRows, expire } from '../../support/rows.ts'

const t = useApp()

/** A session whose last proof of identity is older than 15 minutes. */
async function anOldSession(account: AccountActor, cookie?: string) {
  const signedIn = cookie ?? (await signIn(t.app, account))
  const get = (url: string) => t.app.inject({ url, headers: { cookie: signedIn } })
  const csrf_token = csrfTokenIn(await get('/settings/account'))
  const age = () => setProofAge(t.db, account, '16 minutes')
  await age()
  return {
    cookie: signedIn,
    csrf_token,
    get,
    age,
    send: (url: string, form: Record<string, string> = {}) =>
      post(t.app, url, signedIn, { csrf_token, ...form }),
  }
}

/** Returns the value of a hidden field. */
const hiddenIn = ({ body }: { body: string }, name: string) =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(body)?.[1] ?? ''
const token = { name: 'ci', scope: 'registry-package:rw', resource_scope: 'all', lifetime_in_days: '30' }

describe('a sensitive act, 15 minutes after the last proof', () => {
  it('asks for the password, and goes on with what was sent', async () => {
    const account = await anAccount(t.db)
    const { send, get } = await anOldSession(account)
    const asked = await send('/settings/tokens', token)
    expect(asked.statusCode).toBe(303)
    const page = await get(String(asked.headers.location))
    expect(page.body).toContain('What you filled in is kept')
    const returnId = hiddenIn(page, 'return')
    const confirm = (form: Record<string, string>) =>
      send('/settings/confirm-access', { return: returnId, form: hiddenIn(page, 'form'), ...form })

    expect((await confirm({ current_password: 'wrong' })).statusCode).toBe(403)
    expect((await confirm({})).statusCode).toBe(403)
    expect((await confirm({ code: '123456' })).statusCode).toBe(403)
    const confirmed = await confirm({ current_password: password })
    const next = await get(String(confirmed.headers.location))
    const action = continuedUrlIn(next)
    expect(action).toMatch(/^\/settings\/tokens\?resume=/)
    expect(await countRows(t.db, 'personal_token', { accountId: account.id })).toBe(0)
    const [row] = await t.db.query('select fields from held_form').then(({ rows }) => rows)
    expect(row.fields).not.toContain('csrf_token')

    const done = await send(action)
    expect([done.statusCode, done.body.includes('Copy')]).toEqual([200, true])
    expect(await countRows(t.db, 'personal_token', { accountId: account.id, name: token.name })).toBe(1)
    const again = await send(action)
    expect([again.statusCode, again.body.includes('Your form was sent already')]).toEqual([410, true])
    expect((await get(String(confirmed.headers.location))).statusCode).toBe(410)
    expect(await countRows(t.db, 'personal_token', { accountId: account.id })).toBe(1)
  })

  it('goes on only in the session that sent the form, for 15 minutes, and to the same URL', async () => {
    const account = await anAccount(t.db)
    const [one, other] = [await anOldSession(account), await anOldSession(account)]
    const action = async ({ send, get }: typeof one) => {
      const asked = await send('/settings/tokens', token)
      const page = await get(String(asked.headers.location))
      const confirmed = await send('/settings/confirm-access', {
        return: hiddenIn(page, 'return'),
        current_password: password,
      })
      return continuedUrlIn(await get(String(confirmed.headers.location)))
    }
    const held = await action(one)
    await other.send('/settings/confirm-access', { current_password: password })
    expect((await other.send(held)).statusCode).toBe(410)
    expect((await one.send(held.replace('/settings/tokens', '/settings/tokens/revoke'))).statusCode).toBe(410)
    // After a while the person is asked again, and the form is still there.
    await one.age()
    const asked = await one.send(held)
    expect(asked.headers.location).toMatch(/^\/settings\/confirm-access\?/)
    await one.send('/settings/confirm-access', { current_password: password })
    await expire(t.db, 'held_form')
    expect((await one.send(held)).statusCode).toBe(410)
    expect(await countRows(t.db, 'personal_token', { accountId: account.id })).toBe(0)
  })

  it('keeps at most five forms of a session', async () => {
    const { send } = await anOldSession(await anAccount(t.db))
    await dropRows(t.db, 'held_form', {})
    for (let i = 0; i < 7; i += 1) await send('/settings/tokens', token)
    expect(await countRows(t.db, 'held_form')).toBe(5)
  })

  it('returns to a form that has a code, a password or a file, or is too long, and says so', async () => {
    const admin = await anAccount(t.db, { isAdmin: true })
    const { send, get, cookie, age, csrf_token } = await anOldSession(admin)
    await dropRows(t.db, 'held_form', {})
    const { clientId } = await anApplication(t.db)
    const withFile = () =>
      postFile(t, `/admin/applications/${clientId}/edit`, cookie, { csrf_token, name: 'x' })
    const refused = [
      () => send('/settings/second-factor/totp/confirm', { code: '123456' }),
      () => send(`/admin/accounts/${admin.username}/details`, { new_password: password }),
      () => send('/settings/tokens', { ...token, name: 'x'.repeat(33_000) }),
      withFile,
    ]
    for (const ask of refused) {
      await age()
      const page = await get(String((await ask()).headers.location))
      expect(page.body).toContain('Nothing was sent. svc cannot keep what you filled in')
      const confirmed = await send('/settings/confirm-access', {
        return: hiddenIn(page, 'return'),
        form: hiddenIn(page, 'form'),
        current_password: password,
      })
      const headers = { cookie: `${cookie}; ${cookiesOf(confirmed)}` }
      const back = await t.app.inject({ url: String(confirmed.headers.location), headers })
      const { location } = back.headers
      const form = location === undefined ? back : await t.app.inject({ url: String(location), headers })
      expect(form.body).toContain('Nothing was done yet')
    }
    expect(await countRows(t.db, 'held_form')).toBe(0)
  })

  it('keeps no field of a form that asks for a secret', async () => {
    const folder = new URL('../../../views/', import.meta.url)
    const names = new Set<string>()
    for (const file of await readdir(folder, { recursive: true })) {
      if (!file.endsWith('.eta')) continue
      const text = await readFile(new URL(file, folder), 'utf8')
      for (const [input] of text.matchAll(/<input\b[^>]*>/g)) {
        if (!/type="password"|one-time-code|name="credential"/.test(input)) continue
        names.add(/name="(\w+)"/.exec(input)?.[1] ?? input)
      }
    }
    expect(names.size).toBeGreaterThan(4)
    expect([...names].filter((name) => !secretFields.has(name))).toEqual([])
  })

  it('accepts a code of the authenticator app, once', async () => {
    const person = await aPersonWithTotp(t)
    const { send, age } = await anOldSession(person, person.cookie)
    const code = codeOf(person.secret)
    expect((await send('/settings/confirm-access', { code })).headers.location).toBe('/')
    expect((await send('/settings/tokens', token)).statusCode).toBe(200)
    await age()
    expect((await send('/settings/confirm-access', { code })).statusCode).toBe(403)
    await forgetCodes(t, person)
  })

  it('is required for every new token, also one that can only read', async () => {
    const { send } = await anOldSession(await anAccount(t.db))
    const asked = await send('/settings/tokens', { ...token, scope: 'registry-package:r' })
    expect(asked.headers.location).toMatch(/^\/settings\/confirm-access\?return=/)
  })

  it('confirms this session only', async () => {
    const account = await anAccount(t.db)
    const [one, other] = [await anOldSession(account), await anOldSession(account)]
    await one.send('/settings/confirm-access', { current_password: password })
    expect((await other.send('/settings/tokens', token)).statusCode).toBe(303)
  })

  it('is required for every page of the administration, and then leads to that page', async () => {
    const admin = await anAccount(t.db, { isAdmin: true })
    const { get, send } = await anOldSession(admin)
    for (const url of ['/admin', '/admin/accounts?q=ann', '/admin/events']) {
      const asked = await get(url)
      expect(asked.headers.location).toMatch(/^\/settings\/confirm-access\?return=/)
      const returnId = String(asked.headers.location).split('return=')[1] ?? ''
      const page = await get(String(asked.headers.location))
      expect(page.body).not.toContain('What you filled in')
      expect((await get(`/login?return=${returnId}`)).headers.location).toBe(url)
    }
    const victim = await anAccount(t.db)
    const page = await get(
      String((await send(`/admin/accounts/${victim.username}/password`)).headers.location),
    )
    expect(await signIn(t.app, victim)).toContain('svc_session')
    const confirmed = await send('/settings/confirm-access', {
      return: hiddenIn(page, 'return'),
      current_password: password,
    })
    const done = await send(continuedUrlIn(await get(String(confirmed.headers.location))))
    expect([done.statusCode, done.body.includes(victim.username)]).toEqual([200, true])
    expect((await get('/admin')).statusCode).toBe(200)
  })

  it('shows no administration to others', async () => {
    const { get } = await anOldSession(await anAccount(t.db))
    expect((await get('/admin')).statusCode).toBe(404)
  })

  it('is required to delete a repository, and to set up a second factor', async () => {
    const account = await anAccount(t.db)
    const repository = await aRepository(t.db)
    await aGroupMember(t.db, account, repository.group, 'admin')
    const { send, get } = await anOldSession(account)
    const url = `/${repository.path}/-/settings`
    const asked = await send(`${url}/delete`, { path: repository.path })
    expect(asked.headers.location).toMatch(/^\/settings\/confirm-access\?/)
    expect((await get(url)).statusCode).toBe(200)
    expect((await send('/settings/second-factor/totp')).headers.location).toMatch(
      /^\/settings\/confirm-access\?/,
    )
    await send('/settings/confirm-access', { current_password: password })
    expect((await send(`${url}/delete`, { path: repository.path })).headers.location).toBe('/')
  })
})
