import { beforeAll, describe, expect, it } from 'vitest'
import { deleteAccount } from '../../../src/accounts/account-lifecycle.ts'
import { setDisabled, setPasswordHash } from '../../../src/accounts/accounts.ts'
import { renewRecoveryCodes } from '../../../src/accounts/second-factor/recovery-codes.ts'
import { startEnrolment } from '../../../src/accounts/second-factor/totp-enrolment.ts'
import {
  confirmTotpFactor,
  findTotpFactor,
  type TotpFactor,
} from '../../../src/accounts/second-factor/totp-factors.ts'
import { transaction } from '../../../src/database/database.ts'
import { operator } from '../../../src/domain/principal.ts'
import { listEvents } from '../../../src/events/event-list.ts'
import {
  copyFactor,
  endFailureWindows,
  forgetFailures,
  loseKeyOfFactor,
  removePassword,
  sealedSecretOf,
  setProofAge,
} from '../../support/account-rows.ts'
import { anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { authorizeLink } from '../../support/browse.ts'
import { holdHour } from '../../support/event-rows.ts'
import {
  aPersonWithTotp,
  codeOf,
  forgetCodes,
  halfSignIn,
  recoveryCodesIn,
  secretIn,
} from '../../support/factor-actors.ts'
import { openTransaction, untilWaiting } from '../../support/locks.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { countRows, expire, textOf } from '../../support/rows.ts'

const t = useApp({ TRUST_PROXY: 'true' })
beforeAll(() => holdHour(t.db))

const actionsOf = async (accountId: string) =>
  (await listEvents(t.db, { subjectId: accountId }, { after: null, limit: 50 })).map(({ action, details }) =>
    [
      action,
      ...Object.values(details).filter((part) => ['totp', 'recovery-code', 8, 9].includes(part as string)),
    ]
      .map(String)
      .join(' '),
  )

describe('the page of the second factor', () => {
  /** Signs a new account in. `send` posts a form of the page, below its path. */
  async function aPersonOnThePage() {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const get = (url: string) => t.app.inject({ url, headers: { cookie } })
    const csrf_token = csrfTokenIn(await get('/settings/second-factor'))
    const send = (path: string, form = {}) =>
      post(t.app, `/settings/second-factor${path}`, cookie, { csrf_token, ...form })
    return { account, get, send }
  }

  it('sets up an app: shows secret and QR code, and confirms it with a first code', async () => {
    const { account, get, send } = await aPersonOnThePage()

    expect((await send('/totp')).headers.location).toBe('/settings/second-factor/totp')
    const page = await get('/settings/second-factor/totp')
    expect(page.body).toContain('<svg')
    expect(page.headers['content-security-policy']).not.toContain('unsafe')
    const secret = secretIn(page)
    // The secret stays the same while the page is open, and is not in the database.
    expect(secretIn(await get('/settings/second-factor/totp'))).toBe(secret)
    expect(await textOf(t.db, 'totp_factor', { accountId: account.id })).not.toContain(secret)
    const sealed = await sealedSecretOf(t.db, account)
    expect(sealed.length).toBeGreaterThan(0)
    expect(sealed.toString('latin1')).not.toContain(secret)

    // The app is not confirmed yet, so the sign-in does not ask for a code.
    expect(await signIn(t.app, account)).toContain('svc_session')
    for (const code of ['', '12345', 'abcdef', '1234567', codeOf(secret, 3600)]) {
      expect((await send('/totp/confirm', { code })).statusCode).toBe(403)
    }
    const confirmed = await send('/totp/confirm', { code: codeOf(secret) })
    expect(confirmed.statusCode).toBe(200)
    const codes = recoveryCodesIn(confirmed)
    expect(confirmed.body).toContain('Your second factor is on.')
    expect(confirmed.body).not.toContain('Earlier codes no longer work.')
    expect(new Set(codes).size).toBe(10)
    expect(codes[0]).toMatch(/^[a-z2-9]{4}(-[a-z2-9]{4}){3}$/)
    expect(await countRows(t.db, 'recovery_code', { accountId: account.id })).toBe(10)

    // Secret and codes are shown once: no page has them now.
    expect((await get('/settings/second-factor/totp')).headers.location).toBe('/settings/second-factor')
    const overview = (await get('/settings/second-factor')).body
    expect(overview).toContain('10 left')
    expect(overview).toMatch(/<td data-label="Last used"><time/)
    expect((await send('/totp')).statusCode).toBe(409)
    const again = await send('/totp/confirm', { code: codeOf(secret) })
    expect(again.headers.location).toBe('/settings/second-factor')
    expect(await actionsOf(account.id)).toEqual([
      'recovery-codes-created',
      'second-factor-added totp',
      'second-factor-failed totp',
      'sign-in',
      'sign-in',
      'account-created',
    ])
  })

  it('makes no recovery codes when another factor makes them at the same time', async () => {
    const { account, get, send } = await aPersonOnThePage()
    await send('/totp')
    const secret = secretIn(await get('/settings/second-factor/totp'))
    // As the registration of a passkey does.
    const other = await openTransaction(t.db)
    await renewRecoveryCodes(other.tx, operator, account.id)
    const confirmed = send('/totp/confirm', { code: codeOf(secret) })
    await untilWaiting(t.db)
    await other.commit()
    expect(recoveryCodesIn(await confirmed)).toEqual([])
    expect(await countRows(t.db, 'recovery_code', { accountId: account.id })).toBe(10)
  })

  it('confirms no app whose secret was replaced while its code was checked', async () => {
    const { id } = await anAccount(t.db)
    const found: TotpFactor[] = []
    for (let times = 0; times < 2; times += 1) {
      await startEnrolment({ db: t.db, config: t.config }, id)
      found.push((await findTotpFactor(t.db, id)) as TotpFactor)
    }
    const confirmed = await transaction(t.db, async (tx) => {
      const outcomes: boolean[] = []
      for (const factor of found) outcomes.push(await confirmTotpFactor(tx, operator, id, factor, 1))
      return outcomes
    })
    expect(confirmed).toEqual([false, true])
  })

  it('makes a new set of recovery codes, which replaces the old one', async () => {
    const person = await aPersonWithTotp(t)
    const csrf_token = csrfTokenIn(
      await t.app.inject({ url: '/settings/second-factor', headers: { cookie: person.cookie } }),
    )
    const made = await post(t.app, '/settings/second-factor/recovery-codes', person.cookie, { csrf_token })
    expect(made.body).toContain('Earlier codes no longer work.')
    const [fresh = ''] = recoveryCodesIn(made)
    const [old = ''] = person.recoveryCodes
    const { send } = await halfSignIn(t.app, person)
    expect((await send({ recovery_code: old })).statusCode).toBe(403)
    expect((await send({ recovery_code: fresh })).statusCode).toBe(303)
  })

  it('leaves one set of recovery codes when ten are made at once', async () => {
    const person = await aPersonWithTotp(t)
    const csrf_token = csrfTokenIn(
      await t.app.inject({ url: '/settings/second-factor', headers: { cookie: person.cookie } }),
    )
    const sets = await Promise.all(
      Array.from({ length: 10 }, () =>
        post(t.app, '/settings/second-factor/recovery-codes', person.cookie, { csrf_token }),
      ),
    )
    expect(sets.map(({ statusCode }) => statusCode)).toEqual(Array(10).fill(200))
    expect(await countRows(t.db, 'recovery_code', { accountId: person.id })).toBe(10)
  })

  it('makes no recovery codes for an account without a factor', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const csrf_token = csrfTokenIn(
      await t.app.inject({ url: '/settings/second-factor', headers: { cookie } }),
    )
    const refused = await post(t.app, '/settings/second-factor/recovery-codes', cookie, { csrf_token })
    expect(refused.statusCode).toBe(409)
  })

  it('removes the app after the password and a code, or a recovery code', async () => {
    for (const proof of ['code', 'recovery code'] as const) {
      const person = await aPersonWithTotp(t)
      const { cookie } = person
      const csrf_token = csrfTokenIn(
        await t.app.inject({ url: '/settings/second-factor', headers: { cookie } }),
      )
      const remove = (current_password: string, code: string) =>
        post(t.app, '/settings/second-factor/totp/remove', cookie, { csrf_token, current_password, code })
      const right = proof === 'code' ? codeOf(person.secret) : (person.recoveryCodes[0] ?? '')
      expect((await remove('wrong password', right)).statusCode).toBe(403)
      expect((await remove(password, '000000')).statusCode).toBe(403)
      expect((await remove(password, '')).statusCode).toBe(403)
      expect((await remove(password, right)).statusCode).toBe(303)
      expect(await signIn(t.app, person)).toContain('svc_session')
      expect(await countRows(t.db, 'recovery_code', { accountId: person.id })).toBe(0)
      expect(await actionsOf(person.id)).toContain('second-factor-removed totp')
    }
  })
})

it('removes the app without a second code within five minutes of a second factor', async () => {
  const person = await aPersonWithTotp(t)
  const half = await halfSignIn(t.app, person)
  const cookie = `${half.cookie}; ${cookiesOf(await half.send({ recovery_code: person.recoveryCodes[0] ?? '' }))}`
  const url = '/settings/second-factor/totp/remove'
  const page = await t.app.inject({ url, headers: { cookie } })
  expect(page.body).not.toContain('name="code"')
  const remove = (current_password: string) =>
    post(t.app, url, cookie, { csrf_token: csrfTokenIn(page), current_password })
  expect((await remove('wrong password')).statusCode).toBe(403)
  const removed = await remove(password)
  expect(removed.headers.location).toBe('/settings/second-factor')
  const headers = { cookie: `${cookiesOf(removed)}; ${cookie}` }
  const { body } = await t.app.inject({ url: '/settings/second-factor', headers })
  expect(body).toContain('Your account has no second factor now')
})

describe('a person without a password', () => {
  it('removes the app with a code, after confirming the session', async () => {
    const { id, cookie, secret } = await aPersonWithTotp(t)
    await removePassword(t.db, { id })
    const age = (interval: string) => setProofAge(t.db, { id }, interval)
    const page = await t.app.inject({ url: '/settings/second-factor', headers: { cookie } })
    expect(page.body).not.toContain('current_password')
    const remove = (code: string) =>
      post(t.app, '/settings/second-factor/totp/remove', cookie, { csrf_token: csrfTokenIn(page), code })
    await age('1 hour')
    expect((await remove(codeOf(secret))).headers.location).toMatch(/^\/settings\/confirm-access/)
    await age('1 minute')
    expect((await remove('000000')).statusCode).toBe(403)
    expect((await remove(codeOf(secret))).statusCode).toBe(303)
    expect(await actionsOf(id)).toContain('second-factor-removed totp')
  })
})

describe('the second step of a sign-in', () => {
  it('needs a code after the password: until then there is no session', async () => {
    const person = await aPersonWithTotp(t)
    const { send, cookie, page } = await halfSignIn(t.app, person)
    expect(cookie).not.toContain('svc_session')
    expect(page.headers['content-security-policy']).not.toContain('script-src')
    expect(page.headers['content-security-policy']).not.toContain('form-action')
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode).toBe(303)
    expect((await send({ code: '' })).statusCode).toBe(403)
    const done = await send({ code: codeOf(person.secret) })
    expect(done.statusCode).toBe(303)
    const signedIn = cookiesOf(done)
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie: signedIn } })).statusCode).toBe(
      200,
    )
  })

  it('accepts a code once, also in twenty racing requests, and no earlier code after it', async () => {
    const person = await aPersonWithTotp(t)
    const browsers = []
    for (let n = 0; n < 20; n++) browsers.push(await halfSignIn(t.app, person))
    const code = codeOf(person.secret)
    const before = codeOf(person.secret, -30)
    const responses = await Promise.all(browsers.map(({ send }) => send({ code })))
    expect(responses.filter(({ statusCode }) => statusCode === 303)).toHaveLength(1)
    // The counter of wrong codes refuses the last ones.
    expect(responses.filter(({ statusCode }) => [403, 429].includes(statusCode))).toHaveLength(19)
    await forgetFailures(t.db)
    const { send } = await halfSignIn(t.app, person)
    expect((await send({ code: before })).statusCode).toBe(403)
  })

  it('refuses the code that has set up the app', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const get = (url: string) => t.app.inject({ url, headers: { cookie } })
    const csrf_token = csrfTokenIn(await get('/settings/second-factor'))
    const app = '/settings/second-factor/totp'
    await post(t.app, app, cookie, { csrf_token })
    const code = codeOf(secretIn(await get(app)))
    expect((await post(t.app, `${app}/confirm`, cookie, { csrf_token, code })).statusCode).toBe(200)
    const { send } = await halfSignIn(t.app, account)
    expect((await send({ code })).statusCode).toBe(403)
  })

  it('accepts a recovery code once, in any spelling', async () => {
    const person = await aPersonWithTotp(t)
    const [first = '', second = ''] = person.recoveryCodes
    const browsers = await Promise.all(Array.from({ length: 4 }, () => halfSignIn(t.app, person)))
    const responses = await Promise.all(browsers.map(({ send }) => send({ recovery_code: first })))
    expect(responses.filter(({ statusCode }) => statusCode === 303)).toHaveLength(1)
    const { send } = await halfSignIn(t.app, person)
    expect((await send({ recovery_code: second.toUpperCase().replaceAll('-', ' ') })).statusCode).toBe(303)
    expect(await actionsOf(person.id)).toEqual(
      expect.arrayContaining(['recovery-code-used 9', 'recovery-code-used 8']),
    )
  })

  it('leads somebody with a recovery code to the page where a lost app is replaced', async () => {
    const person = await aPersonWithTotp(t)
    const { send, cookie } = await halfSignIn(t.app, person)
    const response = await send({ recovery_code: person.recoveryCodes[0] ?? '' })
    expect(response.headers.location).toBe('/settings/second-factor')
    const headers = { cookie: `${cookie}; ${cookiesOf(response)}` }
    const { body } = await t.app.inject({ url: '/settings/second-factor', headers })
    expect(body).toContain('You are signed in with a recovery code')
    expect(body).toContain('9 left')
    expect(body).toContain('<a href="/settings/second-factor/totp/replace">Replace the authenticator app</a>')

    const wantedPage = await t.app.inject('/login?page=/settings/tokens')
    const wanted = await halfSignIn(t.app, person, String(wantedPage.headers.location))
    const back = await wanted.send({ recovery_code: person.recoveryCodes[1] ?? '' })
    expect(back.headers.location).toBe('/settings/tokens')
  })

  it('accepts no code of another account, and no step of another browser', async () => {
    const [ann, bob] = [await aPersonWithTotp(t), await aPersonWithTotp(t)]
    const { send } = await halfSignIn(t.app, ann)
    expect((await send({ code: codeOf(bob.secret) })).statusCode).toBe(403)
    expect((await send({ recovery_code: bob.recoveryCodes[0] ?? '' })).statusCode).toBe(403)
    // Send only the form's fields, without the cookie of the step.
    const form = await t.app.inject('/login')
    const fields = { csrf_token: csrfTokenIn(form), code: codeOf(ann.secret) }
    const stolen = await post(t.app, '/login/second-factor', cookiesOf(form), fields)
    expect(stolen.headers.location).toBe('/login')
    expect(stolen.cookies.some(({ name }) => name === 'svc_session')).toBe(false)
  })

  it('works once, for ten minutes', async () => {
    const person = await aPersonWithTotp(t)
    const { send } = await halfSignIn(t.app, person)
    expect((await send({ code: codeOf(person.secret) })).statusCode).toBe(303)
    await forgetCodes(t, person)
    const again = await send({ code: codeOf(person.secret) })
    expect(again.headers.location).toBe('/login')

    const late = await halfSignIn(t.app, person)
    await expire(t.db, 'sign_in_step', { accountId: person.id })
    expect((await late.send({ code: codeOf(person.secret) })).headers.location).toBe('/login')
  })

  it.each<[string, (id: string) => Promise<unknown>]>([
    ['a change of the password', (id) => setPasswordHash(t.db, operator, id, 'another hash')],
    ['disabling the account', (id) => setDisabled(t.db, operator, id, true)],
  ])('does not survive %s', async (_what, change) => {
    const person = await aPersonWithTotp(t)
    const { send } = await halfSignIn(t.app, person)
    await change(person.id)
    const response = await send({ code: codeOf(person.secret) })
    expect(response.headers.location).toBe('/login')
    expect(response.cookies.some(({ name }) => name === 'svc_session')).toBe(false)
  })

  it('limits wrong codes of the app for all new browsers together, whichever sends them', async () => {
    const person = await aPersonWithTotp(t)
    const [one, other] = [await halfSignIn(t.app, person), await halfSignIn(t.app, person)]
    for (let n = 0; n < 5; n++) {
      expect((await one.send({ code: '000000' })).statusCode).toBe(403)
      expect((await other.send({ code: '000000' })).statusCode).toBe(403)
    }
    const blocked = await one.send({ code: codeOf(person.secret) })
    expect(blocked.statusCode).toBe(429)
    expect(Number(blocked.headers['retry-after'])).toBeGreaterThan(0)
    expect(blocked.body).toContain('Try again in 15 minutes, or in another way.')
    expect((await other.send({ code: codeOf(person.secret) })).statusCode).toBe(429)
  })

  it('does not let somebody who knows the password lock out the browsers of the owner', async () => {
    const person = await aPersonWithTotp(t)
    const device = /svc_device=[^;]+/.exec(person.cookie)?.[0] ?? expect.fail()
    const stranger = await halfSignIn(t.app, person)
    for (let n = 0; n < 11; n++) await stranger.send({ code: '000000' })
    expect((await stranger.send({ code: codeOf(person.secret) })).statusCode).toBe(429)
    const forged = await halfSignIn(t.app, person, '/login', 'svc_device=forged')
    expect((await forged.send({ code: codeOf(person.secret) })).statusCode).toBe(429)

    const owner = await halfSignIn(t.app, person, '/login', device)
    for (let n = 0; n < 10; n++) expect((await owner.send({ code: '000000' })).statusCode).toBe(403)
    expect((await owner.send({ code: codeOf(person.secret) })).statusCode).toBe(429)
    await endFailureWindows(t.db, { except: 12 })
    expect((await owner.send({ code: codeOf(person.secret) })).statusCode).toBe(303)
  })

  it('counts wrong recovery codes separately, for each network', async () => {
    const person = await aPersonWithTotp(t)
    const stranger = await halfSignIn(t.app, person)
    for (let n = 0; n < 11; n++) await stranger.send({ code: '000000' })
    const wrong = { recovery_code: 'aaaa-aaaa-aaaa-aaaa' }
    for (let n = 0; n < 10; n++) expect((await stranger.send(wrong)).statusCode).toBe(403)
    const right = { recovery_code: person.recoveryCodes[0] ?? '' }
    expect((await stranger.send(right)).statusCode).toBe(429)
    expect((await stranger.send(right, '192.0.2.7')).statusCode).toBe(303)
  })

  it('returns to an authorization request with a long state (OAUTH 1)', async () => {
    const person = await aPersonWithTotp(t)
    const { clientId } = await anApplication(t.db)
    const link = authorizeLink({ clientId }, { state: 'x'.repeat(6000) })
    const asked = await t.app.inject(link)
    const { send } = await halfSignIn(t.app, person, String(asked.headers.location))
    expect((await send({ code: '000000' })).statusCode).toBe(403)
    const done = await send({ code: codeOf(person.secret) })
    expect(done.headers.location).toBe(link)
    const consent = await t.app.inject({ url: link, headers: { cookie: cookiesOf(done) } })
    expect(consent.statusCode).toBe(200)
  })

  it('redirects to the sign-in without a step', async () => {
    for (const url of ['/login/second-factor', '/login/second-factor?return=x%26y']) {
      const response = await t.app.inject(url)
      expect(response.statusCode).toBe(303)
      expect(response.headers.location).toMatch(/^\/login(\?return=x%26y)?$/)
    }
  })
})

describe('an administrator', () => {
  it("removes a person's factors, after which the password is enough", async () => {
    const admin = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
    const person = await aPersonWithTotp(t)
    const url = `/admin/accounts/${person.username}`
    const page = await t.app.inject({ url, headers: { cookie: admin } })
    expect(page.body).toContain('reset-factors')
    const reset = await post(t.app, url, admin, { csrf_token: csrfTokenIn(page), act: 'reset-factors' })
    expect(reset.statusCode).toBe(303)
    expect(await signIn(t.app, person)).toContain('svc_session')
    const after = await t.app.inject({ url, headers: { cookie: admin } })
    expect(after.body).not.toContain('reset-factors')
  })

  it('deletes an account with its factors, without an event of a removal', async () => {
    const person = await aPersonWithTotp(t)
    await deleteAccount(t.db, operator, person, 'refuse')
    expect((await actionsOf(person.id))[0]).toBe('account-deleted')
  })
})

describe('a server with another key', () => {
  const other = useApp({ SECRET_KEY: 'another-key-of-at-least-32-characters' })

  it('explains the error when a code is checked, and still accepts recovery codes', async () => {
    const person = await aPersonWithTotp(other)
    await loseKeyOfFactor(other.db, person)
    const { send } = await halfSignIn(other.app, person)
    const response = await send({ code: codeOf(person.secret) })
    expect(response.statusCode).toBe(503)
    expect(response.body).toContain('does not have the key')
    expect(other.log()).toContain('SECRET_KEY_PREVIOUS')
    expect((await send({ recovery_code: person.recoveryCodes[0] ?? '' })).statusCode).toBe(303)
  })

  it('decrypts no secret that was copied from another account', async () => {
    const [ann, bob] = [await aPersonWithTotp(other), await aPersonWithTotp(other)]
    await copyFactor(other.db, bob, ann)
    const { send } = await halfSignIn(other.app, ann)
    expect((await send({ code: codeOf(bob.secret) })).statusCode).toBe(503)
  })
})
