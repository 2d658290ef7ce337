import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { UpstreamClient, UpstreamRequests } from './client/fetch.ts'
import { ClosedClientError, UpstreamError } from './client/upstream-error.ts'
import {
  type InlinePackages,
  mayKnow,
  readRoot,
  rootUrlOf,
  type UpstreamRoot,
} from './client/upstream-root.ts'
import { saveRoot, saveRootFailure, type Upstream } from './tables/upstreams.ts'

/** The time after which packages.json of an upstream is read again. */
const rootMilliseconds = 10 * 60_000
/** The size of the texts whose inline packages a process keeps. */
const maxInlineCharacters = 256 * 1024 * 1024

/** The parts that reads of packages.json need. */
export interface RootContext {
  db: pg.Pool
  client: UpstreamClient
  freshSeconds: number
  /** The running reads of packages.json, by upstream. Concurrent checks share one. */
  roots: Map<string, Promise<Upstream>>
  /** The packages in packages.json of upstreams and in its includes, by upstream. */
  inline: LRUCache<string, InlineUpstream>
  /** The running reads of these packages, by upstream. */
  inlineReads: Map<string, Promise<InlinePackages>>
}

/** The packages in packages.json of an upstream and in its includes. */
interface InlineUpstream {
  readAt: number
  lastModified: string | null
  packages: InlinePackages
  characters: number
}

/** Returns the context of reads. Nothing was read yet. */
export function rootContextOf(parts: Pick<RootContext, 'db' | 'client' | 'freshSeconds'>): RootContext {
  return {
    ...parts,
    roots: new Map(),
    inline: new LRUCache({
      maxSize: maxInlineCharacters,
      sizeCalculation: ({ characters }) => characters + 1,
    }),
    inlineReads: new Map(),
  }
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
    const running = context.roots.get(upstream.id)
    const refreshing =
      running ?? refreshRoot(context, upstream).finally(() => context.roots.delete(upstream.id))
    context.roots.set(upstream.id, refreshing)
    return await refreshing
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
async function refreshRoot({ db, client }: RootContext, upstream: Upstream): Promise<Upstream> {
  const requests = client.for(upstream)
  const fetched = await requests.fetchDocument(rootUrlOf(upstream.url), {
    lastModified:
      upstream.root === null || isOfEarlierRelease(upstream.root) || upstream.root.vendors === undefined
        ? null
        : upstream.rootLastModified,
  })
  if (fetched.kind === 'missing') throw new UpstreamError(`${rootUrlOf(upstream.url)} does not exist`)
  if (fetched.kind === 'unchanged') {
    await saveRoot(db, upstream.id, { root: null, lastModified: null })
    return upstream
  }
  const { root } = await readRoot(upstream.url, fetched.text, (url) => textOf(requests, url))
  await saveRoot(db, upstream.id, { root, lastModified: fetched.lastModified })
  return { ...upstream, root, rootLastModified: fetched.lastModified, rootCheckedAt: new Date() }
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
  const reading =
    inlineReads.get(id) ?? readInline(context, upstream, known).finally(() => inlineReads.delete(id))
  inlineReads.set(id, reading)
  return reading
}

async function readInline(
  { client, inline }: RootContext,
  upstream: Upstream,
  known: InlineUpstream | undefined,
): Promise<InlinePackages> {
  const { id, url } = upstream
  const requests = client.for(upstream)
  const fetched = await requests.fetchDocument(rootUrlOf(url), { lastModified: known?.lastModified ?? null })
  if (fetched.kind === 'missing') throw new UpstreamError(`${rootUrlOf(url)} does not exist`)
  if (fetched.kind === 'unchanged') {
    if (known) known.readAt = Date.now()
    return known?.packages ?? new Map()
  }
  const read = await readRoot(url, fetched.text, (include) => textOf(requests, include))
  const { packages, characters } = read
  inline.set(id, { readAt: Date.now(), lastModified: fetched.lastModified, packages, characters })
  return packages
}

/** Returns the text of a document. Throws `UpstreamError` when it is missing. */
export async function textOf(client: UpstreamRequests, url: string): Promise<string> {
  const fetched = await client.fetchDocument(url)
  if (fetched.kind === 'found') return fetched.text
  throw new UpstreamError(`${url} does not exist`)
}
