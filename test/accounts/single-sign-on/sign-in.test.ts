import { describe, expect, it } from 'vitest'
import { setDisabled, setPasswordHash } from '../../../src/accounts/accounts.ts'
import { unlinkAccount } from '../../../src/accounts/single-sign-on/enter.ts'
import type { Queryable } from '../../../src/database/database.ts'
import { operator } from '../../../src/domain/principal.ts'
import { signPage } from '../../../src/web/pages/sign-in/return-path.ts'
import {
  aStoredPasskey,
  emailAtProvider,
  listUsernames,
  minutesOfProof,
  setProofAge,
  shortenProofs,
  storedAccount,
  verifyEmail,
} from '../../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  csrfTokenIn,
  password,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { authorizeLink, hiddenFields, responseOf } from '../../support/browse.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { aPersonWithTotp, codeOf, continuedUrlIn } from '../../support/factor-actors.ts'
import { requireSecondFactor } from '../../support/group-rows.ts'
import {
  openSignUp,
  problemOf,
  useIdentityProvider,
  usernameOf,
  Walker,
} from '../../support/identity-provider.ts'
import { countWaiting, openTransaction } from '../../support/locks.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { freePort } from '../../support/program.ts'
import { countRows, expire } from '../../support/rows.ts'

const baseUrl = 'http://svc.test'
const acme = useIdentityProvider('acme', await freePort(), baseUrl, { LABEL: 'Acme & Co' })
const strict = useIdentityProvider('strict', await freePort(), baseUrl, {
  ALLOWED_DOMAINS: 'acme.example, other.example',
})
const t = useApp({ ...openSignUp, ...acme.environment, ...strict.environment })
const invited = useApp({ ...acme.environment, ...strict.environment })

/** Adds a person to a provider. */
function aPerson(provider = acme, claims: Record<string, unknown> = {}) {
  const name = aName('eve')
  const person = {
    preferred_username: name,
    name: `Eve ${name}`,
    email: `${name}@acme.example`,
    email_verified: true,
    ...claims,
  }
  provider.people.set(name, person)
  return { subject: name, ...person }
}

const accountOf = (username: string | null) => storedAccount(t.db, { username })
const actionsOf = async (username: string | null) =>
  eventsOf(t.db, { accountId: (await accountOf(username))?.id ?? expect.fail() }, ['action', 'details'])

describe('GET /login with providers', () => {
  it('links to each of them, and keeps the page to return to', async () => {
    const id = await signPage(t.db, '/settings/tokens')
    const { body } = await t.app.inject(`/login?return=${id}`)
    expect(body).toContain(`href="/login/oidc/acme?return=${id}">Sign in with Acme &amp; Co</a>`)
    expect(body).toContain(`href="/login/oidc/strict?return=${id}">Sign in with Strict</a>`)
    expect(body).toContain('name="password"')
  })
})

describe('a first sign-in with a provider', () => {
  it('makes an account of the verified claims, and returns to the page that required the sign-in', async () => {
    const eve = aPerson()
    const browser = new Walker(t)
    const id = (await signPage(t.db, '/settings/tokens')) ?? ''
    const end = await browser.signIn(acme, eve.subject, id)
    expect([end.statusCode, end.headers.location]).toEqual([303, '/settings/tokens'])
    expect(await usernameOf(browser)).toBe(eve.subject)
    expect(await accountOf(eve.subject)).toMatchObject({
      displayName: eve.name,
      email: eve.email,
      emailVerifiedAt: expect.any(Date),
      passwordHash: null,
      isAdmin: false,
    })
    const events = await actionsOf(eve.subject)
    expect(events.map(({ action }) => action)).toEqual(['account-created', 'identity-linked', 'sign-in'])
    expect(events[2]?.details).toMatchObject({ method: 'provider', provider: 'acme' })
  })

  it('returns to an authorization request with the longest URL, whose state is returned unchanged (OAUTH 1, 6)', async () => {
    const eve = aPerson()
    const application = await anApplication(t.db)
    const state = (length: number) => `&=#%+ "漢字${'x'.repeat(length)}`
    const most = 8192 - authorizeLink(application, { state: state(0) }).length
    const link = authorizeLink(application, { state: state(most) })
    expect(link).toHaveLength(8192)
    const browser = new Walker(t)
    const login = await browser.open(String((await browser.open(link)).headers.location))
    const start = /href="(\/login\/oidc\/acme\?return=[\w-]+)"/.exec(login.body)?.[1] ?? ''
    const there = await browser.open(start)
    const end = await browser.open(await browser.signInThere(there, eve.subject))
    expect(end.headers.location).toBe(link)
    const page = await browser.open(link)
    const approved = await browser.post('/oauth2/auth', { ...hiddenFields(page), decision: 'approve' })
    expect(approved.statusCode).toBe(302)
    expect(responseOf(approved)).toMatchObject({ state: state(most), code: expect.any(String) })
    // One more character is refused before the sign-in, with a page.
    expect((await browser.open(authorizeLink(application, { state: state(most + 1) }))).statusCode).toBe(400)
  })

  it('finds the account again by the subject, whatever name and email are now', async () => {
    const eve = aPerson()
    await new Walker(t).signIn(acme, eve.subject)
    const changed = { preferred_username: 'other-name', email: 'new@acme.example', email_verified: true }
    acme.people.set(eve.subject, { ...changed, name: 'Other Name' })
    const browser = new Walker(t)
    expect((await browser.signIn(acme, eve.subject)).statusCode).toBe(303)
    expect(await usernameOf(browser)).toBe(eve.subject)
    expect(await accountOf(eve.subject)).toMatchObject({ email: eve.email, displayName: eve.name })
    expect(await emailAtProvider(t.db, eve.subject)).toBe('new@acme.example')
  })

  it('does not use an email that the provider has not verified', async () => {
    const eve = aPerson(acme, { email_verified: false })
    const browser = new Walker(t)
    await browser.signIn(acme, eve.subject)
    expect(await accountOf(await usernameOf(browser))).toMatchObject({ email: null, emailVerifiedAt: null })
  })

  it('derives a valid username from any claim, and one that is free', async () => {
    const base = aName('jörg').replace('ö', 'o')
    const names: (string | null)[] = []
    for (const preferred_username of [base.replace('o', 'Ö'), `--${base}..`, `${base}@x.example`]) {
      const { subject } = aPerson(acme, { preferred_username, email: undefined })
      const browser = new Walker(t)
      const end = await browser.signIn(acme, subject)
      if (end.headers.location !== '/') {
        await choose(browser, String(end.headers.location), { decision: 'new' })
      }
      names.push(await usernameOf(browser))
    }
    expect(names).toEqual([base, `${base}-2`, `${base}-3`])
  })

  it('creates one account for two racing callbacks of a new person', async () => {
    const eve = aPerson()
    const browsers = [new Walker(t), new Walker(t), new Walker(t)]
    const callbacks = await Promise.all(
      browsers.map(async (browser) =>
        browser.signInThere(await browser.open('/login/oidc/acme'), eve.subject),
      ),
    )
    const ends = await Promise.all(browsers.map((browser, i) => browser.open(callbacks[i] as string)))
    expect(ends.map(({ statusCode, headers }) => [statusCode, headers.location])).toEqual(
      browsers.map(() => [303, '/']),
    )
    expect(await Promise.all(browsers.map(usernameOf))).toEqual(browsers.map(() => eve.subject))
  })

  it('refuses a disabled account, and a new person with the verified email of a disabled account', async () => {
    const eve = aPerson()
    await new Walker(t).signIn(acme, eve.subject)
    await setDisabled(t.db, operator, (await accountOf(eve.subject))?.id ?? expect.fail(), true)
    const end = await new Walker(t).signIn(acme, eve.subject)
    expect([end.statusCode, problemOf(end)]).toEqual([403, expect.stringContaining('disabled')])
    const email = `${aName('ann')}@acme.example`
    const ann = await anAccount(t.db, { email })
    await verifyEmail(t.db, ann)
    await setDisabled(t.db, operator, ann.id, true)
    const other = await new Walker(t).signIn(acme, aPerson(acme, { email }).subject)
    expect([other.statusCode, problemOf(other)]).toEqual([403, expect.stringContaining('disabled')])
  })
})

describe('an email that another account never verified', () => {
  it('belongs to the person whose provider has verified it', async () => {
    const email = `${aName('eve')}@acme.example`
    const squatter = await anAccount(t.db, { email: email.toUpperCase() })
    const eve = aPerson(acme, { email })
    const browser = new Walker(t)
    const { headers } = await browser.signIn(acme, eve.subject)
    await choose(browser, String(headers.location), { decision: 'new' })
    expect(await accountOf(eve.subject)).toMatchObject({ email, emailVerifiedAt: expect.any(Date) })
    expect(await accountOf(squatter.username)).toMatchObject({ email: null })
    expect((await actionsOf(squatter.username)).at(-1)).toEqual({
      action: 'email-changed',
      details: { from: email.toUpperCase(), to: null, from_was_verified: false },
    })
  })

  it('belongs to one of the people who race for it', async () => {
    const email = `${aName('eve')}@acme.example`
    const squatter = await anAccount(t.db, { email })
    await setDisabled(t.db, operator, squatter.id, true)
    const people = [1, 2, 3, 4].map(() => aPerson(acme, { email }))
    const ends = await Promise.all(people.map(({ subject }) => new Walker(t).signIn(acme, subject)))
    expect(ends.map(({ statusCode }) => statusCode)).toEqual(people.map(() => 303))
    const owner = (await storedAccount(t.db, { email })) ?? expect.fail()
    expect(owner.emailVerifiedAt).toBeInstanceOf(Date)
    expect(people.map(({ subject }) => subject)).toContain(owner.username)
  })
})

describe('a disabled account with an email that it never verified', () => {
  it('does not keep the owner of the email out', async () => {
    const email = `${aName('eve')}@acme.example`
    const other = await anAccount(t.db, { email })
    await setDisabled(t.db, operator, other.id, true)
    const eve = aPerson(acme, { email })
    const browser = new Walker(t)
    expect((await browser.signIn(acme, eve.subject)).headers.location).toBe('/')
    expect(await usernameOf(browser)).toBe(eve.subject)
    expect(await accountOf(eve.subject)).toMatchObject({ email })
    const ann = await anAccount(t.db)
    const { subject } = aPerson(acme, { email, preferred_username: ann.username })
    const end = await new Walker(t).signIn(acme, subject)
    expect(end.headers.location).toMatch(/^\/login\/oidc\/acme\/account/)
  })
})

describe('the allowed domains of a provider', () => {
  it.each([
    ['lets in a verified email of one of them', { email: 'in@ACME.example' }, 303],
    ['refuses another domain', { email: 'out@elsewhere.example' }, 403],
    ['refuses a domain that only ends alike', { email: 'out@notacme.example' }, 403],
    ['refuses an email that is not verified', { email: 'in@other.example', email_verified: false }, 403],
    ['refuses a person without email', { email: undefined, email_verified: undefined }, 403],
  ])('%s', async (_what, claims, status) => {
    const { subject } = aPerson(strict, claims)
    const browser = new Walker(t)
    expect((await browser.signIn(strict, subject)).statusCode).toBe(status)
    expect(await usernameOf(browser)).toBe(status === 303 ? subject : null)
  })

  it('are checked at every sign-in', async () => {
    const { subject } = aPerson(strict)
    await new Walker(t).signIn(strict, subject)
    strict.people.set(subject, { email: 'gone@elsewhere.example', email_verified: true })
    expect((await new Walker(t).signIn(strict, subject)).statusCode).toBe(403)
  })
})

/** Sends the form of the page that asks who owns the account. */
async function choose(browser: Walker, url: string, fields: Record<string, string>) {
  const question = await browser.open(url)
  const proof = new URL(url, baseUrl).searchParams.get('proof') ?? ''
  return browser.post(url.split('?', 1)[0] ?? '', { csrf_token: csrfTokenIn(question), proof, ...fields })
}

describe('a person with the email or name of an account', () => {
  it('is never signed in to it without its password', async () => {
    const email = `${aName('ann')}@acme.example`
    const ann = await anAccount(t.db, { email })
    for (const claims of [{ email: email.toUpperCase() }, { preferred_username: ann.username }]) {
      const browser = new Walker(t)
      const end = await browser.signIn(acme, aPerson(acme, claims).subject)
      expect(end.headers.location).toMatch(/^\/login\/oidc\/acme\/account\?proof=/)
      const question = await browser.open(String(end.headers.location))
      expect(question.body).toContain(`<strong>${ann.username}</strong>`)
      const wrong = await choose(browser, String(end.headers.location), {
        decision: 'link',
        password: 'wrong password',
      })
      expect([wrong.statusCode, problemOf(wrong)]).toEqual([403, 'This is not the password of that account.'])
      expect(await usernameOf(browser)).toBeNull()
    }
  })

  it('links it with its password, and does not change its profile', async () => {
    const ann = await anAccount(t.db)
    const id = (await signPage(t.db, '/settings/tokens')) ?? ''
    const eve = aPerson(acme, { preferred_username: ann.username })
    const browser = new Walker(t)
    const { headers } = await browser.signIn(acme, eve.subject, id)
    const linked = await choose(browser, String(headers.location), { decision: 'link', password })
    expect([linked.statusCode, linked.headers.location]).toEqual([303, '/settings/tokens'])
    expect(await usernameOf(browser)).toBe(ann.username)
    expect(await accountOf(ann.username)).toMatchObject({ email: null, displayName: '' })
    const again = new Walker(t)
    await again.signIn(acme, eve.subject)
    expect(await usernameOf(again)).toBe(ann.username)
    const events = await actionsOf(ann.username)
    expect(events.map(({ action }) => action)).toContain('identity-linked')
  })

  it.each<[string, (tx: Queryable, id: string) => Promise<void>]>([
    [
      'its password is changed',
      (tx, id) => setPasswordHash(tx, operator, id, 'the hash of another password'),
    ],
    ['it is disabled', (tx, id) => setDisabled(tx, operator, id, true)],
  ])('does not link it when %s while the password is checked', async (_what, change) => {
    const ann = await anAccount(t.db)
    const eve = aPerson(acme, { preferred_username: ann.username })
    const browser = new Walker(t)
    const { headers } = await browser.signIn(acme, eve.subject)
    const url = String(headers.location)
    const csrf_token = csrfTokenIn(await browser.open(url))
    const proof = new URL(url, baseUrl).searchParams.get('proof') ?? ''
    const changing = await openTransaction(t.db)
    await change(changing.tx, ann.id)
    const fields = { csrf_token, proof, decision: 'link', password }
    const linking = browser.post('/login/oidc/acme/account', fields)
    let isLinking = true
    void linking.finally(() => {
      isLinking = false
    })
    await expect.poll(async () => (await countWaiting(t.db)) === 1 || !isLinking).toBe(true)
    await changing.commit()
    expect((await linking).statusCode).toBe(409)
    expect(await countRows(t.db, 'account_identity', { accountId: ann.id })).toBe(0)
    expect(await usernameOf(browser)).toBeNull()
  })

  it('may make a new account instead, without the email that the other account has verified', async () => {
    const email = `${aName('ann')}@acme.example`
    const ann = await anAccount(t.db, { email })
    await verifyEmail(t.db, ann)
    const { subject } = aPerson(acme, { email, preferred_username: ann.username })
    const browser = new Walker(t)
    const { headers } = await browser.signIn(acme, subject)
    const made = await choose(browser, String(headers.location), { decision: 'new' })
    expect(made.statusCode).toBe(303)
    expect(await usernameOf(browser)).toBe(`${ann.username}-2`)
    expect(await accountOf(`${ann.username}-2`)).toMatchObject({ email: null })
    expect(await accountOf(ann.username)).toMatchObject({ email })
  })

  it('is not found by an email that the provider has not verified', async () => {
    const email = `${aName('ann')}@acme.example`
    const ann = await anAccount(t.db, { email })
    const { subject } = aPerson(acme, { email, email_verified: false })
    const browser = new Walker(t)
    expect((await browser.signIn(acme, subject)).headers.location).toBe('/')
    expect(await usernameOf(browser)).toBe(subject)
    expect(await accountOf(ann.username)).toMatchObject({ email })
  })

  it('cannot use the question twice, nor in another browser', async () => {
    const ann = await anAccount(t.db)
    const browser = new Walker(t)
    const { headers } = await browser.signIn(
      acme,
      aPerson(acme, { preferred_username: ann.username }).subject,
    )
    const url = String(headers.location)
    expect((await new Walker(t).open(url)).statusCode).toBe(410)
    const question = await browser.open(url)
    const fields = {
      csrf_token: csrfTokenIn(question),
      proof: new URL(url, baseUrl).searchParams.get('proof') ?? '',
      decision: 'new',
    }
    const both = await Promise.all([
      browser.post('/login/oidc/acme/account', fields),
      browser.post('/login/oidc/acme/account', fields),
    ])
    expect(both.map(({ statusCode }) => String(statusCode)).toSorted()).toEqual(['303', '410'])
  })
})

describe('linking on the account page', () => {
  it('lists, links and unlinks', async () => {
    const ann = await anAccount(t.db)
    const browser = new Walker(t, await signIn(t.app, ann))
    expect((await browser.open('/settings/account')).body).toContain('/login/oidc/acme/link')
    const question = await browser.open('/login/oidc/acme/link')
    expect(question.headers['content-security-policy']).not.toContain('form-action')
    const start = await browser.post('/login/oidc/acme/link', { csrf_token: csrfTokenIn(question) })
    const eve = aPerson()
    const end = await browser.open(await browser.signInThere(start, eve.subject))
    expect([end.statusCode, end.headers.location]).toEqual([303, '/settings/account'])
    const page = await browser.open('/settings/account')
    expect(page.body).toContain('Your account is linked with Acme &amp; Co.')
    expect(page.body).toContain(eve.email)
    const fields = { csrf_token: csrfTokenIn(page), issuer: acme.issuer }
    expect((await browser.post('/settings/account/identities/unlink', fields)).statusCode).toBe(303)
    expect((await browser.open('/settings/account')).body).toContain('/login/oidc/acme/link')
    const events = (await actionsOf(ann.username)).map(({ action }) => action)
    expect(events.slice(-2)).toEqual(['identity-linked', 'identity-unlinked'])
  })

  it('cannot be started by another site', async () => {
    const browser = new Walker(t, await signIn(t.app, await anAccount(t.db)))
    expect((await browser.post('/login/oidc/acme/link', {})).statusCode).toBe(403)
  })

  it('refuses a person who is linked with another account', async () => {
    const eve = aPerson()
    await new Walker(t).signIn(acme, eve.subject)
    const ann = await anAccount(t.db)
    const browser = new Walker(t, await signIn(t.app, ann))
    const question = await browser.open('/login/oidc/acme/link')
    const start = await browser.post('/login/oidc/acme/link', { csrf_token: csrfTokenIn(question) })
    const end = await browser.open(await browser.signInThere(start, eve.subject))
    expect([end.statusCode, end.body]).toEqual([409, expect.stringContaining('linked with another account')])
    expect(await usernameOf(browser)).toBe(ann.username)
  })

  it('links nothing when the browser has signed in to another account in the meantime', async () => {
    const browser = new Walker(t, await signIn(t.app, await anAccount(t.db)))
    const question = await browser.open('/login/oidc/acme/link')
    const start = await browser.post('/login/oidc/acme/link', { csrf_token: csrfTokenIn(question) })
    const callback = await browser.signInThere(start, aPerson().subject)
    await browser.post('/logout', { csrf_token: csrfTokenIn(question) })
    expect((await browser.open(callback)).statusCode).toBe(403)
  })

  it('keeps the only way to sign in, also when two are unlinked at once', async () => {
    const eve = aPerson()
    const browser = new Walker(t)
    await browser.signIn(acme, eve.subject)
    const page = await browser.open('/settings/account')
    const unlink = (issuer: string) =>
      browser.post('/settings/account/identities/unlink', { csrf_token: csrfTokenIn(page), issuer })
    const refused = await unlink(acme.issuer)
    expect([refused.statusCode, refused.body]).toEqual([409, expect.stringContaining('only way to sign in')])
    const question = await browser.open('/login/oidc/strict/link')
    const start = await browser.post('/login/oidc/strict/link', { csrf_token: csrfTokenIn(question) })
    await browser.open(await browser.signInThere(start, aPerson(strict).subject))
    const both = await Promise.all([unlink(acme.issuer), unlink(strict.issuer)])
    expect(both.map(({ statusCode }) => String(statusCode)).toSorted()).toEqual(['303', '409'])
  })
})

describe('SIGN_UP=invited', () => {
  it('makes no accounts for strangers at a provider without allowed domains', async () => {
    const eve = aPerson()
    const browser = new Walker(invited)
    const refused = await browser.signIn(acme, eve.subject)
    expect([refused.statusCode, problemOf(refused)]).toEqual([
      403,
      'You have no account here, and your sign-in cannot create one. Ask an administrator for one.',
    ])
    // Nor after the question whether an account with the same name is theirs.
    const ann = await anAccount(invited.db, { username: aName('ann') })
    const other = aPerson(acme, { preferred_username: ann.username })
    const theirs = new Walker(invited)
    const asked = await theirs.signIn(acme, other.subject)
    const question = await theirs.open(String(asked.headers.location))
    expect(question.body).not.toContain('value="new"')
    const [, proof = ''] = /name="proof" value="([^"]+)"/.exec(question.body) ?? []
    const fields = { csrf_token: csrfTokenIn(question), proof, decision: 'new', password: '' }
    expect((await theirs.post('/login/oidc/acme/account', fields)).statusCode).toBe(403)
    expect(await listUsernames(invited.db)).toEqual([ann.username])
    // An account that exists can be linked, and then signs in.
    const linked = await theirs.post('/login/oidc/acme/account', { ...fields, decision: 'link', password })
    expect(linked.statusCode).toBe(303)
    const again = new Walker(invited)
    await again.signIn(acme, other.subject)
    expect(await usernameOf(again)).toBe(ann.username)
  })

  it('makes accounts for people of the allowed domains of a provider', async () => {
    const eve = aPerson(strict)
    const browser = new Walker(invited)
    expect((await browser.signIn(strict, eve.subject)).statusCode).toBe(303)
    expect(await usernameOf(browser)).toBe(eve.subject)
  })
})

describe('the only provider of a person with a passkey', () => {
  it('can be unlinked where passkeys sign in, and stays linked where they do not', async () => {
    const eve = aPerson()
    await new Walker(t).signIn(acme, eve.subject)
    const account = (await accountOf(eve.subject)) ?? expect.fail()
    await aStoredPasskey(t.db, account, { name: 'key', canSignIn: true })
    const unlink = (baseUrl: string, passwordSignIn: 'on' | 'admins' | 'off' = 'on') =>
      unlinkAccount(t.db, operator, account, acme.issuer, { ...t.config, baseUrl, passwordSignIn })
    expect(await unlink('http://svc.test')).toBe('only-way')
    expect(await unlink('https://svc.test', 'admins')).toBe('only-way')
    expect(await unlink('https://svc.test', 'off')).toBe('only-way')
    expect(await unlink('https://svc.test')).toBe('unlinked')
  })
})

describe('a person without a password', () => {
  /** A session of a new account whose last proof of identity is an hour old. */
  async function anOldSession() {
    const eve = aPerson()
    const browser = new Walker(t)
    await browser.signIn(acme, eve.subject)
    await setProofAge(t.db, (await accountOf(eve.subject)) ?? expect.fail(), '1 hour')
    return { eve, browser }
  }

  /** Presses the button of the page that asks for a proof. */
  async function startConfirmation(browser: Walker, shown?: Awaited<ReturnType<Walker['open']>>) {
    const question = shown ?? (await browser.open('/settings/confirm-access'))
    expect(question.body).toContain('<form method="post" action="/login/oidc/acme/confirm">')
    const [, returnId = ''] = /name="return" value="([^"]*)"/.exec(question.body) ?? []
    const fields = { csrf_token: csrfTokenIn(question), return: returnId }
    return browser.post('/login/oidc/acme/confirm', fields)
  }

  it('has not confirmed anything by a sign-in with a provider that only remembers them', async () => {
    const eve = aPerson()
    const browser = new Walker(t)
    const enter = async (secondsAgo: number) => {
      const start = await browser.open('/login/oidc/acme')
      await browser.open(await browser.signInThere(start, eve.subject, secondsAgo))
      expect(await usernameOf(browser)).toBe(eve.subject)
    }
    const isConfirmed = async () => (await browser.open('/login/oidc/strict/link')).statusCode === 200
    // They signed in at the provider an hour ago, for another site. Signing out here changes nothing.
    for (const _time of [1, 2]) {
      await enter(3600)
      expect(await isConfirmed()).toBe(false)
      const csrf_token = csrfTokenIn(await browser.open('/settings/account'))
      await browser.post('/logout', { csrf_token })
      expect(await usernameOf(browser)).toBeNull()
    }
    await enter(3600)
    const asked = await browser.open('/login/oidc/strict/link')
    const start = await startConfirmation(browser, await browser.open(String(asked.headers.location)))
    const end = await browser.open(await browser.signInThere(start, eve.subject))
    expect(end.headers.location).toBe('/login/oidc/strict/link')
    expect(await isConfirmed()).toBe(true)
  })

  it('needs no further confirmation in the minutes after they typed their password at the provider', async () => {
    const browser = new Walker(t)
    await browser.signIn(acme, aPerson().subject)
    expect((await browser.open('/login/oidc/strict/link')).statusCode).toBe(200)
  })

  it('begins such a confirmation with a form of this site only', async () => {
    const { browser } = await anOldSession()
    expect((await browser.open('/login/oidc/acme/confirm')).statusCode).toBe(405)
    expect((await browser.post('/login/oidc/acme/confirm', { return: '' })).statusCode).toBe(403)
    expect(await countRows(t.db, 'provider_sign_in', { isConfirmation: true })).toBe(0)
  })

  it('confirms a sensitive act by signing in at the provider again', async () => {
    const { eve, browser } = await anOldSession()
    const asked = await browser.open('/login/oidc/strict/link')
    expect(asked.headers.location).toMatch(/^\/settings\/confirm-access/)
    const question = await browser.open(String(asked.headers.location))
    expect(question.body).not.toContain('name="current_password"')
    const start = await startConfirmation(browser, question)
    const { searchParams } = new URL(String(start.headers.location))
    expect([searchParams.get('prompt'), searchParams.get('max_age')]).toEqual(['login', '0'])
    const end = await browser.open(await browser.signInThere(start, eve.subject))
    expect([end.statusCode, end.headers.location]).toEqual([303, '/login/oidc/strict/link'])
    expect((await browser.open('/login/oidc/strict/link')).statusCode).toBe(200)
  })

  it('confirms it too, before a second factor that a group requires is set up', async () => {
    const { eve, browser } = await anOldSession()
    const strictGroup = await aGroup(t.db, aName('strict'))
    await requireSecondFactor(t.db, strictGroup)
    await aGroupMember(t.db, (await accountOf(eve.subject)) ?? expect.fail(), strictGroup, 'developer')
    const csrf_token = csrfTokenIn(await browser.open('/settings/second-factor'))
    const setUp = () => browser.post('/settings/second-factor/totp', { csrf_token })
    const question = await browser.open(String((await setUp()).headers.location))
    const start = await startConfirmation(browser, question)
    const end = await browser.open(await browser.signInThere(start, eve.subject))
    const goOn = continuedUrlIn(await browser.open(String(end.headers.location)))
    expect(goOn).toMatch(/^\/settings\/second-factor\/totp\?resume=/)
    const resumed = await browser.post(goOn, { csrf_token })
    expect(resumed.headers.location).toBe('/settings/second-factor/totp')
  })

  it('is not confirmed by another person of the provider', async () => {
    const { browser } = await anOldSession()
    const start = await startConfirmation(browser)
    const elsewhere = new Walker(t)
    const end = await browser.open(await elsewhere.signInThere(start, aPerson().subject))
    expect(end.statusCode).toBe(403)
    expect((await browser.open('/login/oidc/strict/link')).statusCode).toBe(303)
  })

  it('changes the username and deletes the account after such a confirmation', async () => {
    const { eve, browser } = await anOldSession()
    const page = await browser.open('/settings/account')
    expect(page.body).not.toContain('current_password')
    const csrf_token = csrfTokenIn(page)
    const username = aName('new')
    const change = () => browser.post('/settings/account/sign-in', { csrf_token, username, email: '' })
    expect((await change()).headers.location).toMatch(/^\/settings\/confirm-access/)
    const start = await startConfirmation(browser)
    await browser.open(await browser.signInThere(start, eve.subject))
    expect((await change()).headers.location).toBe('/settings/account')
    const deleted = await browser.post('/settings/account/delete', { csrf_token, username })
    expect(deleted.headers.location).toBe('/')
    expect(await accountOf(username)).toBeUndefined()
  })
})

describe('a link with an account that has a second factor', () => {
  /** Somebody who has chosen to link their account, and given its password. */
  async function aLinker() {
    const ann = await aPersonWithTotp(t)
    const eve = aPerson(acme, { preferred_username: ann.username })
    const browser = new Walker(t)
    const returnId = (await signPage(t.db, '/settings/tokens')) ?? ''
    const { headers } = await browser.signIn(acme, eve.subject, returnId)
    // The second step renews the proof, so that a long thought about the password spends no recovery code in vain.
    await shortenProofs(t.db, '1 minute')
    const asked = await choose(browser, String(headers.location), { decision: 'link', password })
    expect([asked.statusCode, asked.headers.location]).toEqual([
      303,
      expect.stringMatching(/^\/login\/second-factor/),
    ])
    expect(await usernameOf(browser)).toBeNull()
    expect(String(asked.headers['set-cookie'])).toContain('svc_provider=')
    expect(await minutesOfProof(t.db, eve.subject)).toBeGreaterThan(9)
    const step = await browser.open(String(asked.headers.location))
    const fields = { csrf_token: csrfTokenIn(step), return: returnId }
    const send = (typed: Record<string, string>) =>
      browser.post('/login/second-factor', { ...fields, ...typed })
    return { ann, eve, browser, step, send }
  }
  const identitiesOf = ({ id }: { id: string }) => countRows(t.db, 'account_identity', { accountId: id })

  it('asks for the second factor after the password, and links then', async () => {
    const { ann, eve, browser, step, send } = await aLinker()
    expect(step.body).toContain('This also links the account')
    expect((await send({ code: '000000' })).statusCode).toBe(403)
    expect(await identitiesOf(ann)).toBe(0)
    const linked = await send({ code: codeOf(ann.secret) })
    expect([linked.statusCode, linked.headers.location]).toEqual([303, '/settings/tokens'])
    expect(await usernameOf(browser)).toBe(ann.username)
    expect((await actionsOf(ann.username)).at(-1)).toEqual({
      action: 'sign-in',
      details: expect.objectContaining({ method: 'provider', provider: 'acme', second_factor: 'totp' }),
    })
    const again = new Walker(t)
    await again.signIn(acme, eve.subject)
    expect(await usernameOf(again)).toBe(ann.username)
  })

  it('links once of racing requests, also with a recovery code', async () => {
    const { ann, browser, send } = await aLinker()
    const codes = ann.recoveryCodes.slice(0, 3)
    const sent = await Promise.all(codes.map((code) => send({ recovery_code: code })))
    expect(sent.filter(({ headers }) => headers.location === '/settings/tokens')).toHaveLength(1)
    expect(await identitiesOf(ann)).toBe(1)
    expect(await usernameOf(browser)).toBe(ann.username)
  })

  it.each<[string, (id: string) => Promise<unknown>, number]>([
    ['the proof of the provider has expired', () => expire(t.db, 'proven_identity'), 410],
    ['the password was changed', (id) => setPasswordHash(t.db, operator, id, 'another hash'), 303],
  ])('signs nobody in when %s', async (_when, change, status) => {
    const { ann, browser, send } = await aLinker()
    await change(ann.id)
    expect((await send({ code: codeOf(ann.secret) })).statusCode).toBe(status)
    expect(await identitiesOf(ann)).toBe(0)
    expect(await usernameOf(browser)).toBeNull()
  })
})
