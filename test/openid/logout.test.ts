import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose'
import { describe, expect, it } from 'vitest'
import { deleteAccount, disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { deleteExpiredSessions } from '../../src/accounts/sessions.ts'
import { operator } from '../../src/domain/principal.ts'
import type { Job } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { listAuthorizations, withdrawAuthorization } from '../../src/oauth/authorizations.ts'
import { deleteRetiredKeys, rotateKeys } from '../../src/openid/keys.ts'
import { sendLogoutTokenJob } from '../../src/openid/logouts.ts'
import { openLog } from '../../src/web/server/log.ts'
import { ageSessions } from '../support/account-rows.ts'
import { anAccount, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { setDeveloper } from '../support/application-rows.ts'
import { open } from '../support/browse.ts'
import { eventsOf } from '../support/event-rows.ts'
import { makeJobsDue } from '../support/job-rows.ts'
import { aRelyingParty, readIdToken } from '../support/openid-actors.ts'
import { lastAttempts } from '../support/openid-rows.ts'
import { countRows } from '../support/rows.ts'
import { postForm } from '../support/token-client.ts'
import { useReceivers, webhooksHere } from '../support/webhook-receiver.ts'

const t = useApp(webhooksHere)
const receivers = useReceivers()
const home = 'https://app.example.com/goodbye?x=a%20b'

const log = openLog('silent')

/** Sends the logout tokens that are due. */
const sendLogouts = () => runDueJobs({ config: t.config, db: t.db }, [sendLogoutTokenJob as Job], log)

describe('/oauth2/logout (OPENID 257)', () => {
  const linkOf = (parameters: Record<string, string>) => `/oauth2/logout?${new URLSearchParams(parameters)}`
  const isSignedIn = async (cookie: string) => (await open(t, '/settings/account', cookie)).statusCode === 200

  async function aParty() {
    const party = await aRelyingParty(t, { application: { postLogoutRedirectUri: home } })
    return { ...party, id_token_hint: (await party.enter()).id_token ?? '' }
  }

  /** Presses the button of the page. */
  async function confirm(link: string, cookie: string) {
    const page = await open(t, link, cookie)
    expect(page.statusCode).toBe(200)
    const sent = Object.fromEntries(new URL(link, 'http://svc.test').searchParams)
    return post(t.app, '/oauth2/logout/confirm', cookie, { csrf_token: csrfTokenIn(page), ...sent })
  }

  it('asks, and its form ends the session and returns with the state', async () => {
    const { application, cookie, id_token_hint } = await aParty()
    const link = linkOf({ id_token_hint, post_logout_redirect_uri: home, state: 'a b&c' })
    const page = await open(t, link, cookie)
    expect(page.body).toContain(application.name)
    expect(await isSignedIn(cookie)).toBe(true)
    const done = await confirm(link, cookie)
    expect([done.statusCode, done.headers.location]).toEqual([303, `${home}&state=a%20b%26c`])
    expect(await isSignedIn(cookie)).toBe(false)
    // Nobody is signed in any more, so nothing is asked.
    expect((await open(t, link)).headers.location).toBe(`${home}&state=a%20b%26c`)
  })

  it('takes the same as a POST from another site, and changes nothing by it', async () => {
    const { cookie, id_token_hint } = await aParty()
    const form = new URLSearchParams({ id_token_hint, post_logout_redirect_uri: home }).toString()
    const from = { origin: 'https://app.example.com', 'sec-fetch-site': 'cross-site', cookie }
    const posted = await postForm(t, '/oauth2/logout', form, from)
    expect(posted.statusCode).toBe(303)
    expect((await open(t, String(posted.headers.location), cookie)).body).toContain('Sign out?')
    expect((await postForm(t, '/oauth2/logout/confirm', form, from)).statusCode).toBe(403)
    expect(await isSignedIn(cookie)).toBe(true)
  })

  it('accepts a hint that has expired, also of a key that has retired, and the client_id in its place', async () => {
    const { application, cookie, id_token_hint } = await aParty()
    await rotateKeys(t.db, t.config)
    await rotateKeys(t.db, t.config)
    await deleteRetiredKeys(t.db, 100)
    const hinted = linkOf({ id_token_hint, post_logout_redirect_uri: home })
    expect((await open(t, hinted)).headers.location).toBe(home)
    const named = linkOf({ client_id: application.clientId, post_logout_redirect_uri: home })
    expect((await confirm(named, cookie)).headers.location).toBe(home)
  })

  it('stays on svc for a URL that is not registered, and for a hint that proves nothing', async () => {
    const [{ cookie, id_token_hint }, other] = [await aParty(), await aParty()]
    const changed = `${id_token_hint.slice(0, -6)}AAAAAA`
    for (const parameters of [
      { id_token_hint, post_logout_redirect_uri: 'https://app.example.com/elsewhere' },
      { id_token_hint, post_logout_redirect_uri: `${home}&more=1` },
      { id_token_hint: changed, post_logout_redirect_uri: home },
      { id_token_hint, client_id: other.application.clientId, post_logout_redirect_uri: home },
      { post_logout_redirect_uri: home, state: 's' },
      { client_id: 'nobody12', post_logout_redirect_uri: home },
    ]) {
      const link = linkOf(parameters)
      expect((await open(t, link, cookie)).body).toContain('you stay here')
      expect((await open(t, link)).headers.location).toBe('/')
    }
    expect((await confirm(linkOf({ state: 's' }), cookie)).headers.location).toBe('/')
    expect(await isSignedIn(cookie)).toBe(false)
  })
})

describe('back-channel logout (OPENID 258)', () => {
  let parties = 0

  /** An application with a URL for logout tokens, at which a person has signed in. */
  async function aTold(answer?: Parameters<typeof receivers.receiver>[1], alg: 'RS256' | 'ES256' = 'RS256') {
    parties += 1
    const path = `logout-${parties}`
    const application = { backchannelLogoutUri: receivers.receiver(path, answer), idTokenAlg: alg }
    const party = await aRelyingParty(t, { application })
    const { sid } = await readIdToken(t, party.application, (await party.enter()).id_token)
    const tokens = () =>
      receivers.received(path).map(({ body }) => new URLSearchParams(body).get('logout_token') ?? '')
    return { ...party, sid, path, tokens }
  }

  const verifyLogout = async (clientId: string, token = '') => {
    const keys = createLocalJWKSet((await t.app.inject('/oauth2/jwks')).json<JSONWebKeySet>())
    return jwtVerify(token, keys, { issuer: t.config.authUrl, audience: clientId, typ: 'logout+jwt' })
  }

  it.each(['RS256', 'ES256'] as const)(
    'sends a token of two minutes when a session ends, signed with %s',
    async (alg) => {
      const { account, application, cookie, sid, path, tokens } = await aTold(undefined, alg)
      const page = await open(t, '/settings/account', cookie)
      await post(t.app, '/logout', cookie, { csrf_token: csrfTokenIn(page) })
      await sendLogouts()
      expect(tokens()).toHaveLength(1)
      expect(receivers.received(path)[0]?.headers['content-type']).toBe('application/x-www-form-urlencoded')
      const { payload, protectedHeader } = await verifyLogout(application.clientId, tokens()[0])
      expect(protectedHeader).toMatchObject({ alg, typ: 'logout+jwt' })
      expect(payload).toEqual({
        iss: t.config.authUrl,
        aud: application.clientId,
        sub: account.id,
        sid,
        iat: expect.closeTo(Date.now() / 1000, -2),
        exp: (payload.iat ?? 0) + 120,
        jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
        events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
      })
      expect(await countRows(t.db, 'openid_logout')).toBe(0)
    },
  )

  it('signs the ID tokens of an application with its algorithm (OPENID 243)', async () => {
    const { enter } = await aTold(undefined, 'ES256')
    expect(decodeProtectedHeader((await enter()).id_token ?? '').alg).toBe('ES256')
  })

  it('sends one when the account is disabled or deleted, and when the authorization is withdrawn', async () => {
    const [disabled, deleted, withdrawn] = [await aTold(), await aTold(), await aTold()]
    await disableAccount(t.db, operator, disabled.account.id)
    await deleteAccount(t.db, operator, deleted.account, 'refuse')
    const [authorization] = await listAuthorizations(t.db, withdrawn.account.id)
    await withdrawAuthorization(t.db, operator, withdrawn.account.id, authorization?.id ?? '')
    await sendLogouts()
    for (const { account, application, sid, tokens } of [disabled, deleted, withdrawn]) {
      expect(tokens()).toHaveLength(1)
      const { payload } = await verifyLogout(application.clientId, tokens()[0])
      expect(payload).toMatchObject({ sub: account.id, sid })
    }
  })

  it('sends one when the session has ended by seven idle days', async () => {
    const { account, sid, application, tokens } = await aTold()
    await ageSessions(t.db, account, '6 days')
    expect(await deleteExpiredSessions(t.db, 100)).toBe(0)
    await ageSessions(t.db, account, '7 days')
    await deleteExpiredSessions(t.db, 100)
    await sendLogouts()
    expect(tokens()).toHaveLength(1)
    expect((await verifyLogout(application.clientId, tokens()[0])).payload).toMatchObject({ sid })
  })

  it('sends none to an application that did not sign the person in, or has no URL', async () => {
    const [told, quiet] = [await aTold(), await aRelyingParty(t)]
    await quiet.enter()
    await disableAccount(t.db, operator, quiet.account.id)
    await sendLogouts()
    expect(told.tokens()).toEqual([])
    expect(await countRows(t.db, 'openid_logout')).toBe(0)
  })

  it('repeats it like the message of a webhook, signed anew', async () => {
    const statuses = [500, 404, 200]
    const { account, application, tokens } = await aTold((response) =>
      response.writeHead(statuses.shift() ?? 200).end(),
    )
    await disableAccount(t.db, operator, account.id)
    for (const count of [1, 2, 3]) {
      await sendLogouts()
      expect(tokens()).toHaveLength(count)
      // The next attempt waits for its time.
      await sendLogouts()
      expect(tokens()).toHaveLength(count)
      await makeJobsDue(t.db)
    }
    await sendLogouts()
    expect(tokens()).toHaveLength(3)
    expect(await countRows(t.db, 'openid_logout')).toBe(0)
    const ids = await Promise.all(
      tokens().map(async (token) => (await verifyLogout(application.clientId, token)).payload.jti),
    )
    expect(new Set(ids).size).toBe(3)
  })

  describe('that fails', () => {
    const pages = async ({ application, cookie }: Awaited<ReturnType<typeof aTold>>) => {
      const admin = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
      return [
        (await open(t, `/admin/applications/${application.clientId}`, admin)).body,
        (await open(t, '/settings/applications', cookie)).body,
      ]
    }
    const told = ({ application }: { application: { id: string } }) =>
      eventsOf(t.db, { applicationId: application.id, action: 'application-unreachable' }, [
        'accountId',
        'via',
        'details',
      ])

    it('is shown to administrators and the developer with its last failure (OPENID 261)', async () => {
      const party = await aTold((response) => response.writeHead(503).end())
      await setDeveloper(t.db, party.application, party.account)
      for (const body of await pages(party)) expect(body).not.toContain('Sending a logout token')
      await aSessionEnds(party)
      await sendLogouts()
      for (const body of await pages(party)) {
        expect(body).toContain('Sending a logout token failed <time')
        expect(body).toContain('did not respond as expected')
        expect(body).toContain('svc tries it again')
      }
      expect(await told(party)).toEqual([])
    })

    it.each([true, false])(
      'in all attempts is told once a day, to the developer if there is one: %s (OPENID 261)',
      async (hasDeveloper) => {
        const party = await aTold((response) => response.writeHead(503).end())
        if (hasDeveloper) await setDeveloper(t.db, party.application, party.account)
        for (let session = 0; session < 2; session += 1) {
          await aSessionEnds(party)
          await lastAttempts(t.db)
          await sendLogouts()
        }
        expect(party.tokens()).toHaveLength(2)
        const details = {
          url: new URL(party.application.backchannelLogoutUri ?? '').origin,
          reason: expect.stringContaining('did not respond as expected'),
        }
        expect(await told(party)).toEqual([
          { accountId: hasDeveloper ? party.account.id : null, via: null, details },
        ])
        if (hasDeveloper)
          for (const body of await pages(party))
            expect(body).toContain('All attempts to send one have failed')
      },
    )

    /** The person signs in at the application in another browser, and out of svc there. */
    async function aSessionEnds({ account, enter }: Awaited<ReturnType<typeof aTold>>) {
      const other = await signIn(t.app, account)
      await enter({}, other)
      const page = await open(t, '/settings/account', other)
      await post(t.app, '/logout', other, { csrf_token: csrfTokenIn(page) })
    }
  })
})
