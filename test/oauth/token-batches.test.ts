import type { LightMyRequestResponse } from 'fastify'
import { describe, expect, it } from 'vitest'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { useApp } from '../support/app.ts'
import { breakWaitingConnections, whileNotRefreshable } from '../support/broken-schema.ts'
import { openTransaction, untilWaiting } from '../support/locks.ts'
import { countSuccessors, lockLastCode, lockNewestPair } from '../support/oauth-rows.ts'
import { anAuthorizedApplication, works } from '../support/token-client.ts'

describe('token requests that arrive together', () => {
  const t = useApp()

  async function manyPairs(count: number) {
    const actor = await anAuthorizedApplication(t)
    const pairs = await Promise.all(Array.from({ length: count }, () => actor.tokens()))
    return { ...actor, pairs }
  }

  const statusesOf = (responses: LightMyRequestResponse[]) => responses.map(({ statusCode }) => statusCode)

  it('fail separately when the database refuses one of them', async () => {
    const { pairs, refresh } = await manyPairs(12)
    const responses = await whileNotRefreshable(t.db, pairs[5]?.refresh_token ?? '', () =>
      Promise.all(pairs.map(({ refresh_token }) => refresh(refresh_token))),
    )
    expect(statusesOf(responses)).toEqual(pairs.map((_, i) => (i === 5 ? 500 : 200)))
    const issued = responses.filter((_, i) => i !== 5).map((response) => response.json<TokenResponse>())
    for (const { access_token } of issued) expect(await works(t, access_token)).toBe(true)
    expect((await refresh(pairs[5]?.refresh_token ?? '')).statusCode).toBe(200)
  })

  it('are done or not done, and can be repeated, when the connection breaks in the middle of a statement', async () => {
    const { pairs, refresh, newCode, exchange } = await manyPairs(12)
    const codes = await Promise.all(pairs.map(() => newCode()))
    // One of the refreshes waits for a lock, after other calls of its statement are finished.
    const holder = await openTransaction(t.db)
    const refreshTokens = pairs.map(({ refresh_token }) => refresh_token)
    await lockNewestPair(holder.tx, refreshTokens)
    await lockLastCode(holder.tx, codes)
    const waiting = Promise.all([
      ...pairs.map(({ refresh_token }) => refresh(refresh_token)),
      ...codes.map((code) => exchange(code)),
    ])
    await untilWaiting(t.db, 2)
    await breakWaitingConnections(t.db)
    const responses = await waiting
    await holder.rollback()

    const broken = responses.filter(({ statusCode }) => statusCode !== 200)
    expect(broken.length).toBeGreaterThan(2)
    for (const response of broken) {
      expect(response.statusCode).toBe(503)
      expect(response.headers['retry-after']).toBe('5')
      expect(response.json().error).toBe('temporarily_unavailable')
    }
    const again = await Promise.all([
      ...pairs.map(({ refresh_token }) => refresh(refresh_token)),
      ...codes.filter((_, i) => responses[12 + i]?.statusCode !== 200).map((code) => exchange(code)),
    ])
    expect(new Set(statusesOf(again))).toEqual(new Set([200]))
    const first = responses
      .slice(0, 12)
      .map((response) => response.json<Partial<TokenResponse>>().access_token)
    for (const [i, token] of first.entries()) {
      if (token !== undefined) expect(again[i]?.json<TokenResponse>().access_token).toBe(token)
    }
    expect(await countSuccessors(t.db, refreshTokens)).toEqual({ successors: 12, predecessors: 12 })
  })
})
