import type pg from 'pg'
import type { ArchiveDigest } from '../archives/tables/archives.ts'
import type { PublishedVersion } from '../composer/composer-version.ts'
import type { Json, JsonObject } from '../composer/manifest-json.ts'
import { together, transaction } from '../database/database.ts'
import { noteListingChange } from '../documents/listing.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { refuseMirroredVendor } from '../upstreams/claims.ts'
import { claimVendorOfPackage } from '../upstreams/tables/vendor-claims.ts'
import { relinkVersion, renderDocument } from './documents/render.ts'
import { rankNewPackage } from './tables/downloads.ts'
import { claimPackage, copyDescription, type LockedPackage } from './tables/packages.ts'
import { type RenderedReadme, saveReadme } from './tables/readmes.ts'
import { findTakenVersion, insertArchive, insertVersion, type TakenVersion } from './tables/versions.ts'

/**
 * The maximum size of a document in bytes. A version is not published when its document would be larger, because
 * Composer fetches all of it (CONTRACT 7.7).
 */
const maxDocumentBytes = 16 * 1024 * 1024

/** A checked upload. Its archive is already stored. */
export interface Publication {
  repositoryId: string
  packageName: string
  version: PublishedVersion
  metadata: JsonObject
  readme: RenderedReadme
  archive: ArchiveDigest
  by: Principal
  baseUrl: string
  /** The time of an earlier publication elsewhere. The default is now. */
  publishedAt?: Date | null
}

/**
 * Publishes a version. One transaction stores the version, its documents and the event, so the next request sees all of
 * them. If several uploads of one version race, the first returns `published`. `settleRepeat` decides about the others.
 */
export async function publishVersion(
  pool: pg.Pool,
  publication: Publication,
): Promise<'published' | 'repeated'> {
  return transaction(pool, async (tx) => {
    const { repositoryId, packageName, version, metadata, readme, archive, by, baseUrl } = publication
    await refuseMirroredVendor(tx, repositoryId, packageName)
    const held = await claimPackage(tx, repositoryId, packageName)
    if (held.isNew) await together([claimVendorOfPackage(tx, held), rankNewPackage(tx, held)])
    await insertArchive(tx, archive)
    const uploaderId = by.accountId
    const fresh = {
      packageId: held.id,
      version,
      metadata,
      sha256: archive.sha256,
      uploaderId,
      deployTokenId: by.token?.kind === 'deploy' ? by.token.tokenId : null,
      publishedAt: publication.publishedAt ?? null,
    }
    const versionId = await insertVersion(tx, fresh)
    if (versionId === null) {
      const taken = await findTakenVersion(tx, repositoryId, packageName, version.normalized)
      return settleRepeat(taken as TakenVersion, publication)
    }
    await saveReadme(tx, versionId, readme)
    await relinkVersion(tx, held, versionId, baseUrl)
    await copyDescription(tx, held.id)
    const bytes = await renderVersionDocument(tx, held, version, baseUrl)
    if (bytes > maxDocumentBytes) throw documentTooLarge(bytes, metadata)
    const details = { sha256: archive.sha256, size: archive.size }
    const event = { repositoryId, packageName, version: version.version, action: 'publish', details } as const
    await insertEvent(tx, by, event)
    return 'published'
  })
}

/**
 * Handles the upload of an existing version. Versions are immutable. The same bytes are accepted again, because build
 * servers retry. Throws errcode 6 for other bytes, for another version that is equal for Composer, and for a deleted
 * version.
 */
export function settleRepeat(
  taken: TakenVersion,
  { version, archive }: Pick<Publication, 'version' | 'archive'>,
): 'repeated' {
  if (taken.isDeleted) {
    throw alreadyThere(
      `version ${taken.version} was deleted`,
      'Its version number cannot be used again: upload another version.',
    )
  }
  if (taken.version !== version.version) {
    throw alreadyThere(
      `version ${taken.version} exists`,
      `To Composer, ${version.version} is the same version.`,
    )
  }
  if (taken.sha256 !== archive.sha256) {
    throw alreadyThere(
      `version ${taken.version} exists with other content`,
      'Published versions never change: upload another version.',
    )
  }
  return 'repeated'
}

/**
 * Renders the version's document, and returns its size in bytes. The first version of a name renders both documents,
 * because both must tell Composer that the name is taken.
 */
async function renderVersionDocument(
  tx: pg.PoolClient,
  held: LockedPackage,
  { isDev }: PublishedVersion,
  baseUrl: string,
): Promise<number> {
  const bytes = await renderDocument(tx, held, isDev, baseUrl)
  if (!held.isNew) return bytes
  await renderDocument(tx, held, !isDev, baseUrl)
  await noteListingChange(tx, held.repositoryId)
  return bytes
}

/** Returns the error for a version that makes its package's document too large. Deleting versions always works. */
function documentTooLarge(bytes: number, metadata: JsonObject): Refusal {
  const [largest] = Object.entries(metadata).sort(([, a], [, b]) => sizeOf(b) - sizeOf(a))
  const errmsg = `the package's metadata would have ${bytes} bytes, but at most ${maxDocumentBytes} are allowed`
  const hint =
    largest &&
    `The largest key of this version's composer.json is ${largest[0]}, with ${sizeOf(largest[1])} bytes.`
  return new Refusal(errcode.resourceExhausted, errmsg, { status: 413, ...(hint && { warning: hint }) })
}

function sizeOf(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value))
}

function alreadyThere(errmsg: string, warning: string): Refusal {
  return new Refusal(errcode.alreadyExists, errmsg, { warning })
}
