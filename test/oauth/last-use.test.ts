import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { openLastUse } from '../../src/oauth/last-use.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aDeployToken, anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { ageUses, forgetUse, lastUseOf, type UsedTable } from '../support/last-use-rows.ts'
import { lockWholeRow, openTransaction } from '../support/locks.ts'
import { basic } from '../support/registry-actors.ts'
import { anAuthorizedApplication, ask } from '../support/token-client.ts'
import { listPersonalTokenIds } from '../support/token-rows.ts'

describe('the last use of tokens', () => {
  const t = useApp()
  const lastUse = () => openLastUse(t.db, openLog('silent'))

  const lastUsed = (table: UsedTable, id: string) => lastUseOf(t.db, table, id)

  it('is written for an access token’s authorization when the uses are flushed', async () => {
    const { authorization } = await anAuthorizedApplication(t)
    const uses = lastUse()
    uses.note({ ...operator, token: { kind: 'access', tokenId: '1', authorizationId: authorization.id } })
    expect(await lastUsed('account_authorization', authorization.id)).toBeNull()
    await uses.flush()
    expect(await lastUsed('account_authorization', authorization.id)).toBeInstanceOf(Date)
  })

  it('is written when an application exchanges a code or refreshes a pair', async () => {
    const { authorization, application, newCode } = await anAuthorizedApplication(t)
    const fetchTokens = async (form: Record<string, string>) => {
      const app = await buildApp({ config: t.config, db: t.db }, openLog('silent'))
      const pair = (await ask({ app }, application, 'token', form)).json()
      await app.close()
      return pair
    }
    const { refresh_token } = await fetchTokens({ grant_type: 'authorization_code', code: await newCode() })
    expect(await lastUsed('account_authorization', authorization.id)).toBeInstanceOf(Date)
    await forgetUse(t.db, authorization.id)
    await fetchTokens({ grant_type: 'refresh_token', refresh_token })
    expect(await lastUsed('account_authorization', authorization.id)).toBeInstanceOf(Date)
  })

  it('is written for a personal access token at most once a minute', async () => {
    const account = await anAccount(t.db)
    await aPersonalToken(t.db, account)
    const [tokenId = ''] = await listPersonalTokenIds(t.db, account)
    const use = async () => {
      const uses = lastUse()
      uses.note({ ...operator, token: { kind: 'personal', tokenId, authorizationId: null } })
      await uses.flush()
      return lastUsed('personal_token', tokenId)
    }
    const first = await use()
    expect(await use()).toEqual(first)
    await ageUses(t.db, 61)
    expect((await use())?.getTime()).toBeGreaterThanOrEqual((first as Date).getTime())
  })

  it('writes one event of the first use, which names the request that came first', async () => {
    const account = await anAccount(t.db)
    const { group, path } = await aRepository(t.db)
    const token = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
    const deployToken = await aDeployToken(t.db, group)
    for (const round of ['first', 'later']) {
      const app = await buildApp({ config: t.config, db: t.db }, openLog('silent'))
      for (const n of [1, 2]) {
        const agent = { 'user-agent': `${round} ${n}` }
        const bearer = { authorization: `Bearer ${token}`, ...agent }
        const deploy = { authorization: basic(deployToken), ...agent }
        expect((await app.inject({ url: '/api/user', headers: bearer })).statusCode).toBe(200)
        const registry = await app.inject({ url: `/${path}/-/packages/packages.json`, headers: deploy })
        expect(registry.statusCode).toBe(200)
      }
      await app.close()
      await ageUses(t.db, 3600)
    }
    const events = await listEvents(
      t.db,
      { actions: ['token-first-used', 'deploy-token-first-used'] },
      { after: null, limit: 10 },
    )
    // Two events of one statement have no guaranteed order.
    const own = events
      .toSorted((one, other) => one.action.localeCompare(other.action))
      .filter(({ details, username }) => username === account.username || details['group'] === group.name)
    expect(own.map(({ action, actor, via, ip, userAgent }) => [action, actor, via, ip, userAgent])).toEqual([
      ['deploy-token-first-used', null, 'api', '127.0.0.1', 'first 1'],
      ['token-first-used', account.username, 'api', '127.0.0.1', 'first 1'],
    ])
    expect(own.every(({ requestId }) => /^[0-9a-f-]{36}$/.test(requestId ?? ''))).toBe(true)
  })

  it('is written when a flush resolves, also by a flush that runs already', async () => {
    const account = await anAccount(t.db)
    await aPersonalToken(t.db, account)
    const [tokenId = ''] = await listPersonalTokenIds(t.db, account)
    const uses = lastUse()
    uses.note({ ...operator, token: { kind: 'personal', tokenId, authorizationId: null } })
    const ended: string[] = []
    const running = uses.flush().then(() => ended.push('the running flush'))
    // A stop flushes and then closes the database, while the timer's flush may still run.
    await uses.flush().then(() => ended.push('the flush of the stop'))
    await running
    expect(ended).toEqual(['the running flush', 'the flush of the stop'])
    expect(await lastUsed('personal_token', tokenId)).toBeInstanceOf(Date)
  })

  it('does not wait for locks: a locked row is left to the next use', async () => {
    const { authorization } = await anAuthorizedApplication(t)
    const { tx, rollback } = await openTransaction(t.db)
    await lockWholeRow(tx, 'account_authorization', authorization)
    const uses = lastUse()
    uses.note({ ...operator, token: { kind: 'access', tokenId: '1', authorizationId: authorization.id } })
    await uses.flush()
    await rollback()
    expect(await lastUsed('account_authorization', authorization.id)).toBeNull()
  })
})
