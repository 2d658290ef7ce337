import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { AppContext } from '../../context.ts'
import { transaction } from '../../database/database.ts'
import { shareStatements } from '../../database/shared-statements.ts'
import { commandLine, insertEvent } from '../tables/events.ts'
import type { UpstreamClient, UpstreamRequests } from './client/fetch.ts'
import { ClosedClientError, UpstreamError } from './client/upstream-error.ts'
import {
  type InlinePackages,
  isInline,
  mayKnow,
  metadataUrlOf,
  parseObject,
  readRoot,
  rootUrlOf,
  type UpstreamRoot,
} from './client/upstream-root.ts'
import { judgeDocument, type UpstreamContent } from './documents/judge-document.ts'
import { type CheckedDocument, packContent, storeDocuments } from './store-documents.ts'
import { setGone } from './tables/mirrored-documents.ts'
import { findBoundPackage } from './tables/mirrored-packages.ts'
import {
  type CheckTurn,
  type DocumentKey,
  giveBackTurn,
  saveFailure,
  saveNoContent,
  takeCheckTurns,
} from './tables/upstream-documents.ts'
import { listUpstreamsById, saveRoot, saveRootFailure, type Upstream } from './tables/upstreams.ts'

/** How long an upstream gets no request after a failure, unless it asks for a longer pause. */
const restSeconds = 5
const maxRestSeconds = 300
/** The time after which packages.json of an upstream is read again. */
const rootMilliseconds = 10 * 60_000
/** The size of the texts whose inline packages a process keeps. */
const maxInlineCharacters = 256 * 1024 * 1024

/** The parts that requests to upstreams need. Concurrent checks share their statements and commits. */
export interface CheckContext {
  db: pg.Pool
  client: UpstreamClient
  freshSeconds: number
  takeTurn: (key: DocumentKey) => Promise<CheckTurn>
  findUpstream: (id: string) => Promise<Upstream | null>
  store: (document: CheckedDocument) => Promise<boolean>
  /** The running reads of packages.json, by upstream. Concurrent checks share one. */
  roots: Map<string, Promise<Upstream>>
  /** The packages in packages.json of upstreams and in its includes, by upstream. */
  inline: LRUCache<string, InlineUpstream>
  /** The running reads of these packages, by upstream. */
  inlineReads: Map<string, Promise<InlinePackages>>
  /** Counts a request by its upstream and outcome. */
  note: (upstream: Upstream, outcome: 'found' | 'unchanged' | 'missing' | 'failed') => void
}

/** The packages in packages.json of an upstream and in its includes. */
interface InlineUpstream {
  readAt: number
  lastModified: string | null
  packages: InlinePackages
  characters: number
}

/** The parts that a mirror needs. */
export interface MirrorContext extends AppContext {
  client: UpstreamClient
  note?: CheckContext['note']
  /** Counts a document that was served. A `miss` had to wait for an upstream. */
  noteServed?: (result: 'hit' | 'miss') => void
}

/** Returns the context of checks for this configuration. */
export function checkContextOf({ config, db, client, note = () => {} }: MirrorContext): CheckContext {
  const { freshSeconds } = config.upstreams
  return {
    db,
    client,
    freshSeconds,
    takeTurn: shareStatements((keys: DocumentKey[]) => takeCheckTurns(db, keys, freshSeconds)),
    findUpstream: shareStatements((ids: string[]) => findUpstreams(db, ids)),
    store: shareStatements((documents: CheckedDocument[]) => storeDocuments(db, config.baseUrl, documents), {
      maxStatements: 1,
    }),
    roots: new Map(),
    inline: new LRUCache({
      maxSize: maxInlineCharacters,
      sizeCalculation: ({ characters }) => characters + 1,
    }),
    inlineReads: new Map(),
    note,
  }
}

/** The outcome of a check. `busy` means that another process is checking at this moment. */
export type Checked = 'found' | 'missing' | 'failed' | 'busy'

/**
 * Requests a document from an upstream, unless its last response or failure is recent. Stores the content, the
 * archives, and the document that is served. If the upstream has the package and no upstream has served that name
 * before, the name is bound to this upstream.
 */
export async function checkDocument(context: CheckContext, key: DocumentKey): Promise<Checked> {
  const { db, note } = context
  const { packageName, isDev } = key
  const { hasTurn, isRemoved, isFound, isChecking, isResting, lastModified } = await context.takeTurn(key)
  if (isRemoved) return 'missing'
  if (!hasTurn) {
    if (isChecking || (isFound === null && !isResting)) return 'busy'
    return isResting ? 'failed' : isFound ? 'found' : 'missing'
  }
  const upstream = await context.findUpstream(key.upstreamId)
  if (!upstream) return 'missing'
  try {
    const result = await fetchContent(context, upstream, { packageName, isDev, lastModified })
    note(upstream, result.kind)
    if (result.kind === 'found') {
      const packed = await packContent(result.content)
      return (await context.store({ ...result, upstream, packageName, isDev, packed })) ? 'found' : 'missing'
    }
    await saveNoContent(db, key, result.kind)
    if (!isDev) await noteGone(context, upstream, packageName, result.kind === 'missing')
    return result.kind === 'missing' ? 'missing' : 'found'
  } catch (error) {
    if (error instanceof ClosedClientError) {
      await giveBackTurn(db, key)
      return 'failed'
    }
    const failure = error instanceof UpstreamError ? error.message : 'the response could not be stored'
    const wanted = error instanceof UpstreamError ? (error.retryAfter ?? restSeconds) : restSeconds
    note(upstream, 'failed')
    await saveFailure(db, key, {
      failure,
      restSeconds: Math.min(Math.max(wanted, restSeconds), maxRestSeconds),
    })
    if (!(error instanceof UpstreamError)) throw error
    return 'failed'
  }
}

type FetchResult =
  | { kind: 'found'; content: UpstreamContent; dropped: string[]; lastModified: string | null }
  | { kind: 'unchanged' }
  | { kind: 'missing' }

async function fetchContent(
  context: CheckContext,
  given: Upstream,
  { packageName, isDev, lastModified }: { packageName: string; isDev: boolean; lastModified: string | null },
): Promise<FetchResult> {
  const upstream = await freshRoot(context, given, packageName)
  const { root } = upstream
  if (root === null) throw new UpstreamError(`packages.json of ${upstream.name} was never read`)
  if (!mayKnow(root, packageName)) return { kind: 'missing' }
  if (isInline(root, packageName)) {
    const versions = (await inlinePackages(context, upstream)).get(packageName)
    const document = { packages: { [packageName]: versions } } as Parameters<typeof judgeDocument>[0]
    if (versions !== undefined)
      return judged(judgeDocument(document, packageName, isDev ? 'dev' : 'main'), null)
  }
  if (root.metadataUrl === null) return { kind: 'missing' }
  const url = metadataUrlOf(root.metadataUrl, packageName, isDev)
  const fetched = await context.client.for(upstream).fetchDocument(url, { lastModified })
  if (fetched.kind !== 'found') return fetched
  const document = parseObject(fetched.text, `the metadata of ${packageName}`)
  return judged(judgeDocument(document, packageName), fetched.lastModified)
}

function judged(read: ReturnType<typeof judgeDocument>, lastModified: string | null): FetchResult {
  return read === null ? { kind: 'missing' } : { kind: 'found', ...read, lastModified }
}

/**
 * Returns the upstream with a fresh packages.json. With a package name, a list of names that does not contain it is read
 * again earlier.
 */
export async function freshRoot(
  context: CheckContext,
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
 * Returns whether an earlier release has read packages.json, which has ignored inline packages beside metadata-url, or
 * whether documents contain advisories.
 */
function isOfEarlierRelease({ metadataUrl, inlineNames, hasAdvisoriesInDocuments }: UpstreamRoot): boolean {
  return metadataUrl !== null && (inlineNames === undefined || hasAdvisoriesInDocuments === undefined)
}

/** Reads packages.json of an upstream again. */
async function refreshRoot({ db, client }: CheckContext, upstream: Upstream): Promise<Upstream> {
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
async function inlinePackages(context: CheckContext, upstream: Upstream): Promise<InlinePackages> {
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
  { client, inline }: CheckContext,
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

async function findUpstreams(db: pg.Pool, ids: readonly string[]): Promise<(Upstream | null)[]> {
  const found = await listUpstreamsById(db, [...new Set(ids)])
  return ids.map((wanted) => found.find(({ id }) => id === wanted) ?? null)
}

/** Stores that an upstream no longer serves a package, or serves it again. */
async function noteGone(
  { db }: CheckContext,
  { id: upstreamId, repositoryId, name }: Upstream,
  packageName: string,
  isGone: boolean,
): Promise<void> {
  await transaction(db, async (tx) => {
    const packageId = await findBoundPackage(tx, upstreamId, packageName)
    if (packageId === null || !(await setGone(tx, [packageId], isGone)) || !isGone) return
    const about = { repositoryId, packageName, version: null }
    await insertEvent(tx, commandLine, { ...about, action: 'upstream-gone', details: { upstream: name } })
  })
}
