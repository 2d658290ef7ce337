import { describe, expect, it } from 'vitest'
import { deleteAccount } from '../../src/accounts/account-lifecycle.ts'
import { logIdentityEventsJob } from '../../src/accounts/security-notices.ts'
import type { Queryable } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import { type ListedEvent, listEvents } from '../../src/events/event-list.ts'
import { describeActor } from '../../src/events/event-words.ts'
import { exchangeCodes } from '../../src/oauth/token-pairs.ts'
import { deleteExpiredPairs } from '../../src/oauth/token-sweeps.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication, noteEveryExchange, pass } from '../support/token-client.ts'

type Authorized = Awaited<ReturnType<typeof anAuthorizedApplication>>

describe('the events of exchanged codes', () => {
  const t = useApp()

  async function eventsOf({ application }: Pick<Authorized, 'application'>): Promise<ListedEvent[]> {
    const filter = { applicationId: application.id, actions: ['token-created'] }
    return listEvents(t.db, filter, { after: null, limit: 1000 })
  }

  /** Exchanges a code in the caller's transaction, for an unknown sender. */
  async function exchangeWithin(db: Queryable, { application, newCode }: Authorized): Promise<void> {
    const [result] = await exchangeCodes(db, { accessSeconds: 60, refreshSeconds: 60, graceSeconds: 60 }, [
      {
        client: {
          clientId: application.clientId,
          secretHash: hashSecret(application.clientSecret),
          ip: '192.0.2.1',
        },
        codeHash: hashSecret(await newCode()),
        redirectUri: null,
        codeChallenge: null,
        resources: null,
        accessHash: hashSecret(makeSecret('access')),
        refreshHash: hashSecret(makeSecret('refresh')),
        by: { ...operator, via: 'application' },
      },
    ])
    expect(result?.outcome).toBe('issued')
  }

  async function noteExchanges(db: Queryable, count: number): Promise<number | undefined> {
    const { rows } = await db.query<{ seen: number }>('select note_exchanges($1) as seen', [count])
    return rows[0]?.seen
  }

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
      `select p.created_at
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
    expect(rows).toEqual([{ created_at: event?.happenedAt }])
  })

  it('are written once, also after a rollback, by two runs at once, in small steps, and without new pairs', async () => {
    const client = await anAuthorizedApplication(t)
    await noteEveryExchange(t)
    for (let n = 0; n < 5; n += 1) await client.tokens()
    const tx = await t.db.connect()
    await tx.query('begin')
    expect(await noteExchanges(tx, 1000)).toBe(5)
    await tx.query('rollback')
    tx.release()
    expect(await eventsOf(client)).toEqual([])
    expect(await noteExchanges(t.db, 2)).toBe(2)
    expect(await eventsOf(client)).toHaveLength(2)
    await Promise.all([noteEveryExchange(t), noteEveryExchange(t), noteEveryExchange(t)])
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
    await exchangeWithin(late, client)
    await client.tokens()
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toHaveLength(1)
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

  it('are written when the account is deleted in the meantime', async () => {
    const client = await anAuthorizedApplication(t)
    await client.tokens()
    await deleteAccount(t.db, operator, client.account, 'refuse')
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toMatchObject([{ username: 'deleted account', actor: 'deleted account' }])
  })

  it('are written when the sweep deletes the pair in the meantime', async () => {
    const client = await anAuthorizedApplication(t)
    await client.tokens()
    await pass(t.db, 300 * 86_400)
    expect(await deleteExpiredPairs(t.db, 100)).toBeGreaterThan(0)
    await noteEveryExchange(t)
    expect(await eventsOf(client)).toHaveLength(1)
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
