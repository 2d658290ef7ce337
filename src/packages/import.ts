import type pg from 'pg'
import type { ArchiveStore, ReceivedArchive } from '../archives/archive-store.ts'
import { checkUpload } from '../archives/check-upload.ts'
import { discardArchive, receiveArchive } from '../archives/local-store.ts'
import { type PublishedVersion, readVersion } from '../composer/composer-version.ts'
import type { Config } from '../config.ts'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import { errcode, isOfServer, Refusal } from '../domain/refusal.ts'
import type { UpstreamRequests } from '../upstreams/client/fetch.ts'
import { toReceiveError, UpstreamError } from '../upstreams/client/upstream-error.ts'
import { matchesVersion } from '../upstreams/documents/patterns.ts'
import type { UpstreamVersion } from '../upstreams/documents/read-document.ts'
import { namesOf, openRegistry, readPackage } from '../upstreams/other-registry.ts'
import { checkManifest, foreseePublication, keepAndPublish, type PublishConfig } from './publish.ts'
import type { ReadmeRenderer } from './readmes/render-readme.ts'
import { findTakenVersion } from './tables/versions.ts'

/** After so many packages in a row without any response, the other registry is down. */
const maxUnreachable = 10

/** The result for a version of the other registry. */
export interface Imported {
  name: string
  /** Null for the result of a whole package, or of its development versions. */
  version: string | null
  /** `staged`: the version waits for its release, because releases are reviewed. */
  outcome: 'imported' | 'staged' | 'already there' | 'refused'
  reason: string | null
}

/** The packages that an import could not copy. A later one may. */
export interface LeftOut {
  /** How many packages have metadata that cannot be read. */
  unread: number
  /** The packages that were named, and that the registry does not have. */
  missing: string[]
}

export interface ImportWish {
  repositoryId: string
  url: string
  /** The packages to import, with optional constraints. If empty, all packages that the registry lists. */
  patterns: readonly string[]
  /** Whether `v1.0.0` is published as `1.0.0`. */
  mapsVTags: boolean
  /** Whether to publish nothing and only return the results. */
  isDryRun: boolean
}

interface ImportContext {
  config: PublishConfig & Pick<Config, 'maxArchiveBytes'>
  db: pg.Pool
  client: UpstreamRequests
  archives: ArchiveStore
  readmes: Pick<ReadmeRenderer, 'render'>
  tell: (imported: Imported) => void
}

/**
 * Copies packages of another Composer registry into this repository, the oldest versions first, with their publication
 * dates. It skips existing versions, so an interrupted import can be repeated and continues where it stopped. A package
 * whose metadata cannot be read is refused, and the others continue. `tell` gets every result. Throws `UpstreamError`
 * when the registry itself cannot be read, or responds no more. Throws other errors when the archive store fails.
 */
export async function importPackages(context: ImportContext, wish: ImportWish): Promise<LeftOut> {
  const { client, tell } = context
  const registry = await openRegistry(client, wish.url)
  const names = await namesOf(registry, wish.patterns)
  if (names.length === 0 && wish.patterns.length > 0)
    throw new UpstreamError('none of its packages matches the patterns')
  const leftOut: LeftOut = { unread: 0, missing: [] }
  let unreachable = 0
  for (const [index, name] of names.entries()) {
    const { versions, refused, isUnread, isUnreachable } = await readPackage(registry, name)
    if (isUnread) leftOut.unread += 1
    else if (versions.length === 0 && wish.patterns.some((pattern) => pattern.split(':')[0] === name))
      leftOut.missing.push(name)
    for (const { version, reason } of refused) tell({ name, version, outcome: 'refused', reason })
    unreachable = isUnreachable ? unreachable + 1 : 0
    if (unreachable === maxUnreachable) {
      throw new UpstreamError(
        `${formatCount(unreachable, 'package')} in a row got no response. ${formatCount(names.length - index - 1, 'package')} ${names.length - index === 2 ? 'was' : 'were'} not tried`,
      )
    }
    for (const version of versions) {
      if (wish.patterns.length > 0 && !wish.patterns.some((p) => matchesVersion(p, name, version.normalized)))
        continue
      tell({ name, version: version.version, ...(await importVersion(context, wish, name, version)) })
    }
  }
  return leftOut
}

async function importVersion(
  context: ImportContext,
  wish: ImportWish,
  packageName: string,
  theirs: UpstreamVersion,
): Promise<Pick<Imported, 'outcome' | 'reason'>> {
  const { config, db } = context
  const { repositoryId } = wish
  let received: ReceivedArchive | null = null
  try {
    const version = versionOf(theirs, wish)
    const taken = await findTakenVersion(db, repositoryId, packageName, version.normalized)
    if (taken) return { outcome: 'already there', reason: taken.isDeleted ? 'it was deleted here' : null }
    if (theirs.dist?.type !== 'zip') return { outcome: 'refused', reason: 'it has no zip archive' }
    if (wish.isDryRun) {
      const outcome = await foreseePublication(db, { repositoryId, packageName, version, by: operator })
      return { outcome: outcome === 'published' ? 'imported' : outcome, reason: null }
    }
    received = await receive(context, theirs.dist, config.maxArchiveBytes)
    const zip = await checkUpload(received.path)
    const { metadata } = checkManifest(zip, { packageName, version })
    const publishedAt = pastDate(theirs.publishedAt ?? theirs.entry['time'])
    const publication = { repositoryId, packageName, version, metadata, by: operator, publishedAt }
    const published = await keepAndPublish({ ...context, changes: db }, received, zip, publication)
    if (published.outcome === 'staged' && published.isNew) return { outcome: 'staged', reason: null }
    return { outcome: published.outcome === 'published' ? 'imported' : 'already there', reason: null }
  } catch (error) {
    if (error instanceof UpstreamError) return { outcome: 'refused', reason: error.message }
    if (!(error instanceof Refusal) || isOfServer(error)) throw error
    const reason = [error.errmsg, ...error.details.slice(0, 1)].join(': ')
    return { outcome: error.errcode === errcode.alreadyExists ? 'already there' : 'refused', reason }
  } finally {
    if (received) await discardArchive(received)
  }
}

function versionOf({ version }: UpstreamVersion, { mapsVTags }: ImportWish): PublishedVersion {
  return readVersion(mapsVTags ? version.replace(/^v(?=\d)/i, '') : version)
}

async function receive(
  { client, archives }: ImportContext,
  { url, shasum }: NonNullable<UpstreamVersion['dist']>,
  maxBytes: number,
): Promise<ReceivedArchive> {
  const { body, size } = await client.fetchArchive(url)
  let received: ReceivedArchive
  try {
    received = await receiveArchive(archives, body, { maxBytes, size })
  } catch (error) {
    throw toReceiveError(error, body, url)
  } finally {
    body.destroy()
  }
  if (shasum === null || shasum === received.sha1) return received
  await discardArchive(received)
  throw new UpstreamError(`its archive has the SHA-1 ${received.sha1}, but the registry announces ${shasum}`)
}

/**
 * Returns the publication date in the other registry. Null when it is invalid, before 1970, or in the future. Neither
 * PostgreSQL nor PHP can read every date of JavaScript.
 */
function pastDate(text: unknown): Date | null {
  const date = typeof text === 'string' ? new Date(text) : null
  return date && date.getTime() >= 0 && date.getTime() < Date.now() ? date : null
}
