import type pg from 'pg'
import { registryUrl } from '../../repositories/repositories.ts'
import { isReadableJson } from '../manifest/stored-metadata.ts'
import { listAdvisories } from '../tables/advisories.ts'
import { type HeldPackage, holdRepository, listClaimedNames } from '../tables/packages.ts'
import { listQuarantined } from '../tables/version-states.ts'
import { joinDifferences, listEntrySources, listNeighbours, saveDifferences } from '../tables/versions.ts'
import { hasUpstreams } from '../upstreams/tables/upstreams.ts'
import { savePackageDocument, saveRootDocument } from './documents.ts'
import { encodeDocument } from './encodings.ts'
import { type EntrySource, entryOf, relinkArchives } from './entry.ts'
import { difference } from './minify.ts'
import { rootText } from './root.ts'
import { warningsOf } from './warnings.ts'

/**
 * Puts a version into its document, or takes it out, as `is_listed` says. Only this entry and the next older one
 * differ from before, so the cost hardly depends on how many versions there are.
 */
export async function relinkVersion(
  tx: pg.PoolClient,
  held: HeldPackage,
  versionId: string,
  baseUrl: string,
): Promise<void> {
  const neighbours = await listNeighbours(tx, versionId)
  const differences = minify(neighbours, held, baseUrl)
  // What precedes the change stays as it is.
  const kept = neighbours[0]?.place === 'newer' ? 1 : 0
  await saveDifferences(tx, differences.slice(kept))
}

/** Renders the entries of a whole document anew. */
export async function relinkDocument(
  tx: pg.PoolClient,
  held: HeldPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<void> {
  const sources = await listEntrySources(tx, held.id, isDev)
  await saveDifferences(tx, minify(sources, held, baseUrl))
}

/** Publishes one of the package's two documents as its entries now are. */
export async function renderDocument(
  tx: pg.PoolClient,
  held: HeldPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<void> {
  const readable = await joinReadable(tx, held, isDev, baseUrl)
  const entries = relinkArchives(readable, registryUrl(baseUrl, held.path))
  const warnings = warningsOf(
    await listAdvisories(tx, held.id),
    await listQuarantined(tx, held.id),
    `${baseUrl}/${held.path}/packages/${held.name}`,
  )
  // An empty list says: the name is taken here. A 404 would send Composer to the next repository.
  const text = `{"packages":{${JSON.stringify(held.name)}:${entries}},"minified":"composer/2.0",${warnings}}`
  await savePackageDocument(
    tx,
    { packageId: held.id, isDev, baseUrl },
    await encodeDocument(Buffer.from(text)),
  )
}

/** The entries of a document. Those that an earlier release made unreadable are rendered again. */
async function joinReadable(
  tx: pg.PoolClient,
  held: HeldPackage,
  isDev: boolean,
  baseUrl: string,
): Promise<string> {
  const entries = await joinDifferences(tx, held.id, isDev)
  if (isReadableJson(entries)) return entries
  await relinkDocument(tx, held, isDev, baseUrl)
  return joinDifferences(tx, held.id, isDev)
}

/** Publishes a repository's packages.json as its packages now are. */
export async function renderRoot(tx: pg.PoolClient, repositoryId: string, baseUrl: string): Promise<void> {
  const repository = await holdRepository(tx, repositoryId)
  if (!repository) return
  const names = await listClaimedNames(tx, repositoryId)
  const contents = { names, hasUpstreams: await hasUpstreams(tx, repositoryId) }
  const text = rootText(registryUrl(baseUrl, repository.path), contents)
  await saveRootDocument(tx, { repositoryId, baseUrl }, await encodeDocument(Buffer.from(text)))
}

/** [id, JSON text] of each version's minified entry, from the newest to the oldest. */
function minify(
  sources: readonly (EntrySource & { id: string })[],
  held: HeldPackage,
  baseUrl: string,
): [string, string][] {
  const entries = sources.map((source) => entryOf(source, held, registryUrl(baseUrl, held.path)))
  return sources.map(({ id }, i) => [
    id,
    JSON.stringify(difference(entries[i] ?? {}, entries[i - 1] ?? null)),
  ])
}
