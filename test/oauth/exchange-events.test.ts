import type { PoolClient } from 'pg'
import { describe, expect, it, vi } from 'vitest'
import { deleteAccount } from '../../src/accounts/account-lifecycle.ts'
import { logIdentityEventsJob } from '../../src/accounts/security-notices.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import { describeActor } from '../../src/events/event-words.ts'
import { type IdentityEvent, listIdentityEvents } from '../../src/events/identity-events.ts'
import { noteExchangesJob } from '../../src/oauth/exchange-events.ts'
import { deleteExpiredPairs } from '../../src/oauth/token-sweeps.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication, noteEveryExchange, pass } from '../support/token-client.ts'

type Authorized = Awaited<ReturnType<typeof anAuthorizedApplication>>

describe('the events of exchanged codes', () => {
  const t = useApp()
  const log = openLog('silent')
  const run = () =>
    noteExchangesJob.run({ config: t.config, db: t.db, log }, undefined, new AbortController().signal)

  async function eventsOf({ application }: Pick<Authorized, 'application'>): Promise<IdentityEvent[]> {
    const filter = { applicationId: application.id, action: 'token-created' }
    return listIdentityEvents(t.db, filter, { after: null, limit: 1000 })
  }

  /** Exchanges a code with the SQL function of an earlier release. It stores no actor. */
  async function exchangeAsBefore(db: Pick<PoolClient, 'query'>, { application, newCode }: Authorized) {
    const { rows } = await db.query<{ outcome: string }>(
      `select outcome from exchange_codes(
         client_ids => $1, secret_hashes => $2, code_hashes => $3, redirect_uris => $4, code_challenges => $4,
         access_hashes => $5, refresh_hashes => $6, access_seconds => 60, refresh_seconds => 60)`,
      [
        [application.clientId],
        [hashSecret(application.clientSecret)],
        [hashSecret(await newCode())],
        [null],
        [hashSecret(makeSecret('access'))],
        [hashSecret(makeSecret('refresh'))],
      ],
    )
    expect(rows).toEqual([{ outcome: 'issued' }])
  }

  /** Waits for transactions of other test files in the same PostgreSQL, as the job does. */
  async function noteExchanges(db: Pick<PoolClient, 'query'>, count: number): Promise<number> {
    return vi.waitFor(
      async () => {
        const { rows } = await db.query<{ seen: number | null }>('select note_exchanges($1) as seen', [count])
        const seen = rows[0]?.seen
        if (seen == null) throw new Error('a transaction is still running')
        return seen
      },
      { timeout: 60_000, interval: 100 },
    )
  }

  it('have a horizon that moves only after the pairs below it are read', async () => {
    const { tokens } = await anAuthorizedApplication(t)
    await noteEveryExchange(t)
    const move = async () =>
      (await t.db.query('select move_exchange_horizon() as "isMoved"')).rows[0].isMoved as boolean
    const moved: boolean[] = []
    for (let times = 0; times < 2; times += 1) {
      await tokens()
      moved.push(await move())
    }
    await noteExchanges(t.db, 100)
    moved.push(await move())
    expect(moved).toEqual([true, false, true])
  })

  it('name the account, the application, the scopes and the request, and have the time of the exchange', async () => {
    const client = await anAuthorizedApplication(t)
    const response = await t.app.inject({
      method: 'POST',
      url: '/oauth2/token',
      headers: {
        authorization: client.application.basic,
        'content-type': 'application/x-www-form-urlencoded',
        'user-agent': 'Mirror/1.0 "ü"',
      },
      payload: `grant_type=authorization_code&code=${await client.newCode()}`,
    })
    expect(response.statusCode).toBe(200)
    expect(await eventsOf(client)).toEqual([])
    await noteEveryExchange(t)
    const [event, ...others] = await eventsOf(client)
    expect(others).toEqual([])
    const { rows } = await t.db.query(
      `select p.created_at, p.unnoted_exchange
         from token_pair p join authorization_grant g on g.id = p.grant_id
        where p.code_hash is not null and g.account_id = $1`,
      [client.account.id],
    )
    expect(event).toMatchObject({
      action: 'token-created',
      username: client.account.username,
      actor: client.account.username,
      clientId: client.application.clientId,
      via: 'application',
      ip: '127.0.0.1',
      details: { scopes: client.application.scopes },
    })
    expect(event?.userAgent).toContain('Mirror/1.0 "')
    expect(event && describeActor(event)).toBe(
      `the application Package Mirror for ${client.account.username}`,
    )
    expect(t.log()).toContain(`"reqId":"${event?.requestId}"`)
    expect(rows).toEqual([{ created_at: event?.happenedAt, unnoted_exchange: null }])
  })

  it('are written once, also after a rollback, by two runs at once, in small steps, and without new pairs', async () => {
    const client = await anAuthorizedApplication(t)
    for (let n = 0; n < 5; n += 1) await client.tokens()
    const tx = await t.db.connect()
    await tx.query('begin')
    await tx.query('select move_exchange_horizon()')
    await tx.query('rollback')
    await t.db.query('select move_exchange_horizon()')
    await tx.query('begin')
    expect(await noteExchanges(tx, 1000)).toBe(5)
    await tx.query('rollback')
    tx.release()
    expect(await eventsOf(client)).toEqual([])
    expect(await noteExchanges(t.db, 2)).toBe(2)
    expect(await eventsOf(client)).toHaveLength(2)
    await Promise.all([run(), run(), run()])
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toHaveLength(5)
  })

  it('are not written for a refresh', async () => {
    const client = await anAuthorizedApplication(t)
    const { refresh_token } = await client.tokens()
    await client.refresh(refresh_token)
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toHaveLength(1)
  })

  it('are written for a pair that is committed after younger ones', async () => {
    const client = await anAuthorizedApplication(t)
    const late = await t.db.connect()
    await late.query('begin')
    await exchangeAsBefore(late, client)
    await client.tokens()
    // The job waits for the open transaction, and then stops waiting.
    await run()
    await late.query('commit')
    late.release()
    await client.tokens()
    await noteEveryExchange(t)
    expect((await eventsOf(client)).map(({ ip }) => ip ?? 'none').sort()).toEqual([
      '127.0.0.1',
      '127.0.0.1',
      'none',
    ])
  })

  it('are written for processes of the previous release, without the request', async () => {
    const client = await anAuthorizedApplication(t)
    await exchangeAsBefore(t.db, client)
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toMatchObject([
      { actor: client.account.username, via: 'application', ip: null, userAgent: null, requestId: null },
    ])
  })

  it('are written when the account is deleted in the meantime', async () => {
    const client = await anAuthorizedApplication(t)
    await client.tokens()
    await deleteAccount(t.db, operator, client.account, 'refuse')
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toMatchObject([{ username: 'deleted account', actor: 'deleted account' }])
  })

  it('are written after the database was copied to a server with smaller or larger transaction ids', async () => {
    const client = await anAuthorizedApplication(t)
    for (const xid of ['0', '9000000000000']) {
      await client.tokens()
      await t.db.query('select move_exchange_horizon()')
      await t.db.query(`update sweep_position set horizon_xid = $1 where name = 'noted_exchanges'`, [xid])
      await noteEveryExchange(t)
    }
    expect(await eventsOf(client)).toHaveLength(2)
  })

  it('come before the sweep deletes the pair', async () => {
    const client = await anAuthorizedApplication(t)
    await client.tokens()
    await pass(t.db, 300 * 86_400)
    await deleteExpiredPairs(t.db, 100)
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toHaveLength(1)
    await pass(t.db, 2 * 86_400)
    expect(await deleteExpiredPairs(t.db, 100)).toBeGreaterThan(0)
  })

  it('are in the log, and cause no mail', async () => {
    const client = await anAuthorizedApplication(t)
    await t.db.query('update account set email = $2, email_verified_at = now() where id = $1', [
      client.account.id,
      `${client.account.username}@example.com`,
    ])
    await client.tokens()
    await noteEveryExchange(t)
    const lines: string[] = []
    const { config, db } = t
    const mail = { url: 'smtp://127.0.0.1:1', from: 'svc@example.com' } as unknown as NonNullable<
      typeof config.mail
    >
    await logIdentityEventsJob.run(
      {
        config: { ...config, mail },
        db,
        log: { info: (line: object) => lines.push(JSON.stringify(line)) } as never,
      },
      undefined,
      new AbortController().signal,
    )
    const own = lines.filter((line) => line.includes(client.application.clientId))
    expect(own.filter((line) => line.includes('"event":"identity.token-created"'))).toHaveLength(1)
    const { rows } = await t.db.query(
      `select e.action from job j join event e on e.id::text = j.data ->> 'eventId'`,
    )
    expect(rows).not.toContainEqual({ action: 'token-created' })
  })
})
