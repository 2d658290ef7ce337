import { describe, expect, it } from 'vitest'
import { anAccount, aPersonalToken } from '../../support/actors.ts'
import { aCaller, callApi, everyScope } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'

const t = useApp()

describe('an unknown member of a body (CONTRACT 6.3)', () => {
  it.each([
    ['PATCH', '', { visiblity: 'public' }, 'visiblity'],
    ['PUT', '/members/nobody', { role: 'guest', rol: 'admin' }, 'rol'],
    ['PATCH', '/packages/acme/lib', { abandond: true }, 'abandond'],
    ['POST', '/packages/acme/lib/advisories', { title: 'x', affected_versions: '<1', cwe: '1' }, 'cwe'],
    ['POST', '/packages/acme/lib/1.0.0/quarantine', { raison: 'x' }, 'raison'],
  ] as const)('is errcode 3 that names it: %s %s', async (method, path, body, member) => {
    const { call, push } = await aCaller(t)
    await push('1.0.0')
    const response = await call(method, path, body)
    expect(response.statusCode).toBe(400)
    expect(response.json()).toEqual({
      errcode: 3,
      errmsg: `${member}: is not a known member of the body`,
    })
  })

  it('is refused by /api/user too', async () => {
    const token = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['account-profile:rw'] })
    const response = await callApi(t, token, 'PATCH', '/api/user', { name: 'Ann', username: 'root' })
    expect(response.json()).toEqual({ errcode: 3, errmsg: 'username: is not a known member of the body' })
  })

  it('is not reported to callers who may not use the endpoint', async () => {
    const { path } = (await aCaller(t)).repository
    const token = await aPersonalToken(t.db, await anAccount(t.db), { scopes: everyScope })
    const response = await callApi(t, token, 'PATCH', `/api/repositories/${path}`, { visiblity: 'public' })
    expect(response.statusCode).toBe(404)
  })
})

describe('a body that is no object (CONTRACT 6.3)', () => {
  it.each(['null', '[]', '"x"', '1', 'false'])('is errcode 3: %s', async (payload) => {
    const { repository, token } = await aCaller(t)
    const response = await t.app.inject({
      method: 'PATCH',
      url: `/api/repositories/${repository.path}`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      payload,
    })
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
  })
})
