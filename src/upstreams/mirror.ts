import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { isPackageName } from '../composer/package-name.ts'
import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { shareStatements } from '../database/shared-statements.ts'
import type { StoredDocument } from '../documents/stored-documents.ts'
import { formatTime } from '../domain/formats.ts'
import type { Log } from '../domain/log.ts'
import { background, type Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { singleFlight } from '../domain/single-flight.ts'
import { insertEvent } from '../events/events.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { ClosedClientError, UpstreamError } from './client/upstream-error.ts'
import { isInline, mayKnow, metadataUrlOf } from './client/upstream-root.ts'
import { requestPackage } from './configure.ts'
import { openEarlierUpstreams } from './contested-names.ts'
import type { PackedDocument } from './documents/packed-content.ts'
import { readInlineDocument, readPackageDocument } from './documents/run-task.ts'
import { freshRoot, inlinePackages, type RootContext, rootContextOf } from './fresh-root.ts'
import {
  type CheckedDocument,
  renderMirror,
  type SavedMirror,
  sizeOfDocument,
  storeDocuments,
} from './store-documents.ts'
import {
  type FoundMirror,
  listFoundMirrors,
  noteUse,
  setGone,
  type WantedMirror,
} from './tables/mirrored-documents.ts'
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
import { openUnknownNames } from './unknown-names.ts'

/** How long a first request waits for the check of another process. */
const patienceMilliseconds = 20_000
const pollMilliseconds = 50
/** How long a document is not requested again after a failure, unless the upstream asks for a longer pause. */
const restSeconds = 5
const maxRestSeconds = 300
/** The size of the lists of names, in bytes, of the upstreams that a process keeps. */
const maxUpstreamBytes = 16 * 1024 * 1024
/** The size of the documents that are stored in one transaction. A larger document is stored alone. */
const maxStoredBytes = 4 * 1024 * 1024

/** A document of a mirrored package for a response. */
export interface MirrorDocument {
  document: StoredDocument
  /** A warning that the upstream fails and the document is old. Null when the upstream works. */
  warning: string | null
  /** Whether the document has no versions, because all of them are too young. It has a warning then. */
  isAllHeldBack: boolean
}

/** A package that is not offered until an admin decides, with the reason. */
export interface HiddenDocument {
  /**
   * `contested` when an admin must decide which upstream serves it. The response is a document without versions. A "not
   * found" would send Composer to other repositories, which may have what is hidden here.
   * `unapproved` when an admin must approve it. It may come from elsewhere, so the response is "not found".
   */
  hidden: 'contested' | 'unapproved'
  warning: string
}

/** Serves the packages of upstreams (UPSTREAMS 1, 5–8). */
export interface Mirror {
  /**
   * Returns the document of a package that the repository itself does not have. Null when no upstream has the package,
   * or none may offer it. Throws errcode 14 with Retry-After when an upstream fails and no document is stored. A "not
   * found" would be wrong, because it would send Composer to other repositories. Throws errcode 8 when the author has
   * requested too many names that no upstream has. `found` is the state of the document, if the request has read it.
   */
  findDocument: (
    wanted: WantedMirror,
    by: Principal,
    found?: FoundMirror,
  ) => Promise<MirrorDocument | HiddenDocument | null>
  /** Checks the upstream of a package again, unless a check is running. */
  refresh: (upstreamId: string, packageName: string, isDev: boolean) => Promise<void>
  /** Resolves when no check runs in the background. Checks no longer wait for those of other processes. */
  close: () => Promise<void>
}

/** The parts that a mirror needs. */
export interface MirrorContext extends AppContext {
  client: UpstreamClient
  note?: CheckContext['note']
  /** Counts a document that was served. A `miss` had to wait for an upstream. */
  noteServed?: (result: 'hit' | 'miss') => void
}

/** Opens the mirror of a process. Requests for one document share one check, also between processes. */
export function openMirror(given: MirrorContext, log: Log): Mirror {
  const context = checkContextOf(given)
  const { noteServed = () => {} } = given
  const { db, freshSeconds } = context
  const { baseUrl } = given.config
  const checks = singleFlight<Checked>()
  const unknownNames = openUnknownNames()
  const searches = singleFlight<Checked>()
  let isClosing = false
  const earlierUpstreams = openEarlierUpstreams(context, log)
  const find = shareStatements((wanted: WantedMirror[]) =>
    listFoundMirrors(db, wanted, { baseUrl, freshSeconds }),
  )

  const findDocument: Mirror['findDocument'] = async (wanted, by, known) => {
    // Send no other names to upstreams.
    if (!isPackageName(wanted.packageName)) return null
    const found = await readState(wanted, known)
    if (found.verdict === 'unapproved') {
      await requestPackage(db, { ...wanted, by }, wanted.packageName)
      return unapproved(wanted, by)
    }
    if (found.verdict === 'contested') return contested(wanted)
    if (found.verdict !== 'upstream') return null
    if (found.document === null) return findFirst(found, wanted, by)
    if (!found.isFresh && !found.isResting) refreshLater(found, wanted)
    return served(found, wanted, 'hit')
  }

  /** Reads the state of a document. If it is due, it is rendered again first. */
  async function readState(wanted: WantedMirror, known?: FoundMirror): Promise<FoundMirror> {
    const found = known ?? (await find(wanted))
    const { packageId, isDue } = found
    if (!isDue || packageId === null || found.verdict !== 'upstream') return found
    await transaction(db, (tx) => renderMirror(tx, packageId, wanted.isDev, baseUrl))
    return find(wanted)
  }

  /** Waits until an upstream has responded, because no document is stored. */
  async function findFirst(
    found: FoundMirror,
    wanted: WantedMirror,
    by: Principal,
  ): Promise<MirrorDocument | null> {
    const { outcome, saved } = await askUpstreams(found, wanted, by)
    if (outcome === 'failed' || outcome === 'busy') throw unavailable()
    if (outcome === 'missing') return null
    // Another request or process may have stored the document.
    const stored =
      saved?.verdict === 'upstream' ? { ...found, ...saved, failure: null } : await readState(wanted)
    return stored.verdict === 'upstream' ? served(stored, wanted, 'miss') : null
  }

  /** Asks the upstream of a name, or searches for the first one that has it. Concurrent requests share a search. */
  async function askUpstreams(found: FoundMirror, wanted: WantedMirror, by: Principal): Promise<Checked> {
    const { upstreamIds, isBound } = found
    const { repositoryId, packageName, isDev } = wanted
    const [first] = upstreamIds
    if (isBound && first !== undefined) return ask(first, packageName, isDev)
    const key = `${upstreamIds.join(',')} ${packageName} ${isDev}`
    if (unknownNames.has(key)) return { outcome: 'missing' }
    return searches.share(key, () => {
      // Throws before the search starts, so only to its own author.
      const giveBack = unknownNames.take(repositoryId, by)
      return searchIn(upstreamIds, packageName, isDev).then((checked) => {
        if (checked.outcome === 'missing') unknownNames.add(key)
        if (checked.outcome === 'found') giveBack()
        return checked
      })
    })
  }

  /**
   * Tries the upstreams in order (UPSTREAMS 1, 7). A failing one ends the search, because the next upstream could have
   * another package of the same name.
   */
  async function searchIn(
    upstreamIds: readonly string[],
    packageName: string,
    isDev: boolean,
  ): Promise<Checked> {
    for (const id of upstreamIds) {
      const checked = await ask(id, packageName, isDev)
      if (checked.outcome !== 'missing' || id === upstreamIds.at(-1)) return checked
      // A package may have only development versions, or only others. In both cases this upstream has the name, and the
      // next one must not be asked.
      const other = await ask(id, packageName, !isDev)
      if (other.outcome === 'found') return { outcome: 'missing' }
      if (other.outcome !== 'missing') return other
    }
    return { outcome: 'missing' }
  }

  /** Checks one document of one upstream unless it is fresh, or waits for a running check. */
  function ask(upstreamId: string, packageName: string, isDev: boolean): Promise<Checked> {
    return checks.share(`${upstreamId} ${packageName} ${isDev}`, () =>
      checkInTurn(context, { upstreamId, packageName, isDev }, () => isClosing),
    )
  }

  /** Notes that a document was used, and returns it for the response. */
  async function served(
    found: FoundMirror,
    wanted: WantedMirror,
    result: 'hit' | 'miss',
  ): Promise<MirrorDocument | null> {
    const { document, isUnusedToday, packageId } = found
    if (document === null) return null
    noteServed(result)
    if (isUnusedToday && packageId !== null) await noteUse(db, packageId)
    return { document, warning: warningOf(found, wanted), isAllHeldBack: found.isAllHeldBack }
  }

  /** Checks the upstream of a package again, and asks the upstreams before it whether they have the package by now. */
  function refreshLater({ upstreamIds, packageId }: FoundMirror, { packageName, isDev }: WantedMirror): void {
    const [upstreamId] = upstreamIds
    if (upstreamId === undefined) return
    ask(upstreamId, packageName, isDev).catch((error: unknown) =>
      log.warn({ err: error }, 'a document of an upstream could not be checked'),
    )
    if (packageId !== null) earlierUpstreams.ask({ packageId, packageName })
  }

  return {
    findDocument,

    async refresh(upstreamId, packageName, isDev) {
      await ask(upstreamId, packageName, isDev)
    },

    async close() {
      isClosing = true
      await checks.settle()
      await earlierUpstreams.settle()
    },
  }
}

/**
 * The outcome of a check. `busy` means that another process is checking at this moment. `saved` is the document, if this
 * check has stored it.
 */
export type Checked =
  | { outcome: 'missing' | 'failed' | 'busy'; saved?: never }
  | { outcome: 'found'; saved?: SavedMirror }

/**
 * Checks a document, or waits for the running check of another process. `busy` means that `isClosing` has ended the wait.
 */
export async function checkInTurn(
  context: CheckContext,
  key: DocumentKey,
  isClosing = () => false,
): Promise<Checked> {
  for (const start = Date.now(); Date.now() - start < patienceMilliseconds; await sleep(pollMilliseconds)) {
    const checked = await checkDocument(context, key)
    // The check of a process that was killed counts as running for up to 45 s. A stop cannot wait for it.
    if (checked.outcome !== 'busy' || isClosing()) return checked
  }
  return { outcome: 'failed' }
}

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
    const about = { repositoryId, packageName }
    await insertEvent(tx, background, { ...about, action: 'upstream-gone', details: { upstream: name } })
  })
}

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

async function findUpstreams(db: pg.Pool, ids: readonly string[]): Promise<(Upstream | null)[]> {
  const found = await listUpstreamsById(db, [...new Set(ids)])
  return ids.map((wanted) => found.find(({ id }) => id === wanted) ?? null)
}

function warningOf({ failure, failedAt }: FoundMirror, { packageName }: WantedMirror): string | null {
  if (failure === null || failedAt === null) return null
  return `The upstream of ${packageName} has failed since ${formatTime(failedAt)} (${failure}). This is its last known metadata.`
}

function contested({ packageName }: WantedMirror): HiddenDocument {
  const warning = `${packageName} is not offered now, because two upstreams of this repository have it. An admin of the repository must decide which of them serves it, on the page of its upstreams.`
  return { hidden: 'contested', warning }
}

function unapproved({ packageName }: WantedMirror, { accountId }: Principal): HiddenDocument {
  const decision = 'An admin of the repository can approve it on the page of its upstreams.'
  const warning =
    accountId === null
      ? `${packageName} is not approved in this repository. ${decision} Members can ask for it there.`
      : `${packageName} waits for approval in this repository. ${decision}`
  return { hidden: 'unapproved', warning }
}

function unavailable(): Refusal {
  return new Refusal(errcode.unavailable, 'the upstream is unavailable', {
    warning: 'An upstream of this repository fails. Try again later.',
  })
}
