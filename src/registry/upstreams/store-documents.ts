import { promisify } from 'node:util'
import { gunzip, gzip, gzipSync } from 'node:zlib'
import type pg from 'pg'
import { together, transaction } from '../../database/database.ts'
import { registryUrl } from '../../repositories/repositories.ts'
import { encodeDocument } from '../documents/encodings.ts'
import { commandLine, insertEventList, type NewEvent } from '../tables/events.ts'
import {
  malwareFlags,
  type UpstreamContent,
  type UpstreamDist,
  type UpstreamVersion,
} from './documents/judge-document.ts'
import { offer, replacedNames } from './documents/offer.ts'
import { settleShasums } from './settle-shasums.ts'
import { setGone } from './tables/mirrored-documents.ts'
import { type BoundPackage, bindPackages, listOwnNames } from './tables/mirrored-packages.ts'
import {
  describeMirrors,
  findMirrorContent,
  listFirstSeen,
  listMirrorRules,
  lockMirror,
  type MirrorRules,
  noteArchives,
  noteMetapackages,
  type RenderedMirror,
  type SavedMirror,
  saveMirrors,
} from './tables/rendered-mirrors.ts'
import { saveContents } from './tables/upstream-documents.ts'
import type { Upstream } from './tables/upstreams.ts'

/** A document that an upstream has just served. */
export interface CheckedDocument {
  upstream: Upstream
  packageName: string
  isDev: boolean
  content: UpstreamContent
  /** The result of `packContent`. */
  packed: Buffer
  /** The versions that were left out, each with the reason. */
  dropped: string[]
  lastModified: string | null
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
    const sources = ours.map(({ document: { isDev, content }, bound: { id } }) => ({
      packageId: id,
      isDev,
      content,
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
      replaces: [...new Set(replacedNames(document.content).map(vendorOf))],
    })),
  )
  const announced = new Set<string>()
  const events: NewEvent[] = []
  for (const [i, { document, bound, isOurs }] of active.entries()) {
    const { upstream, packageName, dropped } = document
    const { id: packageId, isNew } = bound
    if (!isOurs) continue
    const about = { repositoryId: upstream.repositoryId, packageName, version: null }
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
  if (events.length > 0) await insertEventList(tx, commandLine, events)
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
  await renderAll(tx, [{ packageId, isDev, content: await unpackContent(packed) }], baseUrl)
  return true
}

/** Up to this size, content is compressed on the main thread. The thread pool would cost more than the work. */
const smallBytes = 64 * 1024

/** Returns the stored form of content: gzipped JSON. */
export async function packContent(content: UpstreamContent): Promise<Buffer> {
  const text = Buffer.from(JSON.stringify(content))
  return text.length <= smallBytes ? gzipSync(text, { level: 4 }) : promisify(gzip)(text, { level: 4 })
}

/** Returns content from its stored form. */
export async function unpackContent(packed: Buffer): Promise<UpstreamContent> {
  return JSON.parse((await promisify(gunzip)(packed)).toString()) as UpstreamContent
}

/** A document to render. The transaction has locked the row of its package. */
interface MirrorSource {
  packageId: string
  isDev: boolean
  content: UpstreamContent
}

/** Renders documents, stores them, and returns them in their order. */
async function renderAll(
  tx: pg.PoolClient,
  sources: readonly MirrorSource[],
  baseUrl: string,
): Promise<SavedMirror[]> {
  const dists = sources.flatMap((source, i) => distsOf(source, i))
  const [rules, fixed] = await together([
    listMirrorRules(tx, sources),
    noteArchives(
      tx,
      dists.map(({ packageId, version, normalized, dist }) => ({ ...dist, packageId, version, normalized })),
    ),
    describeMirrors(
      tx,
      sources
        .filter(({ isDev }) => !isDev)
        .map(({ packageId, content }) => ({ packageId, ...aboutPackage(content) })),
    ),
  ])
  const ownNames = await listOwnOfAll(tx, sources, rules)
  const firstSeen = await listSeen(tx, sources, rules)
  const shasums = await settleShasums(
    tx,
    fixed.map((archive) => {
      const { version, dist, sourceIndex } = dists[archive.place] as SourceDist
      return { ...archive, version, dist, rules: rules[sourceIndex] as MirrorRules }
    }),
  )
  const rendered = await Promise.all(
    sources.map(async ({ packageId, isDev, content }, i): Promise<RenderedMirror> => {
      const rule = rules[i] as MirrorRules
      const { verdict, repositoryId, path, packageName } = rule
      const registry = registryUrl(baseUrl, path)
      const { text, dueAt } = offer(content, {
        ...rule,
        ownNames: ownNames.get(repositoryId) ?? new Set(),
        firstSeenAt: (version) => firstSeen.get(version) ?? rule.now,
        shasumOf: ({ dist }) => (dist === null ? undefined : shasums.get(dist)),
        distUrl: ({ dist }) =>
          `${registry}dist/${packageName}/${dist?.versionPath}/${dist?.reference}.${dist?.type}`,
      })
      return { verdict, packageId, isDev, baseUrl, dueAt, ...(await encodeDocument(Buffer.from(text))) }
    }),
  )
  // `describeMirrors` may lock the repository. It comes first, because a rename locks the repository before its documents.
  return saveMirrors(tx, rendered)
}

function aboutPackage({ versions, extra }: UpstreamContent) {
  const description = versions[0]?.entry['description']
  return {
    description: typeof description === 'string' ? description.replaceAll('\0', '').slice(0, 500) : null,
    flags: malwareFlags(extra),
  }
}

/** Returns the replaced and provided names that are a repository's own, by repository. */
async function listOwnOfAll(
  tx: pg.PoolClient,
  sources: readonly MirrorSource[],
  rules: readonly MirrorRules[],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const wanted = new Map<string, Set<string>>()
  for (const [i, { content }] of sources.entries()) {
    const { repositoryId } = rules[i] as MirrorRules
    const names = wanted.get(repositoryId) ?? new Set()
    wanted.set(repositoryId, new Set([...names, ...replacedNames(content)]))
  }
  const found = new Map<string, ReadonlySet<string>>()
  for (const [repositoryId, names] of wanted) {
    if (names.size > 0) found.set(repositoryId, await listOwnNames(tx, repositoryId, [...names]))
  }
  return found
}

/**
 * Returns the times at which versions were first seen. Only versions without a publication time need this, for the
 * minimum age. Those without an archive are noted here, even without a minimum age, because an upstream may get one later.
 */
async function listSeen(
  tx: pg.PoolClient,
  sources: readonly MirrorSource[],
  rules: readonly MirrorRules[],
): Promise<ReadonlyMap<UpstreamVersion, Date>> {
  const undated = sources.flatMap(({ packageId, content }, i) =>
    content.versions
      .filter(({ publishedAt }) => publishedAt === null)
      .map((version) => ({ packageId, version, isAged: rules[i]?.minimumAgeHours !== 0 })),
  )
  const metapackages = undated.filter(({ version }) => version.dist === null)
  const archives = undated.filter(({ version, isAged }) => isAged && version.dist !== null)
  const seen = [
    ...(metapackages.length === 0
      ? []
      : await noteMetapackages(
          tx,
          metapackages.map(({ packageId, version: { normalized } }) => ({ packageId, normalized })),
        )),
    ...(archives.length === 0
      ? []
      : await listFirstSeen(
          tx,
          archives.map(({ packageId, version }) => ({ packageId, ...(version.dist as UpstreamDist) })),
        )),
  ]
  return new Map([...metapackages, ...archives].map(({ version }, i) => [version, seen[i] as Date]))
}

/** The archive of a version, and the index of the document that contains it. */
interface SourceDist {
  sourceIndex: number
  packageId: string
  version: string
  normalized: string
  dist: UpstreamDist
}

function distsOf({ packageId, content }: MirrorSource, sourceIndex: number): SourceDist[] {
  return content.versions.flatMap(({ version, normalized, dist }) =>
    dist === null ? [] : [{ sourceIndex, packageId, version, normalized, dist }],
  )
}

function vendorOf(name: string): string {
  return name.split('/')[0] ?? ''
}
