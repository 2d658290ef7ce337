import { describe, expect, it } from 'vitest'
import { openLastUse } from '../../src/jobs/last-use.ts'
import { buildApp } from '../../src/server/app.ts'
import { openLog } from '../../src/server/log.ts'
import { anAccount, aPersonalToken } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication, ask } from '../support/token-client.ts'

describe('the last use of tokens', () => {
  const t = useApp()
  const lastUse = () => openLastUse(t.db, openLog('silent'))

  async function lastUsed(
    table: 'account_authorization' | 'personal_token',
    id: string,
  ): Promise<Date | null> {
    const { rows } = await t.db.query(`select last_used_at from ${table} where id = $1`, [id])
    return rows[0].last_used_at
  }

  it('is written for an access token’s authorization when the uses are flushed', async () => {
    const { authorization } = await anAuthorizedApplication(t)
    const uses = lastUse()
    uses.note({ kind: 'access', tokenId: '1', authorizationId: authorization.id })
    expect(await lastUsed('account_authorization', authorization.id)).toBeNull()
    await uses.flush()
    expect(await lastUsed('account_authorization', authorization.id)).toBeInstanceOf(Date)
  })

  it('is written for an application that exchanges a code or refreshes a pair', async () => {
    const { authorization, application, newCode } = await anAuthorizedApplication(t)
    const fetchTokens = async (form: Record<string, string>) => {
      const app = await buildApp({ config: t.config, db: t.db }, openLog('silent'))
      const pair = (await ask({ app }, application, 'token', form)).json()
      await app.close()
      return pair
    }
    const { refresh_token } = await fetchTokens({ grant_type: 'authorization_code', code: await newCode() })
    expect(await lastUsed('account_authorization', authorization.id)).toBeInstanceOf(Date)
    await t.db.query('update account_authorization set last_used_at = null where id = $1', [authorization.id])
    await fetchTokens({ grant_type: 'refresh_token', refresh_token })
    expect(await lastUsed('account_authorization', authorization.id)).toBeInstanceOf(Date)
  })

  it('is written for a personal access token at most once a minute', async () => {
    const account = await anAccount(t.db)
    await aPersonalToken(t.db, account)
    const { rows } = await t.db.query('select id from personal_token where account_id = $1', [account.id])
    const use = async () => {
      const uses = lastUse()
      uses.note({ kind: 'personal', tokenId: rows[0].id, authorizationId: null })
      await uses.flush()
      return lastUsed('personal_token', rows[0].id)
    }
    const first = await use()
    expect(await use()).toEqual(first)
    await t.db.query(`update personal_token set last_used_at = now() - interval '61 seconds'`)
    expect((await use())?.getTime()).toBeGreaterThanOrEqual((first as Date).getTime())
  })

  it('waits for nobody: a locked row is left to the next use', async () => {
    const { authorization } = await anAuthorizedApplication(t)
    const holder = await t.db.connect()
    await holder.query('begin')
    await holder.query('select from account_authorization where id = $1 for update', [authorization.id])
    const uses = lastUse()
    uses.note({ kind: 'access', tokenId: '1', authorizationId: authorization.id })
    await uses.flush()
    await holder.query('rollback')
    holder.release()
    expect(await lastUsed('account_authorization', authorization.id)).toBeNull()
  })
})
