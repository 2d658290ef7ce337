import { describe, expect, it } from 'vitest'
import { listPersonalTokens, NotAnAdministratorError } from '../../../src/accounts/personal-tokens.ts'
import { transaction } from '../../../src/database/database.ts'
import { siteScopes } from '../../../src/domain/permissions.ts'
import { setAdministrator } from '../../support/account-rows.ts'
import { aGroup, aName, anAccount, anAdminToken, aPersonalToken, aRepository } from '../../support/actors.ts'
import { callApi, type Method } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { basic } from '../../support/registry-actors.ts'

const t = useApp()
const setAdmin = (id: string, isAdmin: boolean) => setAdministrator(t.db, { id }, isAdmin)

type Call<Target> = [Method, Target, (object | undefined)?]

/** For each scope, a call that needs the role admin in a group or repository, or a site administrator. */
const groupCalls: Record<string, Call<(group: string) => string>> = {
  'group-resource:rw': ['POST', (group) => `/groups/${group}/repositories`, { name: 'php' }],
  'group-manage:r': ['GET', () => '/accounts'],
  'group-manage:rw': ['PATCH', (group) => `/groups/${group}`, {}],
  'group-delete:rw': ['DELETE', (group) => `/groups/${group}`],
}
const repositoryCalls: Record<string, Call<(path: string) => string>> = {
  'registry-manage:r': ['GET', (path) => `/repositories/${path}/members`],
  'registry-manage:rw': ['PATCH', (path) => `/repositories/${path}`, {}],
  'registry-package-delete:rw': ['DELETE', (path) => `/repositories/${path}/packages/acme/lib`],
  'registry-delete:rw': ['DELETE', (path) => `/repositories/${path}`],
}

async function mayCall(token: string, [method, url, body]: Call<string>) {
  const { statusCode, body: text } = await callApi(t, token, method, `/api${url}`, body)
  return statusCode !== 403 && statusCode !== 401 && !/(repository|group) not found/.test(text)
}

describe('a personal access token of a site administrator', () => {
  it.each(Object.entries(groupCalls))(
    'opens groups and the administration with %s only if it was made for that',
    async (scope, [method, urlOf, body]) => {
      const account = await anAccount(t.db)
      const { name } = await aGroup(t.db)
      const token = await aPersonalToken(t.db, account, { scopes: [scope] })
      expect(await mayCall(token, [method, urlOf(name), body])).toBe(false)
      await setAdmin(account.id, true)
      expect(await mayCall(token, [method, urlOf(name), body])).toBe(false)
      const made = await anAdminToken(t.db, account, { scopes: [scope] })
      expect(await mayCall(made, [method, urlOf(name), body])).toBe(true)
    },
  )

  it.each(Object.entries(repositoryCalls))(
    'opens every repository with %s only if it was made for that',
    async (scope, [method, urlOf, body]) => {
      for (const resourceScope of ['all', 'public'] as const) {
        const account = await anAccount(t.db)
        const { path } = await aRepository(t.db, { visibility: 'public' })
        const about = { name: aName('token'), scopes: [scope], resourceScope }
        const token = await aPersonalToken(t.db, account, about)
        expect(await mayCall(token, [method, urlOf(path), body])).toBe(false)
        await setAdmin(account.id, true)
        expect(await mayCall(token, [method, urlOf(path), body])).toBe(false)
        if (resourceScope === 'public') continue
        const made = await anAdminToken(t.db, account, { scopes: [scope] })
        expect(await mayCall(made, [method, urlOf(path), body])).toBe(true)
      }
    },
  )

  it('pulls from private repositories of others only if it was made for that', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    const { path } = await aRepository(t.db)
    const pull = async (token: string) => {
      const url = `/${path}/-/packages/packages.json`
      return (await t.app.inject({ url, headers: { authorization: basic(token) } })).statusCode
    }
    expect(await pull(await aPersonalToken(t.db, account))).toBe(404)
    expect(await pull(await anAdminToken(t.db, account))).toBe(200)
  })

  it('lists all groups and repositories only if it was made for that', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    await aRepository(t.db)
    const scopes = ['repo-basic-info:r', 'group-resource:r']
    const token = await aPersonalToken(t.db, account, { scopes })
    const made = await anAdminToken(t.db, account, { scopes })
    for (const url of ['/api/repositories', '/api/groups']) {
      expect((await callApi(t, token, 'GET', url)).json()).toEqual([])
      expect((await callApi(t, made, 'GET', url)).json()).not.toEqual([])
    }
  })
})

describe('an admin token', () => {
  it('ends when its owner loses the role, and does not work again when the owner gets it back', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    const admin = await anAdminToken(t.db, account, { scopes: [...siteScopes] })
    const ordinary = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
    const status = async () => (await callApi(t, admin, 'GET', '/api/accounts')).statusCode
    expect(await status()).toBe(200)
    await setAdmin(account.id, false)
    expect(await status()).toBe(401)
    await setAdmin(account.id, true)
    expect(await status()).toBe(401)
    expect((await callApi(t, ordinary, 'GET', '/api/user')).statusCode).toBe(200)
    expect(await listPersonalTokens(t.db, account.id)).toHaveLength(1)
  })

  it('is only for site administrators, also when the owner is losing the role', async () => {
    const ordinary = await anAccount(t.db)
    await expect(anAdminToken(t.db, ordinary)).rejects.toThrow(NotAnAdministratorError)
    const account = await anAccount(t.db, { isAdmin: true })
    let made: Promise<unknown> | undefined
    await transaction(t.db, async (tx) => {
      await setAdministrator(tx, account, false)
      made = anAdminToken(t.db, account).catch((error: unknown) => error)
      await new Promise((resolve) => setTimeout(resolve, 200))
    })
    expect(await made).toBeInstanceOf(NotAnAdministratorError)
    expect(await listPersonalTokens(t.db, account.id)).toEqual([])
  })

  it('is for all repositories', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    await expect(anAdminToken(t.db, account, { resourceScope: 'public' })).rejects.toThrow(
      'admin_token_is_for_all_repositories',
    )
  })

  it('does not set the password, the factors, the email or the role of a site administrator', async () => {
    const account = await anAccount(t.db, { isAdmin: true })
    const token = await anAdminToken(t.db, account, { scopes: [...siteScopes] })
    const other = await anAccount(t.db, { isAdmin: true })
    const url = `/api/accounts/${other.username}`
    const calls: [Method, string, object?][] = [
      ['PUT', `${url}/password`, { password: 'another good password' }],
      ['POST', `${url}/reset-link`],
      ['DELETE', `${url}/factors`],
      ['PATCH', url, { email: 'taken-over@example.com' }],
      ['PATCH', url, { admin: false }],
      ['POST', '/api/accounts', { username: aName('new'), admin: true }],
      ['PATCH', `/api/accounts/${(await anAccount(t.db)).username}`, { admin: true }],
      // Also not those of its owner.
      ['PUT', `/api/accounts/${account.username}/password`, { password: 'another good password' }],
      ['POST', `/api/accounts/${account.username}/reset-link`],
    ]
    for (const [method, path, body] of calls) {
      const response = await callApi(t, token, method, path, body)
      expect([method, path, response.statusCode, response.json().errmsg]).toEqual([
        method,
        path,
        403,
        expect.stringContaining('in the browser and by command'),
      ])
    }
    expect((await callApi(t, token, 'PATCH', url, { name: 'Other' })).statusCode).toBe(200)
  })
})
