import { beforeEach, describe, expect, it } from 'vitest'
import { deleteExpiredConfirmationLinks } from '../../../src/accounts/second-factor/confirmation-links.ts'
import {
  forgetFailures,
  setProofAge,
  storedAccount,
  unverifyEmail,
  verifyEmail,
} from '../../support/account-rows.ts'
import { aName, anAccount, csrfTokenIn, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { enrol } from '../../support/factor-actors.ts'
import { problemOf, providerEnvironment, Walker } from '../../support/identity-provider.ts'
import { useLyingProvider } from '../../support/lying-provider.ts'
import { sendMails, useMailServer } from '../../support/mail-server.ts'
import { freePort } from '../../support/program.ts'
import { countRows, expire, textOf } from '../../support/rows.ts'

const port = await freePort()
/** It never says when somebody signed in there. */
const silent = useLyingProvider('silent', port)
const server = await useMailServer()
const t = useApp({ ...server.environment, ...providerEnvironment('silent', port), SIGN_UP: 'open' })

beforeEach(async () => {
  await sendMails(t)
  server.received.length = 0
  await forgetFailures(t.db)
})

/** A person without a password who has just signed in, on the page that asks for a proof. */
async function anUnprovenSession() {
  const name = aName('eve')
  const email = `${name}@example.com`
  silent.tell({
    claims: { sub: name },
    userInfo: { sub: name, preferred_username: name, email, email_verified: true },
  })
  const walker = new Walker(t)
  await walker.signIn(silent, name)
  const account = (await storedAccount(t.db, { username: name })) ?? expect.fail()
  const asks = async () => (await walker.open('/login/oidc/silent/link')).statusCode === 303
  const question = await walker.open(String((await walker.open('/login/oidc/silent/link')).headers.location))
  const [, returnId = ''] = /name="return" value="([^"]+)"/.exec(question.body) ?? []
  const fields = { csrf_token: csrfTokenIn(question), return: returnId }
  const request = () => walker.post('/settings/confirm-access/send-link', fields)
  /** Requests a link, and returns its token. */
  const aLink = async () => {
    expect((await request()).statusCode).toBe(303)
    await sendMails(t)
    const mails = server.received.filter(({ recipients }) => recipients.includes(email))
    const mail = mails.findLast(({ link }) => link.includes('/settings/confirm-access/'))
    return { mail, token: mail?.token ?? '' }
  }
  const follow = (token: string, from = walker) =>
    from.post('/settings/confirm-access/link', { csrf_token: fields.csrf_token, token })
  return { account, email, walker, asks, question, fields, request, aLink, follow }
}

describe('a person whose provider does not say when they signed in', () => {
  it('confirms a sensitive act with a mailed link, once, and returns to it', async () => {
    const { email, walker, asks, question, fields, request, aLink, follow } = await anUnprovenSession()
    const start = await walker.post('/login/oidc/silent/confirm', fields)
    const back = await walker.open(await walker.signInThere(start, 'eve'))
    const page = await walker.open(String(back.headers.location))
    expect(problemOf(page)).toContain('Silent did not say that you signed in again just now')
    expect(await asks()).toBe(true)
    for (const { body } of [page, question]) expect(body).toContain(`Send a link to ${email}`)

    expect((await request()).headers.location).toMatch(/^\/settings\/confirm-access\?return=/)
    const { mail, token } = await aLink()
    expect(mail?.headers.get('subject')?.[0]).toMatch(/^Confirm access to /)
    const opened = await walker.open(`/settings/confirm-access/link?token=${token}`)
    expect(opened.statusCode).toBe(200)
    expect(await asks()).toBe(true)
    const racing = await Promise.all(Array.from({ length: 5 }, () => follow(token)))
    const [confirmed, ...others] = racing.filter(({ statusCode }) => statusCode === 303)
    expect(others).toEqual([])
    expect(racing.filter(({ statusCode }) => statusCode === 410)).toHaveLength(4)
    expect(confirmed?.headers.location).toBe('/login/oidc/silent/link')
    expect(await asks()).toBe(false)
    expect(await textOf(t.db, 'job')).not.toContain(token)
    expect(t.log()).not.toContain(token)
  })

  it('cannot use the link in another session, an earlier link, or one of before 15 minutes', async () => {
    const { account, asks, aLink, follow } = await anUnprovenSession()
    const { token } = await aLink()
    const other = new Walker(t)
    await other.signIn(silent, account.username)
    const csrf_token = csrfTokenIn(await other.open('/settings/account'))
    const stolen = await other.post('/settings/confirm-access/link', { csrf_token, token })
    expect(stolen.statusCode).toBe(410)
    for (const walker of [other, new Walker(t)]) {
      const page = await walker.open(`/settings/confirm-access/link?token=${token}`)
      expect(page.statusCode).toBe(410)
      expect(page.body).toContain('in the browser in which you asked for it')
    }
    const later = await aLink()
    expect((await follow(token)).statusCode).toBe(410)
    await expire(t.db, 'confirmation_link')
    expect((await follow(later.token)).statusCode).toBe(410)
    expect(await asks()).toBe(true)
    await deleteExpiredConfirmationLinks(t.db, 100)
    expect(await countRows(t.db, 'confirmation_link')).toBe(0)
  })

  it('gets no link with a password, a second factor or an unverified email, and ten an hour', async () => {
    const { account, walker, request } = await anUnprovenSession()
    for (let n = 0; n < 10; n++) expect((await request()).statusCode).toBe(303)
    expect((await request()).statusCode).toBe(429)
    await forgetFailures(t.db)

    await unverifyEmail(t.db, account)
    expect((await request()).statusCode).toBe(409)
    await verifyEmail(t.db, account)
    expect((await request()).statusCode).toBe(303)
    await setProofAge(t.db, account, '0 seconds')
    await enrol(t, account, walker.cookie)
    const refused = await request()
    expect(refused.statusCode).toBe(409)
    expect(refused.body).not.toContain('Send a link')

    const ann = await anAccount(t.db, { email: `${aName('ann')}@example.com` })
    await verifyEmail(t.db, ann)
    const hers = new Walker(t, await signIn(t.app, ann))
    const page = await hers.open('/settings/confirm-access')
    expect(page.body).not.toContain('Send a link')
    const fields = { csrf_token: csrfTokenIn(page), return: '' }
    expect((await hers.post('/settings/confirm-access/send-link', fields)).statusCode).toBe(409)
  })
})
