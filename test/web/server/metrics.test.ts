import { once } from 'node:events'
import { rename, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { collectGarbage } from '../../../src/archives/collect-garbage.ts'
import { openArchiveStore } from '../../../src/archives/store-owner.ts'
import { sweepEventsJob } from '../../../src/events/sweep-events.ts'
import { enqueue } from '../../../src/jobs/job.ts'
import { version } from '../../../src/version.ts'
import { countUpstreams } from '../../../src/web/server/upstream-metrics.ts'
import { anAccount, cookiesOf, csrfTokenIn, post } from '../../support/actors.ts'
import { type TestApp, useApp } from '../../support/app.ts'
import { aStoredFile } from '../../support/archive-rows.ts'
import { aJobKind, aStoredJob } from '../../support/job-rows.ts'
import { useListeningApp } from '../../support/listening.ts'
import { whileLocked } from '../../support/locks.ts'
import { noteWork } from '../../support/maintenance-rows.ts'
import { freePort } from '../../support/program.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()
const port = await freePort()

/** The samples of `/metrics`, by name and labels. */
async function samples(of: TestApp = t): Promise<Map<string, number>> {
  const { body } = await of.app.inject('/metrics')
  const lines = body.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  )
}

function countOf(method: string, route: string, status: number): string {
  return `svc_http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`
}

/** Runs work while the archive store cannot be written. */
async function whileUnwritable<T>({ config }: TestApp, work: () => Promise<T>): Promise<T> {
  const directory = join(config.dataDir, 'archives')
  await rename(directory, `${directory}-away`)
  await writeFile(directory, 'no folder')
  const result = await work()
  await rm(directory)
  await rename(`${directory}-away`, directory)
  return result
}

describe('GET /metrics (CONTRACT 4.8)', () => {
  it('responds in the text format of Prometheus', async () => {
    const response = await t.app.inject('/metrics')
    expect(response.statusCode).toBe(200)
    expect(response.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(response.body).toContain('# TYPE svc_http_request_duration_seconds histogram')
  })

  it('counts responses by method, route and status', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    await push('v2')
    await ask('p2/acme/lib.json')
    await ask('p2/acme/lib.json', { method: 'HEAD' })
    await t.app.inject({ method: 'POST', url: '/oauth2/token' })
    const all = await samples()
    const below = '/:group/:name/-/packages'
    expect(all.get(countOf('PUT', `${below}/upload/:vendor/:package/:version`, 201))).toBe(1)
    expect(all.get(countOf('PUT', `${below}/upload/:vendor/:package/:version`, 400))).toBe(1)
    expect(all.get(countOf('GET', `${below}/p2/:vendor/:file`, 200))).toBe(1)
    expect(all.get(countOf('HEAD', `${below}/p2/:vendor/:file`, 200))).toBe(1)
    expect(all.get(countOf('POST', '/oauth2/token', 400))).toBe(1)
  })

  it('counts responses that are failures of the server', async () => {
    const { push } = await aPublisher(t)
    const upload = 'method="PUT",route="/:group/:name/-/packages/upload/:vendor/:package/:version"'
    const failures = async () => (await samples()).get(`svc_http_failures_total{${upload},status="500"}`) ?? 0
    const before = await failures()
    const pushed = await whileUnwritable(t, () => push('1.0.0'))
    expect(pushed.statusCode).toBe(500)
    expect(await failures()).toBe(before + 1)
  })

  it('contains no URL, person, package or token', async () => {
    const { push, repository, account, token } = await aPublisher(t)
    await push('1.0.0', { name: 'secretive/thing' })
    for (const url of [`/${repository.path}`, '/no/such/page?code=svcc_1', `/x${token}`, '/%zz']) {
      await t.app.inject(url)
    }
    const { body } = await t.app.inject('/metrics')
    for (const name of ['secretive', repository.path, account.username, token, 'svcc_1', 'such', 'zz']) {
      expect(body).not.toContain(name)
    }
    expect((await samples()).get(countOf('GET', 'none', 404))).toBeGreaterThan(0)
  })

  it('shows the connections to the database, and the process', async () => {
    const states = async () => {
      const all = await samples()
      return ['busy', 'idle', 'waiting'].map((state) => all.get(`svc_database_connections{state="${state}"}`))
    }
    // The last uses of tokens are written a few seconds after the uploads above.
    await expect.poll(states).toEqual([0, expect.any(Number), 0])
    expect((await samples()).get('process_resident_memory_bytes')).toBeGreaterThan(1e6)
  })

  it('shows requests that wait for a connection of their own pool, such as searches', async () => {
    const { ask } = await aPublisher(t)
    const searches = await whileLocked(t.db, 'package', async () => {
      const asked = Array.from({ length: 3 }, (_, number) => ask(`search.json?q=x${number}`))
      const waiting = async () => (await samples()).get('svc_database_connections{state="waiting"}')
      await expect.poll(waiting).toBe(1)
      return asked
    })
    expect((await Promise.all(searches)).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
  })

  it('shows the background jobs by name and state, and when they last succeeded', async () => {
    for (const about of [{}, {}, { isRunning: true }, { failedDaysAgo: 0 }])
      await aStoredJob(t.db, 'a', about)
    await aStoredJob(t.db, 'b', { isRunning: true })
    await aJobKind(t.db, 'a', { succeededAt: new Date(1_000_000) })
    await aJobKind(t.db, 'c')
    const all = await samples()
    const states = (job: string) =>
      ['queued', 'active', 'failed'].map((state) => all.get(`svc_jobs{job="${job}",state="${state}"}`))
    expect([states('a'), states('b'), states('c')]).toEqual([
      [2, 1, 1],
      [0, 1, 0],
      [0, 0, 0],
    ])
    expect(all.get('svc_job_last_success_timestamp_seconds{job="a"}')).toBe(1000)
    expect(all.has('svc_job_last_success_timestamp_seconds{job="c"}')).toBe(false)
  })
})

describe('the metrics of a server that listens', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  const url = `http://127.0.0.1:${port}`
  const now = () => samples(t)

  it('shows the versions of svc and Node.js, and the disk of DATA_DIR', async () => {
    const all = await now()
    const [build] = [...all.keys()].filter((key) => key.startsWith('svc_build_info'))
    expect(build).toBe(`svc_build_info{version="${version}",node="${process.versions.node}"}`)
    const [free, size] = ['free', 'all'].map((state) => all.get(`svc_disk_bytes{state="${state}"}`) ?? 0)
    expect(free).toBeGreaterThan(0)
    expect(size).toBeGreaterThanOrEqual(free ?? 0)
  })

  it('counts a request in flight until its response is sent or its client has gone', async () => {
    const inFlight = async () => (await now()).get('svc_http_requests_in_flight')
    const { path, authorization } = await aPublisher(t)
    const pulls = await whileLocked(t.db, 'repository', async () => {
      const client = new AbortController()
      const both = [client.signal, undefined].map((signal) =>
        fetch(`${url}${path}packages.json`, { headers: { authorization }, ...(signal && { signal }) }).catch(
          () => null,
        ),
      )
      // The scrape is one of them.
      await expect.poll(inFlight).toBe(3)
      client.abort()
      await expect.poll(inFlight).toBe(2)
      return both
    })
    await Promise.all(pulls)
    await expect.poll(inFlight).toBe(1)
  })

  it('counts the bytes of open and of closed connections', async () => {
    const bytes = async (direction: string) =>
      (await now()).get(`svc_http_bytes_total{direction="${direction}"}`)
    const [received, sent] = [(await bytes('received')) ?? 0, (await bytes('sent')) ?? 0]
    const socket = connect(port, '127.0.0.1')
    const request = 'GET /healthz HTTP/1.1\r\nHost: svc.test\r\n\r\n'
    socket.write(request)
    const [response] = (await once(socket, 'data')) as [Buffer]
    await expect.poll(() => bytes('received')).toBe(received + request.length)
    await expect.poll(() => bytes('sent')).toBe(sent + response.length)
    socket.destroy()
    await expect.poll(async () => (await now()).get('svc_http_requests_in_flight')).toBe(1)
    expect([await bytes('received'), await bytes('sent')]).toEqual([
      received + request.length,
      sent + response.length,
    ])
  })

  it('measures statements, operations of the archive store and attempts of jobs, with their outcomes', async () => {
    const { push } = await aPublisher(t)
    const count = async (name: string, labels: string) => (await now()).get(`${name}_count{${labels}}`) ?? 0
    const before = await count('svc_database_statement_duration_seconds', 'outcome="ok"')
    expect((await push('1.0.0')).statusCode).toBe(201)
    expect(await count('svc_database_statement_duration_seconds', 'outcome="ok"')).toBeGreaterThan(before)
    expect(
      await count('svc_store_operation_duration_seconds', 'operation="keep",outcome="ok"'),
    ).toBeGreaterThan(0)
    const failed = 'operation="keep",outcome="error"'
    const errors = await count('svc_store_operation_duration_seconds', failed)
    await whileUnwritable(t, () => push('2.0.0', { manifest: { description: 'other bytes' } }))
    expect(await count('svc_store_operation_duration_seconds', failed)).toBe(errors + 1)
    await enqueue(t.db, sweepEventsJob, {})
    const attempts = () => count('svc_job_duration_seconds', 'job="sweep-events",outcome="ok"')
    await expect.poll(attempts).toBeGreaterThan(0)
  })

  it('counts wrong passwords and factors, and those that are locked', async () => {
    const account = await anAccount(t.db)
    const count = async (factor: string, outcome: string) =>
      (await now()).get(`svc_sign_in_checks_total{factor="${factor}",outcome="${outcome}"}`) ?? 0
    const before = await Promise.all([count('password', 'wrong'), count('password', 'locked')])
    const form = await t.app.inject('/login')
    const sent = { csrf_token: csrfTokenIn(form), username: account.username, password: 'a wrong password' }
    for (let i = 0; i < 12; i += 1) await post(t.app, '/login', cookiesOf(form), sent)
    expect([await count('password', 'wrong'), await count('password', 'locked')]).toEqual([
      before[0] + 10,
      before[1] + 2,
    ])
  })
})

describe('the metrics of the installation', () => {
  const t = useApp()
  const now = () => samples(t)

  it('are missing while the database does not respond, and the rest is shown', async () => {
    const all = await whileLocked(t.db, ['maintenance', 'job', 'stored_archive'], () => now())
    const names = [...all.keys()].map((key) => key.replace(/\{.*/, ''))
    expect(names).not.toContain('svc_jobs')
    expect(names).not.toContain('svc_maintenance_last_success_timestamp_seconds')
    expect(names).not.toContain('svc_archives')
    expect(names).toContain('svc_build_info')
  })

  it('show archives, their problems, and when the last backup and collection ended', async () => {
    const { push } = await aPublisher(t)
    const { size } = (await push('1.0.0')).json() as { size: number }
    await aStoredFile(t.db, 10, 'missing')
    await noteWork(t.db, 'backup', new Date(1_000_000))
    const all = await now()
    expect([all.get('svc_archives'), all.get('svc_archive_bytes')]).toEqual([2, size + 10])
    const problems = ['missing', 'damaged', 'wrong size'].map((kind) =>
      all.get(`svc_archive_problems{problem="${kind}"}`),
    )
    expect(problems).toEqual([1, 0, 0])
    const ended = (work: string) => `svc_maintenance_last_success_timestamp_seconds{work="${work}"}`
    expect([all.get(ended('backup')), all.has(ended('garbage-collection'))]).toEqual([1000, false])
    expect(all.get('svc_database_bytes')).toBeGreaterThan(1e6)
    await collectGarbage(t.db, await openArchiveStore(t.config))
    expect((await now()).get(ended('garbage-collection'))).toBeGreaterThan(1e9)
  })
})

describe('who reads metrics', () => {
  const token = 'a-token-of-the-monitoring'
  const settings = {
    nothing: useApp(),
    token: useApp({ METRICS_TOKEN: token }),
    port: useApp({ METRICS_PORT: `${port}`, HOST: '127.0.0.1' }),
  }
  const read = (app: TestApp, authorization?: string) =>
    app.app.inject({ url: '/metrics', headers: authorization === undefined ? {} : { authorization } })

  it('everybody, without the hosts of upstreams, when nothing is set', async () => {
    const { body } = await read(settings.nothing)
    expect(body).toContain('# TYPE svc_upstream_requests_total counter')
    expect(body).not.toContain('upstream="')
  })

  it('whoever has the token, when it is set', async () => {
    const refused = await Promise.all([
      read(settings.token),
      read(settings.token, 'Bearer another-token-of-somebody'),
      read(settings.token, `Basic ${Buffer.from(`svc:${token}`).toString('base64')}`),
    ])
    for (const { statusCode, headers, body } of refused) {
      expect([statusCode, headers['www-authenticate']]).toEqual([401, 'Bearer realm="metrics"'])
      expect(body).not.toContain('svc_')
    }
    const allowed = await read(settings.token, `Bearer ${token}`)
    expect(allowed.statusCode).toBe(200)
    expect(allowed.body).toContain('svc_upstream_requests_total')
  })

  it('whoever reaches the separate port, when it is set', async () => {
    expect((await read(settings.port)).statusCode).toBe(404)
    const response = await fetch(`http://127.0.0.1:${port}/metrics`)
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=/)
    expect(await response.text()).toContain('svc_upstream_requests_total')
    for (const [method, path] of [
      ['GET', '/'],
      ['POST', '/metrics'],
      ['GET', '/api/user'],
    ] as const) {
      expect((await fetch(`http://127.0.0.1:${port}${path}`, { method })).status).toBe(404)
    }
  })

  it('counts at most a hundred hosts of upstreams, and others together', async () => {
    const metrics = { common: new Registry(), open: new Registry(), closed: new Registry() }
    const { noteArchive } = countUpstreams(metrics)
    for (let i = 0; i < 150; i += 1) {
      noteArchive(
        { upstreamUrl: `https://host-${i}.test/` } as Parameters<typeof noteArchive>[0],
        'fetched',
        10,
      )
    }
    const closed = await metrics.closed.metrics()
    expect(closed.match(/svc_upstream_archive_bytes_total\{/g)).toHaveLength(101)
    expect(closed).toContain('svc_upstream_archive_bytes_total{upstream="other"} 500')
    const open = await metrics.open.metrics()
    expect(open).toContain('svc_upstream_archive_bytes_total 1500')
    expect(open).not.toContain('.test')
  })

  it('lets simultaneous scrapes share one text, and gives each a text that is not older than its request', async () => {
    const scrape = () => read(settings.nothing).then(({ body }) => body)
    const together = await Promise.all(Array.from({ length: 20 }, scrape))
    expect(new Set(together).size).toBeLessThanOrEqual(2)
    for (let i = 0; i < 3; i += 1) {
      await settings.nothing.app.inject('/no/such/page')
      expect(await scrape()).toContain(`${countOf('GET', 'none', 404)} ${i + 1}`)
    }
  })
})
