import type { LightMyRequestResponse } from 'fastify'
import { describe, expect, it } from 'vitest'
import { hashSecret } from '../../src/domain/secrets.ts'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { useApp } from '../support/app.ts'
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
    const bad = hashSecret(pairs[5]?.refresh_token ?? '').toString('hex')
    await t.db.query(
      `alter table token_pair add constraint this_one_fails check (refresh_hash <> '\\x${bad}' or superseded_at is null) not valid`,
    )
    const responses = await Promise.all(pairs.map(({ refresh_token }) => refresh(refresh_token)))
    await t.db.query('alter table token_pair drop constraint this_one_fails')
    expect(statusesOf(responses)).toEqual(pairs.map((_, i) => (i === 5 ? 500 : 200)))
    const issued = responses.filter((_, i) => i !== 5).map((response) => response.json<TokenResponse>())
    for (const { access_token } of issued) expect(await works(t, access_token)).toBe(true)
    expect((await refresh(pairs[5]?.refresh_token ?? '')).statusCode).toBe(200)
  })

  it('are done or not done, and can be repeated, when the connection breaks in the middle of a statement', async () => {
    const { pairs, refresh, newCode, exchange } = await manyPairs(12)
    const codes = await Promise.all(pairs.map(() => newCode()))
    // One of the refreshes waits for a lock, after other calls of its statement are finished.
    const holder = await t.db.connect()
    await holder.query('begin')
    const hashes = pairs.map(({ refresh_token }) => hashSecret(refresh_token))
    await holder.query(
      `select from token_pair where id = (select max(id) from token_pair where refresh_hash = any ($1)) for update`,
      [hashes],
    )
    await holder.query(
      `select from authorization_code where code_hash = (select max(code_hash::text)::bytea from authorization_code
                                                          where code_hash = any ($1)) for update`,
      [codes.map(hashSecret)],
    )
    const waiting = Promise.all([
      ...pairs.map(({ refresh_token }) => refresh(refresh_token)),
      ...codes.map((code) => exchange(code)),
    ])
    const inTheMiddle = `select pid from pg_stat_activity
                          where datname = current_database() and wait_event_type = 'Lock'`
    await expect.poll(async () => (await t.db.query(inTheMiddle)).rowCount).toBe(2)
    await t.db.query(`select pg_terminate_backend(pid) from (${inTheMiddle}) as waiting`)
    const responses = await waiting
    await holder.query('rollback')
    holder.release()

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
    const { rows } = await t.db.query(
      `select count(*)::integer as successors, count(distinct predecessor_id)::integer as predecessors
         from token_pair s where predecessor_id in (select id from token_pair where refresh_hash = any ($1))`,
      [hashes],
    )
    expect(rows).toEqual([{ successors: 12, predecessors: 12 }])
  })
})
