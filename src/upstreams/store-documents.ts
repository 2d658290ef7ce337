import type pg from 'pg'
import { together, transaction } from '../database/database.ts'
import { type Rendering, type StoredDocument, saveDocuments } from '../documents/stored-documents.ts'
import { background } from '../domain/principal.ts'
import { limitConcurrency, makePause } from '../domain/time-slices.ts'
import { insertEvents, type NewEvent } from '../events/events.ts'
import { registryUrl } from '../groups/repositories.ts'
import { keepShasums } from './archive-alarms.ts'
import type { ContentSummary, PackedDocument } from './documents/packed-content.ts'
import { renderPacked, summarizePacked } from './documents/run-task.ts'
import { setGone } from './tables/mirrored-documents.ts'
import {
  type BoundPackage,
  bindPackages,
  listOwnNames,
  type OriginVerdict,
} from './tables/mirrored-packages.ts'
import {
  findMirrorContent,
  listFirstSeen,
  listMirrorRules,
  lockMirror,
  type MirrorRules,
  noteArchives,
  saveDescriptions,
} from './tables/rendered-mirrors.ts'
import { saveContents } from './tables/upstream-documents.ts'
import type { Upstream } from './tables/upstreams.ts'

/** A document that an upstream has just served. */
export interface CheckedDocument extends PackedDocument {
  upstream: Upstream
  packageName: string
  isDev: boolean
  lastModified: string | null
}

/** Returns the size of a document in bytes. */
export function sizeOfDocument({ size }: CheckedDocument): number {
  return size
}

/**
 * Stores and renders documents in one transaction, so that concurrent checks share its statements and its commit. What
 * does not need the result of another statement is sent together.
 * Returns the rendered documents, in their order. Null when a racing request has bound the name to another upstream, or
 * has removed the upstream.
 */
export async function storeDocuments(
  db: pg.Pool,
  baseUrl: string,
  documents: readonly CheckedDocument[],
): Promise<(SavedMirror | null)[]> {
  return transaction(db, async (tx) => {
    const bindings = await bindPackages(tx, documents)
    const active = documents.flatMap((document, i) => {
      const bound = bindings[i]
      return bound ? [{ document, bound, isOurs: bound.upstreamId === document.upstream.id }] : []
    })
    const ours = active.filter(({ isOurs }) => isOurs)
    const sources = ours.map(({ document: { isDev, packed, summary }, bound: { id } }) => ({
      packageId: id,
      isDev,
      packed,
      summary,
    }))
    const mainIds = sources.filter(({ isDev }) => !isDev).map(({ packageId }) => packageId)
    const [, , saved] = await together([
      saveActive(tx, active),
      setGone(tx, mainIds, false),
      // After `setGone`, because the rules say whether a package is gone.
      renderAll(tx, sources, baseUrl),
    ])
    const savedOf = new Map(ours.map(({ document }, i) => [document, saved[i]]))
    return documents.map((document) => savedOf.get(document) ?? null)
  })
}

/** A document of an upstream that was not removed. */
interface ActiveDocument {
  document: CheckedDocument
  bound: BoundPackage
  /** Whether the name is bound to the upstream of the document. */
  isOurs: boolean
}

/** Stores the contents of documents, and events for new packages and for versions that are newly left out. */
async function saveActive(tx: pg.PoolClient, active: readonly ActiveDocument[]): Promise<void> {
  const before = await saveContents(
    tx,
    active.map(({ document }) => ({
      ...document,
      upstreamId: document.upstream.id,
      replaces: [...new Set(document.summary.replaced.map(vendorOf))],
    })),
  )
  const announced = new Set<string>()
  const events: NewEvent[] = []
  for (const [i, { document, bound, isOurs }] of active.entries()) {
    const { upstream, packageName, dropped } = document
    const { id: packageId, isNew } = bound
    if (!isOurs) continue
    const about = { repositoryId: upstream.repositoryId, packageName }
    if (isNew && !announced.has(packageId)) {
      announced.add(packageId)
      const details = { upstream: upstream.name }
      events.push({ ...about, action: 'mirror-package', details })
    }
    const { droppedBefore } = before[i] as (typeof before)[number]
    if (dropped.some((reason) => !droppedBefore.includes(reason))) {
      const details = { upstream: upstream.name, versions: dropped.slice(0, 50), count: dropped.length }
      events.push({ ...about, action: 'drop-versions', details })
    }
  }
  await insertEvents(tx, background, events)
}

/** Renders a document from the stored content of its upstream. Returns false when there is no content. */
export async function renderMirror(
  tx: pg.PoolClient,
  packageId: string,
  isDev: boolean,
  baseUrl: string,
): Promise<boolean> {
  await lockMirror(tx, packageId)
  const packed = await findMirrorContent(tx, packageId, isDev)
  if (packed === null) return false
  const owner = { owner: packageId, isUrgent: true }
  const summary = await summarizePacked(owner, packed)
  await renderAll(tx, [{ packageId, isDev, packed, summary }], baseUrl)
  return true
}

/** A document to render. The transaction has locked the row of its package. */
interface MirrorSource {
  packageId: string
  isDev: boolean
  packed: Uint8Array
  summary: ContentSummary
}

/** A stored document of an upstream. */
export interface SavedMirror {
  /** Whether it may be served. */
  verdict: OriginVerdict
  /** Whether it has no versions, because all of them are too young. */
  isAllHeldBack: boolean
  document: StoredDocument
}

/** Renders documents, stores them, and returns them in their order. */
async function renderAll(
  tx: pg.PoolClient,
  sources: readonly MirrorSource[],
  baseUrl: string,
): Promise<SavedMirror[]> {
  const listed = sources.map(({ packageId, summary }) => ({ packageId, ...summary }))
  const [rules, fixed] = await together([
    listMirrorRules(tx, sources),
    noteArchives(tx, listed),
    saveDescriptions(
      tx,
      sources.filter(({ isDev }) => !isDev).map(({ packageId, summary }) => ({ packageId, ...summary })),
    ),
  ])
  const ownNames = await listOwnOfAll(tx, sources, rules)
  const firstSeen = await listFirstSeen(
    tx,
    listed.map((source, i) => ({ ...source, isAged: rules[i]?.minimumAgeHours !== 0 })),
  )
  const shasums = await keepShasums(
    tx,
    fixed.map((archive) => ({ ...archive, rules: rules[archive.place] as MirrorRules })),
  )
  const [inTurn, pause] = [limitConcurrency(2), makePause()]
  const rendered = await Promise.all(
    sources.map(({ packageId, isDev, packed }, i) =>
      inTurn(async (): Promise<Rendering> => {
        await pause()
        const rule = rules[i] as MirrorRules
        const { repositoryId, path } = rule
        const offered = await renderPacked({ owner: packageId, isUrgent: true }, packed, {
          ...rule,
          ownNames: ownNames.get(repositoryId) ?? [],
          firstSeen: firstSeen[i] ?? '{}',
          shasums: shasums.get(i) ?? {},
          registryUrl: registryUrl(baseUrl, path),
        })
        return { ownerId: packageId, isDev, baseUrl, revision: null, ...offered }
      }),
    ),
  )
  // `saveDescriptions` may lock the repository. It comes first, because a rename locks the repository before its documents.
  const saved = await saveDocuments(tx, 'mirror', rendered)
  // The rows of the packages are locked, so each document is stored.
  return saved.map((document, i) => ({
    verdict: (rules[i] as MirrorRules).verdict,
    isAllHeldBack: rendered[i]?.isAllHeldBack === true,
    document: document as StoredDocument,
  }))
}

/** Returns the replaced and provided names that are a repository's own, by repository. */
async function listOwnOfAll(
  tx: pg.PoolClient,
  sources: readonly MirrorSource[],
  rules: readonly MirrorRules[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const wanted = new Map<string, Set<string>>()
  for (const [i, { summary }] of sources.entries()) {
    const { repositoryId } = rules[i] as MirrorRules
    const names = wanted.get(repositoryId) ?? new Set()
    for (const name of summary.replaced) names.add(name)
    wanted.set(repositoryId, names)
  }
  const found = new Map<string, readonly string[]>()
  for (const [repositoryId, names] of wanted) {
    if (names.size > 0) found.set(repositoryId, [...(await listOwnNames(tx, repositoryId, [...names]))])
  }
  return found
}

function vendorOf(name: string): string {
  return name.split('/')[0] ?? ''
}
