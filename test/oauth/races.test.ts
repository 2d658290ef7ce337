import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { withdrawAuthorization } from '../../src/oauth/authorizations.ts'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication, pass, tokenClient, works } from '../support/token-client.ts'

const times = <T>(count: number, act: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => act(i))

describe('two processes on one database', () => {
  const t = useApp()
  let secondDb: pg.Pool
  let second: { app: FastifyInstance; db: pg.Pool }

  beforeAll(async () => {
    secondDb = new pg.Pool({ ...t.connection, max: 20 })
    const app = await buildApp({ config: t.config, db: secondDb }, openLog('silent'))
    second = { app, db: secondDb }
  })
  afterAll(async () => {
    await second.app.close()
    await secondDb.end()
  })

  /** An authorized application that alternates between both processes. */
  async function anApplicationOfBoth() {
    const actor = await anAuthorizedApplication(t)
    const there = tokenClient(second, actor.application)
    return {
      ...actor,
      exchange: (code: string, i = 0) => (i % 2 ? there : actor).exchange(code),
      refresh: (token: string, i = 0) => (i % 2 ? there : actor).refresh(token),
      revoke: (token: string, i = 0) => (i % 2 ? there : actor).revoke(token),
    }
  }

  const issued = (responses: LightMyRequestResponse[]): TokenResponse[] =>
    responses.filter(({ statusCode }) => statusCode === 200).map((response) => response.json())

  async function expectAllDead(
    pairs: TokenResponse[],
    refresh: (token: string, i: number) => Promise<LightMyRequestResponse>,
  ): Promise<void> {
    for (const [i, pair] of pairs.entries()) {
      expect(await works(t, pair.access_token)).toBe(false)
      expect(await works(second, pair.access_token)).toBe(false)
      expect((await refresh(pair.refresh_token, i)).statusCode).not.toBe(200)
    }
  }

  it('exchange one code once (OAUTH 86)', async () => {
    const { exchange, newCode } = await anApplicationOfBoth()
    const code = await newCode()
    const responses = await Promise.all(times(20, (i) => exchange(code, i)))
    const statuses = responses.map(({ statusCode }) => statusCode).sort((a, b) => a - b)
    expect(statuses).toEqual([200, ...Array(19).fill(400)])
    expect(await works(second, issued(responses)[0]?.access_token ?? '')).toBe(true)
  })

  it('return one pair for one refresh token (OAUTH 108)', async () => {
    const { tokens, refresh } = await anApplicationOfBoth()
    const { refresh_token } = await tokens()
    const responses = await Promise.all(times(20, (i) => refresh(refresh_token, i)))
    expect(issued(responses)).toHaveLength(20)
    expect(new Set(issued(responses).map((pair) => pair.access_token + pair.refresh_token)).size).toBe(1)
  })

  it('leave no token alive when a refresh and a revocation race (OAUTH 116)', async () => {
    for (let round = 0; round < 15; round++) {
      const { tokens, refresh, revoke } = await anApplicationOfBoth()
      const old = await tokens()
      const [revoked, ...responses] = await Promise.all([
        revoke(old.refresh_token, round),
        ...times(6, (i) => refresh(old.refresh_token, i)),
      ])
      expect(revoked.statusCode).toBe(200)
      expect(responses.filter(({ statusCode }) => statusCode !== 200 && statusCode !== 400)).toEqual([])
      await expectAllDead([old, ...issued(responses)], refresh)
    }
  })

  it('leave no token alive when a refresh and a suspension race', async () => {
    for (let round = 0; round < 10; round++) {
      const { tokens, refresh, application } = await anApplicationOfBoth()
      const old = await tokens()
      const [, ...responses] = await Promise.all([
        setApplicationStatus(t.db, application.clientId, 'suspended'),
        ...times(6, (i) => refresh(old.refresh_token, i)),
      ])
      expect(responses.filter(({ statusCode }) => ![200, 400, 401].includes(statusCode))).toEqual([])
      await expectAllDead([old, ...issued(responses)], refresh)
    }
  })

  it('leave no token alive when an exchange and a withdrawal race', async () => {
    for (let round = 0; round < 10; round++) {
      const { newCode, exchange, refresh, authorization, account } = await anApplicationOfBoth()
      const codes = await Promise.all(times(6, () => newCode()))
      const [, ...responses] = await Promise.all([
        withdrawAuthorization(t.db, operator, account.id, authorization.id),
        ...codes.map((code, i) => exchange(code, i)),
      ])
      expect(responses.filter(({ statusCode }) => statusCode !== 200 && statusCode !== 400)).toEqual([])
      await expectAllDead(issued(responses), refresh)
      for (const code of codes) expect((await exchange(code)).statusCode).toBe(400)
    }
  })

  it('leave no token alive when a refresh races with the reuse of its code or of an older refresh token', async () => {
    for (let round = 0; round < 10; round++) {
      const { newCode, exchange, refresh } = await anApplicationOfBoth()
      const code = await newCode()
      const first: TokenResponse = (await exchange(code)).json()
      const old: TokenResponse = (await refresh(first.refresh_token)).json()
      await pass(t.db, 300)
      const responses = await Promise.all([
        ...times(4, (i) => refresh(old.refresh_token, i)),
        round % 2 ? exchange(code, round) : refresh(first.refresh_token, round),
      ])
      expect(responses.filter(({ statusCode }) => statusCode !== 200 && statusCode !== 400)).toEqual([])
      await expectAllDead([first, old, ...issued(responses)], refresh)
    }
  })

  it('cause no deadlock when everything happens at once', async () => {
    const { newCode, exchange, refresh, revoke, tokens, authorization, account } = await anApplicationOfBoth()
    const code = await newCode()
    const first: TokenResponse = (await exchange(code)).json()
    const pairs = await Promise.all(times(6, () => tokens()))
    await pass(t.db, 4)
    const acts = [
      ...times(6, (i) => exchange(code, i)),
      ...pairs.flatMap((pair, i) => [
        refresh(pair.refresh_token, i),
        refresh(pair.refresh_token, i + 1),
        revoke(pair.access_token, i),
        revoke(first.access_token, i),
      ]),
      revoke(pairs[5]?.refresh_token ?? ''),
    ]
    const withdrawal = withdrawAuthorization(t.db, operator, account.id, authorization.id)
    const responses = await Promise.all(acts)
    await withdrawal
    const statuses = responses.map(({ statusCode }) => statusCode)
    expect(statuses.filter((status) => status >= 500)).toEqual([])
  })
})
