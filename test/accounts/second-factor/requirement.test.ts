import { describe, expect, it, vi } from 'vitest'
import { acceptInvitation } from '../../../src/accounts/invitation-acceptance.ts'
import { invite } from '../../../src/accounts/invite.ts'
import { removeTotp } from '../../../src/accounts/second-factor/factors.ts'
import { operator } from '../../../src/domain/principal.ts'
import { listMembersWithoutFactor, requireFactorOfMembers } from '../../../src/groups/factor-requirement.ts'
import { findGroupSettings, findVisibleGroup } from '../../../src/groups/groups.ts'
import { listRecentPackageEvents } from '../../../src/packages/tables/dashboard.ts'
import { listDependents } from '../../../src/packages/tables/dependencies.ts'
import { searchAllPackages } from '../../../src/packages/tables/found-packages.ts'
import { findReturn } from '../../../src/web/pages/sign-in/return-path.ts'
import { aStoredPasskey, hasSecondFactor, setProofAge } from '../../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  aMember,
  anAccount,
  aPersonalToken,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { authorizeLink, open, responseOf } from '../../support/browse.ts'
import {
  aPersonWithTotp,
  codeOf,
  continuedUrlIn,
  enrol,
  halfSignIn,
  secretIn,
} from '../../support/factor-actors.ts'
import { becomeDeveloper, endGrace } from '../../support/group-rows.ts'
import { countWaiting, lockWholeRow, openTransaction } from '../../support/locks.ts'
import { anApplication, anAuthorization } from '../../support/oauth-actors.ts'
import { aPublisher } from '../../support/registry-actors.ts'

describe('REQUIRE_SECOND_FACTOR=all', () => {
  const t = useApp({ REQUIRE_SECOND_FACTOR: 'all' })

  it('leads a person without a factor to set one up, and then on to the authorization request', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const get = (url: string) => t.app.inject({ url, headers: { cookie } })
    const { clientId } = await anApplication(t.db)
    const link = authorizeLink({ clientId }, { state: 'x'.repeat(6000) })

    for (const url of ['/', '/settings/account', '/settings/tokens', '/docs', link]) {
      expect((await get(url)).headers.location).toMatch(/^\/settings\/second-factor(\?return=|$)/)
    }
    const home = await get(String((await get(link)).headers.location))
    expect(home.body).toContain('This server requires a second factor')
    const csrf_token = csrfTokenIn(home)
    for (const url of ['/settings/tokens', '/settings/account/profile', '/oauth2/auth']) {
      const refused = await post(t.app, url, cookie, { csrf_token })
      expect(refused.headers.location).toBe('/settings/second-factor')
    }

    const returnId = /name="return" value="([^"]+)"/.exec(home.body)?.[1] ?? ''
    const started = await post(t.app, '/settings/second-factor/totp', cookie, {
      csrf_token,
      return: returnId,
    })
    const page = await get(String(started.headers.location))
    const fields = { csrf_token, code: codeOf(secretIn(page)), return: returnId }
    const codes = await post(t.app, '/settings/second-factor/totp/confirm', cookie, fields)
    const next = /class="button" href="([^"]+)"/.exec(codes.body)?.[1] ?? ''
    expect((await get(next)).headers.location).toBe(link)
    expect((await get(link)).statusCode).toBe(200)
  })

  it('sends an application with prompt=none the error that the person must act, if it has their consent', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const application = await anApplication(t.db)
    const ask = async () => responseOf(await open(t, authorizeLink(application, { prompt: 'none' }), cookie))
    expect(await ask()).toMatchObject({ error: 'consent_required' })
    await anAuthorization(t.db, account, application)
    expect(await ask()).toMatchObject({ error: 'login_required' })
  })

  it('lets a person whose sign-in is older than 15 minutes confirm it, and then set up a factor', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    await setProofAge(t.db, account, '1 hour')
    const get = (url: string) => t.app.inject({ url, headers: { cookie } })
    const csrf_token = csrfTokenIn(await get('/settings/second-factor'))
    const start = () => post(t.app, '/settings/second-factor/totp', cookie, { csrf_token })
    const asked = String((await start()).headers.location)
    expect(asked).toMatch(/^\/settings\/confirm-access/)
    const question = await get(asked)
    expect(question.statusCode).toBe(200)
    const returnId = /name="return" value="([^"]+)"/.exec(question.body)?.[1] ?? ''
    const fields = { csrf_token, current_password: password, return: returnId }
    const confirmed = await post(t.app, '/settings/confirm-access', cookie, fields)
    const goOn = continuedUrlIn(await get(String(confirmed.headers.location)))
    const resumed = await post(t.app, goOn, cookie, { csrf_token })
    expect(resumed.headers.location).toBe('/settings/second-factor/totp')
  })

  it('returns to an invitation, whose token is not stored', async () => {
    const group = await aGroup(t.db)
    const about = { email: null, target: { groupId: group.id, role: 'developer' } } as const
    const { url } = await invite(t.db, t.config, operator, about)
    const { pathname, search } = new URL(String(url))
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const led = await t.app.inject({ url: pathname + search, headers: { cookie } })
    expect(led.headers.location).toMatch(/^\/settings\/second-factor\?return=/)
    const signed = new URL(String(led.headers.location), 'http://localhost').searchParams.get('return') ?? ''
    expect(await findReturn(t.db, signed)).toBe('/invitations')
    await enrol(t, account, cookie)
    const page = await t.app.inject({
      url: '/invitations',
      headers: { cookie: `${cookie}; ${cookiesOf(led)}` },
    })
    expect(page.body).toContain(group.name)
  })

  it('keeps the last factor', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const person = await enrol(t, account, cookie)
    const csrf_token = csrfTokenIn(
      await t.app.inject({ url: '/settings/second-factor', headers: { cookie } }),
    )
    const removed = await post(t.app, '/settings/second-factor/totp/remove', cookie, {
      csrf_token,
      current_password: password,
      code: codeOf(person.secret),
    })
    expect(removed.statusCode).toBe(409)
    const { send } = await halfSignIn(t.app, person)
    expect((await send({ recovery_code: person.recoveryCodes[0] ?? '' })).statusCode).toBe(303)
  })

  it('lets somebody who lost the app replace it after a sign-in with a recovery code', async () => {
    const account = await anAccount(t.db)
    const person = await enrol(t, account, await signIn(t.app, account))
    const half = await halfSignIn(t.app, person)
    const cookie = `${half.cookie}; ${cookiesOf(await half.send({ recovery_code: person.recoveryCodes[0] ?? '' }))}`
    const url = '/settings/second-factor/totp/replace'
    const page = await t.app.inject({ url, headers: { cookie } })
    const [, replacement = ''] = /name="replacement" value="([^"]+)"/.exec(page.body) ?? []
    const secret = secretIn(page)
    const send = (code: string, sent = replacement) =>
      post(t.app, url, cookie, { csrf_token: csrfTokenIn(page), replacement: sent, code })
    // The code of the old app proves nothing about the new one, and the page keeps the secret.
    const refused = await send(codeOf(person.secret))
    expect([refused.statusCode, secretIn(refused)]).toEqual([403, secret])
    expect((await send(codeOf(secret), 'x'.repeat(80))).statusCode).toBe(409)
    expect((await send(codeOf(secret))).headers.location).toBe('/settings/second-factor')
    expect(
      (await (await halfSignIn(t.app, person)).send({ code: codeOf(person.secret, 30) })).statusCode,
    ).toBe(403)
    expect((await (await halfSignIn(t.app, person)).send({ code: codeOf(secret, 30) })).statusCode).toBe(303)
  })

  it('lets people sign out without a second factor', async () => {
    const other = await signIn(t.app, await anAccount(t.db))
    const page = await t.app.inject({ url: '/settings/second-factor', headers: { cookie: other } })
    const out = await post(t.app, '/logout', other, { csrf_token: csrfTokenIn(page) })
    expect(out.headers.location).toBe('/')
  })
})

describe('REQUIRE_SECOND_FACTOR=admins', () => {
  const t = useApp({ REQUIRE_SECOND_FACTOR: 'admins', BASE_URL: 'https://svc.example.com' })

  it.each([
    ['a passkey and the authenticator app', true],
    ['two passkeys', false],
  ])('keeps one factor when %s are removed at the same time', async (_what, hasTotp) => {
    const account = await anAccount(t.db, { isAdmin: true })
    const cookie = await signIn(t.app, account)
    const home = await t.app.inject({ url: '/settings/second-factor', headers: { cookie } })
    const csrf_token = csrfTokenIn(home)
    const remove = (path: string, fields: object) =>
      post(t.app, `/settings/second-factor/${path}/remove`, cookie, { csrf_token, ...fields })
    const removals = []
    if (hasTotp) {
      const { secret } = await enrol(t, account, cookie)
      removals.push(() => remove('totp', { current_password: password, code: codeOf(secret) }))
    }
    while (removals.length < 2) {
      const id = await aStoredPasskey(t.db, account)
      removals.push(() => remove('passkeys', { id }))
    }
    const responses = await whileLocked(account, removals)
    expect(responses.map(({ statusCode }) => String(statusCode)).toSorted()).toEqual(['303', '409'])
    expect(await hasSecondFactor(t.db, account)).toBe(true)
  })

  it('does not count an app that was never confirmed as the other factor', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    const cookie = await signIn(t.app, account)
    const home = await t.app.inject({ url: '/settings/second-factor', headers: { cookie } })
    const csrf_token = csrfTokenIn(home)
    const started = await post(t.app, '/settings/second-factor/totp', cookie, { csrf_token })
    expect(started.statusCode).toBe(303)
    const id = await aStoredPasskey(t.db, account)
    const form = { csrf_token, id }
    const removed = await post(t.app, '/settings/second-factor/passkeys/remove', cookie, form)
    expect(removed.statusCode).toBe(409)
  })

  /** Sends the requests while another transaction holds the account, so that all of them meet in the database. */
  async function whileLocked<Response>(account: { id: string }, sends: (() => Promise<Response>)[]) {
    const holder = await openTransaction(t.db)
    try {
      await lockWholeRow(holder.tx, 'account', account)
      let done = 0
      const responses = sends.map(async (send) => {
        const response = await send()
        done += 1
        return response
      })
      await vi.waitFor(async () => expect(done + (await countWaiting(t.db))).toBe(sends.length), 60_000)
      await holder.commit()
      return await Promise.all(responses)
    } finally {
      await holder.rollback()
    }
  }

  it('applies to site administrators only', async () => {
    const open = async (isAdmin: boolean) => {
      const cookie = await signIn(t.app, await anAccount(t.db, { isAdmin }))
      return (await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode
    }
    expect([await open(false), await open(true)]).toEqual([200, 303])
  })
})

describe('a group that requires a second factor', () => {
  const t = useApp()

  /** A group with a private repository, its admin, and a member of the group or of the repository with a token. */
  async function aStrictGroup(of: 'group' | 'repository' = 'group') {
    const group = await aGroup(t.db)
    const repository = await aRepository(t.db, { group })
    const admin = await aPersonWithTotp(t)
    await aGroupMember(t.db, admin, group, 'admin')
    const member = await anAccount(t.db)
    if (of === 'group') await aGroupMember(t.db, member, group, 'developer')
    else await aMember(t.db, member, repository, 'developer')
    const token = await aPersonalToken(t.db, member, {
      scopes: ['group-resource:r', 'repo-basic-info:r', 'registry-package:r'],
    })
    const url = `/${group.name}/-/settings`
    const csrf_token = csrfTokenIn(await t.app.inject({ url, headers: { cookie: admin.cookie } }))
    const rule = (second_factor: string, days = '') =>
      post(t.app, `${url}/second-factor`, admin.cookie, { csrf_token, second_factor, days })
    const statuses = async () => {
      const headers = { authorization: `Bearer ${token}` }
      const urls = [`/${repository.path}/-/packages/packages.json`, `/api/repositories/${repository.path}`]
      const responses = await Promise.all(urls.map((one) => t.app.inject({ url: one, headers })))
      const lists = await Promise.all(
        ['/api/repositories', '/api/groups'].map((one) => t.app.inject({ url: one, headers })),
      )
      return [
        ...responses.map(({ statusCode }) => statusCode),
        ...lists.map(({ body }) => body.includes(group.name)),
      ]
    }
    return { group, repository, admin, member, token, rule, statuses, url }
  }

  it.each(['group', 'repository'] as const)(
    'gives no role to a member of the %s without one, not even through tokens',
    async (of) => {
      const { group, member, rule, statuses, url, admin } = await aStrictGroup(of)
      const cookie = await signIn(t.app, member)
      expect(await statuses()).toEqual([200, 200, true, true])
      expect((await rule('now')).headers.location).toBe(url)
      expect(await statuses()).toEqual([403, 403, false, false])
      const led = await t.app.inject({ url: '/', headers: { cookie } })
      const page = await t.app.inject({ url: String(led.headers.location), headers: { cookie } })
      expect(page.body).toContain(`${group.name} requires a second factor`)
      expect(page.body).not.toContain('keep working')

      await enrol(t, member, cookie)
      expect(await statuses()).toEqual([200, 200, true, true])
      expect((await t.app.inject({ url: '/', headers: { cookie } })).statusCode).toBe(200)
      const shown = await t.app.inject({ url: `${url}/second-factor`, headers: { cookie: admin.cookie } })
      expect(shown.body).toContain('Make it optional')
    },
  )

  it('names itself in the errors of its members, and where to set one up', async () => {
    const { group, repository, token, member, rule } = await aStrictGroup('repository')
    await rule('now')
    const words = `The group ${group.name} requires a second factor, and the account of this token has none. Set one up at ${t.config.baseUrl}/settings/second-factor and try again.`
    const ask = (url: string, bearer = token) =>
      t.app.inject({ url, headers: { authorization: `Bearer ${bearer}` } })
    const registry = `/${repository.path}/-/packages`
    for (const url of [`${registry}/packages.json`, `${registry}/p2/acme/lib.json`]) {
      const refused = await ask(url)
      expect([refused.statusCode, refused.json().warning]).toEqual([403, words])
    }
    const scopes = ['group-manage:r', 'group-resource:r']
    const groupToken = await aPersonalToken(t.db, member, { scopes })
    for (const [url, bearer] of [
      [`/api/repositories/${repository.path}`, token],
      [`/api/groups/${group.name}`, groupToken],
      [`/api/groups/${group.name}/repositories`, groupToken],
    ] as const) {
      const refused = await ask(url, bearer)
      expect([url, refused.statusCode, refused.json().errmsg]).toEqual([url, 403, words])
    }
    // Nobody else learns that the repository exists, and a token for other repositories does not either.
    const stranger = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['registry-package:r'] })
    const narrow = await aPersonalToken(t.db, member, {
      resourceScope: 'public',
      scopes: ['registry-package:r'],
    })
    for (const other of [stranger, narrow]) {
      expect((await ask(`${registry}/packages.json`, other)).statusCode).toBe(404)
    }
    const cookie = await signIn(t.app, member)
    const application = await anApplication(t.db)
    await anAuthorization(t.db, member, application)
    const silent = await open(t, authorizeLink(application, { prompt: 'none' }), cookie)
    expect(responseOf(silent)['error_description']).toBe(
      `The account needs a second factor. Set one up at ${t.config.baseUrl}/settings/second-factor.`,
    )
  })

  it('keeps the roles during a grace period, and takes them when it ends', async () => {
    const { group, member, rule, statuses, url } = await aStrictGroup()
    const cookie = await signIn(t.app, member)
    const home = async () => t.app.inject({ url: '/', headers: { cookie } })
    expect((await rule('later', '14')).headers.location).toBe(url)
    expect(await statuses()).toEqual([200, 200, true, true])
    expect((await home()).body).toMatch(
      new RegExp(`href="/${group.name}">${group.name}</a>\\s+requires a second factor\\s+<time`),
    )
    await endGrace(t.db, group)
    expect(await statuses()).toEqual([403, 403, false, false])
    expect((await home()).headers.location).toBe('/settings/second-factor')
  })

  it('keeps the last factor of a member also during the grace period', async () => {
    const { group, rule } = await aStrictGroup()
    const person = await aPersonWithTotp(t)
    await aGroupMember(t.db, person, group, 'guest')
    await rule('later', '14')
    expect(await removeTotp(t.db, operator, person.id, 'off')).toBe('required')
  })

  it.each(['0', '91', '', '1.5', 'x'])('has no grace period of “%s” days', async (days) => {
    const { rule, statuses } = await aStrictGroup()
    const refused = await rule('later', days)
    expect([refused.statusCode, refused.body.includes('must have 1 to 90 days')]).toEqual([400, true])
    expect(await statuses()).toEqual([200, 200, true, true])
  })

  it('can be required earlier than chosen, but not later', async () => {
    const { group, rule, statuses } = await aStrictGroup()
    const days = async () => {
      const from = (await findGroupSettings(t.db, group.id))?.secondFactorFrom
      return from ? Math.round((from.getTime() - Date.now()) / 86_400_000) : null
    }
    // Of all choices that are made at the same time, the earliest holds.
    await Promise.all(['30', '10', '20'].map((one) => rule('later', one)))
    expect(await days()).toBe(10)
    await requireFactorOfMembers(t.db, operator, group, { isRequired: true })
    expect(await days()).toBe(10)
    await rule('now')
    expect(await statuses()).toEqual([403, 403, false, false])
    await rule('later', '20')
    expect(await statuses()).toEqual([403, 403, false, false])
  })

  it('shows its admins first who has none', async () => {
    const { group, repository, admin, member, url } = await aStrictGroup()
    const ofRepository = await anAccount(t.db)
    await aMember(t.db, ofRepository, repository, 'guest')
    const page = await t.app.inject({ url: `${url}/second-factor`, headers: { cookie: admin.cookie } })
    expect(page.body).toContain('2 of 3 members have no second factor.')
    const listed = await listMembersWithoutFactor(t.db, group.id, { after: null, limit: 10 })
    expect(listed).toEqual(
      [
        { username: member.username, groupRole: 'developer' },
        { username: ofRepository.username, groupRole: null },
      ]
        .toSorted((one, other) => (one.username < other.username ? -1 : 1))
        .map((one) => expect.objectContaining(one)),
    )
    for (const { username } of listed) expect(page.body).toContain(`<th scope="row">${username}</th>`)
    expect(page.body).not.toContain(`<th scope="row">${admin.username}</th>`)
  })

  it('lists none of its repositories to a member of a repository without one', async () => {
    const { group, repository, member, rule } = await aStrictGroup('repository')
    const publisher = await aPublisher(t, { repository })
    const manifest = { require: { 'acme/other': '^1.0' } }
    expect((await publisher.push('1.0.0', { name: 'acme/strict', manifest })).statusCode).toBe(201)
    const about = { accountId: member.id, target: 'acme/other' }
    const seen = async () => [
      (await findVisibleGroup(t.db, group.name, member.id)) !== null,
      (await listRecentPackageEvents(t.db, member.id, 10)).length > 0,
      (await searchAllPackages(t.db, member.id, 'strict', 10)).length > 0,
      (await listDependents(t.db, about, { after: null, limit: 10 })).length > 0,
    ]
    expect(await seen()).toEqual([true, true, true, true])
    await rule('now')
    expect(await seen()).toEqual([false, false, false, false])
  })

  it('keeps the last factor of a member of a repository', async () => {
    const { repository, rule, group } = await aStrictGroup()
    const person = await aPersonWithTotp(t)
    await aMember(t.db, person, repository, 'guest')
    await rule('now')
    expect(await removeTotp(t.db, operator, person.id, 'off')).toBe('required')
    const page = await t.app.inject({ url: '/settings/second-factor', headers: { cookie: person.cookie } })
    expect(page.body).toContain(`${group.name} requires a second factor.`)
    await rule('optional')
    expect(await removeTotp(t.db, operator, person.id, 'off')).toBe('removed')
  })

  it('suspends the invitations of an admin without one', async () => {
    const { group, rule } = await aStrictGroup()
    const inviter = await anAccount(t.db)
    await aGroupMember(t.db, inviter, group, 'admin')
    const draft = { email: null, target: { groupId: group.id, role: 'admin' as const } }
    const by = { ...operator, accountId: inviter.id }
    const { url } = await invite(t.db, t.config, by, draft)
    const token = new URL(url ?? '').searchParams.get('token') ?? ''
    const guest = await anAccount(t.db)
    const cookie = await signIn(t.app, inviter)
    await rule('now')
    expect((await t.app.inject(`/invitations?token=${token}`)).statusCode).toBe(410)
    expect(await acceptInvitation(t.db, operator, token, guest)).toBeNull()
    await enrol(t, inviter, cookie)
    expect((await t.app.inject(`/invitations?token=${token}`)).statusCode).toBe(200)
    expect(await acceptInvitation(t.db, operator, token, guest)).toMatchObject({ group: group.name })
  })

  it('no longer requires it after its admin changed the setting', async () => {
    const { rule, statuses } = await aStrictGroup()
    await rule('now')
    await rule('optional')
    expect(await statuses()).toEqual([200, 200, true, true])
    expect((await rule('perhaps')).statusCode).toBe(400)
  })

  it('can be set only by an admin who has a factor', async () => {
    const { group, url, statuses } = await aStrictGroup()
    const other = await anAccount(t.db)
    await aGroupMember(t.db, other, group, 'admin')
    const cookie = await signIn(t.app, other)
    const csrf_token = csrfTokenIn(await t.app.inject({ url, headers: { cookie } }))
    const refused = await post(t.app, `${url}/second-factor`, cookie, {
      csrf_token,
      second_factor: 'now',
    })
    expect(refused.statusCode).toBe(409)
    expect(refused.body).toContain('Add a second factor to your own account first')
    expect(refused.body).toContain('<button type="submit" disabled>Require it</button>')
    await becomeDeveloper(t.db, other)
    const denied = await post(t.app, `${url}/second-factor`, cookie, {
      csrf_token,
      second_factor: 'now',
    })
    expect(denied.statusCode).toBe(403)
    expect(await statuses()).toEqual([200, 200, true, true])
    expect(cookiesOf(refused)).not.toContain('svc_session')
  })
})
