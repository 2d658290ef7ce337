import { describe, expect, it } from 'vitest'
import type { Role } from '../../../src/domain/permissions.ts'
import { setGroupMember } from '../../../src/groups/members.ts'
import { storedAccount } from '../../support/account-rows.ts'
import { aGroup, aName, anAccount, csrfTokenIn, password, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { countEvents, eventsOf } from '../../support/event-rows.ts'
import { groupRolesOf, storedGroup } from '../../support/group-rows.ts'
import { openSignUp, useIdentityProvider, usernameOf, Walker } from '../../support/identity-provider.ts'
import { freePort } from '../../support/program.ts'

const [red, blue] = [aName('red'), aName('blue')]
const acme = useIdentityProvider('acme', await freePort(), 'http://svc.test', {
  SCOPES: 'openid email profile groups',
  GROUP_MAP: `developers=${red}:write,admins=${red}:admin,admins=${blue}:read,lost=no-such-group:write`,
})
const t = useApp({ ...openSignUp, ...acme.environment })

/** Returns the group with this name. The tests of this file share it. */
async function theGroup(name: string) {
  return (await storedGroup(t.db, name)) ?? (await aGroup(t.db, name))
}

/** Signs in a person with these groups. Returns the browser. */
async function signInWith(subject: string, groups: unknown, more: Record<string, unknown> = {}) {
  await theGroup(red)
  await theGroup(blue)
  acme.people.set(subject, { preferred_username: subject, groups, ...more })
  const browser = new Walker(t)
  const end = await browser.signIn(acme, subject)
  expect([end.statusCode, end.headers.location]).toEqual([303, '/'])
  return browser
}

/** Returns the roles of an account, by group. */
const rolesOf = (username: string) => groupRolesOf(t.db, username)

async function setByHand(username: string, group: string, role: Role): Promise<void> {
  const { id } = (await storedAccount(t.db, { username })) ?? expect.fail()
  await setGroupMember(t.db, (await theGroup(group)).id, id, role)
}

describe('the groups of a provider', () => {
  it('give, change and take away memberships at each sign-in', async () => {
    const eve = aName('eve')
    await signInWith(eve, ['developers', 'unknown', 5])
    expect(await rolesOf(eve)).toEqual({ [red]: 'developer' })
    await signInWith(eve, ['developers', 'admins', 'lost'])
    expect(await rolesOf(eve)).toEqual({ [red]: 'admin', [blue]: 'guest' })
    await signInWith(eve, 'developers')
    expect(await rolesOf(eve)).toEqual({ [red]: 'developer' })
    await signInWith(eve, undefined)
    expect(await rolesOf(eve)).toEqual({})
    expect(t.log()).toContain('the group map names groups that do not exist')
  })

  it('are in the events of the account and of the groups', async () => {
    const eve = aName('eve')
    await signInWith(eve, ['admins'])
    await signInWith(eve, [])
    await signInWith(eve, [])
    const { id: accountId } = (await storedAccount(t.db, { username: eve })) ?? expect.fail()
    const changes = await eventsOf(t.db, { action: 'groups-changed', accountId }, ['details'])
    expect(changes.map(({ details }) => details)).toEqual([
      { provider: 'acme', added: [`${blue}:guest`, `${red}:admin`].toSorted(), removed: [] },
      { provider: 'acme', added: [], removed: [blue, red].toSorted() },
    ])
    const { id: groupId } = await theGroup(red)
    const registry = await eventsOf(t.db, { groupId, details: { username: eve } }, ['action', 'details'])
    expect(registry).toEqual([
      { action: 'set-group-member', details: { username: eve, role: 'admin', provider: 'acme' } },
      {
        action: 'remove-group-member',
        details: { username: eve, provider: 'acme', from: { role: 'admin' } },
      },
    ])
  })

  it('do not change memberships that people made or changed', async () => {
    const [eve, ann] = [aName('eve'), aName('ann')]
    await signInWith(eve, [])
    await setByHand(eve, blue, 'developer')
    await signInWith(eve, ['admins'])
    expect(await rolesOf(eve)).toEqual({ [red]: 'admin', [blue]: 'developer' })
    await signInWith(eve, [])
    expect(await rolesOf(eve)).toEqual({ [blue]: 'developer' })

    await signInWith(ann, ['developers'])
    await setByHand(ann, red, 'admin')
    await signInWith(ann, ['developers'])
    await signInWith(ann, [])
    expect(await rolesOf(ann)).toEqual({ [red]: 'admin' })
  })

  it('give a removed membership again at the next sign-in, and the page of members says so before', async () => {
    const [eve, bob, ann] = [aName('eve'), aName('bob'), await anAccount(t.db)]
    const admin = await signInWith(eve, ['admins'])
    await signInWith(bob, ['developers'])
    await setByHand(ann.username, red, 'guest')
    const url = `/${red}/-/members`
    const page = await admin.open(url)
    expect(page.body).toContain('the next sign-in gives the role again')
    const rowOf = (name: string) => page.body.split('<tr>').find((row) => row.includes(`>${name}</th>`))
    expect(rowOf(bob)).toContain('by sign-in with acme')
    expect(rowOf(ann.username)).not.toContain('by sign-in')

    const ask = async (username: string) => (await admin.open(`${url}/remove?username=${username}`)).body
    const warning = 'The sign-in provider acme gives a role again at the next sign-in'
    expect(await ask(bob)).toContain(warning)
    expect(await ask(ann.username)).not.toContain(warning)
    const form = { csrf_token: csrfTokenIn(page), username: bob }
    expect((await admin.post(`${url}/remove`, form)).statusCode).toBe(303)
    expect(await rolesOf(bob)).toEqual({})
    await signInWith(bob, ['developers'])
    expect(await rolesOf(bob)).toEqual({ [red]: 'developer' })
  })

  it('are applied once when one person signs in twice at the same time', async () => {
    const eve = aName('eve')
    await signInWith(eve, [])
    acme.people.set(eve, { groups: ['admins'] })
    const browsers = [new Walker(t), new Walker(t)]
    const ends = await Promise.all(browsers.map((browser) => browser.signIn(acme, eve)))
    expect(ends.map(({ statusCode }) => statusCode)).toEqual([303, 303])
    const { id: accountId } = (await storedAccount(t.db, { username: eve })) ?? expect.fail()
    expect(await countEvents(t.db, { action: 'groups-changed', accountId })).toBe(1)
  })

  it('are removed when the account is unlinked from the provider', async () => {
    const ann = await anAccount(t.db)
    const subject = aName('eve')
    acme.people.set(subject, { groups: ['developers'] })
    const browser = new Walker(t, await signIn(t.app, ann))
    const question = await browser.open('/login/oidc/acme/link')
    const start = await browser.post('/login/oidc/acme/link', { csrf_token: csrfTokenIn(question) })
    await browser.open(await browser.signInThere(start, subject))
    expect(await rolesOf(ann.username)).toEqual({ [red]: 'developer' })
    await setByHand(ann.username, blue, 'guest')
    const fields = { csrf_token: csrfTokenIn(question), issuer: acme.issuer, current_password: password }
    expect((await browser.post('/settings/account/identities/unlink', fields)).statusCode).toBe(303)
    expect(await rolesOf(ann.username)).toEqual({ [blue]: 'guest' })
    expect(await usernameOf(browser)).toBe(ann.username)
  })
})
