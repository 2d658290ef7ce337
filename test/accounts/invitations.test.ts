import { beforeEach, describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { acceptInvitation } from '../../src/accounts/invitation-acceptance.ts'
import { deleteExpiredInvitations } from '../../src/accounts/invitations.ts'
import { invite } from '../../src/accounts/invite.ts'
import type { Role } from '../../src/domain/permissions.ts'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { listGroupMembers } from '../../src/groups/members.ts'
import { findReturn } from '../../src/web/pages/sign-in/return-path.ts'
import { forgetFailures, setFailures, storedAccount, verifyEmail } from '../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  cookiesOf,
  csrfTokenIn,
  post,
  signIn,
} from '../support/actors.ts'
import { type TestApp, useApp } from '../support/app.ts'
import { open } from '../support/browse.ts'
import { sendMails, useMailServer } from '../support/mail-server.ts'
import { countRows, dropRows, expire, textOf } from '../support/rows.ts'

const server = await useMailServer()
const t = useApp({ ...server.environment, SIGN_UP: 'open' })
const invited = useApp()
const closed = useApp({ SIGN_UP: 'closed' })
const chosen = 'a new and longer password'

beforeEach(async () => {
  await sendMails(t)
  server.received.length = 0
  for (const { db } of [t, invited]) await forgetFailures(db)
})

/** A group with an admin who is signed in. */
async function aManagedGroup(app: TestApp = t) {
  const group = await aGroup(app.db)
  const admin = await anAccount(app.db)
  await aGroupMember(app.db, admin, group, 'admin')
  return { group, admin, cookie: await signIn(app.app, admin) }
}

/** Creates an invitation to the group as its admin, and returns its token. */
async function aToken(app: TestApp, group: { id: string }, admin: { id: string }, role: Role = 'developer') {
  const by = { ...operator, accountId: admin.id }
  const { id, url } = await invite(app.db, app.config, by, {
    email: null,
    target: { groupId: group.id, role },
  })
  return { id, token: url?.split('token=')[1] ?? '' }
}

async function send(app: TestApp, url: string, cookie: string, fields: Record<string, string>) {
  const page = await open(app, cookie === '' ? '/login' : '/settings/account', cookie)
  const cookies = cookie === '' ? cookiesOf(page) : cookie
  return post(app.app, url, cookies, { csrf_token: csrfTokenIn(page), ...fields })
}

const asNew = (app: TestApp, token: string, fields: Record<string, string> = {}) =>
  send(app, '/invitations/account', '', {
    token,
    username: aName('new'),
    new_password: chosen,
    repeated_password: chosen,
    ...fields,
  })

const rolesIn = async (app: TestApp, group: { id: string }) =>
  Object.fromEntries(
    (await listGroupMembers(app.db, group.id, { after: '', limit: 100 })).map(({ username, role }) => [
      username,
      role,
    ]),
  )

describe('an invitation to a group', () => {
  it('by mail makes an account with a verified email, the role and a session', async () => {
    const { group, admin, cookie } = await aManagedGroup()
    const email = `${aName('ann')}@example.com`
    const made = await send(t, `/${group.name}/-/invitations`, cookie, { email, role: 'developer' })
    expect(made.statusCode).toBe(303)
    await sendMails(t)
    const [mail] = server.received
    expect([mail?.recipients, mail?.headers.get('subject')]).toEqual([
      [email],
      [`You are invited to ${group.name}`],
    ])
    expect(mail?.text).toContain(
      `${admin.username} invites you to the group ${group.name} on svc.test, as developer.`,
    )
    expect(await textOf(t.db, 'job')).not.toContain(mail?.token)

    const page = await open(t, `/invitations?token=${mail?.token}`)
    expect([page.statusCode, page.body.includes(email)]).toEqual([200, true])
    const username = aName('new')
    const accepted = await asNew(t, mail?.token ?? '', { username, email: 'other@example.com' })
    expect([accepted.statusCode, accepted.headers.location]).toEqual([303, `/${group.name}`])
    expect((await open(t, `/${group.name}`, cookiesOf(accepted))).statusCode).toBe(200)
    expect(await storedAccount(t.db, { username })).toMatchObject({
      email,
      emailVerifiedAt: expect.any(Date),
      isAdmin: false,
    })
    expect(await rolesIn(t, group)).toEqual({ [admin.username]: 'admin', [username]: 'developer' })
    // There is no notice of the first sign-in, and no mail to verify the email: the link has verified it.
    await sendMails(t)
    expect(server.received).toHaveLength(1)
    expect(t.log()).not.toContain(mail?.token)
  })

  it('by a link is shown once, and gives a role to an account that signs in first', async () => {
    const { group, cookie } = await aManagedGroup(invited)
    const made = await send(invited, `/${group.name}/-/invitations`, cookie, {
      email: 'bob@example.com',
      role: 'guest',
    })
    const [, token = ''] = /\/invitations\?token=([\w-]{43})/.exec(made.body) ?? []
    expect(token).not.toBe('')
    const list = await open(invited, `/${group.name}/-/invitations`, cookie)
    expect([list.body.includes('bob@example.com'), list.body.includes(token)]).toEqual([true, false])

    const visit = await open(invited, `/invitations?token=${token}`)
    const bob = await anAccount(invited.db)
    const session = `${await signIn(invited.app, bob)}; ${cookiesOf(visit)}`
    const link = `/login?page=${encodeURIComponent(`/invitations?token=${token}`)}`
    const toSignIn = new URL(String((await open(invited, link)).headers.location), 'http://localhost')
    expect(await findReturn(invited.db, toSignIn.searchParams.get('return') ?? '')).toBe('/invitations')
    const page = await open(invited, '/invitations', session)
    expect(page.body).toContain(`Accept as ${bob.username}`)
    const accepted = await post(invited.app, '/invitations', session, {
      csrf_token: csrfTokenIn(page),
      token,
    })
    expect(accepted.headers.location).toBe(`/${group.name}`)
    expect(await rolesIn(invited, group)).toMatchObject({ [bob.username]: 'guest' })
    expect((await open(invited, `/invitations?token=${token}`)).statusCode).toBe(410)
  })

  it('is accepted once when several new and existing accounts accept it at the same time', async () => {
    const { group, admin } = await aManagedGroup(invited)
    const { token } = await aToken(invited, group, admin)
    const bob = await anAccount(invited.db)
    const cookie = await signIn(invited.app, bob)
    const racing = await Promise.all([
      asNew(invited, token),
      asNew(invited, token),
      asNew(invited, token),
      send(invited, '/invitations', cookie, { token }),
    ])
    expect(racing.filter(({ statusCode }) => statusCode === 303)).toHaveLength(1)
    expect(racing.filter(({ statusCode }) => statusCode === 410)).toHaveLength(3)
    expect(Object.keys(await rolesIn(invited, group))).toHaveLength(2)
  })

  it('gives its role to one of twenty accounts that accept it at the same time', async () => {
    const { group, admin } = await aManagedGroup(invited)
    const { token } = await aToken(invited, group, admin)
    const accounts = await Promise.all(Array.from({ length: 20 }, () => anAccount(invited.db)))
    const racing = await Promise.all(
      accounts.map((account) => acceptInvitation(invited.db, operator, token, account)),
    )
    expect(racing.filter((invitation) => invitation !== null)).toHaveLength(1)
    expect(Object.keys(await rolesIn(invited, group))).toHaveLength(2)
  })

  it('never lowers a role', async () => {
    const { group, admin, cookie } = await aManagedGroup(invited)
    const { token } = await aToken(invited, group, admin, 'guest')
    expect((await send(invited, '/invitations', cookie, { token })).statusCode).toBe(303)
    expect(await rolesIn(invited, group)).toEqual({ [admin.username]: 'admin' })
  })

  it.each<[string, (about: { admin: { id: string }; group: { id: string } }) => Promise<unknown>]>([
    ['after 7 days', () => expire(invited.db, 'invitation')],
    ['when its inviter is disabled', ({ admin }) => disableAccount(invited.db, operator, admin.id)],
    [
      'when its inviter is no admin any more',
      ({ admin, group }) => aGroupMember(invited.db, admin, group, 'developer'),
    ],
    ['when its inviter is deleted', ({ admin }) => dropRows(invited.db, 'account', { id: admin.id })],
  ])('does not work %s', async (_when, change) => {
    const { group, admin } = await aManagedGroup(invited)
    await aGroupMember(invited.db, await anAccount(invited.db), group, 'admin')
    const { token } = await aToken(invited, group, admin)
    expect((await open(invited, `/invitations?token=${token}`)).statusCode).toBe(200)
    await change({ admin, group })
    const ended = await open(invited, `/invitations?token=${token}`)
    expect([ended.statusCode, ended.body]).toEqual([
      410,
      expect.stringContaining('Ask the person who invited you for a new link.'),
    ])
    expect((await asNew(invited, token)).statusCode).toBe(410)
  })

  it('is withdrawn by an admin of its group only', async () => {
    const { group, admin, cookie } = await aManagedGroup(invited)
    const stranger = await aManagedGroup(invited)
    const { id, token } = await aToken(invited, group, admin)
    const withdraw = (name: string, as: string) =>
      send(invited, `/${name}/-/invitations/withdraw`, as, { id })
    expect((await withdraw(stranger.group.name, stranger.cookie)).statusCode).toBe(404)
    expect((await withdraw(group.name, stranger.cookie)).statusCode).toBe(404)
    expect((await withdraw(group.name, cookie)).statusCode).toBe(303)
    expect((await withdraw(group.name, cookie)).statusCode).toBe(404)
    expect((await open(invited, `/invitations?token=${token}`)).statusCode).toBe(410)
    const list = await open(invited, `/${group.name}/-/invitations`, cookie)
    expect(list.body).toContain('There are no open invitations.')
  })

  it('writes an event when it is made, accepted and withdrawn', async () => {
    const { group, admin, cookie } = await aManagedGroup(invited)
    const { token } = await aToken(invited, group, admin)
    const { id } = await aToken(invited, group, admin, 'guest')
    await send(invited, `/${group.name}/-/invitations/withdraw`, cookie, { id })
    const bob = await anAccount(invited.db)
    await send(invited, '/invitations', await signIn(invited.app, bob), { token })
    const eventsOf = async (accountId: string) =>
      (await listEvents(invited.db, { subjectId: accountId }, { after: null, limit: 20 }))
        .filter(({ action }) => action.startsWith('invitation-'))
        .map(({ action, details }) => [action, details])
    const to = (role: string) => ({ group: group.name, role })
    expect(await eventsOf(admin.id)).toEqual([
      ['invitation-withdrawn', to('guest')],
      ['invitation-created', to('guest')],
      ['invitation-created', to('developer')],
    ])
    expect(await eventsOf(bob.id)).toEqual([['invitation-accepted', to('developer')]])
  })

  it('is listed as expired for 30 days, and then forgotten', async () => {
    const { group, admin } = await aManagedGroup(t)
    const { id } = await aToken(t, group, admin)
    const isThere = async () => {
      await deleteExpiredInvitations(t.db, 2000)
      return (await countRows(t.db, 'invitation', { id })) === 1
    }
    const expireAgo = (ago: string) => expire(t.db, 'invitation', { id }, ago)
    await expireAgo('29 days')
    expect(await isThere()).toBe(true)
    await expireAgo('31 days')
    expect(await isThere()).toBe(false)
  })

  it('keeps the form when a value is refused', async () => {
    const { group, admin } = await aManagedGroup(invited)
    const { token } = await aToken(invited, group, admin)
    const refused = [
      await asNew(invited, token, { username: admin.username }),
      await asNew(invited, token, { username: 'not a name' }),
      await asNew(invited, token, { username: '' }),
      await asNew(invited, token, { email: 'nonsense' }),
      await asNew(invited, token, { new_password: 'short', repeated_password: 'short' }),
      await asNew(invited, token, { repeated_password: 'other' }),
      await asNew(invited, token, { display_name: 'a\nb' }),
      await asNew(invited, token, { display_name: 'a'.repeat(101) }),
    ]
    expect(refused.map(({ statusCode }) => statusCode)).toEqual(refused.map(() => 400))
    expect((await asNew(invited, token)).statusCode).toBe(303)
  })

  it('makes at most 20 attempts for an account in 15 minutes, because each hashes a password', async () => {
    const { group, admin } = await aManagedGroup(invited)
    const { token } = await aToken(invited, group, admin)
    const attempt = () => asNew(invited, token, { username: admin.username })
    const first = []
    for (let n = 0; n < 18; n += 1) first.push(await attempt())
    // As many as have a turn at once: a request that waits for one gets 429 too, on a slow machine.
    const last = await Promise.all(Array.from({ length: 4 }, attempt))
    const statuses = [...first, ...last].map(({ statusCode }) => statusCode)
    expect(statuses.toSorted((a, b) => a - b)).toEqual([...Array(20).fill(400), 429, 429])
    const blocked = await attempt()
    expect(blocked.headers['retry-after']).toMatch(/^\d+$/)
    expect(blocked.body).toContain('Too many attempts. Try again in 15 minutes.')
    // Another invitation still makes accounts.
    const other = await aToken(invited, group, admin)
    expect((await asNew(invited, other.token)).statusCode).toBe(303)
  })

  it('is created by admins only, at most 100 a day, with a valid email', async () => {
    const { group, cookie } = await aManagedGroup(invited)
    const guest = await anAccount(invited.db)
    await aGroupMember(invited.db, guest, group, 'developer')
    const url = `/${group.name}/-/invitations`
    const session = await signIn(invited.app, guest)
    expect((await open(invited, url, session)).statusCode).toBe(403)
    const form = (await open(invited, `${url}/new`, cookie)).body
    expect(form).toContain('Only admins of the group invite people to it.')
    expect(form).toContain('Everybody with an account may create groups.')
    expect((await send(invited, url, session, { role: 'admin' })).statusCode).toBe(403)
    expect((await send(invited, url, cookie, { email: 'nonsense', role: 'guest' })).statusCode).toBe(400)
    expect((await send(invited, url, cookie, { role: 'owner' })).statusCode).toBe(400)
    await setFailures(invited.db, 100)
    expect((await send(invited, url, cookie, { role: 'guest' })).statusCode).toBe(429)
  })

  it('is made, listed and withdrawn under /api', async () => {
    const { group, admin } = await aManagedGroup(invited)
    const token = await aPersonalToken(invited.db, admin, { scopes: ['group-manage:rw'] })
    const ask = (method: 'GET' | 'POST' | 'DELETE', path = '', payload?: object, bearer = token) =>
      invited.app.inject({
        method,
        url: `/api/groups/${group.name}/invitations${path}`,
        headers: { authorization: `Bearer ${bearer}` },
        ...(payload && { payload }),
      })
    const made = await ask('POST', '', { role: 'developer', email: 'ann@example.com' })
    expect(made.statusCode).toBe(201)
    const { id, url } = made.json<{ id: number; url: string }>()
    expect(url).toMatch(/^http:\/\/svc\.test\/invitations\?token=[\w-]{43}$/)
    const [listed] = (await ask('GET')).json<object[]>()
    expect(listed).toMatchObject({
      id,
      email: 'ann@example.com',
      role: 'developer',
      invited_by: admin.username,
    })
    expect(JSON.stringify(listed)).not.toContain(url.slice(-43))
    expect((await ask('DELETE', `/${id}`)).statusCode).toBe(204)
    expect((await ask('DELETE', `/${id}`)).statusCode).toBe(404)
    expect((await ask('POST', '', { role: 'owner' })).statusCode).toBe(400)
    expect((await ask('POST', '', { role: 'guest', email: 'nonsense' })).statusCode).toBe(400)
    const weak = await aPersonalToken(invited.db, admin, { scopes: ['group-manage:r'] })
    expect((await ask('GET', '', undefined, weak)).statusCode).toBe(200)
    expect((await ask('POST', '', { role: 'guest' }, weak)).statusCode).toBe(403)
  })
})

describe('/admin/invitations', () => {
  it('invites to make an account, and withdraws any invitation', async () => {
    const admin = await anAccount(invited.db, { isAdmin: true })
    const cookie = await signIn(invited.app, admin)
    const made = await send(invited, '/admin/invitations', cookie, {})
    const [, token = ''] = /\/invitations\?token=([\w-]{43})/.exec(made.body) ?? []
    // A signed-in person does not use up the invitation.
    await send(invited, '/invitations', cookie, { token })
    expect((await send(invited, '/invitations/account', cookie, { token })).statusCode).toBe(409)
    const username = aName('new')
    expect((await asNew(invited, token, { username, email: 'new@example.com' })).headers.location).toBe('/')
    expect(await storedAccount(invited.db, { username })).toMatchObject({
      email: 'new@example.com',
      emailVerifiedAt: null,
    })
    const other = await aManagedGroup(invited)
    const { id } = await aToken(invited, other.group, other.admin)
    expect((await open(invited, '/admin/invitations', cookie)).body).toContain(
      `developer of ${other.group.name}`,
    )
    expect((await send(invited, '/admin/invitations/withdraw', cookie, { id })).statusCode).toBe(303)
  })

  it('does not exist for anybody else', async () => {
    const cookie = await signIn(invited.app, await anAccount(invited.db))
    expect((await open(invited, '/admin/invitations', cookie)).statusCode).toBe(404)
    expect((await send(invited, '/admin/invitations', cookie, {})).statusCode).toBe(404)
  })
})

describe('SIGN_UP=closed', () => {
  it('lets only accounts that exist accept an invitation, and invites to groups only', async () => {
    const { group, admin } = await aManagedGroup(closed)
    const { token } = await aToken(closed, group, admin)
    expect((await open(closed, `/invitations?token=${token}`)).body).not.toContain(
      'action="/invitations/account"',
    )
    expect((await asNew(closed, token)).statusCode).toBe(410)
    const bob = await anAccount(closed.db)
    expect((await send(closed, '/invitations', await signIn(closed.app, bob), { token })).statusCode).toBe(
      303,
    )
    const cookie = await signIn(closed.app, await anAccount(closed.db, { isAdmin: true }))
    expect((await send(closed, '/admin/invitations', cookie, {})).statusCode).toBe(403)
    expect((await open(closed, '/sign-up')).statusCode).toBe(404)
    expect((await open(invited, '/sign-up')).statusCode).toBe(404)
    expect((await open(invited, '/login')).body).not.toContain('/sign-up')
  })
})

describe('SIGN_UP=open', () => {
  const signUp = (email: string) => send(t, '/sign-up', '', { email })

  it('makes an account only after the link of the mail was opened', async () => {
    expect((await open(t, '/login')).body).toContain('href="/sign-up"')
    const email = `${aName('ann')}@example.com`
    expect((await signUp(email)).statusCode).toBe(200)
    await sendMails(t)
    const [mail] = server.received
    expect(mail?.headers.get('subject')).toEqual(['Your new account on svc.test'])
    const username = aName('ann')
    expect((await asNew(t, mail?.token ?? '', { username })).headers.location).toBe('/')
    expect(await storedAccount(t.db, { username })).toMatchObject({
      email,
      emailVerifiedAt: expect.any(Date),
    })
    expect((await asNew(t, mail?.token ?? '')).statusCode).toBe(410)
  })

  it('gets the same response for the email of an account, whose owner gets a mail', async () => {
    const email = `${aName('ann')}@example.com`
    const { id, username } = await anAccount(t.db, { email })
    await verifyEmail(t.db, { id })
    await sendMails(t)
    server.received.length = 0
    const bare = (body: string, typed: string) => body.replaceAll(typed, '').replace(/value="[^"]*"/g, '')
    const other = `${aName('new')}@example.com`
    expect(bare((await signUp(email)).body, email)).toBe(bare((await signUp(other)).body, other))
    await sendMails(t)
    const mail = server.received.find(({ recipients }) => recipients.includes(email))
    expect(mail?.text).toContain(`You have one already, with the username ${username}.`)
    expect(mail?.token).toBe('')
  })

  it('lets the owner of an email sign up, also when another account has that email unverified', async () => {
    const email = `${aName('ann')}@example.com`
    const squatter = await anAccount(t.db, { email: email.toUpperCase() })
    await sendMails(t)
    server.received.length = 0
    await signUp(email)
    await sendMails(t)
    const username = aName('ann')
    expect((await asNew(t, server.received[0]?.token ?? '', { username })).statusCode).toBe(303)
    expect(await storedAccount(t.db, squatter)).toMatchObject({ email: null })
    expect(await storedAccount(t.db, { username })).toMatchObject({ email })
  })

  it('is limited for a network and for an email, and rejects an invalid email', async () => {
    expect((await signUp('nonsense')).statusCode).toBe(400)
    expect((await signUp('')).statusCode).toBe(400)
    expect((await signUp(`${'a'.repeat(250)}@example.com`)).statusCode).toBe(400)
    const statuses = []
    for (let i = 0; i < 6; i += 1) statuses.push((await signUp('ann@example.com')).statusCode)
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
    for (let i = 0; i < 4; i += 1) await signUp(`${aName('x')}@example.com`)
    expect((await signUp(`${aName('x')}@example.com`)).statusCode).toBe(429)
  })

  it('leaves nothing behind when the link is never opened', async () => {
    await signUp(`${aName('ann')}@example.com`)
    await sendMails(t)
    await expire(t.db, 'invitation', { madeBy: 'sign-up' }, '1 second')
    expect(await deleteExpiredInvitations(t.db, 1000)).toBeGreaterThan(0)
    expect(await countRows(t.db, 'invitation', { madeBy: 'sign-up', acceptedAt: null })).toBe(0)
  })
})
