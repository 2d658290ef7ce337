import type pg from 'pg'
import { transaction } from '../database/database.ts'
import { enqueueNew, type Job, type JobContext } from '../jobs/job.ts'
import { openUpstreamClient, type UpstreamRequests } from './client/fetch.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { askAboutNames } from './contested-names.ts'
import { runTask } from './documents/run-task.ts'
import { freshRoot } from './fresh-root.ts'
import { type CheckContext, checkContextOf, checkDocument } from './mirror.ts'
import { renderMirror } from './store-documents.ts'
import { listUpstreamsToAsk } from './tables/contested-names.ts'
import { releaseUnused } from './tables/mirrored-archives.ts'
import { hasSummaryFlags, listDueMirrors, saveSummaryFlags } from './tables/mirrored-documents.ts'
import { listStaleInUse, markAllStale, markStale } from './tables/upstream-documents.ts'
import {
  listUpstreamsById,
  listUpstreamsToFollow,
  noteSlowness,
  saveFeedPosition,
  stopFeed,
  takeFeedTurn,
  type Upstream,
} from './tables/upstreams.ts'

const feedSeconds = 60
const renderSeconds = 30
const askSeconds = 600
const collectSeconds = 3600
/** The number of documents that one run of a job processes. */
const batch = 200
/** How long the malware list and the feed of an upstream may take together. A slow one needs more time to catch up. */
const followMilliseconds = 10_000
const slowFollowMilliseconds = 40_000
/** How long the stale documents of an upstream may take. It is more than one of them may take. */
const refreshMilliseconds = 45_000
/** How long the malware list may take. Then the feed still has time. */
const summaryMilliseconds = 5_000
/** An upstream whose malware list and feed took longer is slow. */
const slowMilliseconds = 4_000

/**
 * Enqueues a job for each upstream that reads its malware list and follows its change feed (`metadata-changes-url` in
 * Packagist's format, UPSTREAMS 6). So documents in use are up to date when a client needs them. Slow upstreams have
 * another job, and delay only each other.
 */
export const followFeeds: Job = {
  name: 'follow-upstream-feeds',
  everySeconds: feedSeconds,
  async run({ db }) {
    const upstreams = await listUpstreamsToFollow(db)
    await enqueueNew(
      db,
      upstreams.map(({ id, isSlow }) => ({
        job: isSlow ? followSlowUpstream : followUpstream,
        data: { upstreamId: id },
      })),
    )
  },
}

/** What a job about an upstream needs. */
interface AboutUpstream {
  upstreamId: string
}

/** Reads the malware list of an upstream, then the changes in its feed. */
export const followUpstream: Job<AboutUpstream> = {
  name: 'follow-upstream',
  singleton: ({ upstreamId }) => upstreamId,
  concurrency: 5,
  hasOwnSlots: true,
  run: (context, { upstreamId }, signal) => follow(context, upstreamId, followMilliseconds, signal),
}

/** The same for an upstream that took long at the last time. */
export const followSlowUpstream: Job<AboutUpstream> = {
  ...followUpstream,
  name: 'follow-slow-upstream',
  concurrency: 2,
  run: (context, { upstreamId }, signal) => follow(context, upstreamId, slowFollowMilliseconds, signal),
}

async function follow(
  context: JobContext,
  upstreamId: string,
  milliseconds: number,
  signal: AbortSignal,
): Promise<void> {
  const { db } = context
  const start = Date.now()
  await visit(context, upstreamId, [readSummary, followOrStop], milliseconds, signal)
  await noteSlowness(db, upstreamId, Date.now() - start > slowMilliseconds)
  if ((await listStaleInUse(db, upstreamId, 1)).length > 0)
    await enqueueNew(db, [{ job: refreshUpstream, data: { upstreamId } }])
}

/** Requests the stale documents of an upstream that were used recently, so that no client has to wait for them. */
export const refreshUpstream: Job<AboutUpstream> = {
  name: 'refresh-upstream',
  singleton: ({ upstreamId }) => upstreamId,
  concurrency: 2,
  hasOwnSlots: true,
  run: (context, { upstreamId }, signal) =>
    visit(context, upstreamId, [refreshStale], refreshMilliseconds, signal),
}

/**
 * Enqueues a job for each upstream that comes before another one. The job asks it about names that upstreams after it
 * serve, because it may have published them since.
 */
export const askEarlierUpstreams: Job = {
  name: 'ask-earlier-upstreams',
  everySeconds: askSeconds,
  async run({ db }) {
    const ids = await listUpstreamsToAsk(db)
    await enqueueNew(
      db,
      ids.map((upstreamId) => ({ job: askEarlierUpstream, data: { upstreamId } })),
    )
  },
}

/** Asks an upstream whether it has names by now that upstreams after it serve. */
export const askEarlierUpstream: Job<AboutUpstream> = {
  name: 'ask-earlier-upstream',
  singleton: ({ upstreamId }) => upstreamId,
  concurrency: 2,
  hasOwnSlots: true,
  run: (context, { upstreamId }, signal) =>
    visit(context, upstreamId, [askAboutNames], refreshMilliseconds, signal),
}

/** A part of the work about an upstream. `signal` is that of the job. */
type Part = (context: CheckContext, upstream: Upstream, signal: AbortSignal) => Promise<void>

/** Does the parts of the work about an upstream. Its requests end when the job stops, and after the time. */
async function visit(
  { config, db, log }: JobContext,
  upstreamId: string,
  parts: readonly Part[],
  milliseconds: number,
  signal: AbortSignal,
): Promise<void> {
  const [upstream] = await listUpstreamsById(db, [upstreamId])
  if (!upstream || upstream.mode === 'off') return
  const client = openUpstreamClient(config)
  // An upstream that does not respond must delay neither a stop nor the other upstreams.
  const close = () => void client.close()
  signal.addEventListener('abort', close)
  const timer = setTimeout(close, milliseconds)
  try {
    const context = checkContextOf({ config, db, client })
    // A failing part must not keep the others from running: the malware list matters without a feed too.
    for (const part of parts) {
      signal.throwIfAborted()
      try {
        await part(context, upstream, signal)
      } catch (error) {
        signal.throwIfAborted()
        const level = error instanceof UpstreamError ? 'warn' : 'error'
        log[level]({ err: error, upstream: upstream.url }, 'an upstream cannot be followed')
      }
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', close)
    await client.close()
  }
}

/**
 * Renders documents in which a version now has the minimum age, or whose rules have changed. A document that cannot be
 * rendered does not delay the others: the job fails after them.
 */
export const renderDueMirrors: Job = {
  name: 'render-due-mirrors',
  everySeconds: renderSeconds,
  async run({ config, db }, _data, signal) {
    const failures: unknown[] = []
    let due: Awaited<ReturnType<typeof listDueMirrors>>
    do {
      due = await listDueMirrors(db, batch)
      for (const { packageId, isDev } of due) {
        signal.throwIfAborted()
        try {
          await transaction(db, (tx) => renderMirror(tx, packageId, isDev, config.baseUrl))
        } catch (error) {
          failures.push(error)
        }
      }
    } while (due.length === batch && failures.length === 0)
    if (failures.length > 0) throw failures[0]
  },
}

/** Lets garbage collection remove archives of upstreams that were not used for `UPSTREAM_KEEP_DAYS`. */
export const releaseUnusedArchives: Job = {
  name: 'release-unused-archives',
  everySeconds: collectSeconds,
  async run({ config, db, log }, _data, signal) {
    const { keepDays } = config.upstreams
    if (keepDays === null) return
    let released = 0
    let count: number
    do {
      signal.throwIfAborted()
      count = await releaseUnused(db, keepDays, 1000)
      released += count
    } while (count === 1000)
    if (released > 0) log.info({ released }, 'unused archives of upstreams may be collected')
  },
}

/**
 * Follows the change feed. When that fails, or when the upstream no longer has a feed, its documents are checked one by
 * one again.
 */
async function followOrStop(context: CheckContext, upstream: Upstream, signal: AbortSignal): Promise<void> {
  const { db, client } = context
  if (!upstream.root?.changesUrl) return stopFeed(db, upstream.id)
  try {
    // No document may need a check, and only a check reads packages.json otherwise.
    const { root } = await freshRoot(context, upstream, null)
    if (root?.changesUrl) await followFeed(db, client.for(upstream), upstream.id, root.changesUrl)
    else await stopFeed(db, upstream.id)
  } catch (error) {
    // After a stop, another process continues.
    if (!signal.aborted) await stopFeed(db, upstream.id)
    throw error
  }
}

/**
 * Reads the changes since the last run. The first run only gets a timestamp. The action `resync` marks all documents as
 * stale.
 */
async function followFeed(
  db: pg.Pool,
  client: UpstreamRequests,
  upstreamId: string,
  url: string,
): Promise<void> {
  // Use less than the interval of the schedule, because the schedule has jitter.
  const turn = await takeFeedTurn(db, upstreamId, feedSeconds / 2)
  if (!turn) return
  const owner = { owner: upstreamId }
  const read = <T>(at: string, use: (bytes: Buffer) => Promise<T>) => readFeed(client, at, use)
  const since = turn.since ?? (await read(url, (bytes) => runTask(owner, 'parseTimestamp', bytes)))
  const { timestamp, isResync, documents } = await read(withSince(url, since), (bytes) =>
    runTask(owner, 'parseChanges', bytes),
  )
  if (isResync) await markAllStale(db, upstreamId)
  if (documents.length > 0) await markStale(db, upstreamId, documents)
  await saveFeedPosition(db, upstreamId, timestamp, { isRestart: turn.since === null || isResync })
}

async function readFeed<T>(
  client: UpstreamRequests,
  url: string,
  use: (bytes: Buffer) => Promise<T>,
): Promise<T> {
  const fetched = await client.fetchDocument(url, use, { takesBadRequest: true })
  if (fetched.kind === 'found') return fetched.content
  throw new UpstreamError(`${url} does not exist`)
}

function withSince(url: string, since: string): string {
  const asked = new URL(url)
  asked.searchParams.set('since', since)
  return asked.href
}

/** Requests stale documents that were used recently. Stops at the first failure, because the others would fail too. */
async function refreshStale(context: CheckContext, upstream: Upstream, signal: AbortSignal): Promise<void> {
  for (const { packageName, isDev } of await listStaleInUse(context.db, upstream.id, batch)) {
    signal.throwIfAborted()
    const { outcome } = await checkDocument(context, { upstreamId: upstream.id, packageName, isDev })
    signal.throwIfAborted()
    if (outcome === 'failed') return
  }
}

/** Reads an upstream's malware list. */
async function readSummary({ db, client }: CheckContext, upstream: Upstream): Promise<void> {
  const { id, root } = upstream
  if (root === null) return
  if (root.filterSummaryUrl === null) {
    // The upstream may have had a list before.
    if (await hasSummaryFlags(db, id))
      await transaction(db, (tx) => saveSummaryFlags(tx, id, Buffer.from('[]')))
    return
  }
  const read = async (bytes: Buffer) => {
    const flags = await runTask({ owner: id }, 'parseMalwareList', bytes)
    if (flags !== null) await transaction(db, (tx) => saveSummaryFlags(tx, id, flags))
  }
  await client.for(upstream).fetchDocument(root.filterSummaryUrl, read, { milliseconds: summaryMilliseconds })
}
