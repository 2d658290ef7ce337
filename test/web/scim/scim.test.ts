import { describe, expect, it } from 'vitest'
import { exportAccount } from '../../../src/accounts/account-export.ts'
import { deleteAccount, disableAccount, updateAccount } from '../../../src/accounts/account-lifecycle.ts'
import { operator } from '../../../src/domain/principal.ts'
import { findGroup } from '../../../src/groups/groups.ts'
import { setGroupMember } from '../../../src/groups/members.ts'
import { setAdministrator, storedAccount, verifyEmail } from '../../support/account-rows.ts'
import {
  aGroup,
  aName,
  anAccount,
  anAdminToken,
  aPersonalToken,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { groupRolesOf } from '../../support/group-rows.ts'
import { openSignUp, useIdentityProvider, Walker } from '../../support/identity-provider.ts'
import { lockRow, openTransaction, untilWaiting } from '../../support/locks.ts'
import { freePort } from '../../support/program.ts'

const red = aName('red')
const acme = useIdentityProvider('acme', await freePort(), 'http://svc.test', {
  GROUP_MAP: `developers=${red}:write,admins=${red}:admin`,
})
const t = useApp({ ...openSignUp, ...acme.environment })
const base = '/api/scim/acme/v2'
const scopes = ['group-manage:rw']
const userSchema = 'urn:ietf:params:scim:schemas:core:2.0:User'
const patchSchema = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'

let token: string | undefined

/** Sends a request with the token of the directory. */
async function send(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, body?: unknown) {
  token ??= await anAdminToken(t.db, await anAccount(t.db, { isAdmin: true }), { scopes })
  return t.app.inject({
    method,
    url: url.startsWith('/') ? url : `${base}/${url}`,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { 'content-type': 'application/scim+json' }),
    },
    ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
}

/** What Okta sends for a new user. */
const oktaUser = (email: string, more: object = {}) => ({
  schemas: [userSchema],
  userName: email,
  name: { givenName: 'Ada', familyName: 'Byron' },
  emails: [{ primary: true, value: email, type: 'work' }],
  displayName: 'Ada Byron',
  locale: 'en-US',
  externalId: aName('00u'),
  groups: [],
  active: true,
  ...more,
})

async function aUser(more: object = {}) {
  const body = oktaUser(`${aName('ada')}@example.com`, more)
  const response = await send('POST', 'Users', body)
  expect(response.statusCode).toBe(201)
  return { ...body, ...response.json<{ id: string }>() }
}

/** What Entra ID sends for a change. */
const entraPatch = (...operations: object[]) => ({ schemas: [patchSchema], Operations: operations })

const accountOf = async ({ id }: { id: string }) => (await storedAccount(t.db, { id })) ?? expect.fail()

describe('users of a directory', () => {
  it('get an account with a verified email and no password', async () => {
    const email = `${aName('grace.hopper')}@example.com`
    const response = await send('POST', 'Users', oktaUser(email))
    expect(response.statusCode).toBe(201)
    expect(response.headers['content-type']).toBe('application/scim+json; charset=utf-8')
    const user = response.json()
    expect(user).toMatchObject({
      schemas: [userSchema],
      userName: email,
      active: true,
      displayName: 'Ada Byron',
      name: { givenName: 'Ada', familyName: 'Byron' },
      emails: [{ value: email, primary: true }],
      meta: { resourceType: 'User', location: `http://svc.test${base}/Users/${user.id}` },
    })
    expect(response.headers.location).toBe(user.meta.location)
    const account = await accountOf(user)
    expect(account).toMatchObject({
      username: email.split('@')[0],
      email,
      isAdmin: false,
      passwordHash: null,
    })
    expect(account.emailVerifiedAt).not.toBeNull()
    expect((await send('GET', `Users/${user.id}`)).json()).toEqual(user)
    const events = await eventsOf(t.db, { accountId: user.id }, ['action'])
    expect(events.map(({ action }) => action)).toEqual(['account-created', 'account-provisioned'])
  })

  it('are found by the filters that Okta and Entra ID send, whatever the case of letters', async () => {
    const user = await aUser()
    const find = async (filter: string) => {
      const response = await send('GET', `Users?filter=${encodeURIComponent(filter)}&startIndex=1&count=100`)
      expect(response.statusCode).toBe(200)
      return response.json<{ totalResults: number; Resources: { id: string }[] }>()
    }
    for (const filter of [
      `userName eq "${user.userName.toUpperCase()}"`,
      `externalId eq "${user.externalId}"`,
      `externalId eq "${user.externalId}" and userName eq "${user.userName}"`,
      `emails[type eq "work" and value eq "${user.userName}"]`,
      `emails.value eq "${user.userName}" and active eq true`,
      `${userSchema}:userName eq "${user.userName}"`,
    ]) {
      expect([filter, (await find(filter)).Resources.map(({ id }) => id)]).toEqual([filter, [user.id]])
    }
    expect(await find('userName eq "nobody@example.com"')).toMatchObject({ totalResults: 0, Resources: [] })
  })

  it('are listed in parts, with the attributes that were asked for', async () => {
    await aUser()
    await aUser()
    const all = (await send('GET', 'Users')).json<{ totalResults: number; Resources: { id: string }[] }>()
    expect(all.totalResults).toBeGreaterThanOrEqual(2)
    const second = (await send('GET', 'Users?startIndex=2&count=1&attributes=userName')).json()
    expect(second).toMatchObject({ totalResults: all.totalResults, startIndex: 2, itemsPerPage: 1 })
    expect(Object.keys(second.Resources[0]).toSorted()).toEqual(['id', 'schemas', 'userName'])
    expect(second.Resources[0].id).toBe(all.Resources[1]?.id)
    expect((await send('GET', 'Users?count=0')).json()).toMatchObject({
      totalResults: all.totalResults,
      Resources: [],
    })
  })

  it('are disabled by each form of the change to not active, and sessions and tokens die at once', async () => {
    for (const change of [
      (id: string) =>
        send('PATCH', `Users/${id}`, entraPatch({ op: 'Replace', path: 'active', value: 'False' })),
      (id: string) => send('PATCH', `Users/${id}`, entraPatch({ op: 'replace', value: { active: false } })),
      async (id: string) =>
        send('PUT', `Users/${id}`, { ...(await send('GET', `Users/${id}`)).json<object>(), active: false }),
    ]) {
      const user = await aUser()
      const account = { id: user.id, username: (await accountOf(user)).username }
      const own = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
      const ask = () =>
        t.app
          .inject({ url: '/api/user', headers: { authorization: `Bearer ${own}` } })
          .then((r) => r.statusCode)
      expect(await ask()).toBe(200)
      const response = await change(user.id)
      expect([response.statusCode, response.json().active]).toEqual([200, false])
      expect(await ask()).toBe(401)
      expect((await accountOf(user)).isDisabled).toBe(true)
      const back = await send(
        'PATCH',
        `Users/${user.id}`,
        entraPatch({ op: 'Add', path: 'active', value: 'True' }),
      )
      expect(back.json().active).toBe(true)
      expect((await accountOf(user)).isDisabled).toBe(false)
    }
  })

  it('stay disabled by an administrator while the directory says nothing new', async () => {
    const user = await aUser()
    await disableAccount(t.db, operator, user.id)
    const all = (await send('GET', `Users/${user.id}`)).json<object>()
    expect((await send('PUT', `Users/${user.id}`, { ...all, displayName: 'Ada King' })).statusCode).toBe(200)
    expect(await accountOf(user)).toMatchObject({ isDisabled: true, displayName: 'Ada King' })
  })

  it('change their names and their email, which stays verified', async () => {
    const user = await aUser()
    const email = `${aName('new')}@example.com`
    const response = await send(
      'PATCH',
      `Users/${user.id}`,
      entraPatch(
        { op: 'Replace', path: 'emails[type eq "work"].value', value: email },
        { op: 'Replace', path: 'displayName', value: 'Ada King' },
        { op: 'Add', path: 'name.familyName', value: 'King' },
        {
          op: 'Add',
          path: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department',
          value: 'Math',
        },
        { op: 'Replace', value: { userName: email, title: 'Countess' } },
      ),
    )
    expect(response.statusCode).toBe(200)
    expect(response.json()).toMatchObject({
      userName: email,
      displayName: 'Ada King',
      name: { givenName: 'Ada', familyName: 'King' },
      emails: [{ value: email }],
    })
    const account = await accountOf(user)
    expect(account).toMatchObject({ email, displayName: 'Ada King' })
    expect(account.emailVerifiedAt).not.toBeNull()
  })

  it('are removed for good, and the same person gets the account back', async () => {
    const user = await aUser()
    expect((await send('DELETE', `Users/${user.id}`)).statusCode).toBe(204)
    expect((await send('GET', `Users/${user.id}`)).statusCode).toBe(404)
    expect((await send('DELETE', `Users/${user.id}`)).statusCode).toBe(404)
    expect((await accountOf(user)).isDisabled).toBe(true)
    const { id: _, ...body } = user
    const again = await send('POST', 'Users', body)
    expect([again.statusCode, again.json().id]).toEqual([201, user.id])
    expect((await accountOf(user)).isDisabled).toBe(false)
  })

  it('never get the account of somebody who left, even with the same name and email', async () => {
    const former = await aUser()
    await send('DELETE', `Users/${former.id}`)
    const next = await send('POST', 'Users', oktaUser(former.userName))
    expect(next.statusCode).toBe(201)
    expect(next.json().id).not.toBe(former.id)
    expect((await accountOf(former)).isDisabled).toBe(true)
    expect(await accountOf(next.json())).toMatchObject({ email: former.userName, isDisabled: false })
  })

  it('stay as they are when a change does not say whether they are active', async () => {
    const user = await aUser({ active: false })
    const { active: _, ...silent } = oktaUser(user.userName)
    expect((await send('PUT', `Users/${user.id}`, silent)).json().active).toBe(false)
    expect((await accountOf(user)).isDisabled).toBe(true)
  })

  it('exist once, however many requests create them at the same time', async () => {
    const body = oktaUser(`${aName('twin')}@example.com`)
    const responses = await Promise.all(Array.from({ length: 5 }, () => send('POST', 'Users', body)))
    expect(responses.map(({ statusCode }) => statusCode).toSorted((one, other) => one - other)).toEqual([
      201, 409, 409, 409, 409,
    ])
    const refused = responses.find(({ statusCode }) => statusCode === 409)
    expect(refused?.json()).toMatchObject({
      schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
      status: '409',
      scimType: 'uniqueness',
    })
  })

  it('get the account that they had, or that has their verified email, in one of many requests', async () => {
    const former = await aUser()
    await send('DELETE', `Users/${former.id}`)
    const email = `${aName('adopted')}@example.com`
    const known = await anAccount(t.db, { email })
    await verifyEmail(t.db, known)
    for (const [account, mail, more] of [
      [former, former.userName, { externalId: former.externalId }],
      [known, email, {}],
    ] as const) {
      // Waiting for the account, each of them has found it free.
      const { tx, commit } = await openTransaction(t.db)
      await lockRow(tx, 'account', account)
      const bodies = [1, 2, 3].map(() => oktaUser(mail, { userName: aName('again'), ...more }))
      const requests = Promise.all(bodies.map((body) => send('POST', 'Users', body)))
      await untilWaiting(t.db, 3)
      await commit()
      const responses = await requests
      const statuses = responses.map(({ statusCode }) => statusCode)
      expect(statuses.toSorted((one, other) => one - other)).toEqual([201, 409, 409])
      expect(responses.find(({ statusCode }) => statusCode === 201)?.json().id).toBe(account.id)
      await send('DELETE', `Users/${account.id}`)
    }
  })

  it('take over an account with their verified email, but none that only has their name', async () => {
    const email = `${aName('known')}@example.com`
    const known = await anAccount(t.db, { email })
    expect((await send('POST', 'Users', oktaUser(email))).json().id).not.toBe(known.id)

    const mail = `${aName('verified')}@example.com`
    const verified = await anAccount(t.db, { email: mail })
    await verifyEmail(t.db, verified)
    await disableAccount(t.db, operator, verified.id)
    const other = await send('POST', 'Users', oktaUser(mail))
    expect([other.statusCode, other.json().id]).toEqual([201, verified.id])
    expect((await accountOf(verified)).isDisabled).toBe(true)

    const named = await anAccount(t.db)
    const namesake = await send('POST', 'Users', oktaUser(`${named.username}@example.com`))
    expect(namesake.json().id).not.toBe(named.id)
  })

  it.each([{ isAdmin: true }, { isAdmin: false }])(
    'take no unverified email from an account with %o, and nobody is locked out or refused',
    async ({ isAdmin }) => {
      const email = `${aName('entered')}@example.com`
      const earlier = await anAccount(t.db, { isAdmin, email })
      const created = await send('POST', 'Users', oktaUser(email))
      expect([created.statusCode, created.json().emails[0].value]).toEqual([201, email])
      const changed = await aUser()
      const patched = await send(
        'PATCH',
        `Users/${changed.id}`,
        entraPatch({ op: 'Replace', path: 'emails[type eq "work"].value', value: email.toUpperCase() }),
      )
      expect(patched.statusCode).toBe(200)
      for (const user of [created.json(), changed]) {
        expect(user.id).not.toBe(earlier.id)
        expect(await accountOf(user)).toMatchObject({ emailVerifiedAt: null })
      }
      expect(await accountOf(earlier)).toMatchObject({ email, emailVerifiedAt: null })
      // The email still signs in to the account that had it first.
      const form = await t.app.inject('/login')
      const sent = { csrf_token: csrfTokenIn(form), username: email, password }
      const signIn = await post(t.app, '/login', cookiesOf(form), sent)
      expect([signIn.statusCode, signIn.headers.location]).toEqual([303, '/'])
    },
  )

  it('verify an email that another account had entered when they prove it at the provider', async () => {
    const email = `${aName('proven')}@example.com`
    const squatter = await anAccount(t.db, { email })
    const body = oktaUser(email)
    const user = (await send('POST', 'Users', body)).json<{ id: string }>()
    acme.people.set(body.externalId, { email: email.toUpperCase(), email_verified: false })
    await new Walker(t).signIn(acme, body.externalId)
    expect(await accountOf(user)).toMatchObject({ email, emailVerifiedAt: null })
    acme.people.set(body.externalId, { email: email.toUpperCase(), email_verified: true })
    await new Walker(t).signIn(acme, body.externalId)
    expect(await accountOf(user)).toMatchObject({ email, emailVerifiedAt: expect.any(Date) })
    expect(await accountOf(squatter)).toMatchObject({ email: null })
  })

  it('have a verified email with the next change after the other account has left it', async () => {
    const email = `${aName('left')}@example.com`
    const squatter = await anAccount(t.db, { email })
    const body = oktaUser(email)
    const user = (await send('POST', 'Users', body)).json<{ id: string }>()
    await updateAccount(t.db, operator, squatter.id, { email: null })
    expect((await send('PUT', `Users/${user.id}`, body)).statusCode).toBe(200)
    expect(await accountOf(user)).toMatchObject({ email, emailVerifiedAt: expect.any(Date) })
  })

  it('are never changed while they are site administrators', async () => {
    const user = await aUser()
    await send('GET', 'Users')
    const { username } = await accountOf(user)
    await setAdministrator(t.db, user, true)
    for (const [method, body] of [
      ['PATCH', entraPatch({ op: 'replace', value: { active: false } })],
      ['PUT', { ...oktaUser('x@example.com'), active: false }],
      ['DELETE', undefined],
    ] as const) {
      const response = await send(method, `Users/${user.id}`, body)
      expect([method, response.statusCode]).toEqual([method, 403])
      expect(response.json().detail).toContain(`the account "${username}" is a site administrator`)
    }
    expect((await accountOf(user)).isDisabled).toBe(false)
    const email = `${aName('chief')}@example.com`
    await verifyEmail(t.db, await anAccount(t.db, { isAdmin: true, email }))
    const taken = await send('POST', 'Users', oktaUser(email))
    expect(taken.statusCode).toBe(403)
  })
})

describe('a directory', () => {
  it('needs the token of a site administrator that was made for administration', async () => {
    const admin = await anAccount(t.db, { isAdmin: true })
    const statusWith = async (authorization?: string) => {
      const response = await t.app.inject({
        url: `${base}/Users`,
        headers: authorization === undefined ? {} : { authorization },
      })
      expect(response.json().schemas).toEqual(['urn:ietf:params:scim:api:messages:2.0:Error'])
      return response.statusCode
    }
    expect(await statusWith()).toBe(401)
    expect(await statusWith('Bearer svc_pat_unknown')).toBe(401)
    expect(await statusWith(`Bearer ${await aPersonalToken(t.db, admin, { scopes })}`)).toBe(403)
    expect(
      await statusWith(`Bearer ${await anAdminToken(t.db, admin, { scopes: ['group-manage:r'] })}`),
    ).toBe(403)
  })

  it('gets a clear error for what it cannot have', async () => {
    const user = await aUser()
    const polluted = entraPatch({ op: 'add', path: '__proto__.polluted', value: 'yes' })
    for (const [method, url, body, status, scimType] of [
      ['GET', 'Users?filter=userName%20sw%20%22a%22', undefined, 400, 'invalidFilter'],
      ['GET', 'Users?filter=(((', undefined, 400, 'invalidFilter'],
      ['GET', 'Users?filter=title%20eq%20%22a%22', undefined, 400, 'invalidFilter'],
      ['GET', `Users?filter=${'a'.repeat(2000)}`, undefined, 400, 'invalidFilter'],
      ['GET', 'Users/99999999999999999999', undefined, 404, undefined],
      ['GET', 'Users/abc', undefined, 404, undefined],
      ['GET', 'Nothing', undefined, 404, undefined],
      ['GET', '/api/scim/unknown/v2/Users', undefined, 404, undefined],
      ['DELETE', 'Users', undefined, 405, undefined],
      ['POST', 'Users', '{', 400, 'invalidSyntax'],
      ['POST', 'Users', {}, 400, 'invalidValue'],
      ['POST', 'Users', { userName: 5 }, 400, 'invalidValue'],
      ['POST', 'Users', { userName: 'a', emails: [{ value: 'nobody' }] }, 400, 'invalidValue'],
      ['POST', 'Users', { userName: 'x'.repeat(300) }, 400, 'invalidValue'],
      ['PATCH', `Users/${user.id}`, entraPatch(), 400, 'invalidValue'],
      ['PATCH', `Users/${user.id}`, entraPatch({ op: 'move', path: 'active' }), 400, 'invalidValue'],
      ['PATCH', `Users/${user.id}`, entraPatch({ op: 'remove' }), 400, 'noTarget'],
      ['PATCH', `Users/${user.id}`, entraPatch({ op: 'remove', path: 'userName' }), 400, 'mutability'],
      [
        'PATCH',
        `Users/${user.id}`,
        entraPatch({ op: 'remove', path: `${userSchema}:active` }),
        400,
        'mutability',
      ],
      ['PATCH', `Users/${user.id}`, polluted, 400, 'invalidPath'],
      [
        'PATCH',
        `Users/${user.id}`,
        entraPatch({ op: 'add', value: { 'constructor.prototype.x': 1 } }),
        400,
        'invalidPath',
      ],
      [
        'PATCH',
        `Users/${user.id}`,
        entraPatch({ op: 'replace', path: 'userName.x.y', value: 1 }),
        400,
        'noTarget',
      ],
      ['POST', 'Groups', { displayName: 'a', members: [{ value: '7777777' }] }, 400, 'invalidValue'],
    ] as const) {
      const response = await send(method, url, body)
      const { schemas, status: text, scimType: reason, detail } = response.json()
      expect([method, url, body, response.statusCode, reason]).toEqual([method, url, body, status, scimType])
      expect([schemas, text]).toEqual([['urn:ietf:params:scim:api:messages:2.0:Error'], `${status}`])
      expect(detail).toBeTruthy()
    }
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })

  it('reads what svc supports', async () => {
    expect((await send('GET', 'ServiceProviderConfig')).json()).toMatchObject({
      patch: { supported: true },
      filter: { supported: true, maxResults: 100 },
      bulk: { supported: false },
    })
    expect((await send('GET', 'ResourceTypes')).json().Resources).toHaveLength(2)
    expect((await send('GET', `Schemas/${userSchema}`)).json().attributes[0].name).toBe('userName')
  })
})

describe('groups of a directory', () => {
  /** The group that the group map names. */
  const theGroup = async () => (await findGroup(t.db, red)) ?? (await aGroup(t.db, red))

  it('give the roles of the group map, as members come and go in both forms', async () => {
    const group = await theGroup()
    const [ada, bob] = [await aUser(), await aUser()]
    const roles = async (user: { id: string }) => {
      const { username } = await accountOf(user)
      return groupRolesOf(t.db, username)
    }
    const made = await send('POST', 'Groups', {
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:Group'],
      displayName: 'developers',
      externalId: aName('entra'),
      members: [{ value: ada.id, display: ada.userName }],
    })
    expect([made.statusCode, made.json().members]).toMatchObject([201, [{ value: ada.id, type: 'User' }]])
    const { id } = made.json<{ id: string }>()
    expect(await roles(ada)).toEqual({ [group.name]: 'developer' })

    const change = (operation: object) => send('PATCH', `Groups/${id}`, entraPatch(operation))
    expect((await change({ op: 'Add', path: 'members', value: [{ value: bob.id }] })).statusCode).toBe(204)
    expect(await roles(bob)).toEqual({ [group.name]: 'developer' })
    // Entra ID, and Okta.
    await change({ op: 'Remove', path: 'members', value: [{ value: ada.id, $ref: null }] })
    expect(await roles(ada)).toEqual({})
    await change({ op: 'remove', path: `members[value eq "${bob.id}"]` })
    expect(await roles(bob)).toEqual({})

    await change({ op: 'replace', value: { id, displayName: 'admins', members: [{ value: bob.id }] } })
    expect(await roles(bob)).toEqual({ [group.name]: 'admin' })
    expect((await send('GET', `Users/${bob.id}`)).json().groups).toMatchObject([
      { value: id, display: 'admins' },
    ])
    await change({ op: 'replace', path: 'displayName', value: 'developers' })
    expect(await roles(bob)).toEqual({ [group.name]: 'developer' })

    const listed = await send(
      'GET',
      'Groups?excludedAttributes=members&filter=displayName%20eq%20%22Developers%22',
    )
    expect(listed.json().Resources).toMatchObject([{ id, displayName: 'developers' }])
    expect(listed.json().Resources[0].members).toBeUndefined()
    expect((await send('DELETE', `Groups/${id}`)).statusCode).toBe(204)
    expect(await roles(bob)).toEqual({})
  })

  it('change with members who are removed at the same time, and nobody waits for another', async () => {
    const users = await Promise.all(Array.from({ length: 6 }, () => aUser()))
    const members = users.map(({ id }) => ({ value: id }))
    const { id } = (await send('POST', 'Groups', { displayName: aName('both'), members })).json()
    const responses = await Promise.all([
      send('PUT', `Groups/${id}`, { displayName: aName('renamed'), members: members.toReversed().slice(1) }),
      ...users.slice(0, 3).map((user) => send('DELETE', `Users/${user.id}`)),
      send('PATCH', `Groups/${id}`, entraPatch({ op: 'remove', path: 'members' })),
    ])
    expect(responses.map(({ statusCode }) => statusCode).filter((status) => status >= 500)).toEqual([])
  })

  it('are in the export of an account, with what the directory says about the person', async () => {
    const user = await aUser()
    const group = {
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:Group'],
      displayName: aName('staff'),
      members: [{ value: user.id }],
    }
    expect((await send('POST', 'Groups', group)).statusCode).toBe(201)
    const { userName, externalId } = user
    expect(await exportAccount(t.db, user.id)).toMatchObject({
      directory_user: {
        user_name: userName,
        external_id: externalId,
        given_name: 'Ada',
        family_name: 'Byron',
        active: true,
        removed_at: null,
        groups: [group.displayName],
      },
    })
  })

  it('leave a role that a person changes at the same time', async () => {
    const group = await theGroup()
    const user = await aUser()
    const { username } = await accountOf(user)
    const members = [{ value: user.id }]
    const made = (await send('POST', 'Groups', { displayName: 'developers', members })).json<{ id: string }>()
    const { tx, commit } = await openTransaction(t.db)
    await setGroupMember(tx, group.id, user.id, 'admin')
    const removal = send('DELETE', `Groups/${made.id}`)
    await untilWaiting(t.db)
    await commit()
    expect((await removal).statusCode).toBe(204)
    expect(await groupRolesOf(t.db, username)).toEqual({ [red]: 'admin' })
  })

  it('lose a user whose account somebody deletes at the same time', async () => {
    const group = await theGroup()
    const user = await aUser()
    const members = [{ value: user.id }]
    const made = (await send('POST', 'Groups', { displayName: 'admins', members })).json<{ id: string }>()
    const { tx, commit } = await openTransaction(t.db)
    await lockRow(tx, 'repository_group', group)
    const deletion = deleteAccount(t.db, operator, await accountOf(user), 'leave')
    await untilWaiting(t.db)
    const removal = send('DELETE', `Users/${user.id}`)
    await untilWaiting(t.db, 2)
    await commit()
    expect((await deletion).outcome).toBe('deleted')
    expect((await removal).statusCode).toBe(404)
    await send('DELETE', `Groups/${made.id}`)
  })

  it('are changed with thousands of members in moments', async () => {
    const { id } = (await send('POST', 'Groups', { displayName: aName('large') })).json()
    const values = Array.from({ length: 15_000 }, (_, at) => ({ value: `${900_000_000 + at}` }))
    const operations = Array.from({ length: 50 }, () => ({
      op: 'remove',
      path: 'members',
      value: values.slice(0, 250),
    }))
    const response = await send(
      'PATCH',
      `Groups/${id}`,
      entraPatch({ op: 'add', path: 'members', value: values }, ...operations, {
        op: 'remove',
        path: 'members',
      }),
    )
    expect(response.statusCode).toBe(204)
  })

  it('are not taken away by a sign-in whose claims have no groups', async () => {
    const user = await aUser()
    const made = await send('POST', 'Groups', { displayName: 'admins', members: [{ value: user.id }] })
    expect(made.statusCode).toBe(201)
    acme.people.set(user.externalId, { preferred_username: 'whoever' })
    const end = await new Walker(t).signIn(acme, user.externalId)
    expect([end.statusCode, end.headers.location]).toEqual([303, '/'])
    const { username } = await accountOf(user)
    expect(await groupRolesOf(t.db, username)).toEqual({ [red]: 'admin' })
    await send('DELETE', `Users/${user.id}`)
    expect(await groupRolesOf(t.db, username)).toEqual({})
  })
})

describe('a person whom the directory has given an account', () => {
  it('signs in to it at the provider of the directory, known by the external id or the verified email', async () => {
    const byId = await aUser()
    acme.people.set(byId.externalId, { preferred_username: aName('other') })
    await new Walker(t).signIn(acme, byId.externalId)
    const byEmail = await aUser()
    const subject = aName('sub')
    acme.people.set(subject, { email: byEmail.userName, email_verified: true })
    await new Walker(t).signIn(acme, subject)
    for (const user of [byId, byEmail]) {
      const events = await eventsOf(t.db, { accountId: user.id }, ['action'])
      expect(events.map(({ action }) => action)).toContain('identity-linked')
    }
  })

  it('cannot sign in while the directory says that they are not active', async () => {
    const user = await aUser({ active: false })
    acme.people.set(user.externalId, { email: user.userName, email_verified: true })
    const end = await new Walker(t).signIn(acme, user.externalId)
    expect(end.body).toContain('is disabled')
  })

  it('is not somebody else with the same name and an email that nobody has verified', async () => {
    const user = await aUser()
    const subject = aName('mallory')
    acme.people.set(subject, { email: user.userName, email_verified: false })
    await new Walker(t).signIn(acme, subject)
    const events = await eventsOf(t.db, { accountId: user.id }, ['action'])
    expect(events.map(({ action }) => action)).not.toContain('identity-linked')
  })
})
