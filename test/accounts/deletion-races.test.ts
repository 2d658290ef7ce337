import { describe, expect, it } from 'vitest'
import { deleteAccount } from '../../src/accounts/account-lifecycle.ts'
import { operator } from '../../src/domain/principal.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  csrfTokenIn,
  post,
  signIn,
} from '../support/actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { storedGroup } from '../support/group-rows.ts'
import { lockRow, openTransaction, untilWaiting } from '../support/locks.ts'
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

  it('deletes one of two accounts that leave their groups to each other', async () => {
    const people = [await anAccount(t.db), await anAccount(t.db)]
    const { tx, commit } = await openTransaction(t.db)
    for (const person of people) {
      const group = await aGroup(t.db)
      await aGroupMember(t.db, person, group, 'admin')
      await lockRow(tx, 'repository_group', group)
    }
    const deletions = Promise.allSettled(
      people.map((person, i) =>
        deleteAccount(t.db, operator, person, { heir: people[1 - i] as (typeof people)[0] }),
      ),
    )
    await untilWaiting(t.db, 2)
    await commit()
    const ended = await deletions
    expect(ended.find(({ status }) => status === 'fulfilled')).toMatchObject({
      value: { outcome: 'deleted' },
    })
    expect(ended.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { errcode: 10 } })
  })
})
