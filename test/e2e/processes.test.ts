import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { disableAccount, enableAccount } from '../../src/accounts/account-lifecycle.ts'
import { operator } from '../../src/domain/principal.ts'
import { useDatabase } from '../support/database.ts'
import { startNginxProxy } from '../support/nginx-proxy.ts'
import { databaseUrl, freePort } from '../support/program.ts'
import { aRemoteUser } from '../support/remote-user.ts'
import { has } from '../support/requires.ts'
import { countDuring, type Processes, startProcesses } from '../support/rolling.ts'

const port = await freePort()
const proxy = `http://127.0.0.1:${port}`

describe.skipIf(!has('nginx'))('four processes behind nginx as docs/nginx.md configures it', () => {
  const database = useDatabase()
  let dataDir: string
  let processes: Processes
  let stopNginx: () => Promise<void>

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'svc-test-processes-'))
    processes = await startProcesses(4, {
      DATABASE_URL: databaseUrl(database.connection),
      DATA_DIR: dataDir,
      BASE_URL: proxy,
      TRUST_PROXY: '127.0.0.1',
      ACCEL_REDIRECT_PREFIX: '/svc-archives/',
    })
    stopNginx = await startNginxProxy({ port, processPorts: processes.ports, dataDir })
  })
  afterAll(async () => {
    await stopNginx()
    await processes.stop()
    await rm(dataDir, { recursive: true })
  })

  const everywhere = async (ask: (url: string) => Promise<Response>) =>
    Promise.all([...processes.urls, proxy].map(async (url) => (await ask(url)).status))

  it('serve a version at once on all processes, whichever received the upload', async () => {
    const user = await aRemoteUser(database.db)
    expect(await everywhere((url) => user.pull(url))).toEqual([404, 404, 404, 404, 404])
    for (const [i, url] of processes.urls.entries()) {
      const pushed = await user.push(url, `1.0.${i}`)
      expect(pushed.status).toBe(201)
      const archive = ((await pushed.json()) as { url: string }).url
      const [, file = ''] = archive.split('/-/packages/')
      expect(await everywhere((other) => user.pull(other, file))).toEqual([200, 200, 200, 200, 200])
      const documents = await Promise.all(
        processes.urls.map(async (other) => (await user.pull(other)).text()),
      )
      for (const document of documents) expect(document).toContain(`"1.0.${i}"`)
    }
  })

  it('refuse a revoked token on the next request, wherever it was revoked and used before', async () => {
    for (const url of processes.urls) {
      const user = await aRemoteUser(database.db)
      const { access_token, refresh_token } = await user.tokens(url)
      expect(await everywhere((other) => user.check(other, access_token))).toEqual([200, 200, 200, 200, 200])
      expect((await user.revoke(url, refresh_token)).status).toBe(200)
      expect(await everywhere((other) => user.check(other, access_token))).toEqual([401, 401, 401, 401, 401])
    }
  })

  it('stop every token and session of a disabled account at once, and accept the tokens again when it is enabled', async () => {
    const [first = '', ...others] = processes.urls
    const user = await aRemoteUser(database.db)
    expect((await user.push(first, '1.0.0')).status).toBe(201)
    const { access_token, refresh_token } = await user.tokens(first)
    const pulled = () => everywhere((url) => user.pull(url))
    const checked = () => everywhere((url) => user.check(url, access_token))
    const works = Array.from({ length: processes.urls.length + 1 }, () => 200)
    const stopped = works.map(() => 401)
    // Every process has seen the tokens before.
    expect([await pulled(), await checked()]).toEqual([works, works])
    await disableAccount(database.db, operator, user.account.id)
    expect([await pulled(), await checked()]).toEqual([stopped, stopped])
    for (const url of others) expect((await user.refresh(url, refresh_token)).status).toBe(400)
    await enableAccount(database.db, operator, user.account.id)
    expect([await pulled(), await checked()]).toEqual([works, works])
  })

  it('restart one after the other under load, and no request fails', async () => {
    const user = await aRemoteUser(database.db)
    expect((await user.push(proxy, '1.0.0')).status).toBe(201)
    // The load pauses, because this machine also starts the processes.
    const load = { connections: 12, pauseMs: 10 }
    const { requests, failures } = await countDuring(proxy, user, load, processes.restartAll)
    expect(failures).toEqual([])
    expect(requests).toBeGreaterThan(100)
  })
})
