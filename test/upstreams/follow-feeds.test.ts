import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openLocalStore } from '../../src/archives/local-store.ts'
import { enqueue, type Job } from '../../src/jobs/job.ts'
import { runDueJobs, runJobs } from '../../src/jobs/run-jobs.ts'
import {
  followFeeds,
  followUpstream,
  refreshUpstream,
  releaseUnusedArchives,
  renderDueMirrors,
} from '../../src/upstreams/follow-feeds.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { collectAgedGarbage } from '../support/garbage.ts'
import { expand } from '../support/registry-actors.ts'
import { followJobs, followUpstreams, upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp({ ...upstreamsHere, UPSTREAM_KEEP_DAYS: '30' })
const upstream = useUpstream({
  'metadata-changes-url': '/changes.json',
  filter: { metadata: true, 'summary-url': '/filter.json' },
})

async function aMirror(settings: object = {}) {
  const caller = await aCaller(t)
  await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public', ...settings })
  const versions = async (name: string) =>
    expand((await caller.ask(`p2/${name}.json`)).body, name).map(({ version }) => version)
  return { ...caller, versions }
}

/** Runs a job now, no matter when it ran last. */
async function run(job: Job) {
  await enqueue(t.db, job, undefined)
  await runDueJobs({ config: t.config, db: t.db }, [job], openLog('silent'))
}

/** Follows all upstreams now, no matter when that was done last. */
async function follow() {
  await t.db.query(`update upstream set feed_checked_at = feed_checked_at - interval '1 minute'`)
  await followUpstreams(t)
}

const changes = (actions: object[], timestamp: number) =>
  upstream.put(`/changes.json?since=${timestamp - 1}`, { actions, timestamp })
const askedFor = (name: string) =>
  upstream.requests.filter((request) => request === `GET /p2/${name}.json`).length

describe('the job that follows change feeds', () => {
  it('begins at the feed’s timestamp, refreshes the packages in it, and sends no requests for the others', async () => {
    upstream.put('/filter.json', { filter: { malware: {} } })
    upstream.offer('feed/named', ['1.0.0'])
    upstream.offer('feed/quiet', ['1.0.0'])
    upstream.fail('/changes.json', (_, response) =>
      response
        .writeHead(400, { 'content-type': 'application/json' })
        .end('{"error":"since","timestamp":1000}'),
    )
    upstream.put('/changes.json?since=1000', { actions: [], timestamp: 1001 })
    const { versions } = await aMirror()
    await follow()
    await versions('feed/named')
    await versions('feed/quiet')

    upstream.offer('feed/named', ['1.1.0', '1.0.0'])
    changes(
      [
        { type: 'update', package: 'feed/named', time: 1 },
        { type: 'update', package: 'feed/unknown', time: 1 },
      ],
      1002,
    )
    await follow()
    expect(await versions('feed/named')).toEqual(['1.1.0', '1.0.0'])
    expect(askedFor('feed/unknown')).toBe(0)

    // Both documents are older than UPSTREAM_FRESH_SECONDS, but svc has read the feed without a gap.
    await t.db.query(`update upstream set feed_from = now() - interval '2 hours'`)
    await t.db.query(`update upstream_document set checked_at = now() - interval '1 hour'`)
    const before = askedFor('feed/quiet')
    await versions('feed/quiet')
    expect(askedFor('feed/quiet')).toBe(before)

    upstream.offer('feed/quiet', ['2.0.0'])
    changes([{ type: 'resync', package: '*', time: 1 }], 1003)
    await follow()
    expect(await versions('feed/quiet')).toEqual(['2.0.0'])
  })

  it('hides versions that the upstream’s summary flags, and lists them in filter.json', async () => {
    upstream.offer('feed/malware', ['1.1.0', '1.0.0'])
    const { versions, ask } = await aMirror()
    expect(await versions('feed/malware')).toEqual(['1.1.0', '1.0.0'])
    upstream.put('/filter.json', {
      filter: { malware: { 'feed/malware': '1.1.0', 'not/mirrored': '*', 'feed/quiet': 'no constraint !' } },
    })
    await follow()
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: { 'feed/malware': '1.1.0' } } })
    expect(await versions('feed/malware')).toEqual(['1.0.0'])
  })

  it('continues with other upstreams when a feed fails', async () => {
    upstream.fail('/changes.json?since=1003', 500)
    await expect(follow()).resolves.toBeUndefined()
    const { rows } = await t.db.query(
      'select count(*)::int as all, count(feed_from)::int as followed from upstream',
    )
    expect(rows).toEqual([{ all: 2, followed: 1 }])
  })

  it('requests a changed document again after a failure', async () => {
    upstream.offer('feed/failing', ['1.0.0'])
    const { versions } = await aMirror()
    await follow()
    await versions('feed/failing')
    upstream.offer('feed/failing', ['1.1.0', '1.0.0'])
    changes([{ type: 'update', package: 'feed/failing', time: 1 }], 1002)
    changes([], 1003)
    upstream.fail('/p2/feed/failing.json', 500)
    await follow()
    upstream.fail('/p2/feed/failing.json', null)
    await t.db.query('update upstream_document set retry_at = now() where retry_at is not null')
    await follow()
    expect(await versions('feed/failing')).toEqual(['1.1.0', '1.0.0'])
  })

  it('ends at a stop while the upstream does not respond, and another process continues', async () => {
    upstream.offer('feed/hanging', ['1.0.0'])
    const { versions } = await aMirror()
    await versions('feed/hanging')
    upstream.offer('feed/hanging', ['1.1.0', '1.0.0'])
    await t.db.query(`update upstream_document set is_stale = true where name = 'feed/hanging'`)
    const stop = new AbortController()
    upstream.fail('/p2/feed/hanging.json', () => stop.abort())
    const context = { config: t.config, db: t.db, log: openLog('silent') }
    const { rows: known } = await t.db.query(
      `select upstream_id from upstream_document where name = 'feed/hanging'`,
    )
    const about = { upstreamId: known[0].upstream_id }
    await expect(refreshUpstream.run(context, about, stop.signal)).rejects.toThrow('aborted')
    const { rows } = await t.db.query(
      `select failure, retry_at, checking_until, is_stale from upstream_document where name = 'feed/hanging'`,
    )
    expect(rows).toEqual([{ failure: null, retry_at: null, checking_until: null, is_stale: true }])
    upstream.fail('/p2/feed/hanging.json', null)
    await follow()
    expect(await versions('feed/hanging')).toEqual(['1.1.0', '1.0.0'])
  })
})

describe('an upstream that does not respond', () => {
  const healthy = useUpstream({ filter: { metadata: true, 'summary-url': '/filter.json' } })

  it('delays no malware list of another one, not even with many upstreams', async () => {
    const slow = await aCaller(t)
    const hanging: (() => void)[] = []
    upstream.fail('/filter.json', (_, response) => hanging.push(() => response.writeHead(500).end()))
    for (let i = 0; i < 12; i += 1)
      await slow.call('POST', '/upstreams', { url: upstream.url, name: `slow${i}` })
    const other = await aCaller(t)
    await other.call('POST', '/upstreams', { url: healthy.url, name: 'healthy' })
    healthy.offer('quick/lib', ['1.1.0', '1.0.0'])
    await other.ask('p2/quick/lib.json')
    healthy.put('/filter.json', { filter: { malware: { 'quick/lib': '1.1.0' } } })
    const running = runJobs({ config: t.config, db: t.db }, followJobs, openLog('silent'), {
      pollEveryMilliseconds: 20,
    })
    await enqueue(t.db, followFeeds, undefined)
    // None of the slow ones ever responds while this waits.
    await expect
      .poll(async () => (await other.ask('filter.json')).json())
      .toEqual({ filter: { malware: { 'quick/lib': '1.1.0' } } })
    expect(hanging.length).toBeGreaterThan(0)
    await running.stop(10)
    upstream.fail('/filter.json', null)
    await t.db.query(`delete from job`)
    await t.db.query('update upstream set removed_at = now() where name like $1', ['slow%'])
  })

  it('waits with others of its kind from the next time on, until it responds fast again', async () => {
    const { repository, call } = await aCaller(t)
    await call('POST', '/upstreams', { url: healthy.url, name: 'turns' })
    const { rows } = await t.db.query<{ id: string }>('select id from upstream where repository_id = $1', [
      repository.id,
    ])
    const about = { upstreamId: rows[0]?.id ?? '' }
    const context = { config: t.config, db: t.db, log: openLog('silent') }
    const isSlow = async () => {
      await followUpstream.run(context, about, new AbortController().signal)
      const { rows } = await t.db.query('select is_slow from upstream where id = $1', [about.upstreamId])
      return rows[0].is_slow
    }
    healthy.fail('/filter.json', () => {})
    expect(await isSlow()).toBe(true)
    healthy.fail('/filter.json', null)
    expect(await isSlow()).toBe(false)
  })
})

describe('an upstream that is removed and releases its names', () => {
  const other = useUpstream()

  it('flags no version any more, also when another upstream takes the name over', async () => {
    const malware = [{ constraint: '1.2.0', reason: 'steals', id: 'x', url: 'https://x.example' }]
    upstream.offer('released/lib', ['1.2.0', '1.1.0', '1.0.0'], { document: { filter: { malware } } })
    other.offer('released/lib', ['1.1.0', '1.0.0'])
    const { versions, ask, call } = await aMirror()
    await versions('released/lib')
    upstream.put('/filter.json', { filter: { malware: { 'released/lib': '1.1.0' } } })
    await follow()
    expect(await versions('released/lib')).toEqual(['1.0.0'])
    const flagged = (await ask('filter.json')).json().filter.malware['released/lib']
    expect(flagged.split(' || ').toSorted()).toEqual(['1.1.0', '1.2.0'])

    await call('DELETE', '/upstreams/public?release=true')
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: {} } })
    await call('POST', '/upstreams', { url: other.url, name: 'other' })
    expect(await versions('released/lib')).toEqual(['1.1.0', '1.0.0'])
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: {} } })
  })

  it('does not render filter.json when it flagged nothing', async () => {
    other.offer('released/clean', ['1.0.0'])
    const { versions, call, repository } = await aMirror({ url: other.url })
    await versions('released/clean')
    expect((await call('DELETE', '/upstreams/public?release=true')).statusCode).toBe(204)
    const { rowCount } = await t.db.query('select from filter_document where repository_id = $1', [
      repository.id,
    ])
    expect(rowCount).toBe(0)
  })
})

describe('the job that renders due documents', () => {
  it('shows a version when it reaches the minimum age, with a newer Last-Modified and no request upstream', async () => {
    upstream.offer('due/lib', [{ version: '1.0.0', 'published-time': undefined }])
    const { ask } = await aMirror({ minimum_age_hours: 72 })
    const first = await ask('p2/due/lib.json')
    expect(expand(first.body, 'due/lib')).toEqual([])
    await t.db.query(`update mirrored_archive set first_seen_at = now() - interval '73 hours'`)
    await t.db.query(
      `update mirrored_document set due_at = now() - interval '1 hour' where due_at <> 'infinity'`,
    )
    const before = upstream.requests.length
    await run(renderDueMirrors)
    expect(upstream.requests.length).toBe(before)
    const { rows } = await t.db.query(
      `select due_at = 'infinity' as is_done from mirrored_document d join mirrored_package m on m.id = d.package_id
        where m.name = 'due/lib'`,
    )
    expect(rows).toEqual([{ is_done: true }])
    const last = await ask('p2/due/lib.json')
    expect(expand(last.body, 'due/lib')).toMatchObject([{ version: '1.0.0' }])
    expect(Date.parse(String(last.headers['last-modified']))).toBeGreaterThan(
      Date.parse(String(first.headers['last-modified'])),
    )
  })
})

describe('a due document that cannot be rendered', () => {
  it('does not keep the job from rendering the others', async () => {
    for (const name of ['due/broken', 'due/other']) upstream.offer(name, ['1.0.0'])
    const { versions } = await aMirror()
    for (const name of ['due/broken', 'due/other']) await versions(name)
    await t.db.query(`update upstream_document set content = 'no gzip' where name = 'due/broken'`)
    await t.db.query(
      `update mirrored_document d set due_at = now() - case m.name when 'due/broken' then interval '2 h' else '1 h' end
         from mirrored_package m where m.id = d.package_id and m.name in ('due/broken', 'due/other')`,
    )
    await run(renderDueMirrors)
    const { rows } = await t.db.query(
      `select m.name from mirrored_document d join mirrored_package m on m.id = d.package_id
        where d.due_at <= now() and m.name like 'due/%'`,
    )
    expect(rows).toEqual([{ name: 'due/broken' }])
  })
})

describe('the job that removes unused archives', () => {
  it('keeps archives that were used within UPSTREAM_KEEP_DAYS, and lets the others be collected', async () => {
    const { ask, path } = await aMirror()
    const source = (name: string) => `/archives/${name}/1.0.0.zip`
    const fetched = (name: string) =>
      upstream.requests.filter((request) => request === `GET ${source(name)}`).length
    const store = await openLocalStore(t.config.dataDir)
    const fileOf = (name: string) => {
      const sha256 = createHash('sha256').update(bytesOf(name)).digest('hex')
      return join(store.directory, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
    }
    const bytesOf = (name: string) => upstream.read(source(name)) ?? Buffer.alloc(0)
    const download = async (name: string) => {
      const [entry] = expand((await ask(`p2/${name}.json`)).body, name)
      const { url } = { ...(entry?.['dist'] as object) } as { url: string }
      const { statusCode, rawPayload } = await ask(url.slice(`${t.config.baseUrl}${path}`.length))
      return statusCode === 200 && rawPayload.equals(bytesOf(name))
    }
    const names = ['keep/old', 'keep/new']
    for (const name of names) {
      upstream.offer(name, ['1.0.0'])
      expect(await download(name)).toBe(true)
      // Garbage collection spares files that were written a short time ago.
      const longAgo = new Date(Date.now() - 48 * 3_600_000)
      await utimes(fileOf(name), longAgo, longAgo)
    }
    await t.db.query(`update mirrored_archive a set used_on = current_date - 31 from mirrored_package m
                       where m.id = a.package_id and m.name = 'keep/old'`)
    await run(releaseUnusedArchives)
    const { rows } = await t.db.query(
      `select m.name from mirrored_archive a join mirrored_package m on m.id = a.package_id where a.is_stored`,
    )
    expect(rows).toEqual([{ name: 'keep/new' }])

    await collectAgedGarbage(t.db, store, { isForced: true })
    expect(names.map((name) => existsSync(fileOf(name)))).toEqual([false, true])
    for (const name of names) expect(await download(name)).toBe(true)
    expect(names.map(fetched)).toEqual([2, 1])
    expect(existsSync(fileOf('keep/old'))).toBe(true)
  })
})

describe('a malware summary that is older than a package’s first request', () => {
  it('hides flagged versions from the first request for their package', async () => {
    const { versions, ask, call } = await aMirror()
    const names = ['feed/first', 'feed/approved']
    await call('POST', '/mirrored-packages/approve', { packages: ['feed/approved'] })
    for (const name of names) upstream.offer(name, ['1.1.0', '1.0.0'])
    const flagged = { 'feed/first': '1.1.0', 'feed/approved': '1.1.0' }
    upstream.put('/filter.json', { filter: { malware: { ...flagged, 'feed/unflagged': '*' } } })
    await follow()
    upstream.put('/filter.json', { filter: { malware: flagged } })
    await follow()
    for (const name of names) {
      expect(await versions(name)).toEqual(['1.0.0'])
      const reference = Buffer.from(`${name} 1.1.0`).toString('hex').padEnd(40, '0').slice(-40)
      expect((await ask(`dist/${name}/1.1.0/${reference}.zip`)).statusCode).toBe(410)
    }
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: flagged } })
    upstream.offer('feed/unflagged', ['1.0.0'])
    expect(await versions('feed/unflagged')).toEqual(['1.0.0'])
    upstream.put('/filter.json', { filter: { malware: {} } })
    await follow()
    expect(await versions('feed/first')).toEqual(['1.1.0', '1.0.0'])
  })

  it('flags nothing when it is empty, also as PHP writes it, and does not change in another format', async () => {
    const { versions } = await aMirror()
    upstream.offer('feed/emptied', ['1.1.0', '1.0.0'])
    const flagged = { filter: { malware: { 'feed/emptied': '1.1.0' } } }
    const versionsWith = async (summary: object) => {
      upstream.put('/filter.json', summary)
      await follow()
      return versions('feed/emptied')
    }
    for (const empty of [{ malware: {} }, { malware: [] }, {}, []]) {
      expect(await versionsWith(flagged)).toEqual(['1.0.0'])
      expect([empty, await versionsWith({ filter: empty })]).toEqual([empty, ['1.1.0', '1.0.0']])
    }
    await versionsWith(flagged)
    for (const other of [{ malware: ['x'] }, { malware: null }, { other: {} }, ['malware'], null, 'none'])
      expect([other, await versionsWith({ filter: other })]).toEqual([other, ['1.0.0']])
  })

  it('ends when the upstream announces it no longer, and when the upstream is removed', async () => {
    const { versions, call, repository } = await aMirror()
    upstream.offer('feed/withdrawn', ['1.1.0', '1.0.0'])
    const flagged = { 'feed/withdrawn': '1.1.0', 'feed/later': '1.0.0' }
    upstream.put('/filter.json', { filter: { malware: flagged } })
    await follow()
    expect(await versions('feed/withdrawn')).toEqual(['1.0.0'])
    const stored = async () =>
      (
        await t.db.query(
          'select f.name from upstream_flag f join upstream u on u.id = f.upstream_id where u.repository_id = $1',
          [repository.id],
        )
      ).rowCount
    expect(await stored()).toBe(2)
    const announce = (url: string | null) =>
      t.db.query(
        `update upstream set root = root || jsonb_build_object('filterSummaryUrl', $2::text) where repository_id = $1`,
        [repository.id, url],
      )
    await announce(null)
    await follow()
    expect([await stored(), await versions('feed/withdrawn')]).toEqual([0, ['1.1.0', '1.0.0']])
    await announce(`${upstream.url}/filter.json`)
    await follow()
    expect(await stored()).toBe(2)
    await call('DELETE', '/upstreams/public')
    expect(await stored()).toBe(0)
  })
})
