import { describe, expect, it } from 'vitest'
import { findAccountDetails } from '../../src/accounts/accounts.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { describeBrowser } from '../../src/events/event-words.ts'
import {
  ageSessions,
  listStoredSessions,
  moveNewestSession,
  storedAccount,
  verifyEmail,
} from '../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  anAccount,
  aPersonalToken,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { membersOf } from '../support/group-rows.ts'
import { anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { countRows } from '../support/rows.ts'
import { worksOf } from '../support/token-rows.ts'

const t = useApp()

/** A signed-in browser. `send` posts a form of an account page. */
async function aVisitor(about: Parameters<typeof anAccount>[1] = {}) {
  const account = await anAccount(t.db, about)
  const cookie = await signIn(t.app, account)
  const open = (url: string) => t.app.inject({ url, headers: { cookie } })
  const csrf_token = csrfTokenIn(await open('/settings/account'))
  const send = (url: string, form: Record<string, string>) =>
    post(t.app, url, cookie, { csrf_token, ...form })
  return { account, cookie, open, send }
}

const isSignedIn = async (cookie: string) =>
  (await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode === 200

describe('/settings/sessions', () => {
  it('describes each browser with its network, and ends one or all others', async () => {
    const { account, cookie, open, send } = await aVisitor()
    const [second, third] = [await signIn(t.app, account), await signIn(t.app, account)]
    await moveNewestSession(t.db, account, {
      userAgent: 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile Safari/604.1',
      network: '198.51.100.7',
    })
    const page = await open('/settings/sessions')
    expect(page.body).toContain('Safari on iPhone')
    expect(page.body).toContain('from 198.51.100.7')
    expect(page.body.match(/This browser/g)).toHaveLength(1)
    const keys = Array.from(
      page.body.matchAll(/sessions\/end\?session=([0-9a-f]{64})"/g),
      ([, key]) => key ?? '',
    )
    expect(keys).toHaveLength(2)

    const ended = await send('/settings/sessions/end', { session: keys[0] ?? '' })
    expect(ended.headers.location).toBe('/settings/sessions')
    expect([await isSignedIn(second), await isSignedIn(third)].filter(Boolean)).toHaveLength(1)
    await send('/settings/sessions/end-others', {})
    expect(await Promise.all([second, third, cookie].map(isSignedIn))).toEqual([false, false, true])
  })

  it('does not end the session of somebody else', async () => {
    const ann = await aVisitor()
    const ben = await aVisitor()
    const [hers] = await listStoredSessions(t.db, ben.account)
    for (const session of [hers?.key ?? expect.fail(), '', 'nonsense']) {
      const response = await ann.send('/settings/sessions/end', { session })
      expect(response.headers.location).toBe('/settings/sessions')
    }
    expect(await isSignedIn(ben.cookie)).toBe(true)
    expect(await isSignedIn(ann.cookie)).toBe(true)
  })

  it('notes the network that a session was last used from', async () => {
    const { account, cookie } = await aVisitor()
    await ageSessions(t.db, account, '2 minutes')
    await t.app.inject({ url: '/settings/sessions', headers: { cookie }, remoteAddress: '203.0.113.9' })
    expect(await listStoredSessions(t.db, account)).toMatchObject([
      { network: '127.0.0.1', lastNetwork: '203.0.113.9' },
    ])
  })
})

it.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux'],
  [
    'Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36',
    'Chrome on Android',
  ],
  ['Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) Version/18.0 Safari/605.1.15', 'Safari on macOS'],
  ['curl/8.14', 'curl'],
  ['x'.repeat(100), 'x'.repeat(60)],
  [null, 'Unknown browser'],
])('describes the browser %s as %s', (userAgent, words) => {
  expect(describeBrowser(userAgent)).toBe(words)
})

describe('the profile at /settings/account', () => {
  it('changes the display name', async () => {
    const { account, send, open } = await aVisitor()
    expect((await send('/settings/account/profile', { display_name: ' Ann <Lee> ' })).statusCode).toBe(303)
    expect((await open('/settings/account')).body).toContain('<td>Ann &lt;Lee&gt;</td>')
    expect(await findAccountDetails(t.db, account.username)).toMatchObject({ displayName: 'Ann <Lee>' })
    const long = await send('/settings/account/profile', { display_name: 'x'.repeat(101) })
    expect(long.body).toContain(`name="display_name" value="${'x'.repeat(101)}"`)
    expect(long.body).toMatch(/action="\/settings\/account\/profile" aria-describedby="problem"/)
    expect([long.statusCode, long.body.includes('at most 100 characters')]).toEqual([400, true])
    const lines = await send('/settings/account/profile', { display_name: 'a\nb' })
    expect([lines.statusCode, lines.body.includes('one line of text')]).toEqual([400, true])
  })

  it('changes username and email with the password, and a new email is not verified', async () => {
    const { account, send, open } = await aVisitor()
    const [username, email] = [`${account.username}-new`, `${account.username}@example.com`]
    const form = { username, email, current_password: password }
    const wrong = await send('/settings/account/sign-in', { ...form, current_password: 'wrong' })
    expect([wrong.statusCode, wrong.body.includes('password is wrong')]).toEqual([403, true])
    // The form keeps what was entered, except the password.
    expect(wrong.body).toContain(`name="username" value="${username}"`)
    expect(wrong.body).toContain(`name="email" type="email" value="${email}"`)
    expect(wrong.body).toMatch(/action="\/settings\/account\/sign-in" aria-describedby="problem"/)
    expect(wrong.body).not.toContain('value="wrong"')
    expect((await send('/settings/account/sign-in', form)).statusCode).toBe(303)
    expect((await open('/settings/account')).body).toContain('Not verified')
    await verifyEmail(t.db, account)
    expect((await open('/settings/account')).body).not.toContain('Not verified')
    await send('/settings/account/sign-in', { ...form, email: `other-${email}` })
    expect(await findAccountDetails(t.db, username)).toMatchObject({
      email: `other-${email}`,
      emailVerifiedAt: null,
    })
  })

  it.each([
    ['a username of somebody else', { username: 'taken' }, 'This username is taken'],
    ['no username', { username: 'no spaces' }, 'A username has'],
    ['an email of somebody else', { email: 'TAKEN@example.com' }, 'This email belongs to another account.'],
    ['no email', { email: 'nonsense' }, 'Enter a valid email address'],
  ])('refuses %s', async (_what, change, problem) => {
    await anAccount(t.db, { username: 'taken', email: 'taken@example.com' }).catch(() => {})
    await verifyEmail(t.db, (await storedAccount(t.db, { username: 'taken' })) ?? expect.fail())
    const { account, send } = await aVisitor()
    const form = { username: account.username, email: '', current_password: password, ...change }
    const refused = await send('/settings/account/sign-in', form)
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain(problem)
  })
})

describe('the data and the deletion of an account at /settings/account', () => {
  it('exports all that is stored, without secrets and without other accounts', async () => {
    const { account, open } = await aVisitor({ email: `export@example.com`, displayName: 'Ann' })
    const token = await aPersonalToken(t.db, account, { name: 'laptop' })
    await aGroupMember(t.db, account, await aGroup(t.db, 'exported-group'), 'developer')
    await aPersonalToken(t.db, await anAccount(t.db), { name: 'of somebody else' })
    const response = await open('/settings/account/export')
    expect(response.headers['content-disposition']).toBe('attachment; filename="account.json"')
    expect(response.json()).toMatchObject({
      account: { username: account.username, name: 'Ann', email: 'export@example.com' },
      groups: [{ group: 'exported-group', role: 'developer' }],
      sessions: [{ network: '127.0.0.1' }],
      tokens: [{ name: 'laptop' }],
      authorizations: [],
      events: [{ action: 'token-created' }, { action: 'sign-in' }, { action: 'account-created' }],
    })
    for (const secret of [token, 'argon2', 'of somebody else']) expect(response.body).not.toContain(secret)
    expect((await t.app.inject('/settings/account/export')).statusCode).toBe(303)
  })

  it('revokes all tokens and applications of the account after a confirmation, and nothing else', async () => {
    const { account, cookie, open, send } = await aVisitor()
    const other = await anAccount(t.db)
    const [own, others] = [await aPersonalToken(t.db, account), await aPersonalToken(t.db, other)]
    const application = await anApplication(t.db)
    await anAuthorization(t.db, account, application)
    await anAuthorization(t.db, other, application)
    expect((await open('/settings/account/revoke-all')).body).toContain('Revoke all tokens and applications?')
    const revoked = await send('/settings/account/revoke-all', {})
    expect([revoked.statusCode, revoked.headers.location]).toEqual([303, '/settings/account'])
    expect(await worksOf(t.db, own, others)).toEqual([others])
    const about = { applicationId: application.id, endedAt: null }
    expect(await countRows(t.db, 'account_authorization', about)).toBe(1)
    expect(await countRows(t.db, 'account_authorization', { ...about, accountId: other.id })).toBe(1)
    expect(await isSignedIn(cookie)).toBe(true)
    const events = await listEvents(t.db, { subjectId: account.id }, { after: null, limit: 2 })
    expect(new Set(events.map(({ action, actor }) => `${action} by ${actor}`))).toEqual(
      new Set([`token-revoked by ${account.username}`, `authorization-withdrawn by ${account.username}`]),
    )
  })

  it('asks before the deletion what happens to groups without another admin', async () => {
    const { account, send } = await aVisitor()
    const [handedOver, left] = [await aGroup(t.db), await aGroup(t.db)]
    const heir = await anAccount(t.db)
    await aGroupMember(t.db, account, handedOver, 'admin')
    const form = { username: account.username, current_password: password }
    const asked = await send('/settings/account/delete', form)
    expect([asked.statusCode, asked.body.includes('name="groups_to"')]).toEqual([409, true])
    for (const groups_to of ['nobody-at-all', account.username]) {
      expect((await send('/settings/account/delete', { ...form, groups_to })).statusCode).toBe(400)
    }
    const both = { ...form, groups_to: heir.username, leave_groups: 'yes' }
    expect((await send('/settings/account/delete', both)).statusCode).toBe(400)
    expect((await send('/settings/account/delete', { ...form, groups_to: heir.username })).statusCode).toBe(
      303,
    )
    expect(await membersOf(t.db, handedOver)).toEqual([{ accountId: heir.id, role: 'admin' }])
    const second = await aVisitor()
    await aGroupMember(t.db, second.account, left, 'admin')
    const leave = { username: second.account.username, current_password: password, leave_groups: 'yes' }
    expect((await second.send('/settings/account/delete', leave)).statusCode).toBe(303)
    expect(await membersOf(t.db, left)).toEqual([])
  })

  it('deletes the account after username and password, unless a group would lose its only admin', async () => {
    const { account, cookie, send } = await aVisitor()
    const form = { username: account.username, current_password: password }
    const unconfirmed = await send('/settings/account/delete', { ...form, username: '' })
    expect([unconfirmed.statusCode, unconfirmed.body.includes('Type your username to confirm')]).toEqual([
      400,
      true,
    ])
    expect((await send('/settings/account/delete', { ...form, current_password: 'wrong' })).statusCode).toBe(
      403,
    )
    const group = await aGroup(t.db, 'only-mine')
    await aGroupMember(t.db, account, group, 'admin')
    const refused = await send('/settings/account/delete', form)
    expect([refused.statusCode, refused.body.includes('the only admin of only-mine')]).toEqual([409, true])
    await aGroupMember(t.db, await anAccount(t.db), group, 'admin')
    const deleted = await send('/settings/account/delete', form)
    expect(deleted.statusCode).toBe(303)
    const notice = deleted.cookies.find(({ name }) => name === 'svc_notice')?.value ?? ''
    const landed = await t.app.inject({ url: '/', headers: { cookie: `svc_notice=${notice}` } })
    expect(landed.body).toContain('Your account was deleted.')
    expect(await findAccountDetails(t.db, account.username)).toBeNull()
    expect(await isSignedIn(cookie)).toBe(false)
  })
})
