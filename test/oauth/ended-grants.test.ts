import { describe, expect, it, vi } from 'vitest'
import type { Job } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { sendLogoutTokenJob } from '../../src/openid/logouts.ts'
import { openLog } from '../../src/web/server/log.ts'
import { anAccount, cookiesOf, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { eventsOf } from '../support/event-rows.ts'
import { forgetGrantUses } from '../support/last-use-rows.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { countUsedGrants, hasEnded, listAuthorizationIds, liveGrantsOf } from '../support/oauth-rows.ts'
import { aRelyingParty, readIdToken } from '../support/openid-actors.ts'
import { forgetGrantsOfSessions } from '../support/openid-rows.ts'
import { askAsPublic, works } from '../support/token-client.ts'
import { useReceivers, webhooksHere } from '../support/webhook-receiver.ts'

const t = useApp(webhooksHere)
const receivers = useReceivers()

/** Reads the grants that a page offers to end, with the heading above each. */
const grantsIn = (body: string) =>
  [...body.matchAll(/<h[23]>([^<]*)<\/h[23]>(.*?)<\/section>/gs)].flatMap(([, title = '', section = '']) =>
    [...section.matchAll(/authorizations\/end\?grant=(\d+)"/g)].map(([, id = '']) => ({ title, id })),
  )

const events = (account: { id: string }) =>
  eventsOf(t.db, { accountId: account.id, action: ['grant-ended', 'authorization-withdrawn'] }, [
    'action',
    'via',
    'details',
  ])

/** A person, and a program that signs in on machines. */
async function aPerson() {
  const account = await anAccount(t.db)
  const cookie = await signIn(t.app, account)
  const program = await anApplication(t.db, {
    name: 'Tool',
    isPublic: true,
    isDevice: true,
    redirectUri: 'http://127.0.0.1/',
  })
  /** Signs in on a machine, and returns its tokens. */
  const login = async () => {
    const { device_code, user_code } = (await askAsPublic(t, program, 'device', {})).json()
    await submitConsent(t, await open(t, `/device?user_code=${user_code}`, cookie), cookie, 'approve')
    const grant_type = 'urn:ietf:params:oauth:grant-type:device_code'
    return (await askAsPublic(t, program, 'token', { grant_type, device_code })).json()
  }
  const page = () => open(t, '/settings/authorizations', cookie)
  const end = async (grant: string, as = cookie) => {
    const form = { csrf_token: csrfTokenIn(await open(t, '/settings/authorizations', as)), grant }
    return post(t.app, '/settings/authorizations/end', as, form)
  }
  return { account, cookie, program, login, page, end }
}

describe('/settings/authorizations, with the grants of an application', () => {
  it('shows machines, sign-ins and other access apart (OPENID 211)', async () => {
    const { cookie, login, page } = await aPerson()
    await login()
    const application = await anApplication(t.db, { scopes: ['openid', 'account-profile:r'] })
    for (const scope of ['openid', 'account-profile:r']) {
      const link = authorizeLink(application, { scope, prompt: 'consent' })
      await submitConsent(t, await open(t, link, cookie), cookie, 'approve')
    }
    const { body } = await page()
    expect(grantsIn(body).map(({ title }) => title)).toEqual([
      'Sign-ins in a browser',
      'Access while you are away',
      'Devices and command lines',
    ])
    expect(body).toContain('Network 127.0.0.1, signed in <time')
  })

  it('ends one login and no other, with an event and a notice (OPENID 211)', async () => {
    const { account, cookie, program, login, page, end } = await aPerson()
    const [lost, kept] = [await login(), await login()]
    const grants = grantsIn((await page()).body)
    expect(grants).toHaveLength(2)
    const first = grants[1]?.id ?? ''
    const question = await open(t, `/settings/authorizations/end?grant=${first}`, cookie)
    expect(question.body).toContain('End this login of Tool?')
    const redirect = await end(first)
    expect(redirect.statusCode).toBe(303)
    const after = await open(t, '/settings/authorizations', `${cookie}; ${cookiesOf(redirect)}`)
    expect(after.body).toContain('One login of Tool has ended.')
    expect(grantsIn(after.body).map(({ id }) => id)).toEqual([grants[0]?.id])
    expect(await works(t, lost.access_token)).toBe(false)
    expect(await works(t, kept.access_token)).toBe(true)
    const refresh = (refresh_token: string) =>
      askAsPublic(t, program, 'token', { grant_type: 'refresh_token', refresh_token })
    expect((await refresh(lost.refresh_token)).json().error).toBe('invalid_grant')
    expect((await refresh(kept.refresh_token)).statusCode).toBe(200)
    expect(await events(account)).toEqual([
      { action: 'grant-ended', via: 'browser', details: { kind: 'device' } },
    ])
    // A second time.
    await end(first)
    expect(await events(account)).toHaveLength(1)
  })

  it('ends the authorization with its last grant', async () => {
    const { account, login, page, end } = await aPerson()
    await login()
    await end(grantsIn((await page()).body)[0]?.id ?? '')
    const [authorization = ''] = await listAuthorizationIds(t.db, account)
    expect(await hasEnded(t.db, { id: authorization })).toBe(true)
    expect(await events(account)).toEqual([
      { action: 'authorization-withdrawn', via: 'browser', details: {} },
    ])
    expect((await page()).body).toContain('No application has access')
  })

  it('ends the authorization once when the last grants end at the same time', async () => {
    const { account, login, page, end } = await aPerson()
    for (let n = 0; n < 3; n += 1) await login()
    await Promise.all(grantsIn((await page()).body).map(({ id }) => end(id)))
    const actions = (await events(account)).map(({ action }) => action)
    expect(actions.toSorted()).toEqual(['authorization-withdrawn', 'grant-ended', 'grant-ended'])
  })

  it('says nothing about the grants of others, and leaves them alone', async () => {
    const [mine, theirs] = [await aPerson(), await aPerson()]
    const pair = await theirs.login()
    await mine.login()
    const id = grantsIn((await theirs.page()).body)[0]?.id ?? ''
    const question = await open(t, `/settings/authorizations/end?grant=${id}`, mine.cookie)
    expect(question.statusCode).toBe(404)
    await mine.end(id)
    expect(await works(t, pair.access_token)).toBe(true)
    expect(await events(mine.account)).toEqual([])
    const [authorization = ''] = await listAuthorizationIds(t.db, theirs.account)
    const list = await open(t, `/settings/authorizations/grants?authorization=${authorization}`, mine.cookie)
    expect(list.statusCode).toBe(404)
    for (const wrong of ['', 'x', '-1', '99999999999999999999'])
      expect((await mine.end(wrong)).statusCode).toBe(404)
  })

  it('shows 5 grants of an application, and all on pages of 20', async () => {
    const { cookie, page } = await aPerson()
    const application = await anApplication(t.db)
    for (let n = 0; n < 21; n += 1) {
      const asked = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
      await submitConsent(t, asked, cookie, 'approve')
    }
    const { body } = await page()
    expect(grantsIn(body)).toHaveLength(5)
    const [, link = ''] = /href="(\/settings\/authorizations\/grants\?authorization=\d+)"/.exec(body) ?? []
    const first = await open(t, link, cookie)
    expect(grantsIn(first.body)).toHaveLength(20)
    expect(grantsIn(first.body).slice(0, 5)).toEqual(grantsIn(body))
    const [, next = ''] = /href="([^"]*&amp;after=\d+)"/.exec(first.body) ?? []
    const last = await open(t, next.replace('&amp;', '&'), cookie)
    expect(grantsIn(last.body)).toHaveLength(1)
    expect(last.body).not.toContain('Older ones')
  })

  it('shows when a machine has used the API last (OPENID 211)', async () => {
    const { account, login, page } = await aPerson()
    const pair = await login()
    await vi.waitUntil(async () => (await countUsedGrants(t.db, account)) === 1, 60_000)
    await forgetGrantUses(t.db, account)
    expect((await page()).body).not.toContain('Last used <time')
    await works(t, pair.access_token)
    await vi.waitUntil(async () => (await countUsedGrants(t.db, account)) === 1, 60_000)
    expect((await page()).body).toContain('Last used <time')
  })
})

describe('the refresh token of a public client, revoked', () => {
  it('ends the grant of its machine only (OPENID 212)', async () => {
    const { account, program, login } = await aPerson()
    const [here, there] = [await login(), await login()]
    const revoked = await askAsPublic(t, program, 'revoke', { token: here.refresh_token })
    expect([revoked.statusCode, revoked.json()]).toEqual([200, {}])
    expect(await works(t, here.access_token)).toBe(false)
    expect(await works(t, there.access_token)).toBe(true)
    expect(await liveGrantsOf(t.db, account)).toHaveLength(1)
    expect(await events(account)).toEqual([
      { action: 'grant-ended', via: 'application', details: { kind: 'device' } },
    ])
    await askAsPublic(t, program, 'revoke', { token: there.refresh_token })
    expect((await events(account)).map(({ action }) => action)).toEqual([
      'grant-ended',
      'authorization-withdrawn',
    ])
  })
})

describe('a grant for signing in that ends', () => {
  let parties = 0

  /** An application that gets logout tokens, and a person who has signed in at it in two browsers, with a grant for each. */
  async function aTold() {
    parties += 1
    const path = `ended-${parties}`
    const party = await aRelyingParty(t, { application: { backchannelLogoutUri: receivers.receiver(path) } })
    const other = await signIn(t.app, party.account)
    const sidOf = async (cookie: string) => {
      const { id_token } = await party.enter({ prompt: 'consent' }, cookie)
      return (await readIdToken(t, party.application, id_token))['sid']
    }
    const sids = [await sidOf(party.cookie), await sidOf(other)]
    const told = async () => {
      await runDueJobs({ config: t.config, db: t.db }, [sendLogoutTokenJob as Job], openLog('silent'))
      return receivers.received(path).map(({ body }) => {
        const [, claims = ''] = (new URLSearchParams(body).get('logout_token') ?? '').split('.')
        return JSON.parse(Buffer.from(claims, 'base64url').toString()).sid as string
      })
    }
    const end = async (grant = '') => {
      const form = { csrf_token: csrfTokenIn(await open(t, '/settings/authorizations', other)), grant }
      await post(t.app, '/settings/authorizations/end', other, form)
    }
    const page = await open(t, '/settings/authorizations', other)
    const [second, first] = grantsIn(page.body).map(({ id }) => id)
    return { ...party, sids, told, end, first, second }
  }

  it('signs its session out at the application, and no other (OPENID 258)', async () => {
    const { sids, told, end, first } = await aTold()
    await end(first)
    expect(await told()).toEqual([sids[0]])
  })

  it('leaves a session that has signed in with another grant since then', async () => {
    const { cookie, authorize, told, end, first } = await aTold()
    expect(responseOf(await authorize({ prompt: 'consent' }, cookie))['code']).toBeTypeOf('string')
    await end(first)
    expect(await told()).toEqual([])
  })

  it('signs a session of which the grant is not known out, too', async () => {
    const { sids, told, end, first } = await aTold()
    await forgetGrantsOfSessions(t.db)
    await end(first)
    expect(new Set(await told())).toEqual(new Set(sids))
  })
})
