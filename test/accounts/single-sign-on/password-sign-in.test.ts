import argon2 from 'argon2'
import { describe, expect, it, vi } from 'vitest'
import { changeAccount, findCredentialsById } from '../../../src/accounts/accounts.ts'
import { invite } from '../../../src/accounts/invite.ts'
import { makeResetToken } from '../../../src/accounts/password-resets.ts'
import { insertSession } from '../../../src/accounts/sessions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { storedAccount } from '../../support/account-rows.ts'
import {
  aGroup,
  anAccount,
  anAdminToken,
  aPersonalToken,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../../support/actors.ts'
import { callApi } from '../../support/api-actors.ts'
import { type TestApp, useApp } from '../../support/app.ts'
import { open } from '../../support/browse.ts'
import { codeOf, enrol, forgetCodes } from '../../support/factor-actors.ts'
import {
  problemOf,
  providerEnvironment,
  useIdentityProvider,
  usernameOf,
  Walker,
} from '../../support/identity-provider.ts'
import { freePort } from '../../support/program.ts'
import { dropRows } from '../../support/rows.ts'

const acme = useIdentityProvider('acme', await freePort(), 'http://svc.test')

/** Sends the password form of the sign-in page, whether the page shows it or not. */
async function passwordSignIn({ app }: TestApp, username: string, given = password) {
  const form = await app.inject('/login')
  const other = await app.inject('/docs')
  const page = /csrf_token/.test(form.body) ? form : other
  const csrf_token = /csrf_token/.test(page.body) ? csrfTokenIn(page) : ''
  return post(app, '/login', cookiesOf(page), { csrf_token, username, password: given })
}

/** An account with a password that nobody can sign in with. */
async function anAccountOf({ db }: TestApp, username: string): Promise<string> {
  const { id } = await anAccount(db)
  await changeAccount(db, operator, id, { username })
  return id
}

/** The cookie of a session of an account. */
async function aSessionOf({ db }: TestApp, accountId: string): Promise<string> {
  const credentials = await findCredentialsById(db, accountId)
  if (!credentials) throw new Error('no credentials')
  return `svc_session=${await insertSession(db, operator, credentials, { network: '127.0.0.1' })}`
}

describe('PASSWORD_SIGN_IN=admins', () => {
  const hint =
    'This username and password do not match. Only administrators can sign in with a password. Sign in another way.'
  const t = useApp({ ...acme.environment, PASSWORD_SIGN_IN: 'admins', SIGN_UP: 'open' })

  it('lets only site administrators sign in with a password', async () => {
    const [ann, root] = [await anAccount(t.db), await anAccount(t.db, { isAdmin: true })]
    const refused = await passwordSignIn(t, ann.username)
    expect([refused.statusCode, problemOf(refused)]).toEqual([403, hint])
    expect(cookiesOf(refused)).not.toContain('svc_session')
    expect((await passwordSignIn(t, root.username)).statusCode).toBe(303)
  })

  it('shows nothing about the account after a wrong password', async () => {
    const [ann, root] = [await anAccount(t.db), await anAccount(t.db, { isAdmin: true })]
    const problems = await Promise.all(
      [ann.username, root.username].map(async (name) => problemOf(await passwordSignIn(t, name, 'wrong'))),
    )
    expect(new Set(problems)).toEqual(new Set([hint]))
  })

  it('checks no password of anybody else, so that nobody learns whether it is right', async () => {
    const ann = await anAccount(t.db)
    const verify = vi.spyOn(argon2, 'verify')
    await passwordSignIn(t, ann.username)
    await passwordSignIn(t, 'nobody')
    const hashes = verify.mock.calls.map(([hash]) => hash)
    verify.mockRestore()
    expect(new Set(hashes).size).toBe(1)
    expect(hashes).toHaveLength(2)
    expect(hashes).not.toContain((await storedAccount(t.db, ann))?.passwordHash ?? expect.fail())
  })

  it('hides and refuses the password form of the account page for everybody else', async () => {
    acme.people.set('eve-of-admins', { preferred_username: 'eve-of-admins' })
    const eve = new Walker(t)
    expect((await eve.signIn(acme, 'eve-of-admins')).statusCode).toBe(303)
    const page = await eve.open('/settings/account')
    expect(page.body).not.toContain('/settings/account/password')
    expect((await eve.open('/settings/account/password')).statusCode).toBe(403)
    const fields = { csrf_token: csrfTokenIn(page), current_password: password, new_password: password }
    expect((await eve.post('/settings/account/password', fields)).statusCode).toBe(403)
    const root = await anAccount(t.db, { isAdmin: true })
    const cookie = await signIn(t.app, root)
    const own = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    expect(own.body).toContain('/settings/account/password')
  })
})

describe('POST /password-reset with PASSWORD_SIGN_IN=admins', () => {
  const t = useApp({ ...acme.environment, PASSWORD_SIGN_IN: 'admins', SIGN_UP: 'open' })

  it.each([true, false])('says how to sign in afterwards (administrator: %s)', async (isAdmin) => {
    const token = await makeResetToken(t.db, operator, (await anAccount(t.db, { isAdmin })).id)
    const page = await t.app.inject(`/password-reset?token=${token}`)
    const chosen = 'a new and longer password'
    const fields = {
      csrf_token: csrfTokenIn(page),
      token: token ?? '',
      new_password: chosen,
      repeated_password: chosen,
    }
    const { statusCode, body } = await post(t.app, '/password-reset', cookiesOf(page), fields)
    expect(statusCode).toBe(200)
    expect(body.includes('Only administrators can sign in with a password.')).toBe(!isAdmin)
  })
})

describe('an invitation with PASSWORD_SIGN_IN=admins', () => {
  const t = useApp({ ...acme.environment, PASSWORD_SIGN_IN: 'admins', SIGN_UP: 'open' })
  const reason = 'PASSWORD_SIGN_IN is admins: people get an account when they sign in with a provider'

  it('cannot be made without a group, because it could not create an account', async () => {
    const root = await anAccount(t.db, { isAdmin: true })
    const token = await anAdminToken(t.db, root, { scopes: ['group-manage:rw'] })
    const made = await callApi(t, token, 'POST', '/api/invitations', {})
    expect([made.statusCode, made.json().errmsg]).toEqual([409, reason])
    const cookie = await signIn(t.app, root)
    const page = await open(t, '/admin/invitations/new', cookie)
    expect(page.body).toContain(`${reason}.`)
    expect(page.body).not.toContain('Create an account')
    const fields = { csrf_token: csrfTokenIn(await open(t, '/settings/account', cookie)) }
    expect((await post(t.app, '/admin/invitations', cookie, fields)).statusCode).toBe(403)
  })

  it('to a group leads to the sign-in', async () => {
    const group = await aGroup(t.db)
    const { url } = await invite(t.db, t.config, operator, {
      email: null,
      target: { groupId: group.id, role: 'guest' },
    })
    const page = await t.app.inject(String(url).slice(t.config.baseUrl.length))
    expect(page.body).toContain('You get an account when you sign in for the first time.')
    expect(page.body).toContain('<a href="/login?page=/invitations">Sign in to accept the invitation</a>')
    expect(page.body).not.toContain('Only administrators')
  })
})

describe('PASSWORD_SIGN_IN=off', () => {
  const t = useApp({ ...acme.environment, PASSWORD_SIGN_IN: 'off', SIGN_UP: 'closed' })

  it('shows the providers only, and refuses passwords', async () => {
    const root = await anAccount(t.db, { isAdmin: true })
    const { body } = await t.app.inject('/login')
    expect(body).not.toContain('name="password"')
    expect(body).toContain('Sign in with Acme')
    acme.people.set('eve-of-off', { preferred_username: root.username })
    const walker = new Walker(t)
    const end = await walker.signIn(acme, 'eve-of-off')
    const question = await walker.open(String(end.headers.location))
    const fields = { csrf_token: csrfTokenIn(question), username: root.username, password }
    const refused = await walker.post('/login', fields)
    expect([refused.statusCode, problemOf(refused)]).toEqual([
      403,
      'You cannot sign in with a password here. Sign in another way.',
    ])
  })

  it('makes no account while SIGN_UP=closed', async () => {
    acme.people.set('new-of-off', { preferred_username: 'new-of-off' })
    const end = await new Walker(t).signIn(acme, 'new-of-off')
    expect([end.statusCode, problemOf(end)]).toEqual([
      403,
      expect.stringContaining('your sign-in cannot create one'),
    ])
    const root = await anAccount(t.db)
    acme.people.set('other-of-off', { preferred_username: root.username })
    const walker = new Walker(t)
    const url = String((await walker.signIn(acme, 'other-of-off')).headers.location)
    const question = await walker.open(url)
    expect(question.body).not.toContain('value="new"')
    const proof = new URL(url, 'http://svc.test').searchParams.get('proof') ?? ''
    const fields = { csrf_token: csrfTokenIn(question), proof, decision: 'new' }
    expect((await walker.post('/login/oidc/acme/account', fields)).statusCode).toBe(403)
  })

  it('refuses links that set a password', async () => {
    const token = await makeResetToken(t.db, operator, (await anAccount(t.db)).id)
    for (const url of ['/password-reset', `/password-reset?token=${token}`]) {
      const { statusCode, body } = await t.app.inject(url)
      expect([statusCode, body]).toEqual([
        403,
        expect.stringContaining('You cannot sign in with a password here'),
      ])
    }
  })

  it('lets people link their account with its password and second factor, but not sign in with them', async () => {
    acme.people.set('ann-of-off', { preferred_username: 'ann-of-off' })
    const id = await anAccountOf(t, 'ann-of-off')
    const { secret } = await enrol(t, { id, username: 'ann-of-off' }, await aSessionOf(t, id))
    const linkTo = async (walker: Walker) => {
      const url = String((await walker.signIn(acme, 'ann-of-off')).headers.location)
      const question = await walker.open(url)
      const proof = new URL(url, 'http://svc.test').searchParams.get('proof') ?? ''
      const fields = { csrf_token: csrfTokenIn(question), proof, decision: 'link', password }
      const { headers } = await walker.post('/login/oidc/acme/account', fields)
      return csrfTokenIn(await walker.open(String(headers.location)))
    }
    const walker = new Walker(t)
    const send = (csrf_token: string) =>
      walker.post('/login/second-factor', { csrf_token, code: codeOf(secret) })
    const first = await linkTo(walker)
    await dropRows(t.db, 'proven_identity')
    expect((await send(first)).statusCode).toBe(410)
    expect(await usernameOf(walker)).toBeNull()
    await forgetCodes(t, { id })
    expect((await send(await linkTo(walker))).statusCode).toBe(303)
    expect(await usernameOf(walker)).toBe('ann-of-off')
  })

  it('leaves tokens alone', async () => {
    const ann = await anAccount(t.db)
    const token = await aPersonalToken(t.db, ann, { scopes: ['account-profile:r'] })
    const { statusCode } = await t.app.inject({
      url: '/api/user',
      headers: { authorization: `Bearer ${token}` },
    })
    expect(statusCode).toBe(200)
  })
})

describe('a provider that is down', async () => {
  const t = useApp(providerEnvironment('gone', await freePort()))

  it('is reported on the sign-in page, which still accepts passwords', async () => {
    const page = await t.app.inject('/login/oidc/gone')
    expect([page.statusCode, problemOf(page)]).toEqual([
      503,
      'Gone does not respond at the moment. Try again later.',
    ])
    expect(page.headers['retry-after']).toBe('5')
    expect((await passwordSignIn(t, (await anAccount(t.db)).username)).statusCode).toBe(303)
    expect(t.log()).toContain('a sign-in provider failed')
  })

  it('has no page under an unknown name', async () => {
    expect((await t.app.inject('/login/oidc/other')).statusCode).toBe(404)
    expect((await t.app.inject('/login/oidc/__proto__')).statusCode).toBe(404)
  })
})
