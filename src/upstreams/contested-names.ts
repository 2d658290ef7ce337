import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { transaction } from '../database/database.ts'
import { keepUpTo } from '../domain/growing-cache.ts'
import type { Log } from '../domain/log.ts'
import { background } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { sharePathLock } from '../groups/path-locks.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { isInline, mayKnow, metadataUrlOf } from './client/upstream-root.ts'
import type { UpstreamChange } from './configure.ts'
import { runTask } from './documents/run-task.ts'
import { freshRoot, inlinePackages, type RootContext } from './fresh-root.ts'
import {
  type AskedPackage,
  type ContestedPackage,
  findContestedPackage,
  insertContest,
  listEarlierUpstreams,
  listPackagesToAsk,
  saveAskedUntil,
  settleContests,
} from './tables/contested-names.ts'
import { bindPackages } from './tables/mirrored-packages.ts'
import { unbindName } from './tables/removed-upstreams.ts'
import { lockMirror } from './tables/rendered-mirrors.ts'
import { missingSeconds } from './tables/upstream-documents.ts'
import { listUpstreamsById, lockUpstreamsById, type Upstream } from './tables/upstreams.ts'

/** How many packages a process remembers about which it has asked. */
const maxRemembered = 20_000
/** How many packages one run of a job asks about, and how many it reads at once. */
const askedInRun = 200
const readAtOnce = 1000

/** The parts that requests about names need. */
interface AskContext extends RootContext {
  /** Counts a request by its upstream and outcome. */
  note: (upstream: Upstream, outcome: 'found' | 'missing' | 'failed') => void
}

/** Asks upstreams whether they have a name by now that an upstream after them serves. */
export interface EarlierUpstreams {
  /** Asks in the background about a package, unless it was asked about within ten minutes. */
  ask: (asked: AskedPackage) => void
  /** Resolves when no request runs. */
  settle: () => Promise<void>
}

/** Opens the requests of a process to earlier upstreams. */
export function openEarlierUpstreams(context: AskContext, log: Log): EarlierUpstreams {
  const remembered = new LRUCache<string, true>({
    ...keepUpTo(maxRemembered),
    ttl: missingSeconds * 1000,
  })
  const running = new Set<Promise<void>>()

  async function askAll(asked: AskedPackage): Promise<void> {
    const ids = await listEarlierUpstreams(context.db, asked.packageId)
    for (const upstream of await listUpstreamsById(context.db, ids)) {
      // One of them that fails changes nothing, and does not speak for the others.
      if ((await askUpstream(context, upstream, asked)) === 'found') return
    }
  }

  return {
    ask(asked) {
      if (remembered.has(asked.packageId)) return
      remembered.set(asked.packageId, true)
      const asking = askAll(asked)
        .catch((error: unknown) => log.warn({ err: error }, 'earlier upstreams could not be asked'))
        .finally(() => running.delete(asking))
      running.add(asking)
    },

    async settle() {
      while (running.size > 0) await Promise.allSettled(running)
    },
  }
}

/**
 * Asks an upstream about packages that upstreams after it serve. It stops after 200 packages, and the next run continues.
 * It also stops at the first failure, because the other requests would probably fail too.
 */
export async function askAboutNames(
  context: AskContext,
  given: Upstream,
  signal: AbortSignal,
): Promise<void> {
  const { db } = context
  const upstream = await freshRoot(context, given, null)
  let asked = 0
  for (;;) {
    const packages = await listPackagesToAsk(db, upstream.id, readAtOnce)
    for (const one of packages) {
      signal.throwIfAborted()
      // A list of names in packages.json is enough for a "no".
      if (upstream.root !== null && !mayKnow(upstream.root, one.packageName)) continue
      asked += 1
      const isFailed = (await askUpstream(context, upstream, one)) === 'failed'
      // The next run continues after a name that fails each time.
      if (isFailed || asked === askedInRun) return saveAskedUntil(db, upstream.id, one.packageName)
    }
    const isEnd = packages.length < readAtOnce
    await saveAskedUntil(db, upstream.id, isEnd ? '' : (packages.at(-1)?.packageName ?? ''))
    if (isEnd) return
  }
}

/** Asks an upstream about one package. Raises the alarm when the upstream has it. */
async function askUpstream(
  context: AskContext,
  upstream: Upstream,
  { packageId, packageName }: AskedPackage,
): Promise<'found' | 'missing' | 'failed'> {
  try {
    const isThere = await hasPackage(context, upstream, packageName)
    context.note(upstream, isThere ? 'found' : 'missing')
    if (!isThere) return 'missing'
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    context.note(upstream, 'failed')
    return 'failed'
  }
  await transaction(context.db, async (tx) => {
    await lockMirror(tx, packageId)
    const contest = await insertContest(tx, packageId, upstream.id)
    if (contest === null) return
    const { repositoryId, upstreamName, earlierName } = contest
    const about = { repositoryId, packageName }
    const details = { upstream: upstreamName, also_at: earlierName }
    await insertEvent(tx, background, { ...about, action: 'contest-package', details })
  })
  return 'found'
}

/** Returns whether an upstream has a package. Stores nothing of it. Throws `UpstreamError` when the upstream fails. */
async function hasPackage(context: RootContext, given: Upstream, packageName: string): Promise<boolean> {
  const upstream = await freshRoot(context, given, packageName)
  const { root, id: owner } = upstream
  if (root === null) throw new UpstreamError(`packages.json of ${upstream.name} was never read`)
  if (!mayKnow(root, packageName)) return false
  if (isInline(root, packageName) && (await inlinePackages(context, upstream)).has(packageName)) return true
  if (root.metadataUrl === null) return false
  for (const isDev of [false, true]) {
    const fetched = await context.client
      .for(upstream)
      .fetchDocument(metadataUrlOf(root.metadataUrl, packageName, isDev), (bytes) =>
        runTask({ owner }, 'hasPackage', bytes, packageName),
      )
    if (fetched.kind === 'found' && fetched.content) return true
  }
  return false
}

/**
 * Decides which upstream serves a name that several upstreams have (UPSTREAMS 16): the one that served it before, or
 * one of those before it. The name is bound to that one. Archives of the former upstream that are stored stay for lock
 * files. Throws errcode 5 when no upstream serves the package, 9 when nothing is to decide, and 3 when the upstream is
 * none of them.
 */
export async function decideContest(
  pool: pg.Pool,
  { repositoryId, by }: UpstreamChange,
  { packageName, upstreamName }: { packageName: string; upstreamName: string },
): Promise<void> {
  await transaction(pool, async (tx) => {
    await tx.query(sharePathLock('id = $1'), [repositoryId])
    const before = await theContest(tx, repositoryId, packageName)
    // No document of them is stored until the transaction ends. Their rows come before that of the package.
    await lockUpstreamsById(
      tx,
      [before.upstream, ...before.earlier].map(({ id }) => id),
    )
    const { id, upstream, earlier } = await theContest(tx, repositoryId, packageName)
    const chosen = [upstream, ...earlier].find(({ name }) => name === upstreamName)
    if (!chosen) {
      const names = [upstream, ...earlier].map(({ name }) => name).join(', ')
      throw new Refusal(errcode.invalidArgument, `choose one of the upstreams that have it: ${names}`)
    }
    if (chosen.id === upstream.id) {
      await settleContests(
        tx,
        id,
        earlier.map((one) => one.id),
      )
    } else {
      await unbindName(tx, repositoryId, id)
      await bindPackages(tx, [{ upstream: { id: chosen.id, repositoryId }, packageName }])
    }
    const others = [upstream, ...earlier].filter((one) => one.id !== chosen.id).map(({ name }) => name)
    const details = { upstream: chosen.name, not_from: others }
    await insertEvent(tx, by, { repositoryId, packageName, action: 'decide-package', details })
  })
}

async function theContest(
  tx: pg.PoolClient,
  repositoryId: string,
  packageName: string,
): Promise<ContestedPackage> {
  const found = await findContestedPackage(tx, repositoryId, packageName)
  if (!found) throw new Refusal(errcode.notFound, `no upstream serves ${packageName}`)
  if (found.earlier.length > 0) return found
  throw new Refusal(
    errcode.failedPrecondition,
    `there is nothing to decide about ${packageName}: no other upstream before ${found.upstream.name} has it`,
  )
}
