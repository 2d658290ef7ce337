import type pg from 'pg'
import { isReadableJson } from '../../composer/manifest-fields.ts'
import { difference } from '../../composer/minify.ts'
import type { Queryable } from '../../database/database.ts'
import { encodeDocument } from '../../documents/encodings.ts'
import { saveDocuments } from '../../documents/stored-documents.ts'
import { makePause } from '../../domain/time-slices.ts'
import { registryUrl } from '../../groups/repositories.ts'
import { listAdvisories, listQuarantined } from '../tables/package-warnings.ts'
import { copyFromLatest, findListing, type LockedPackage } from '../tables/packages.ts'
import { joinDifferences, listEntrySources, listNeighbours, saveDifferences } from '../tables/versions.ts'
import { type EntrySource, entryOf, withRegistryUrl } from './entry.ts'
import { maxNamesInRoot, rootText } from './packages-json.ts'
import { warningsOf } from './warnings.ts'

/** How many versions are read, compared and written at once. Each has up to 64 KiB of metadata. */
const renderedAtOnce = 100
/** How many entries of a document are read at once. Each minified entry has about 500 bytes. */
const joinedAtOnce = 1_000

/**
 * Updates the entries of a document after `is_listed` of a version has changed. Only the entry of the version and the
 * next older one change, so the cost hardly depends on the number of versions.
 */
export async function renderEntriesAround(
  tx: pg.PoolClient,
  held: LockedPackage,
  versionId: string,
  baseUrl: string,
): Promise<void> {
  const neighbours = await listNeighbours(tx, versionId)
  const differences = await minify(neighbours, held, baseUrl)
  // The next newer entry does not change.
  const kept = neighbours[0]?.place === 'newer' ? 1 : 0
  await saveDifferences(tx, differences.slice(kept))
}

/**
 * Renders the newest entry of a document again. The other entries inherit the properties of the whole package from it.
 */
export async function renderNewestEntry(
  tx: pg.PoolClient,
  held: LockedPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<void> {
  const sources = await listEntrySources(tx, { packageId: held.id, isDev, after: null, limit: 1 })
  await saveDifferences(tx, await minify(sources, held, baseUrl))
}

/** Renders all entries of a document again. It works in parts, because there can be tens of thousands of entries. */
export async function renderEntries(
  tx: pg.PoolClient,
  held: LockedPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<void> {
  const part = { packageId: held.id, isDev, limit: renderedAtOnce }
  let newer: (EntrySource & { id: string }) | null = null
  for (;;) {
    const sources = await listEntrySources(tx, { ...part, after: newer?.id ?? null })
    await saveDifferences(tx, await minify(sources, held, baseUrl, newer))
    if (sources.length < renderedAtOnce) return
    newer = sources.at(-1) ?? null
  }
}

/**
 * Renders what one version has changed that has appeared or disappeared: the entries, the description of the package, and the
 * document. The generated column `is_listed` says which versions a document contains. Returns the size of the document in
 * bytes.
 */
export async function renderVersionChange(
  tx: pg.PoolClient,
  held: LockedPackage,
  version: { id: string; isDev: boolean },
  baseUrl: string,
): Promise<number> {
  return renderVersionChanges(tx, held, { changed: [version], isDev: version.isDev }, baseUrl)
}

/** Renders the same after a few versions that are all development versions, or all releases. */
export async function renderVersionChanges(
  tx: pg.PoolClient,
  held: LockedPackage,
  { changed, isDev }: { changed: readonly { id: string }[]; isDev: boolean },
  baseUrl: string,
): Promise<number> {
  for (const { id } of changed) await renderEntriesAround(tx, held, id, baseUrl)
  await copyFromLatest(tx, held)
  return renderDocument(tx, held, isDev, baseUrl)
}

/** Renders the same after several versions of a package have appeared or disappeared. */
export async function renderPackageChange(
  tx: pg.PoolClient,
  held: LockedPackage,
  baseUrl: string,
): Promise<void> {
  for (const isDev of [false, true]) await renderEntries(tx, held, isDev, baseUrl)
  await copyFromLatest(tx, held)
  await renderBothDocuments(tx, held, baseUrl)
}

/** Publishes both documents of a package from its current entries. */
export async function renderBothDocuments(
  tx: pg.PoolClient,
  held: LockedPackage,
  baseUrl: string,
): Promise<void> {
  for (const isDev of [false, true]) await renderDocument(tx, held, isDev, baseUrl)
}

/** Publishes one of the package's two documents from its current entries. Returns the size in bytes. */
export async function renderDocument(
  tx: pg.PoolClient,
  held: LockedPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<number> {
  const text = await joinDocument(tx, held, await readEntries(tx, held, isDev, baseUrl), baseUrl)
  const encoded = await encodeDocument(text)
  await saveDocuments(tx, 'package', [{ ownerId: held.id, isDev, baseUrl, revision: null, ...encoded }])
  return text.length
}

/**
 * Returns a document with a staged version, as it would be after the release of the stage. It is not stored. The other
 * versions follow it, whatever their order: Composer sorts them.
 */
export async function renderStagedDocument(
  tx: pg.PoolClient,
  held: LockedPackage,
  staged: EntrySource,
  { isDev, baseUrl }: { isDev: boolean; baseUrl: string },
): Promise<Buffer> {
  const url = registryUrl(baseUrl, held.path)
  const first = entryOf(staged, held, url)
  const [newest] = await listEntrySources(tx, { packageId: held.id, isDev, after: null, limit: 1 })
  const entries: Buffer[] = [Buffer.from(JSON.stringify(first))]
  if (newest) {
    // The entry that was first has all keys. Now it inherits from the staged version.
    const second = difference(entryOf(newest, held, url), first)
    entries.push(Buffer.from(`,${JSON.stringify(second)}`))
    const others = await joinEntries(tx, held, isDev, { baseUrl, after: newest.id, isAcceptable: () => true })
    if (others?.[0]?.length) entries.push(Buffer.from(','), ...others)
  }
  return joinDocument(tx, held, entries, baseUrl)
}

/** Makes a document of its entries, with the warnings about the package. */
async function joinDocument(
  tx: pg.PoolClient,
  held: LockedPackage,
  entries: readonly Buffer[],
  baseUrl: string,
): Promise<Buffer> {
  const warnings = warningsOf(
    await listAdvisories(tx, held.id),
    await listQuarantined(tx, held.id),
    `${baseUrl}/${held.path}/packages/${held.name}`,
  )
  // An empty list claims the name. A 404 would send Composer to the next repository.
  return Buffer.concat([
    Buffer.from(`{"packages":{${JSON.stringify(held.name)}:[`),
    ...entries,
    Buffer.from(`]},"minified":"composer/2.0",${warnings}}`),
  ])
}

/**
 * Reads the entries of a document. If an earlier release stored an unreadable entry, all entries are rendered again
 * first.
 */
async function readEntries(
  tx: pg.PoolClient,
  held: LockedPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<Buffer[]> {
  const from = { baseUrl, after: null }
  const entries = await joinEntries(tx, held, isDev, { ...from, isAcceptable: isReadableJson })
  if (entries) return entries
  await renderEntries(tx, held, isDev, baseUrl)
  return (await joinEntries(tx, held, isDev, { ...from, isAcceptable: () => true })) ?? []
}

/**
 * Joins the entries of a document after a version to pieces, which together are the inside of a JSON array. To read and
 * encode all entries at once would block the server for a while. Null when a piece is not acceptable.
 */
async function joinEntries(
  tx: pg.PoolClient,
  held: LockedPackage,
  isDev: boolean,
  from: { baseUrl: string; after: string | null; isAcceptable: (entries: string) => boolean },
): Promise<Buffer[] | null> {
  const url = registryUrl(from.baseUrl, held.path)
  const pieces: Buffer[] = []
  for (let { after } = from; ; ) {
    const part = { packageId: held.id, isDev, after, limit: joinedAtOnce }
    const { entries, last, count } = await joinDifferences(tx, part)
    if (!from.isAcceptable(entries)) return null
    const separator = after === from.after || count === 0 ? '' : ','
    pieces.push(Buffer.from(separator + withRegistryUrl(entries, url)))
    if (count < joinedAtOnce) return pieces
    after = last
  }
}

/**
 * Renders a repository's packages.json from its current content, and stores it unless a newer one is stored already. It
 * takes no lock. Names that are published while it runs make the document outdated again.
 */
export async function renderRoot(db: Queryable, repositoryId: string, baseUrl: string): Promise<void> {
  const listing = await findListing(db, repositoryId, maxNamesInRoot)
  if (!listing) return
  const text = rootText(registryUrl(baseUrl, listing.path), listing)
  const { revision } = listing
  const encoded = await encodeDocument(Buffer.from(text))
  await saveDocuments(db, 'root', [{ ownerId: repositoryId, isDev: false, baseUrl, revision, ...encoded }])
}

/**
 * Returns [id, JSON text] for each version, the newest first. The text is the minified entry. `newer` is the version
 * just before them in the document. Pauses for other requests, because entries can be large.
 */
async function minify(
  sources: readonly (EntrySource & { id: string })[],
  held: LockedPackage,
  baseUrl: string,
  newer: EntrySource | null = null,
): Promise<[string, string][]> {
  const url = registryUrl(baseUrl, held.path)
  const pause = makePause()
  const differences: [string, string][] = []
  let before = newer && entryOf(newer, held, url)
  for (const source of sources) {
    const entry = entryOf(source, held, url)
    differences.push([source.id, JSON.stringify(difference(entry, before))])
    before = entry
    await pause()
  }
  return differences
}
