import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { setRepository } from '../../src/groups/group-lifecycle.ts'
import { csrfTokenIn, signIn } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'

const t = useApp()

describe('an event of a repository', () => {
  it('names who acted: the account, the means, the token, the client IP, the browser and the request', async () => {
    const { repository, account, token, push } = await aCaller(t)
    const agent = (name: string) => ({ 'user-agent': name })
    expect((await push('1.0.0', { headers: agent('a build server') })).statusCode).toBe(201)
    const changed = await t.app.inject({
      method: 'PATCH',
      url: `/api/repositories/${repository.path}`,
      headers: { authorization: `Bearer ${token}`, ...agent('a script') },
      payload: { description: 'By the API' },
    })
    expect(changed.statusCode).toBe(200)
    const cookie = await signIn(t.app, account)
    const url = `/${repository.path}/-/settings`
    const headers = { cookie, ...agent('a browser'), 'content-type': 'application/x-www-form-urlencoded' }
    const csrf_token = csrfTokenIn(await t.app.inject({ url, headers: { cookie } }))
    const form = new URLSearchParams({
      csrf_token,
      description: 'By a page',
      visibility: 'private',
    }).toString()
    expect((await t.app.inject({ method: 'POST', url, headers, payload: form })).statusCode).toBe(303)
    await setRepository(t.db, operator, repository.id, { description: 'By a command', visibility: null })

    const { rows } = await t.db.query(
      `select via, actor_id as "accountId", token_kind as kind, token_id is not null as "hasToken", host(address) as ip,
              user_agent as "userAgent", request_id is not null as "hasRequest"
         from event where repository_id = $1 order by id`,
      [repository.id],
    )
    const person = { accountId: account.id, ip: '127.0.0.1', hasRequest: true }
    const withToken = { ...person, via: 'api', kind: 'personal', hasToken: true }
    expect(rows).toEqual([
      { ...withToken, userAgent: 'a build server' },
      { ...withToken, userAgent: 'a script' },
      { ...person, via: 'browser', kind: null, hasToken: false, userAgent: 'a browser' },
      {
        via: 'command',
        accountId: null,
        kind: null,
        hasToken: false,
        ip: null,
        userAgent: null,
        hasRequest: false,
      },
    ])
  })
})
