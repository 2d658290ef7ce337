import { describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { aPublisher } from '../support/registry-actors.ts'

const t = useApp()

/** The samples of `/metrics`, by name and labels. */
async function samples(): Promise<Map<string, number>> {
  const { body } = await t.app.inject('/metrics')
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

describe('GET /metrics (DESIGN §4)', () => {
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
    const all = await samples()
    const states = ['busy', 'idle', 'waiting'].map((state) =>
      all.get(`svc_database_connections{state="${state}"}`),
    )
    expect(states).toEqual([0, expect.any(Number), 0])
    expect(all.get('process_resident_memory_bytes')).toBeGreaterThan(1e6)
  })

  it('shows requests that wait for a connection of their own pool, such as searches', async () => {
    const { ask } = await aPublisher(t)
    const other = await t.db.connect()
    try {
      await other.query('begin; lock table package in access exclusive mode')
      const searches = Array.from({ length: 3 }, (_, number) => ask(`search.json?q=x${number}`))
      const waiting = async () => (await samples()).get('svc_database_connections{state="waiting"}')
      await expect.poll(waiting).toBe(1)
      await other.query('rollback')
      expect((await Promise.all(searches)).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
    } finally {
      other.release(true)
    }
  })

  it('shows the background jobs by name and state, and when they last succeeded', async () => {
    await t.db.query(
      `insert into job (name, is_running, failed_at)
       values ('a', false, null), ('a', false, null), ('a', true, null), ('a', false, now()), ('b', true, null)`,
    )
    await t.db.query(
      `insert into job_kind (name, succeeded_at) values ('a', to_timestamp(1000)), ('c', null)`,
    )
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
