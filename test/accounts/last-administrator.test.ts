import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { operator } from '../../src/domain/principal.ts'
import { countAdministrators, removeAdministrators } from '../support/account-rows.ts'
import { anAccount, anAdminToken, password, post } from '../support/actors.ts'
import { anAdministrator } from '../support/admin-actors.ts'
import { callApi, type Method } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'

describe('the last site administrator', () => {
  const t = useApp()

  const removeAll = () => removeAdministrators(t.db)

  async function anAdministratorWithToken() {
    const account = await anAccount(t.db, { isAdmin: true })
    const token = await anAdminToken(t.db, account, { scopes: ['group-manage:rw'] })
    return { ...account, call: (...about: [Method, string, object?]) => callApi(t, token, ...about) }
  }

  // The other request was refused as the last one, or its token had stopped working before.
  const refusals = [401, 403, 404, 409]

  it.each<[string, Method, object | undefined, number]>([
    ['disable', 'PATCH', { disabled: true }, 200],
    ['delete', 'DELETE', undefined, 204],
  ])('stays when two administrators %s each other at the same time', async (_what, method, body, success) => {
    for (let round = 0; round < 4; round += 1) {
      await removeAll()
      const [one, other] = [await anAdministratorWithToken(), await anAdministratorWithToken()]
      const responses = await Promise.all([
        one.call(method, `/api/accounts/${other.username}`, body),
        other.call(method, `/api/accounts/${one.username}`, body),
      ])
      expect(await countAdministrators(t.db)).toBe(1)
      const statuses = responses.map(({ statusCode }) => statusCode)
      expect(statuses.filter((status) => status === success)).toHaveLength(1)
      expect(statuses.filter((status) => refusals.includes(status))).toHaveLength(1)
    }
  })

  it('stays when two administrators demote each other at the same time', async () => {
    for (let round = 0; round < 4; round += 1) {
      await removeAll()
      const [one, other] = [await anAdministrator(t), await anAdministrator(t)]
      const demote = (by: typeof one, { account }: typeof one) =>
        post(t.app, `/admin/accounts/${account.username}`, by.cookie, {
          csrf_token: by.csrf_token,
          act: 'unmake-admin',
        })
      const responses = await Promise.all([demote(one, other), demote(other, one)])
      expect(await countAdministrators(t.db)).toBe(1)
      const statuses = responses.map(({ statusCode }) => statusCode)
      expect(statuses.filter((status) => status === 303)).toHaveLength(1)
      expect(statuses.filter((status) => refusals.includes(status))).toHaveLength(1)
    }
  })

  it('cannot delete the account, and learns what to do', async () => {
    await removeAll()
    const { account, cookie, csrf_token } = await anAdministrator(t)
    const form = { csrf_token, username: account.username, current_password: password }
    const refused = await post(t.app, '/settings/account/delete', cookie, form)
    expect(refused.statusCode).toBe(409)
    expect(refused.body).toContain('Make another account a site administrator first.')
    await anAccount(t.db, { isAdmin: true })
    expect((await post(t.app, '/settings/account/delete', cookie, form)).statusCode).toBe(303)
    expect(await countAdministrators(t.db)).toBe(1)
  })

  it('can be disabled by an operator', async () => {
    await removeAll()
    const { id } = await anAccount(t.db, { isAdmin: true })
    await disableAccount(t.db, operator, id)
    expect(await countAdministrators(t.db)).toBe(0)
  })
})
