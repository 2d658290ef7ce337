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
import {
  ageDueDocuments,
  ageFirstSights,
  ageUse,
  makeDue,
  mirroredArchives,
  mirroredDocuments,
} from '../support/mirrored-rows.ts'
import { expand } from '../support/registry-actors.ts'
import { countRows, dropRows } from '../support/rows.ts'
import { followJobs, followUpstreams, upstreamsHere, useUpstream } from '../support/upstream.ts'
import {
  ageDocuments,
  ageFeedChecks,
  announceSummary,
  damageDocument,
  endRetryDelays,
  flaggedNames,
  markRemoved,
  markStale,
  setFollowedHours,
  upstreamDocuments,
  upstreamRows,
} from '../support/upstream-rows.ts'

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
  await ageFeedChecks(t.db)
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
    await setFollowedHours(t.db, 2)
    await ageDocuments(t.db)
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
    const all = await upstreamRows(t.db)
    expect([all.length, all.filter(({ isFollowed }) => isFollowed).length]).toEqual([2, 1])
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
    await endRetryDelays(t.db)
    await follow()
    expect(await versions('feed/failing')).toEqual(['1.1.0', '1.0.0'])
  })

  it('ends at a stop while the upstream does not respond, and another process continues', async () => {
    upstream.offer('feed/hanging', ['1.0.0'])
    const { versions } = await aMirror()
    await versions('feed/hanging')
    upstream.offer('feed/hanging', ['1.1.0', '1.0.0'])
    await markStale(t.db, 'feed/hanging')
    const stop = new AbortController()
    upstream.fail('/p2/feed/hanging.json', () => stop.abort())
    const context = { config: t.config, db: t.db, log: openLog('silent') }
    const document = async () => (await upstreamDocuments(t.db, 'feed/hanging'))[0]
    const about = { upstreamId: (await document())?.upstreamId ?? '' }
    await expect(refreshUpstream.run(context, about, stop.signal)).rejects.toThrow('aborted')
    expect(await upstreamDocuments(t.db, 'feed/hanging')).toMatchObject([
      { failure: null, retryAt: null, checkingUntil: null, isStale: true },
    ])
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
    await dropRows(t.db, 'job')
    await markRemoved(t.db, { name: /^slow/ })
  })

  it('waits with others of its kind from the next time on, until it responds fast again', async () => {
    const { repository, call } = await aCaller(t)
    await call('POST', '/upstreams', { url: healthy.url, name: 'turns' })
    const row = async () => (await upstreamRows(t.db, repository))[0]
    const about = { upstreamId: (await row())?.id ?? '' }
    const context = { config: t.config, db: t.db, log: openLog('silent') }
    const isSlow = async () => {
      await followUpstream.run(context, about, new AbortController().signal)
      return (await row())?.isSlow
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
    expect(await countRows(t.db, 'filter_document', { repositoryId: repository.id })).toBe(0)
  })
})

describe('the job that renders due documents', () => {
  it('shows a version when it reaches the minimum age, with a newer Last-Modified and no request upstream', async () => {
    upstream.offer('due/lib', [{ version: '1.0.0', 'published-time': undefined }])
    const { ask } = await aMirror({ minimum_age_hours: 72 })
    const first = await ask('p2/due/lib.json')
    expect(expand(first.body, 'due/lib')).toEqual([])
    await ageFirstSights(t.db, 73)
    await ageDueDocuments(t.db)
    const before = upstream.requests.length
    await run(renderDueMirrors)
    expect(upstream.requests.length).toBe(before)
    expect(await mirroredDocuments(t.db, /^due\/lib$/)).toMatchObject([{ dueHours: null }])
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
    await damageDocument(t.db, 'due/broken')
    await makeDue(t.db, 'due/broken', 2)
    await makeDue(t.db, 'due/other', 1)
    await run(renderDueMirrors)
    const documents = await mirroredDocuments(t.db, /^due\//)
    const due = documents.filter(({ dueHours }) => dueHours !== null && dueHours <= 0)
    expect(due.map(({ name }) => name)).toEqual(['due/broken'])
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
    await ageUse(t.db, 'keep/old', 31)
    await run(releaseUnusedArchives)
    const stored = (await mirroredArchives(t.db)).filter(({ isStored }) => isStored)
    expect(stored.map(({ name }) => name)).toEqual(['keep/new'])

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
    const stored = async () => (await flaggedNames(t.db, repository)).length
    expect(await stored()).toBe(2)
    const announce = (url: string | null) => announceSummary(t.db, repository, url)
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
