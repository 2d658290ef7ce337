import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { type SingleFlight, singleFlight } from '../domain/single-flight.ts'
import { limitConcurrency } from '../domain/time-slices.ts'
import type { UpstreamClient, UpstreamRequests } from './client/fetch.ts'
import { ClosedClientError, UpstreamError } from './client/upstream-error.ts'
import {
  completeRoot,
  type InlinePackages,
  mayKnow,
  rootUrlOf,
  type UpstreamRoot,
} from './client/upstream-root.ts'
import { runTask, type TaskOwner } from './documents/run-task.ts'
import { saveRoot, saveRootFailure, type Upstream } from './tables/upstreams.ts'

/** The time after which packages.json of an upstream is read again. */
const rootMilliseconds = 10 * 60_000
/** The size of the inline packages that a process keeps, in bytes. */
const maxInlineBytes = 128 * 1024 * 1024
/** How many upstreams with inline packages a process reads at once. Each of them can have 64 MiB. */
const maxInlineReads = 4

/** The parts that reads of packages.json need. */
export interface RootContext {
  db: pg.Pool
  client: UpstreamClient
  freshSeconds: number
  /** The running reads of packages.json, by upstream. Concurrent checks share one. */
  roots: SingleFlight<Upstream>
  /** The packages in packages.json of upstreams and in its includes, by upstream. */
  inline: LRUCache<string, InlineUpstream>
  /** The running reads of these packages, by upstream. */
  inlineReads: SingleFlight<InlinePackages>
  /** Lets only some upstreams be read at once. */
  readInTurn: <T>(task: () => Promise<T>) => Promise<T>
}

/** The packages in packages.json of an upstream and in its includes. */
interface InlineUpstream {
  readAt: number
  lastModified: string | null
  packages: InlinePackages
}

/** Returns the context of reads. Nothing was read yet. */
export function rootContextOf(parts: Pick<RootContext, 'db' | 'client' | 'freshSeconds'>): RootContext {
  return {
    ...parts,
    roots: singleFlight(),
    inline: new LRUCache({
      maxSize: maxInlineBytes,
      sizeCalculation: ({ packages }) => sizeOfPackages(packages),
    }),
    inlineReads: singleFlight(),
    readInTurn: limitConcurrency(maxInlineReads),
  }
}

/** Returns the size of packages in bytes. Each part takes about 200 bytes more than its JSON. */
function sizeOfPackages(packages: InlinePackages): number {
  let size = 1
  for (const parts of packages.values())
    size += parts.reduce((sum, { byteLength }) => sum + byteLength + 200, 0)
  return size
}

/**
 * Returns the upstream with a fresh packages.json. With a package name, a list of names that does not contain it is read
 * again earlier.
 */
export async function freshRoot(
  context: RootContext,
  upstream: Upstream,
  packageName: string | null,
): Promise<Upstream> {
  const { root, rootCheckedAt } = upstream
  const age = Date.now() - (rootCheckedAt?.getTime() ?? 0)
  // A list of names may have grown since it was read.
  const isEnough =
    root !== null && (root.metadataUrl === null || packageName === null || mayKnow(root, packageName))
  const isFresh = age < (isEnough ? rootMilliseconds : context.freshSeconds * 1000)
  if (isFresh && root !== null && !isOfEarlierRelease(root)) return upstream
  try {
    return await context.roots.share(upstream.id, () => readRootAgain(context, upstream))
  } catch (error) {
    if (!(error instanceof UpstreamError) || error instanceof ClosedClientError) throw error
    await saveRootFailure(context.db, upstream.id, error.message)
    if (root === null || !isEnough) throw error
    return upstream
  }
}

/**
 * Returns whether an earlier release has read packages.json, which has not stored the names of inline packages, or
 * whether documents contain advisories.
 */
function isOfEarlierRelease({ inlineNames, hasAdvisoriesInDocuments }: UpstreamRoot): boolean {
  return inlineNames === undefined || hasAdvisoriesInDocuments === undefined
}

/** Reads packages.json of an upstream again. */
async function readRootAgain({ db, client, readInTurn }: RootContext, upstream: Upstream): Promise<Upstream> {
  const { id, url } = upstream
  const lastModified =
    upstream.root === null || isOfEarlierRelease(upstream.root) || upstream.root.vendors === undefined
      ? null
      : upstream.rootLastModified
  const read = await readInTurn(() => readRoot(client.for(upstream), { url, owner: id, lastModified }))
  if (read === 'unchanged') {
    await saveRoot(db, id, { root: null, lastModified: null })
    return upstream
  }
  await saveRoot(db, id, read)
  return { ...upstream, root: read.root, rootLastModified: read.lastModified, rootCheckedAt: new Date() }
}

/** The packages.json of an upstream, with its includes. */
export interface ReadRoot {
  root: UpstreamRoot
  packages: InlinePackages
  lastModified: string | null
}

/** Reads packages.json of an upstream and its includes. Throws `UpstreamError` when it cannot be used. */
export async function readRoot(
  requests: UpstreamRequests,
  { url, owner, lastModified = null }: TaskOwner & { url: string; lastModified?: string | null },
): Promise<ReadRoot | 'unchanged'> {
  const fetched = await requests.fetchDocument(
    rootUrlOf(url),
    (bytes) => runTask({ owner }, 'parseRoot', bytes, url),
    { lastModified },
  )
  if (fetched.kind === 'unchanged') return 'unchanged'
  if (fetched.kind === 'missing') throw new UpstreamError(`${rootUrlOf(url)} does not exist`)
  const completed = await completeRoot(fetched.content, (include) =>
    contentOf(requests, include, (bytes) => runTask({ owner }, 'parseInclude', bytes, include)),
  )
  return { ...completed, lastModified: fetched.lastModified }
}

/**
 * Returns the inline packages of an upstream. Reads packages.json and its includes again when necessary. Concurrent
 * checks share one read.
 */
export async function inlinePackages(context: RootContext, upstream: Upstream): Promise<InlinePackages> {
  const { inline, inlineReads, freshSeconds } = context
  const { id } = upstream
  const known = inline.get(id)
  if (known && Date.now() - known.readAt < freshSeconds * 1000) return known.packages
  return inlineReads.share(id, () => context.readInTurn(() => readInline(context, upstream, known)))
}

async function readInline(
  { client, inline }: RootContext,
  upstream: Upstream,
  known: InlineUpstream | undefined,
): Promise<InlinePackages> {
  const { id, url } = upstream
  const lastModified = known?.lastModified ?? null
  const read = await readRoot(client.for(upstream), { url, owner: id, lastModified })
  if (read === 'unchanged') {
    if (known) known.readAt = Date.now()
    return known?.packages ?? new Map()
  }
  const { packages } = read
  inline.set(id, { readAt: Date.now(), lastModified: read.lastModified, packages })
  return packages
}

/** Returns what `use` makes of a document. Throws `UpstreamError` when the document is missing. */
export async function contentOf<T>(
  client: UpstreamRequests,
  url: string,
  use: (bytes: Buffer) => Promise<T>,
): Promise<T> {
  const fetched = await client.fetchDocument(url, use)
  if (fetched.kind === 'found') return fetched.content
  throw new UpstreamError(`${url} does not exist`)
}
