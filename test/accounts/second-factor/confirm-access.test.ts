import { describe, expect, it } from 'vitest'
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
import { useApp } from '../../support/app.ts'
import { aPersonWithTotp, codeOf, forgetCodes } from '../../support/factor-actors.ts'
import { countRows } from '../../support/rows.ts'

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
    get,
    age,
    send: (url: string, form: Record<string, string> = {}) =>
      post(t.app, url, signedIn, { csrf_token, ...form }),
  }
}

const token = { name: 'ci', scope: 'registry-package:rw', resource_scope: 'all', lifetime_in_days: '30' }

describe('a sensitive act, 15 minutes after the last proof', () => {
  it('asks for the password, and returns to the form, which says that nothing was done', async () => {
    const account = await anAccount(t.db)
    const { send, get, cookie } = await anOldSession(account)
    const asked = await send('/settings/tokens', token)
    expect(asked.statusCode).toBe(303)
    const page = await get(String(asked.headers.location))
    expect(page.body).toContain('Your form was not sent yet')
    const returnId = /name="return" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
    const confirm = (form: Record<string, string>) =>
      send('/settings/confirm-access', { return: returnId, form: '1', ...form })

    expect((await confirm({ current_password: 'wrong' })).statusCode).toBe(403)
    expect((await confirm({})).statusCode).toBe(403)
    expect((await confirm({ code: '123456' })).statusCode).toBe(403)
    expect((await send('/settings/tokens', token)).statusCode).toBe(303)
    const confirmed = await confirm({ current_password: password })
    expect(confirmed.headers.location).toBe('/settings/tokens/new')
    const form = await t.app.inject({
      url: '/settings/tokens/new',
      headers: { cookie: `${cookie}; ${cookiesOf(confirmed)}` },
    })
    expect(form.body).toContain('Nothing was done yet')
    expect(await countRows(t.db, 'personal_token', { accountId: account.id })).toBe(0)
    expect((await send('/settings/tokens', token)).statusCode).toBe(200)
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
      expect(page.body).not.toContain('Your form was not sent yet')
      expect((await get(`/login?return=${returnId}`)).headers.location).toBe(url)
    }
    const victim = await anAccount(t.db)
    const asked = await send(`/admin/accounts/${victim.username}/password`)
    const returnId = new URLSearchParams(String(asked.headers.location).split('?')[1]).get('return')
    expect((await get(`/login?return=${returnId}`)).headers.location).toBe(
      `/admin/accounts/${victim.username}`,
    )
    expect(await signIn(t.app, victim)).toContain('svc_session')
    await send('/settings/confirm-access', { current_password: password })
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
