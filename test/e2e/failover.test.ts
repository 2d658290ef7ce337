import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { storeClaim } from '../support/archive-rows.ts'
import { listJobKinds, runAgain } from '../support/job-rows.ts'
import { findPostgresPrograms, type PostgresPair, startPostgresPair } from '../support/postgres-pair.ts'
import { type Server, startServer, stopServer } from '../support/program.ts'
import { aRemoteUser, type IssuedTokens } from '../support/remote-user.ts'

const programs = findPostgresPrograms()

describe.skipIf(programs === null)('a PostgreSQL with a synchronous standby', () => {
  let folder: string
  let pair: PostgresPair
  let server: Server
  let db: pg.Pool

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-failover-'))
    pair = await startPostgresPair(programs ?? '')
    server = await startServer({ DATABASE_URL: pair.url, DATA_DIR: folder, HOST: '127.0.0.1' })
    db = openDatabase({ connectionString: pair.url }, () => {})
  })
  afterAll(async () => {
    await stopServer(server)
    await db.end()
    await pair.stop()
    await rm(folder, { recursive: true })
  })

  it('fails over to it: no confirmed request is lost, and svc continues without help', async () => {
    const { url } = server
    const user = await aRemoteUser(db)
    expect((await user.push(url, '1.0.0')).status).toBe(201)
    const [toRevoke, chains] = await Promise.all(
      [100, 4].map((count) => Promise.all(Array.from({ length: count }, () => user.tokens(url)))),
    )
    const kinds = ['pull', 'push', 'refresh', 'revoke'] as const
    const lastSuccess = new Map<string, number>()
    const refused: { what: string; status: number; retryAfter: string | null }[] = []
    const pushed: string[] = []
    const revoked = new Set<string>()
    let isOver = false

    /**
     * Returns the body, or null when the request failed, as it may during the failover. Pauses after each request, because
     * this machine also starts the standby.
     */
    async function send(what: (typeof kinds)[number], request: Promise<Response>): Promise<string | null> {
      const response = await request
      const body = await response.text()
      if (response.ok) lastSuccess.set(what, Date.now())
      else refused.push({ what, status: response.status, retryAfter: response.headers.get('retry-after') })
      await sleep(20)
      return response.ok ? body : null
    }
    async function refresh(chain: number): Promise<void> {
      while (!isOver) {
        const token = chains?.[chain]?.refresh_token ?? ''
        const body = await send('refresh', user.refresh(url, token))
        if (body !== null && chains) chains[chain] = JSON.parse(body) as IssuedTokens
      }
    }
    async function push(): Promise<void> {
      for (let i = 1; !isOver; i += 1) {
        const version = `1.0.${i}`
        if ((await send('push', user.push(url, version))) !== null) pushed.push(version)
      }
    }
    async function revoke(): Promise<void> {
      const tokens = toRevoke ?? []
      for (let i = 0; !isOver; i += 1) {
        // A revoked token can be revoked again, but only the last one is: the others must stay revoked.
        const token = tokens[Math.min(i, tokens.length - 1)]?.access_token ?? ''
        if ((await send('revoke', user.revoke(url, token))) !== null) revoked.add(token)
      }
    }
    async function pull(): Promise<void> {
      while (!isOver) await send('pull', user.pull(url))
    }
    const load = Promise.all([pull(), pull(), push(), revoke(), ...(chains ?? []).map((_, i) => refresh(i))])

    await expect.poll(() => lastSuccess.size).toBe(kinds.length)
    await pair.killPrimary()
    await expect
      .poll(() => new Set(refused.map(({ what }) => what)), { interval: 20 })
      .toEqual(new Set(kinds))
    // Now the standby can be read, but not written.
    pair.moveAddress()
    await sleep(300)
    await pair.promoteStandby()
    const promotedAt = Date.now()
    const isBack = (kind: string) => (lastSuccess.get(kind) ?? 0) > promotedAt
    await expect.poll(() => kinds.filter(isBack), { interval: 20 }).toEqual(kinds)
    isOver = true
    await load

    expect(refused.filter(({ status, retryAfter }) => status !== 503 || retryAfter === null)).toEqual([])

    for (const { access_token } of chains ?? [])
      expect((await user.check(url, access_token)).status).toBe(200)
    for (const token of revoked) expect((await user.check(url, token)).status).toBe(401)
    const document = await (await user.pull(url)).text()
    for (const version of pushed) expect(document).toContain(`"${version}"`)
    expect([revoked.size > 1, pushed.length > 1]).toEqual([true, true])

    // A promoted standby is no copy: also the jobs that need the claim on the archive store go on, as mails do.
    const jobs = ['collect-garbage', 'delete-expired-rows']
    await runAgain(db, jobs)
    const done = async () => {
      const kinds = (await listJobKinds(db)).filter(({ name }) => jobs.includes(name))
      return kinds.flatMap(({ name, succeededAt }) => (succeededAt === null ? [] : [name]))
    }
    await expect.poll(done).toEqual(jobs)
    expect((await storeClaim(db)).lostBecause).toBeNull()
  })
})
