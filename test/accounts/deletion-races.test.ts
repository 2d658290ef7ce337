import { describe, expect, it } from 'vitest'
import { aName, anAccount, aPersonalToken, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { storedGroup } from '../support/group-rows.ts'
import { openTransaction, untilWaiting } from '../support/locks.ts'
import { dropRows } from '../support/rows.ts'

describe('a request whose account is deleted while it runs', () => {
  const t = useApp()

  /** Deletes an account in a transaction that ends when the request waits for it. */
  async function duringDeletion<Response>(id: string, send: () => Promise<Response>): Promise<Response> {
    const deletion = await openTransaction(t.db)
    try {
      await dropRows(deletion.tx, 'account', { id })
      const response = send()
      await untilWaiting(t.db)
      await deletion.commit()
      return await response
    } finally {
      await deletion.rollback()
    }
  }

  it('gets a page that says so, and not an internal error', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const csrf_token = csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } }))
    const response = await duringDeletion(account.id, () =>
      post(t.app, '/settings/second-factor/totp', cookie, { csrf_token }),
    )
    expect(response.statusCode).toBe(409)
    expect(response.body).toContain('was deleted a moment ago')
  })

  it('gets a conflict from the API, and not a rule of the schema', async () => {
    const account = await anAccount(t.db)
    const token = await aPersonalToken(t.db, account, { scopes: ['group-resource:rw'] })
    const name = aName('group')
    const response = await duringDeletion(account.id, () =>
      callApi(t, token, 'POST', '/api/groups', { name }),
    )
    expect([response.statusCode, response.json()]).toEqual([
      409,
      { errcode: 10, errmsg: 'something that belongs to it was deleted a moment ago' },
    ])
    expect(await storedGroup(t.db, name)).toBeUndefined()
  })
})
