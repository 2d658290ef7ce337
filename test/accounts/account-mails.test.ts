import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { disableAccount, resetPassword } from '../../src/accounts/account-lifecycle.ts'
import { changeAccount, findCredentials } from '../../src/accounts/accounts.ts'
import { makeVerificationToken, spendVerificationToken } from '../../src/accounts/email-verifications.ts'
import { passwordResetMail } from '../../src/accounts/password-reset-mail.ts'
import { makeResetToken } from '../../src/accounts/password-resets.ts'
import { insertAccountOfPerson } from '../../src/accounts/single-sign-on/identities.ts'
import { noteExpiringTokensJob } from '../../src/accounts/token-expiry-notices.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { sweepEvents } from '../../src/events/sweep-events.ts'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { openLog } from '../../src/web/server/log.ts'
import { forgetFailures, setFailures, storedAccount, verifyEmail } from '../support/account-rows.ts'
import {
  aName,
  anAccount,
  aPersonalToken,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { open } from '../support/browse.ts'
import { holdHour, noteIdentityEvent } from '../support/event-rows.ts'
import { Walker } from '../support/identity-provider.ts'
import { listStoredJobs, makeJobsDue } from '../support/job-rows.ts'
import { openTransaction, untilWaiting } from '../support/locks.ts'
import { type ReceivedMail, sendMails, useMailServer } from '../support/mail-server.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { countRows, dropRows, expire, textOf } from '../support/rows.ts'
import { moveTokenInTime } from '../support/token-rows.ts'

const server = await useMailServer()
const t = useApp({ ...server.environment, BASE_URL: 'https://svc.example.com' })
const withoutMail = useApp()
const chosen = 'a new and longer password'

beforeAll(() => holdHour(t.db))
beforeEach(async () => {
  await sendMails(t)
  server.received.length = 0
  server.refuseRecipients(null)
  await forgetFailures(t.db)
})

/** An account whose email is verified. */
async function aVerifiedAccount() {
  const email = `${aName('ann')}@example.com`
  const account = await anAccount(t.db, { email, displayName: 'Ann, "Lee"' })
  await verifyEmail(t.db, account)
  await sendMails(t)
  server.received.length = 0
  return { ...account, email }
}

/** Sends all due mails, and returns those to an address. */
async function mailsTo(address: string): Promise<ReceivedMail[]> {
  await sendMails(t)
  return server.received.filter(({ recipients }) => recipients.includes(address))
}

const subjectsTo = async (address: string) =>
  (await mailsTo(address)).map(({ headers }) => headers.get('subject')?.[0])

async function formOf(url: string, cookie = '') {
  const page = await open(t, url, cookie)
  return { cookie: [cookie, cookiesOf(page)].filter(Boolean).join('; '), csrf_token: csrfTokenIn(page), page }
}

describe('the verification mail of an email address', () => {
  const isVerified = async (id: string) =>
    (await storedAccount(t.db, { id }))?.emailVerifiedAt instanceof Date

  async function verify(token: string, cookie: string) {
    const form = await formOf(cookie === '' ? '/login' : '/settings/account', cookie)
    return post(t.app, '/settings/email-verification', form.cookie, { csrf_token: form.csrf_token, token })
  }

  /** Enters an email for the signed-in account, and returns the response. */
  async function enter({ username }: { username: string }, cookie: string, email: string) {
    const { csrf_token } = await formOf('/settings/account', cookie)
    const fields = { csrf_token, username, email, current_password: password }
    return post(t.app, '/settings/account/sign-in', cookie, fields)
  }

  it('verifies the email when the button of the linked page is pressed, and works once', async () => {
    const email = `${aName('new')}@example.com`
    const { id, username } = await anAccount(t.db)
    const cookie = await signIn(t.app, { username })
    expect((await enter({ username }, cookie, email)).statusCode).toBe(303)
    const [mail] = await mailsTo(email)
    expect(mail?.headers.get('subject')?.[0]).toBe('Verify your email address for svc.example.com')
    expect(mail?.link).toBe(`https://svc.example.com/settings/email-verification?token=${mail?.token}`)
    expect(mail?.html).toContain(`href="${mail?.link}"`)
    const token = mail?.token ?? ''
    const page = await open(t, `/settings/email-verification?token=${token}`, cookie)
    expect([page.statusCode, page.body.includes(email)]).toEqual([200, true])
    expect(await isVerified(id)).toBe(false)
    const racing = await Promise.all(Array.from({ length: 5 }, () => verify(token, cookie)))
    expect(racing.filter(({ statusCode }) => statusCode === 303)).toHaveLength(1)
    expect(racing.filter(({ statusCode }) => statusCode === 410)).toHaveLength(4)
    expect(await isVerified(id)).toBe(true)
    expect(t.log()).not.toContain(token)
    expect(await textOf(t.db, 'job')).not.toContain(token)
  })

  it.each<[string, (id: string) => Promise<unknown>]>([
    ['after 3 days', () => expire(t.db, 'email_verification')],
    [
      'after another change',
      (id) => changeAccount(t.db, operator, id, { email: `${aName('other')}@example.com` }),
    ],
    ['of a disabled account', (id) => disableAccount(t.db, operator, id)],
  ])('does not work with a link %s', async (when, change) => {
    const email = `${aName('ann')}@example.com`
    const account = await anAccount(t.db, { email })
    const cookie = await signIn(t.app, account)
    const [mail] = await mailsTo(email)
    await change(account.id)
    expect((await open(t, `/settings/email-verification?token=${mail?.token}`)).statusCode).toBe(410)
    // The session of a disabled account has ended.
    const other = await signIn(t.app, await anAccount(t.db))
    for (const one of when === 'of a disabled account' ? [other] : [other, cookie])
      expect((await verify(mail?.token ?? '', one)).statusCode).toBe(410)
    expect(await isVerified(account.id)).toBe(false)
  })

  it('verifies nothing without a session of the account, which the person opens first', async () => {
    const email = `${aName('ann')}@example.com`
    const account = await anAccount(t.db, { email })
    const [mail] = await mailsTo(email)
    const token = mail?.token ?? ''
    const url = `/settings/email-verification?token=${token}`

    // Somebody who has the mailbox, but not the account.
    expect((await verify(token, '')).headers.location).toMatch(/^\/login\?return=/)
    const stranger = await signIn(t.app, await anAccount(t.db))
    for (const refused of [await open(t, url, stranger), await verify(token, stranger)]) {
      expect(refused.statusCode).toBe(403)
      expect(refused.body).toContain(
        `This link verifies the email address of the account ${account.username}.`,
      )
    }
    const other = await anAccount(t.db)
    expect(await spendVerificationToken(t.db, operator, other.id, token)).toBe('expired')
    expect(await isVerified(account.id)).toBe(false)

    const walker = new Walker(t)
    const led = await walker.open(String((await walker.open(url)).headers.location))
    const form = { csrf_token: csrfTokenIn(led), username: account.username, password }
    const [, returnId = ''] = /name="return" value="([^"]*)"/.exec(led.body) ?? []
    const signedIn = await walker.post('/login', { ...form, return: returnId })
    expect(signedIn.headers.location).toBe('/settings/email-verification')
    const page = await walker.open('/settings/email-verification')
    expect(page.body).toContain(email)
    const sent = await walker.post('/settings/email-verification', { csrf_token: csrfTokenIn(page), token })
    expect(sent.headers.location).toBe('/settings/account')
    expect(await isVerified(account.id)).toBe(true)
    expect(t.log()).not.toContain(token)
  })

  it('lets the owner enter and verify an email that another account entered without verifying it', async () => {
    const email = `${aName('victim')}@example.com`
    const stranger = await anAccount(t.db, { email })
    const owner = await anAccount(t.db)
    const [strangers] = await mailsTo(email)
    server.received.length = 0
    const cookie = await signIn(t.app, owner)
    const spelled = email.replace('victim', 'Victim')
    expect((await enter(owner, cookie, spelled)).statusCode).toBe(303)
    // Nobody else loses the email before it is verified: the first account with it still signs in by it.
    expect((await findCredentials(t.db, email))?.accountId).toBe(stranger.id)
    const [mail] = await mailsTo(spelled)
    expect((await verify(mail?.token ?? '', cookie)).headers.location).toBe('/settings/account')
    expect((await findCredentials(t.db, email))?.accountId).toBe(owner.id)
    const others = await signIn(t.app, stranger)
    expect((await verify(strangers?.token ?? '', others)).statusCode).toBe(410)
    expect(await storedAccount(t.db, stranger)).toMatchObject({ email: null })
    const refused = await enter(stranger, others, email)
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain('This email belongs to another account.')
  })

  it('verifies an email for one of two accounts that verify it at the same time', async () => {
    for (let n = 0; n < 5; n++) {
      const email = `${aName('both')}@example.com`
      const both = [await anAccount(t.db, { email }), await anAccount(t.db, { email })]
      const made = await Promise.all(both.map(({ id }) => makeVerificationToken(t.db, id)))
      const outcomes = await Promise.all(
        both.map(({ id }, at) => spendVerificationToken(t.db, operator, id, made[at]?.token ?? '')),
      )
      expect(outcomes.toSorted()).toEqual(['expired', 'verified'])
    }
  })

  it('can be requested again, at most 10 times an hour, and the newest link works', async () => {
    const email = `${aName('ann')}@example.com`
    const account = await anAccount(t.db, { email })
    const cookie = await signIn(t.app, account)
    const { csrf_token, page } = await formOf('/settings/account', cookie)
    expect(page.body).toContain('action="/settings/account/verification"')
    const again = () => post(t.app, '/settings/account/verification', cookie, { csrf_token })
    expect((await again()).statusCode).toBe(303)
    const mails = await mailsTo(email)
    expect(mails).toHaveLength(2)
    const opened = await Promise.all(
      mails.map(({ token }) => open(t, `/settings/email-verification?token=${token}`, cookie)),
    )
    expect(opened.map(({ statusCode }) => statusCode)).toEqual([410, 200])
    await setFailures(t.db, 10)
    expect((await again()).statusCode).toBe(429)
  })

  it('cannot be requested without a mail server', async () => {
    const account = await anAccount(withoutMail.db, { email: 'ann@example.com' })
    const cookie = await signIn(withoutMail.app, account)
    const page = await open(withoutMail, '/settings/account', cookie)
    expect(page.body).not.toContain('/settings/account/verification')
    await sendMails(withoutMail)
    expect(await listStoredJobs(withoutMail.db, 'send-mail')).toEqual([])
  })
})

describe('a password reset by mail', () => {
  async function request(login: string) {
    const { cookie, csrf_token } = await formOf('/password-reset')
    return post(t.app, '/password-reset/request', cookie, { csrf_token, login })
  }

  it('is requested with username or email; the link works once', async () => {
    const { id, username, email } = await aVerifiedAccount()
    const cookie = await signIn(t.app, { username })
    expect((await request(username)).statusCode).toBe(200)
    const [first] = (await mailsTo(email)).filter(({ link }) => link.includes('password-reset'))
    expect((await request(` ${email.toUpperCase()} `)).statusCode).toBe(200)
    const [, mail] = (await mailsTo(email)).filter(({ link }) => link.includes('password-reset'))
    expect((await open(t, `/password-reset?token=${first?.token}`)).statusCode).toBe(410)
    const { csrf_token, cookie: visit } = await formOf('/login')
    const token = mail?.token ?? ''
    const fields = { csrf_token, token, new_password: chosen, repeated_password: chosen }
    expect((await post(t.app, '/password-reset', visit, fields)).statusCode).toBe(200)
    expect((await post(t.app, '/password-reset', visit, fields)).statusCode).toBe(410)
    expect((await open(t, '/settings/account', cookie)).statusCode).toBe(303)
    const events = await listEvents(t.db, { subjectId: id }, { after: null, limit: 20 })
    const requested = events.filter(({ action }) => action === 'password-reset-requested')
    expect(requested).toMatchObject([{ via: 'browser', ip: '127.0.0.1', details: { attempts: 2 } }])
    expect(await subjectsTo(email)).toContain('Your password was changed (svc.example.com)')
  })

  it('does not work after the email was changed: the link is in the mailbox that the person left', async () => {
    const { id, username, email } = await aVerifiedAccount()
    await request(username)
    const [mail] = (await mailsTo(email)).filter(({ link }) => link.includes('password-reset'))
    const url = `/password-reset?token=${mail?.token}`
    expect((await open(t, url)).statusCode).toBe(200)
    await changeAccount(t.db, operator, id, { displayName: 'Ann', email: email.toUpperCase() })
    await changeAccount(t.db, operator, id, { email: `${aName('new')}@example.com` })
    expect((await open(t, url)).statusCode).toBe(410)
    const { csrf_token, cookie } = await formOf('/login')
    const fields = { csrf_token, token: mail?.token ?? '', new_password: chosen, repeated_password: chosen }
    expect((await post(t.app, '/password-reset', cookie, fields)).statusCode).toBe(410)
    expect(await signIn(t.app, { username })).toContain('svc')
  })

  it.each(['with', 'without'])(
    'is not sent to an email that is changed while the mail is made, %s an earlier link',
    async (earlier) => {
      const { id } = await aVerifiedAccount()
      if (earlier === 'with') await makeResetToken(t.db, operator, id)
      const context = { config: t.config, db: t.db, log: openLog('silent') }
      const change = await openTransaction(t.db)
      await changeAccount(change.tx, operator, id, { email: `${aName('new')}@example.com` })
      await dropRows(change.tx, 'password_reset', { accountId: id })
      const composed = passwordResetMail.compose(context, { accountId: id })
      await untilWaiting(t.db)
      await change.commit()
      expect(await composed).toBeNull()
    },
  )

  it('gets the same response, the same limits and one queued job, whether the account exists or not', async () => {
    const { username } = await aVerifiedAccount()
    const unverified = await anAccount(t.db, { email: `${aName('bob')}@example.com` })
    const disabled = await aVerifiedAccount()
    await disableAccount(t.db, operator, disabled.id)
    await sendMails(t)
    server.received.length = 0
    const seen = []
    for (const login of [username, unverified.username, disabled.username, 'nobody']) {
      const page = await request(login)
      const queued = await countRows(t.db, 'job', { failedAt: null })
      seen.push([page.statusCode, page.body.replace(/name="csrf_token" value="[^"]+"/g, ''), queued])
      await sendMails(t)
    }
    expect(new Set(seen.map((one) => JSON.stringify(one))).size).toBe(1)
    expect(server.received).toHaveLength(1)
    const statuses = async (login: string) => {
      const pages = []
      for (let i = 0; i < 6; i += 1) pages.push((await request(login)).statusCode)
      return pages
    }
    await forgetFailures(t.db)
    const limited = [200, 200, 200, 200, 200, 429]
    expect(await statuses(username)).toEqual(limited)
    expect(await statuses('nobody')).toEqual(limited)
  })

  it('still reaches a person after somebody else requested many mails for them from many networks', async () => {
    const { username, email } = await aVerifiedAccount()
    const cookie = await signIn(t.app, { username })
    const { csrf_token } = await formOf('/password-reset', cookie)
    const from = (remoteAddress: string, cookies: string, token: string) =>
      t.app.inject({
        method: 'POST',
        url: '/password-reset/request',
        remoteAddress,
        headers: { cookie: cookies, 'content-type': 'application/x-www-form-urlencoded' },
        payload: new URLSearchParams({ csrf_token: token, login: username }).toString(),
      })
    const stranger = await formOf('/password-reset')
    const statuses = []
    for (let i = 1; i <= 12; i += 1) {
      statuses.push((await from(`192.0.2.${i}`, stranger.cookie, stranger.csrf_token)).statusCode)
    }
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), 429, 429])
    const refused = await from('192.0.2.13', stranger.cookie, stranger.csrf_token)
    expect(refused.body).toContain('the link in the newest one still works')
    await sendMails(t)
    server.received.length = 0
    // A browser that signed in before, from any network; and another browser in a known network.
    expect((await from('198.51.100.7', cookie, csrf_token)).statusCode).toBe(200)
    expect((await from('127.0.0.1', stranger.cookie, stranger.csrf_token)).statusCode).toBe(200)
    const mails = (await mailsTo(email)).filter(({ link }) => link.includes('password-reset'))
    expect(mails).toHaveLength(2)
    // The reserve has an end too.
    const own = []
    for (let i = 0; i < 5; i += 1) own.push((await from('198.51.100.7', cookie, csrf_token)).statusCode)
    expect(own).toEqual([200, 200, 200, 200, 429])
  })

  it('is not offered without a mail server', async () => {
    const page = await withoutMail.app.inject('/password-reset')
    expect(page.body).toContain('Ask an administrator')
    const fields = { csrf_token: csrfTokenIn(await withoutMail.app.inject('/login')), login: 'ann' }
    const cookie = cookiesOf(await withoutMail.app.inject('/login'))
    expect((await post(withoutMail.app, '/password-reset/request', cookie, fields)).statusCode).not.toBe(200)
  })

  it('refuses an empty or a very long name', async () => {
    expect((await request('  ')).statusCode).toBe(400)
    expect((await request('a'.repeat(255))).statusCode).toBe(400)
  })
})

describe('security notices', () => {
  it('are sent for a sign-in from an unknown browser, and for no other', async () => {
    const account = await aVerifiedAccount()
    const cookie = await signIn(t.app, account)
    const [mail] = await mailsTo(account.email)
    expect(mail?.headers.get('subject')?.[0]).toBe('New sign-in to your account (svc.example.com)')
    expect(mail?.text).toContain('IP: 127.0.0.1')
    expect(mail?.headers.get('to')).toEqual([`"Ann, \\"Lee\\"" <${account.email}>`])
    const { csrf_token, cookie: known } = await formOf(
      '/login',
      cookie.replace(/\b\S*svc_session=[^;]+;? ?/, ''),
    )
    const again = await post(t.app, '/login', known, { csrf_token, username: account.username, password })
    expect(again.statusCode).toBe(303)
    expect(await mailsTo(account.email)).toHaveLength(1)
  })

  it('are sent for a new token and a changed password, and name the actor', async () => {
    const account = await aVerifiedAccount()
    await aPersonalToken(t.db, account, { name: 'Deploy <b>' })
    await resetPassword(t.db, operator, account.id, chosen)
    const [token, changed, ...others] = await mailsTo(account.email)
    expect(token?.headers.get('subject')?.[0]).toBe('A new token was created (svc.example.com)')
    expect(token?.text).toContain('What: Deploy <b>, registry-package:rw')
    expect(token?.html).toContain('Deploy &lt;b&gt;')
    expect(changed?.headers.get('subject')?.[0]).toBe('Your password was changed (svc.example.com)')
    expect(changed?.text).toContain('By: an operator of the server')
    expect(others).toEqual([])
  })

  it('are sent for a changed second factor and linked providers', async () => {
    const account = await aVerifiedAccount()
    const actions = [
      ['second-factor-added', 'A second factor was added'],
      ['second-factor-removed', 'A second factor was removed'],
      ['recovery-codes-created', 'New recovery codes were generated'],
      ['recovery-code-used', 'A recovery code was used'],
      ['identity-linked', 'A sign-in provider was linked'],
      ['identity-unlinked', 'A sign-in provider was unlinked'],
    ]
    for (const [action = ''] of actions) {
      await noteIdentityEvent(t.db, action, account)
    }
    const subjects = actions.map(([, subject]) => `${subject} (svc.example.com)`)
    expect(new Set(await subjectsTo(account.email))).toEqual(new Set(subjects))
  })

  const steps = (mail?: ReceivedMail) => mail?.text.match(/^\d\. .*$/gm)
  const changePassword =
    'Change your password, which ends all other sessions: https://svc.example.com/settings/account/password'
  const tell = 'Tell an administrator.'

  it.each<[string, string, string, object?]>([
    ['sign-in', 'End the sessions that you do not know', '/settings/sessions', { new_browser: true }],
    ['token-created', 'Revoke the token', '/settings/tokens'],
    ['second-factor-added', 'Remove the second factor', '/settings/second-factor'],
    ['second-factor-removed', 'Add a second factor again', '/settings/second-factor'],
    ['recovery-codes-created', 'Generate new recovery codes', '/settings/second-factor#recovery'],
    ['recovery-code-used', 'Generate new recovery codes', '/settings/second-factor#recovery'],
    ['identity-linked', 'Unlink the provider', '/settings/account#identities'],
    ['identity-unlinked', 'Link your own account at the provider again', '/settings/account#identities'],
    ['consent-given', 'Withdraw the authorization', '/settings/authorizations', { scopes: [] }],
  ])(
    'say how somebody undoes %s, which a new password does not',
    async (action, what, path, details = {}) => {
      const { id, username, email } = await aVerifiedAccount()
      await noteIdentityEvent(t.db, action, { id }, details)
      const [mail] = await mailsTo(email)
      const undo = `1. ${what}: https://svc.example.com${path}`
      expect(steps(mail)).toEqual([undo, `2. ${changePassword}`, `3. ${tell}`])
      expect(mail?.html).toContain(undo)
      const page = await open(t, path.replace(/#.*/, ''), await signIn(t.app, { username }))
      expect(page.statusCode).toBe(200)
    },
  )

  it('of a changed password say how to get another one; without a password there is none to change', async () => {
    const { id, email } = await aVerifiedAccount()
    await resetPassword(t.db, operator, id, chosen)
    const reset = 'Set a new password, which ends all sessions: https://svc.example.com/password-reset'
    expect(steps((await mailsTo(email))[0])).toEqual([`1. ${reset}`, `2. ${tell}`])
    server.received.length = 0
    const person = {
      username: aName('sso'),
      displayName: '',
      email: `${aName('sso')}@example.com`,
      isEmailVerified: true,
    }
    const sso = await transaction(t.db, (tx) => insertAccountOfPerson(tx, operator, person), operator)
    for (const action of ['sign-in', 'identity-linked']) {
      await noteIdentityEvent(t.db, action, { id: sso }, { new_browser: true })
    }
    const [signedIn, linked] = await mailsTo(person.email)
    const sessions = 'End the sessions that you do not know: https://svc.example.com/settings/sessions'
    expect(steps(signedIn)).toEqual([`1. ${sessions}`, `2. ${tell}`])
    expect(steps(linked)?.slice(1)).toEqual([`2. ${sessions}`, `3. ${tell}`])
  })

  it('are sent for an application once, and again after a withdrawal or with more scopes', async () => {
    const account = await aVerifiedAccount()
    const application = await anApplication(t.db, { name: 'Build Bot' })
    const consent = async (...scopes: string[]) => {
      const details = { scopes, resource_scope: 'all' }
      await noteIdentityEvent(t.db, 'consent-given', account, details, application)
      return (await mailsTo(account.email)).length
    }
    expect(await consent('account-profile:r')).toBe(1)
    expect(server.received[0]?.text).toContain('What: Build Bot, account-profile:r')
    expect(await consent('account-profile:r')).toBe(1)
    expect(await consent('account-profile:r', 'account-email:r')).toBe(2)
    expect(await consent('account-email:r')).toBe(2)
    await noteIdentityEvent(t.db, 'authorization-withdrawn', account, {}, application)
    expect(await consent('account-email:r')).toBe(3)
    await noteIdentityEvent(t.db, 'grant-ended', account, { kind: 'device' }, application)
    expect(await consent('account-email:r')).toBe(4)
  })

  it('of a changed email go to the previous email, if it was verified', async () => {
    const { id, email } = await aVerifiedAccount()
    const [second, third] = [`${aName('two')}@example.com`, `${aName('three')}@example.com`]
    await changeAccount(t.db, operator, id, { email: second })
    expect(await subjectsTo(email)).toEqual(['Your email address was changed (svc.example.com)'])
    expect(server.received.map(({ text }) => text).join()).toContain(`${email} → ${second}`)
    const [notice] = server.received.filter(({ recipients }) => recipients.includes(email))
    const undo = 'Change the email address back: https://svc.example.com/settings/account/sign-in'
    expect(steps(notice)).toEqual([`1. ${undo}`, `2. ${changePassword}`, `3. ${tell}`])
    await changeAccount(t.db, operator, id, { email: third })
    expect((await mailsTo(email)).length).toBe(1)
    expect(await subjectsTo(second)).toEqual(['Verify your email address for svc.example.com'])
    expect(await subjectsTo(third)).toEqual(['Verify your email address for svc.example.com'])
  })

  it('of a changed email go to a verified previous email without an event of its verification', async () => {
    const person = {
      username: aName('sso'),
      displayName: '',
      email: `${aName('sso')}@example.com`,
      isEmailVerified: true,
    }
    const sso = await transaction(t.db, (tx) => insertAccountOfPerson(tx, operator, person), operator)
    const { id, email } = await aVerifiedAccount()
    await sweepEvents(t.db, { retentionDays: 0, ipDays: 1 }, 10_000)
    for (const account of [sso, id])
      await changeAccount(t.db, operator, account, { email: `${aName('x')}@example.com` })
    const notice = 'Your email address was changed (svc.example.com)'
    expect(await subjectsTo(person.email)).toEqual([notice])
    expect(await subjectsTo(email)).toEqual([notice])
  })

  it('of an email that an earlier release changed go to it if an event shows its verification', async () => {
    const verified = await aVerifiedAccount()
    const address = `${aName('ann')}@example.com`
    const unverified = { ...(await anAccount(t.db, { email: address })), email: address }
    for (const { id, email } of [verified, unverified]) {
      await noteIdentityEvent(t.db, 'email-changed', { id }, { from: email, to: 'new@example.com' })
    }
    const notice = 'Your email address was changed (svc.example.com)'
    expect(await subjectsTo(verified.email)).toEqual([notice])
    expect(await subjectsTo(address)).not.toContain(notice)
  })

  it('go to verified addresses only, and are not sent without an event', async () => {
    const email = `${aName('ann')}@example.com`
    const account = await anAccount(t.db, { email })
    await signIn(t.app, account)
    await aPersonalToken(t.db, account)
    expect(await subjectsTo(email)).toEqual(['Verify your email address for svc.example.com'])
    const verified = await aVerifiedAccount()
    const failing = transaction(t.db, async (tx) => {
      await aPersonalToken(tx, verified)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await mailsTo(verified.email)).toEqual([])
  })

  it('wait for the mail server, while everything else continues', async () => {
    const account = await aVerifiedAccount()
    await server.stop()
    await aPersonalToken(t.db, account)
    await sendMails(t)
    await signIn(t.app, account)
    await server.start()
    await makeJobsDue(t.db)
    expect(new Set(await subjectsTo(account.email))).toEqual(
      new Set(['A new token was created (svc.example.com)', 'New sign-in to your account (svc.example.com)']),
    )
  })
})

describe('the notice of a token that expires', () => {
  it('is sent a week before, and once more a day before', async () => {
    const { email, ...account } = await aVerifiedAccount()
    await aPersonalToken(t.db, account, { name: 'soon', expiry: { inDays: 30 } })
    await aPersonalToken(t.db, account, { name: 'later', expiry: { inDays: 30 } })
    await aPersonalToken(t.db, account, { name: 'short', expiry: { inDays: 5 } })
    await moveTokenInTime(t.db, 'soon', { createdDaysAgo: 24, expiresInDays: 6 })
    await mailsTo(email)
    server.received.length = 0
    const checkTwice = async () => {
      for (let hour = 0; hour < 2; hour += 1) {
        await enqueue(t.db, noteExpiringTokensJob, {})
        await runDueJobs({ config: t.config, db: t.db }, [noteExpiringTokensJob], t.app.log)
      }
    }
    await checkTwice()
    expect(await subjectsTo(email)).toEqual([expect.stringContaining('expires soon')])
    expect(server.received[0]?.text).toContain('soon, expires ')
    await moveTokenInTime(t.db, 'soon', { createdDaysAgo: 30, expiresInDays: 0.9, notedDaysAgo: 5.1 })
    await checkTwice()
    expect(await subjectsTo(email)).toHaveLength(2)
  })
})
