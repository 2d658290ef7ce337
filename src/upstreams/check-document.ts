import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { shareStatements } from '../database/shared-statements.ts'
import { background } from '../domain/principal.ts'
import { insertEvent } from '../events/events.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { ClosedClientError, UpstreamError } from './client/upstream-error.ts'
import { isInline, mayKnow, metadataUrlOf } from './client/upstream-root.ts'
import type { PackedDocument } from './documents/packed-content.ts'
import { readInlineDocument, readPackageDocument } from './documents/run-task.ts'
import { freshRoot, inlinePackages, type RootContext, rootContextOf } from './fresh-root.ts'
import { type CheckedDocument, type SavedMirror, sizeOfDocument, storeDocuments } from './store-documents.ts'
import { setGone } from './tables/mirrored-documents.ts'
import { findBoundPackage } from './tables/mirrored-packages.ts'
import {
  type CheckTurn,
  type DocumentKey,
  forgetUnbound,
  giveBackTurn,
  saveFailure,
  saveNoContent,
  takeCheckTurns,
} from './tables/upstream-documents.ts'
import { listUpstreamsById, type Upstream } from './tables/upstreams.ts'

/** How long an upstream gets no request after a failure, unless it asks for a longer pause. */
const restSeconds = 5
const maxRestSeconds = 300
/** The size of the lists of names, in bytes, of the upstreams that a process keeps. */
const maxUpstreamBytes = 16 * 1024 * 1024
/** The size of the documents that are stored in one transaction. A larger document is stored alone. */
const maxStoredBytes = 4 * 1024 * 1024

/** The parts that requests to upstreams need. Concurrent checks share their statements and commits. */
export interface CheckContext extends RootContext {
  takeTurn: (key: DocumentKey) => Promise<CheckTurn>
  findUpstream: (id: string) => Promise<Upstream | null>
  /** The last read states of upstreams, by their ids. */
  upstreams: LRUCache<string, KnownUpstream>
  store: (document: CheckedDocument) => Promise<SavedMirror | null>
  /** Counts a request by its upstream and outcome. */
  note: (upstream: Upstream, outcome: 'found' | 'unchanged' | 'missing' | 'failed') => void
}

/** The state of an upstream. It is current while its row has this version. */
interface KnownUpstream {
  version: string
  upstream: Upstream
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
    ...rootContextOf({ db, client, freshSeconds }),
    takeTurn: shareStatements((keys: DocumentKey[]) => takeCheckTurns(db, keys, freshSeconds)),
    findUpstream: shareStatements((ids: string[]) => findUpstreams(db, ids)),
    upstreams: new LRUCache({
      maxSize: maxUpstreamBytes,
      sizeCalculation: ({ upstream }) => sizeOf(upstream),
    }),
    store: shareStatements((documents: CheckedDocument[]) => storeDocuments(db, config.baseUrl, documents), {
      maxStatements: 1,
      maxSize: maxStoredBytes,
      sizeOf: sizeOfDocument,
    }),
    note,
  }
}

/** Returns how many bytes an upstream's lists of names take: 24 beside each text, and 1,000 for everything else. */
function sizeOf({ root }: Upstream): number {
  const lists = root ? [root.names, root.patterns, root.inlineNames, root.vendors] : []
  const sizes = lists.map((list) => (list ?? []).reduce((sum, name) => sum + Buffer.byteLength(name) + 24, 0))
  return sizes.reduce((sum, size) => sum + size, 1000)
}

/**
 * The outcome of a check. `busy` means that another process is checking at this moment. `saved` is the document, if this
 * check has stored it.
 */
export type Checked =
  | { outcome: 'missing' | 'failed' | 'busy'; saved?: never }
  | { outcome: 'found'; saved?: SavedMirror }

/**
 * Requests a document from an upstream, unless its last response or failure is recent. Stores the content, the
 * archives, and the document that is served. If the upstream has the package and no upstream has served that name
 * before, the name is bound to this upstream.
 */
export async function checkDocument(context: CheckContext, key: DocumentKey): Promise<Checked> {
  const { db, note } = context
  const { packageName, isDev } = key
  const turn = await context.takeTurn(key)
  const { hasTurn, isRemoved, isFound, isChecking, isResting, lastModified } = turn
  if (isRemoved) return { outcome: 'missing' }
  if (!hasTurn) {
    if (isChecking || (isFound === null && !isResting)) return { outcome: 'busy' }
    if (isResting) return { outcome: 'failed' }
    return { outcome: isFound ? 'found' : 'missing' }
  }
  const upstream = await readUpstream(context, key.upstreamId, turn.upstreamVersion)
  if (!upstream) return { outcome: 'missing' }
  try {
    const result = await fetchContent(context, upstream, { packageName, isDev, lastModified })
    note(upstream, result.kind)
    if (result.kind === 'found')
      return result.saved ? { outcome: 'found', saved: result.saved } : { outcome: 'missing' }
    if (result.kind === 'missing' && (await forgetUnbound(db, key))) return { outcome: 'missing' }
    await saveNoContent(db, key, result.kind)
    if (!isDev) await noteGone(context, upstream, packageName, result.kind === 'missing')
    return { outcome: result.kind === 'missing' ? 'missing' : 'found' }
  } catch (error) {
    if (error instanceof ClosedClientError) {
      await giveBackTurn(db, key)
      return { outcome: 'failed' }
    }
    const failure = error instanceof UpstreamError ? error.message : 'the response could not be stored'
    const wanted = error instanceof UpstreamError ? (error.retryAfter ?? restSeconds) : restSeconds
    note(upstream, 'failed')
    await saveFailure(db, key, {
      failure,
      restSeconds: Math.min(Math.max(wanted, restSeconds), maxRestSeconds),
    })
    if (!(error instanceof UpstreamError)) throw error
    return { outcome: 'failed' }
  }
}

/** Returns an upstream, without a statement if its row was not changed since the last one. Null when it is missing. */
async function readUpstream(
  { upstreams, findUpstream }: CheckContext,
  id: string,
  version: string,
): Promise<Upstream | null> {
  const known = upstreams.get(id)
  if (known?.version === version) return known.upstream
  const upstream = await findUpstream(id)
  // The row may have changed since its version was read. Then this version never comes again.
  if (upstream) upstreams.set(id, { version, upstream })
  return upstream
}

/** `saved` is null when the name was bound to another upstream meanwhile. */
type FetchResult = { kind: 'found'; saved: SavedMirror | null } | { kind: 'unchanged' } | { kind: 'missing' }

/** Requests a document, and stores it. */
async function fetchContent(
  context: CheckContext,
  given: Upstream,
  { packageName, isDev, lastModified }: { packageName: string; isDev: boolean; lastModified: string | null },
): Promise<FetchResult> {
  const upstream = await freshRoot(context, given, packageName)
  const { root, id: owner } = upstream
  if (root === null) throw new UpstreamError(`packages.json of ${upstream.name} was never read`)

  /** Undefined when the document does not contain the package. */
  const store = async (read: PackedDocument | null, about: { lastModified: string | null }) =>
    read === null ? undefined : context.store({ ...read, ...about, upstream, packageName, isDev })

  if (!mayKnow(root, packageName)) return { kind: 'missing' }
  if (isInline(root, packageName)) {
    const versions = (await inlinePackages(context, upstream)).get(packageName)
    if (versions !== undefined) {
      const part = isDev ? 'dev' : 'main'
      const read = await readInlineDocument({ owner }, versions, packageName, part)
      return stored(await store(read, { lastModified: null }))
    }
  }
  if (root.metadataUrl === null) return { kind: 'missing' }
  const url = metadataUrlOf(root.metadataUrl, packageName, isDev)
  const fetched = await context.client.for(upstream).fetchDocument(
    url,
    // The document is stored before its bytes leave the memory, so that no queue of large documents grows.
    async (bytes, about) => store(await readPackageDocument({ owner }, bytes, packageName), about),
    { lastModified },
  )
  return fetched.kind === 'found' ? stored(fetched.content) : fetched
}

function stored(saved: SavedMirror | null | undefined): FetchResult {
  return saved === undefined ? { kind: 'missing' } : { kind: 'found', saved }
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
    await insertEvent(tx, background, { ...about, action: 'upstream-gone', details: { upstream: name } })
  })
}
