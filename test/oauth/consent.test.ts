import { describe, expect, it, vi } from 'vitest'
import { hashSecret } from '../../src/domain/secrets.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { describeSubject } from '../../src/events/event-words.ts'
import { insertAuthorizationRequest } from '../../src/oauth/authorization-requests.ts'
import { findReturn } from '../../src/web/pages/sign-in/return-path.ts'
import { aGroupMember, aMember, aName, anAccount, aRepository, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, hiddenFields, open, responseOf, submitConsent } from '../support/browse.ts'
import { fillGroup } from '../support/group-rows.ts'
import {
  countUnlocked,
  countWaiting,
  delayDeadlockCheck,
  lockRows,
  openTransaction,
  untilWaiting,
} from '../support/locks.ts'
import { anApplication } from '../support/oauth-actors.ts'
import {
  changeRegistration,
  endAuthorizationsOf,
  liveGrantsOf,
  type RegistrationChange,
  storedCode,
} from '../support/oauth-rows.ts'
import { countRows, dropRows, expire } from '../support/rows.ts'

describe('POST /oauth2/auth', () => {
  const t = useApp()

  /** A person on the consent page of an application. */
  async function aQuestion(differences: Parameters<typeof anApplication>[1] = {}) {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db, differences)
    const cookie = await signIn(t.app, account)
    const page = await open(t, authorizeLink(application, { state: 's', prompt: 'consent' }), cookie)
    return { account, application, cookie, page }
  }

  const countCodes = () => countRows(t.db, 'authorization_code')

  const grantsOf = (account: { id: string }) => liveGrantsOf(t.db, account)

  it('sends an approved code with state and iss, by 302 (3, 40)', async () => {
    const { application, cookie, page, account } = await aQuestion()
    const redirect = await submitConsent(t, page, cookie, 'approve')
    expect(redirect.statusCode).toBe(302)
    expect(redirect.headers['cache-control']).toBe('no-store')
    const { code, ...rest } = responseOf(redirect)
    expect(rest).toEqual({ state: 's', iss: 'http://svc.test' })
    const stored = (await storedCode(t.db, String(code))) ?? expect.fail()
    expect(stored).toMatchObject({ redirectUri: application.redirectUri, redeemedAt: null })
    expect(stored.seconds).toBeGreaterThan(590)
    expect(stored.seconds).toBeLessThanOrEqual(600)
    expect(await grantsOf(account)).toEqual([{ scopes: application.scopes, paths: [] }])
  })

  it.each(['approve', 'deny', 'search'])(
    'returns to the same question after a new sign-in when the session ended before %s',
    async (decision) => {
      const { account, application, cookie, page } = await aQuestion()
      await dropRows(t.db, 'session', { accountId: account.id })
      const before = await countCodes()
      const redirect = await submitConsent(t, page, cookie, decision)
      expect(redirect.statusCode).toBe(303)
      const [, id = ''] = /^\/login\?return=(.+)$/.exec(String(redirect.headers.location)) ?? []
      expect(await findReturn(t.db, id)).toBe(authorizeLink(application, { state: 's', prompt: 'consent' }))
      expect(await countCodes()).toBe(before)
    },
  )

  it('keeps the latest hundred requests of an account, also when many pages are opened at once', async () => {
    const { account, application, cookie, page: oldest } = await aQuestion()
    const other = await aQuestion()
    const openPage = () => open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
    const count = () => countRows(t.db, 'authorization_request', { accountId: account.id })
    for (let round = 0; round < 9; round += 1) await Promise.all(Array.from({ length: 10 }, openPage))
    const latest = await openPage()
    // All pages of the first 92 requests work, also the oldest one.
    expect(await count()).toBe(92)
    expect((await submitConsent(t, oldest, cookie, 'search')).statusCode).toBe(200)

    for (let round = 0; round < 2; round += 1) await Promise.all(Array.from({ length: 10 }, openPage))
    await openPage()
    expect(await count()).toBe(100)
    expect((await submitConsent(t, oldest, cookie, 'approve')).statusCode).toBe(400)
    expect((await submitConsent(t, latest, cookie, 'approve')).statusCode).toBe(302)
    expect((await submitConsent(t, other.page, other.cookie, 'approve')).statusCode).toBe(302)
  })

  it('locks no other request of the account when it stores one', async () => {
    const { account, application } = await aQuestion()
    const { tx, rollback } = await openTransaction(t.db)
    await insertAuthorizationRequest(tx, hashSecret(aName('another')), {
      accountId: account.id,
      applicationId: application.id,
      link: '/oauth2/auth',
      redirectUri: application.redirectUri,
      state: null,
      scopes: application.scopes,
      resourceScope: application.resourceScope,
      codeChallenge: null,
      deviceHash: null,
      resources: null,
    })
    expect(await countUnlocked(t.db, 'authorization_request', { accountId: account.id })).toBe(1)
    await rollback()
  })

  it('sends access_denied with state when the account denies (7)', async () => {
    const { cookie, page, account } = await aQuestion()
    const redirect = await submitConsent(t, page, cookie, 'deny')
    expect(redirect.statusCode).toBe(302)
    expect(responseOf(redirect)).toMatchObject({ error: 'access_denied', state: 's', iss: 'http://svc.test' })
    expect(await grantsOf(account)).toEqual([])
  })

  it.each([
    ['no CSRF token', { csrf_token: '' }, {}],
    ['a wrong CSRF token', { csrf_token: 'x'.repeat(43) }, {}],
    ['a foreign Origin', {}, { origin: 'https://evil.test' }],
    ['a foreign page behind an opaque Origin', {}, { origin: 'null', 'sec-fetch-site': 'cross-site' }],
  ])('refuses an approval with %s (43)', async (_, fields, headers) => {
    const { cookie, page } = await aQuestion()
    const before = await countCodes()
    const form = { ...hiddenFields(page), decision: 'approve', ...fields }
    const refusal = await post(t.app, '/oauth2/auth', cookie, form, headers)
    expect(refusal.statusCode).toBe(403)
    expect(refusal.headers.location).toBeUndefined()
    expect(await countCodes()).toBe(before)
  })

  it('accepts an approval from its own page, for which browsers send the Origin null because of no-referrer (41)', async () => {
    const { cookie, page } = await aQuestion()
    const headers = { origin: 'null', 'sec-fetch-site': 'same-origin' }
    const form = { ...hiddenFields(page), decision: 'approve' }
    expect((await post(t.app, '/oauth2/auth', cookie, form, headers)).statusCode).toBe(302)
  })

  it.each([
    ['approve', 'approve'],
    ['approve', 'deny'],
    ['deny', 'approve'],
    ['deny', 'deny'],
  ])('after %s, %s gets a page that says so, and no code (44)', async (first, second) => {
    const { application, cookie, page } = await aQuestion()
    await submitConsent(t, page, cookie, first)
    const before = await countCodes()
    const again = await submitConsent(t, page, cookie, second)
    expect(again.statusCode).toBe(400)
    expect(again.headers.location).toBeUndefined()
    expect(again.body).toContain('link is not accessible')
    expect(again.body).toContain('already answered')
    expect(again.body).toContain('already made')
    expect(again.body).toContain(
      `href="${authorizeLink(application, { state: 's', prompt: 'consent' })}`.replaceAll('&', '&amp;'),
    )
    expect(await countCodes()).toBe(before)
  })

  it('lets one of ten racing approvals of a page count (44)', async () => {
    const { cookie, page } = await aQuestion()
    const before = await countCodes()
    const responses = await Promise.all(
      Array.from({ length: 10 }, () => submitConsent(t, page, cookie, 'approve')),
    )
    expect(responses.filter(({ statusCode }) => statusCode === 302)).toHaveLength(1)
    expect(await countCodes()).toBe(before + 1)
  })

  it('creates one authorization when ten pages of one application are approved at once', async () => {
    const { application, account, cookie } = await aQuestion()
    const pages = await Promise.all(
      application.scopes.flatMap((scope) =>
        Array.from({ length: 4 }, () => open(t, authorizeLink(application, { scope }), cookie)),
      ),
    )
    const responses = await Promise.all(pages.map((page) => submitConsent(t, page, cookie, 'approve')))
    expect(responses.map(({ statusCode }) => statusCode)).toEqual(pages.map(() => 302))
    const grants = await grantsOf(account)
    expect(grants.map(({ scopes }) => scopes.join()).toSorted()).toEqual(
      application.scopes.flatMap((scope) => [scope, scope, scope, scope]).toSorted(),
    )
    const live = { accountId: account.id, endedAt: null }
    expect(await countRows(t.db, 'account_authorization', live)).toBe(1)
  })

  it('refuses the decision of another account than the one that saw the page (45)', async () => {
    const { page, account } = await aQuestion()
    const other = await aQuestion()
    const before = await countCodes()
    const { request } = hiddenFields(page)
    for (const decision of ['approve', 'deny', 'search']) {
      const refusal = await submitConsent(t, other.page, other.cookie, decision, { request })
      expect(refusal.statusCode).toBe(403)
      expect(refusal.headers.location).toBeUndefined()
    }
    expect(await countCodes()).toBe(before)
    expect(await grantsOf(account)).toEqual([])
  })

  it('refuses a decision after signing out', async () => {
    const { page, cookie } = await aQuestion()
    await post(t.app, '/logout', cookie, { csrf_token: hiddenFields(page).csrf_token })
    const before = await countCodes()
    const refusal = await submitConsent(t, page, cookie, 'approve')
    expect(refusal.statusCode).toBe(303)
    expect(refusal.headers.location).toMatch(/^\/login\?return=/)
    expect(await countCodes()).toBe(before)
  })

  it('reads no parameter of the request from the form (46)', async () => {
    const { page, cookie, account } = await aQuestion({ scopes: ['account-email:r'] })
    const redirect = await submitConsent(t, page, cookie, 'approve', {
      scope: 'account-profile:rw',
      redirect_uri: 'https://evil.test/',
      client_id: 'evil1234',
      state: 'evil',
    })
    expect(redirect.headers.location).not.toContain('evil')
    expect(await grantsOf(account)).toEqual([{ scopes: ['account-email:r'], paths: [] }])
  })

  it('refuses a decision that comes too late, or after the application was suspended', async () => {
    const late = await aQuestion()
    await expire(t.db, 'authorization_request', { accountId: late.account.id })
    const suspended = await aQuestion()
    await changeRegistration(t.db, suspended.application, { status: 'suspended' })
    for (const { page, cookie } of [late, suspended]) {
      for (const decision of ['approve', 'deny', 'search']) {
        const refusal = await submitConsent(t, page, cookie, decision)
        expect(refusal.statusCode).toBe(400)
        expect(refusal.body).toContain('link is not accessible')
      }
    }
  })

  it.each([{ decision: '' }, { decision: 'maybe' }, { request: '' }, { request: 'x'.repeat(43) }])(
    'responds to a form with %o with a 400 page',
    async (fields) => {
      const { page, cookie } = await aQuestion()
      expect((await submitConsent(t, page, cookie, 'approve', fields)).statusCode).toBe(400)
    },
  )

  it.each<[string, RegistrationChange]>([
    ['a scope', { scopes: ['account-profile:r'] }],
    ['the resource scope', { resourceScope: 'public' }],
    ['the host of the Redirect URL', { redirectUri: 'https://elsewhere.example.com/callback' }],
    ['its secret, and the request has no PKCE', { isPublic: true }],
    ['other paths of the host', { exactRedirect: true, redirectUri: 'https://app.example.com/other' }],
  ])('refuses a decision after the application lost %s', async (_what, change) => {
    for (const decision of ['approve', 'deny']) {
      const { application, account, cookie, page } = await aQuestion()
      await changeRegistration(t.db, application, change)
      const refused = await submitConsent(t, page, cookie, decision)
      expect([refused.statusCode, refused.headers.location]).toEqual([400, undefined])
      expect(refused.body).toContain('The application was changed in the meantime.')
      expect(await grantsOf(account)).toEqual([])
    }
  })

  it.each<[string, RegistrationChange]>([
    ['a scope', { scopes: ['account-profile:r'] }],
    ['the Redirect URL', { redirectUri: 'https://elsewhere.example.com/callback' }],
    ['its approval', { status: 'suspended' }],
  ])('refuses a decision that waits for the loss of %s', async (_what, change) => {
    for (const decision of ['approve', 'deny']) {
      const { application, account, cookie, page } = await aQuestion()
      const operator = await openTransaction(t.db)
      await changeRegistration(operator.tx, application, change)
      let isDone = false
      const response = submitConsent(t, page, cookie, decision).finally(() => {
        isDone = true
      })
      await vi.waitFor(async () => expect(isDone || (await countWaiting(t.db)) === 1).toBe(true), 60_000)
      await operator.commit()
      expect([(await response).statusCode, (await response).headers.location]).toEqual([400, undefined])
      expect(await grantsOf(account)).toEqual([])
    }
  })

  it('says that something else was changing, when another transaction and the decision wait for each other', async () => {
    const { application, account, cookie, page } = await aQuestion()
    const other = await openTransaction(t.db)
    // PostgreSQL ends the transaction that is the first to look for a deadlock.
    await delayDeadlockCheck(other.tx)
    await lockRows(other.tx, 'authorization_request', { accountId: account.id })
    const response = submitConsent(t, page, cookie, 'deny')
    await untilWaiting(t.db)
    await lockRows(other.tx, 'application', { id: application.id })
    await other.rollback()
    const { statusCode, headers, body } = await response
    expect([statusCode, headers['retry-after']]).toEqual([503, '5'])
    expect(body).toContain('Something else was changing the same data at the same moment.')
    expect(body).not.toContain('database')
  })

  it('sends the browser to sign in as someone else, and back to the same request (2)', async () => {
    const { page, cookie, application } = await aQuestion()
    const { csrf_token, request } = hiddenFields(page)
    const redirect = await post(t.app, '/oauth2/auth/switch', cookie, { csrf_token, request })
    expect(redirect.statusCode).toBe(303)
    expect(redirect.headers.location).toMatch(/^\/login\?return=/)
    expect((await open(t, '/settings/authorizations', cookie)).headers.location).toContain('/login')
    const other = await signIn(t.app, await anAccount(t.db))
    const back = await open(t, String(redirect.headers.location), other)
    expect(back.headers.location).toBe(authorizeLink(application, { state: 's', prompt: 'consent' }))
  })

  /** The subjects, as pages show them, of events for a consent to less access than before. */
  async function narrowedFor({ id }: { id: string }): Promise<string[]> {
    const filter = { subjectId: id, actions: ['consent-narrowed'] }
    const events = await listEvents(t.db, filter, { after: null, limit: 10 })
    return events.reverse().map(describeSubject)
  }

  it('writes an event of a consent that covers strictly less than the one before', async () => {
    const scopes = ['account-profile:rw', 'registry-package:rw']
    const { account, application, cookie } = await aQuestion({ name: 'Bot', scopes })
    const consent = async (scope: string) => {
      const link = authorizeLink(application, { scope, prompt: 'consent' })
      expect((await submitConsent(t, await open(t, link, cookie), cookie, 'approve')).statusCode).toBe(302)
      return narrowedFor(account)
    }
    const narrower = [
      'Bot, registry-package:rw account-profile:rw for all repositories → account-profile:rw for all repositories',
      'Bot, account-profile:rw for all repositories → account-profile:r for all repositories',
    ]
    expect(await consent('account-profile:rw registry-package:rw')).toEqual([])
    expect(await consent('registry-package:rw account-profile:rw')).toEqual([])
    expect(await consent('account-profile:rw')).toEqual(narrower.slice(0, 1))
    expect(await consent('account-profile:r')).toEqual(narrower)
    expect(await consent('account-profile:r')).toEqual(narrower)
    // Other access, or more access than before, is not less.
    expect(await consent('registry-package:r')).toEqual(narrower)
    expect(await consent('registry-package:rw')).toEqual(narrower)
    await endAuthorizationsOf(t.db, account)
    // After a withdrawal nothing is allowed, so every consent allows more.
    expect(await consent('registry-package:r')).toEqual(narrower)
    const page = await open(t, '/settings/security', cookie)
    expect(page.body).toContain('Application authorized for less than before')
  })

  describe('for an application for specified repositories', () => {
    async function aChoice(differences: Parameters<typeof anApplication>[1] = {}) {
      const account = await anAccount(t.db)
      const application = await anApplication(t.db, { resourceScope: 'specified', ...differences })
      const own = await aRepository(t.db, { name: 'own', description: 'Tools of the trade' })
      const shared = await aRepository(t.db, { name: aName('shared') })
      const foreign = await aRepository(t.db, { name: aName('foreign'), visibility: 'public' })
      await aMember(t.db, account, own, 'admin')
      await aGroupMember(t.db, account, shared.group, 'guest')
      const cookie = await signIn(t.app, account)
      const page = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
      return { account, application, own, shared, foreign, cookie, page }
    }

    const offered = (page: { body: string }) =>
      [...page.body.matchAll(/name="repository" value="([^"]+)"( checked)?/g)].map(
        ([, path = '', checked]) => (checked ? `✓ ${path}` : path),
      )

    it('offers no approval to somebody who has nothing to choose', async () => {
      const account = await anAccount(t.db)
      const application = await anApplication(t.db, { resourceScope: 'specified' })
      const page = await open(t, authorizeLink(application), await signIn(t.app, account))
      expect(page.body).toContain('there is none to choose')
      expect(page.body).toContain('value="deny"')
      expect(page.body).not.toContain('value="approve"')
    })

    it('writes an event when fewer repositories are chosen than before', async () => {
      const { account, application, cookie, own, shared } = await aChoice({ scopes: ['registry-package:r'] })
      const choose = async (...repository: string[]) => {
        const page = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
        await submitConsent(t, page, cookie, 'approve', { repository })
        return narrowedFor(account)
      }
      const both = [own.path, shared.path].toSorted().join(' ')
      expect(await choose(own.path, shared.path)).toEqual([])
      const narrower = [`Package Mirror, registry-package:r for ${both} → registry-package:r for ${own.path}`]
      expect(await choose(own.path)).toEqual(narrower)
      expect(await choose(shared.path)).toEqual(narrower)
      expect(await choose(own.path, shared.path)).toEqual(narrower)
    })

    it('refuses more than 500 repositories, instead of leaving some out', async () => {
      const { account, page, cookie, own } = await aChoice()
      const many = [...Array.from({ length: 500 }, (_, n) => `acme/r${n}`), own.path]
      const refused = await submitConsent(t, page, cookie, 'approve', { repository: many })
      expect(refused.statusCode).toBe(422)
      expect(refused.body).toContain('Choose at most 500 repositories.')
      expect(await grantsOf(account)).toEqual([])
      const repeated = Array.from({ length: 501 }, () => own.path)
      const accepted = await submitConsent(t, page, cookie, 'approve', { repository: repeated })
      expect(accepted.statusCode).toBe(302)
    })

    it('shows the problem beside the choice, with the focus there', async () => {
      const { page, cookie } = await aChoice()
      const again = await submitConsent(t, page, cookie, 'approve')
      const picker = again.body.split('<fieldset id="repositories"')[1]?.split('</fieldset>')[0]
      expect(picker).toContain('role="alert"')
      expect(picker?.match(/ autofocus>/g)).toHaveLength(1)
    })

    it('offers the repositories that the account has a role on', async () => {
      const { page, own, shared } = await aChoice()
      expect(offered(page).toSorted()).toEqual([own.path, shared.path].toSorted())
    })

    it('grants the chosen ones, and the next approval adds a second grant', async () => {
      const { account, application, cookie, page, own, shared } = await aChoice()
      const redirect = await submitConsent(t, page, cookie, 'approve', {
        repository: [own.path, shared.path],
      })
      expect(redirect.statusCode).toBe(302)
      expect((await grantsOf(account))[0]?.paths).toEqual([own.path, shared.path].toSorted())
      const again = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
      await submitConsent(t, again, cookie, 'approve', { repository: shared.path })
      expect((await grantsOf(account)).map(({ paths }) => paths)).toEqual([
        [own.path, shared.path].toSorted(),
        [shared.path],
      ])
    })

    it.each([
      ['none', () => []],
      [
        'only one that the account has no role on',
        ({ foreign }: { foreign: { path: string } }) => [foreign.path],
      ],
      ['only a path below one', ({ own }: { own: { path: string } }) => [`${own.path}/x`, `${own.path}/`]],
      ['only one that does not exist', () => ['no/where', 'x', '//', "';--"]],
    ])('asks again when %s is chosen', async (_, choose) => {
      const choice = await aChoice()
      const before = await countCodes()
      const again = await submitConsent(t, choice.page, choice.cookie, 'approve', {
        repository: choose(choice),
      })
      expect(again.statusCode).toBe(422)
      expect(again.body).toContain('Choose at least one repository')
      expect(again.body).toContain('role="alert"')
      expect(await countCodes()).toBe(before)
      const redirect = await submitConsent(t, again, choice.cookie, 'approve', {
        repository: choice.own.path,
      })
      expect(redirect.statusCode).toBe(302)
    })

    it('searches by path and description, and keeps what is ticked', async () => {
      const { page, cookie, own, shared } = await aChoice()
      const search = (text: string, repository: string[]) =>
        submitConsent(t, page, cookie, 'search', { search: text, repository })
      const found = await search('SHARED', [own.path])
      expect(found.statusCode).toBe(200)
      expect(offered(found)).toEqual([`✓ ${own.path}`, shared.path])
      expect(found.body).toContain('value="SHARED"')
      expect(offered(await search('tools of', []))).toEqual([own.path])
      expect(offered(await search('%', []))).toEqual([])
    })

    it('shows a page of the repositories of an account that has many, and finds the rest', async () => {
      const { account, application, cookie } = await aChoice()
      const { group } = await aRepository(t.db, { name: 'repo-000' })
      await aGroupMember(t.db, account, group, 'guest')
      await fillGroup(t.db, group, 120)
      const page = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
      expect(offered(page)).toHaveLength(50)
      expect(page.body).toContain('There are more')
      const found = await submitConsent(t, page, cookie, 'search', {
        search: 'repo-117',
        repository: [`${group.name}/repo-003`],
      })
      expect(offered(found)).toEqual([`✓ ${group.name}/repo-003`, `${group.name}/repo-117`])
      expect(found.body).not.toContain('There are more')
    })

    it('ticks the repositories that the application already has, until the person unticks them (153)', async () => {
      const { application, cookie, page, own, shared } = await aChoice()
      expect(page.body).not.toContain('already has access')
      await submitConsent(t, page, cookie, 'approve', { repository: own.path })
      const again = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
      expect(offered(again)).toEqual([`✓ ${own.path}`, shared.path])
      expect(again.body.split('>already has access<')).toHaveLength(2)
      expect(again.body).toContain('It keeps that access until you withdraw it')
      const searched = await submitConsent(t, again, cookie, 'search', { repository: [] })
      expect(offered(searched).toSorted()).toEqual([own.path, shared.path].toSorted())
      expect(searched.body).toContain('already has access')
    })

    it('marks the scopes as new that the application does not have in each ticked repository (153)', async () => {
      const scopes = ['registry-package:rw', 'repo-basic-info:r', 'account-profile:r']
      const { application, cookie, own, shared } = await aChoice({ scopes })
      const ask = (...scope: string[]) =>
        open(t, authorizeLink(application, { prompt: 'consent', scope: scope.join(' ') }), cookie)
      const marked = ({ body }: { body: string }) =>
        [...body.matchAll(/data-scope="([^"]+)">\s*<span>[^<]*<span class="badge caution">new</g)].map(
          ([, scope]) => scope,
        )
      const first = await ask('registry-package:r')
      expect(marked(first)).toEqual([])
      await submitConsent(t, first, cookie, 'approve', { repository: own.path })
      expect(marked(await ask('registry-package:r'))).toEqual([])
      expect(marked(await ask('registry-package:rw', 'account-profile:r'))).toEqual([
        'registry-package:rw',
        'account-profile:r',
      ])
      const other = await ask('registry-package:rw', 'repo-basic-info:r')
      await submitConsent(t, other, cookie, 'approve', { repository: shared.path })
      // It may write in the one and read in the other, so writing in both is new.
      expect(marked(await ask('registry-package:rw'))).toEqual(['registry-package:rw'])
      expect(marked(await ask('registry-package:r'))).toEqual([])
    })

    it('skips the page while a chosen repository is left, and asks again when none is (47)', async () => {
      const { application, cookie, page, own } = await aChoice()
      await submitConsent(t, page, cookie, 'approve', { repository: own.path })
      expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(302)
      await dropRows(t.db, 'repository', { id: own.id })
      expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(200)
    })
  })
})
