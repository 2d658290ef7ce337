import { expect, it } from 'vitest'
import { listAdministrationTokens } from '../../src/accounts/personal-tokens.ts'
import { allScopes } from '../../src/domain/scopes.ts'
import { aGroup, aName, anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { callApi, type Method } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'

const t = useApp()
const makeAdmin = (id: string) => t.db.query('update account set is_admin = true where id = $1', [id])

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
  return statusCode !== 403 && !/(repository|group) not found/.test(text)
}

it('lists the tokens of an account that get rights of a site administrator, and no others', async () => {
  const account = await anAccount(t.db)
  for (const scope of allScopes) {
    for (const resourceScope of ['all', 'public', 'specified'] as const) {
      await aPersonalToken(t.db, account, {
        name: `${resourceScope} ${scope}`,
        scopes: [scope],
        resourceScope,
      })
    }
  }
  expect((await listAdministrationTokens(t.db, account.id)).toSorted()).toEqual(
    [
      ...Object.keys({ ...groupCalls, ...repositoryCalls }).map((scope) => `all ${scope}`),
      ...Object.keys(repositoryCalls).map((scope) => `public ${scope}`),
    ].toSorted(),
  )
  await t.db.query('update personal_token set revoked_at = now() where account_id = $1', [account.id])
  expect(await listAdministrationTokens(t.db, account.id)).toEqual([])
})

it.each(Object.entries(groupCalls))('opens groups and the administration with %s', async (scope, call) => {
  const account = await anAccount(t.db)
  const [method, urlOf, body] = call
  const { name } = await aGroup(t.db)
  const token = await aPersonalToken(t.db, account, { scopes: [scope] })
  expect(await mayCall(token, [method, urlOf(name), body])).toBe(false)
  await makeAdmin(account.id)
  const limited = await aPersonalToken(t.db, account, { scopes: [scope], resourceScope: 'public' })
  expect(await mayCall(limited, [method, urlOf(name), body])).toBe(false)
  expect(await mayCall(token, [method, urlOf(name), body])).toBe(true)
})

it.each(Object.entries(repositoryCalls))('opens every repository with %s', async (scope, call) => {
  const [method, urlOf, body] = call
  for (const resourceScope of ['all', 'public'] as const) {
    const account = await anAccount(t.db)
    const { path } = await aRepository(t.db, { visibility: 'public' })
    const token = await aPersonalToken(t.db, account, {
      name: aName('token'),
      scopes: [scope],
      resourceScope,
    })
    expect(await mayCall(token, [method, urlOf(path), body])).toBe(false)
    await makeAdmin(account.id)
    expect(await mayCall(token, [method, urlOf(path), body])).toBe(true)
  }
})
