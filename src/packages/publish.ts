import type pg from 'pg'
import type { ArchiveStore, ReceivedArchive } from '../archives/archive-store.ts'
import type { CheckedZip } from '../archives/check-zip.ts'
import { keepArchive, keepIfMissing } from '../archives/keep-archive.ts'
import type { ArchiveDigest } from '../archives/tables/archives.ts'
import { type Manifest, readComposerJson, refuseMissingAutoload } from '../composer/composer-json.ts'
import type { PublishedVersion } from '../composer/composer-version.ts'
import type { Json, JsonObject } from '../composer/manifest-json.ts'
import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { noteListingChange } from '../documents/listing.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import type { StorageRoom } from '../groups/storage-room.ts'
import { refuseMirroredVendor } from '../upstreams/claims.ts'
import { relinkVersion, renderDocument } from './documents/render.ts'
import type { ReadmeRenderer } from './readmes/render-readme.ts'
import { claimPackage, copyDescription } from './tables/packages.ts'
import { type RenderedReadme, saveReadme } from './tables/readmes.ts'
import { findTakenVersion, insertArchive, insertVersion, type TakenVersion } from './tables/versions.ts'

/**
 * The maximum size of a document in bytes. A version is not published when its document would be larger, because
 * Composer fetches all of it (CONTRACT 7.7).
 */
const maxDocumentBytes = 16 * 1024 * 1024

/** The parts that `publishArchive` needs. */
export interface PublishContext extends AppContext {
  changes: pg.Pool
  readmes: ReadmeRenderer
  archives: ArchiveStore
  room: StorageRoom
}

/** The repository, package name and version that an archive is published as. */
export interface PublishTarget {
  repositoryId: string
  /** The name in lower case. */
  packageName: string
  version: PublishedVersion
}

/**
 * Checks an archive for the name and version that it is published as. Returns its metadata, with the warnings about the
 * archive and its composer.json. Throws a Refusal that names the mistake.
 */
export function checkManifest(
  zip: CheckedZip,
  { packageName, version }: Pick<PublishTarget, 'packageName' | 'version'>,
): Manifest {
  const { metadata, warnings } = readComposerJson(zip.manifest, packageName, version)
  refuseMissingAutoload(metadata, zip.tree)
  return { metadata, warnings: [...zip.warnings, ...warnings] }
}

/**
 * Keeps a checked archive, and then stores the version in the database. The caller must check the permission before.
 * Throws 507 when the group has no room for a new archive.
 */
export async function publishArchive(
  { config, db, changes, readmes, archives, room }: PublishContext,
  target: PublishTarget,
  received: ReceivedArchive,
  { zip, manifest, by }: { zip: CheckedZip; manifest: Manifest; by: Principal },
): Promise<'published' | 'repeated'> {
  const { repositoryId, packageName, version } = target
  const taken = await findTakenVersion(db, repositoryId, packageName, version.normalized)
  if (taken) {
    const outcome = settleRepeat(taken, { version, archive: received })
    // The store may have lost or damaged the archive. A repeated upload brings it back.
    await keepArchive(db, archives, received, async () => {})
    return outcome
  }
  return room.storing(repositoryId, received.size, () =>
    keepArchive(db, archives, received, async () => {
      const outcome = await publishVersion(changes, {
        ...target,
        metadata: manifest.metadata,
        readme: await readmes.render(zip.readme),
        archive: received,
        by,
        baseUrl: config.baseUrl,
      })
      await keepIfMissing(archives, received)
      return outcome
    }),
  )
}

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
  const { repositoryId, packageName, version, metadata, readme, archive, by, baseUrl } = publication
  return transaction(pool, async (tx) => {
    await refuseMirroredVendor(tx, repositoryId, packageName)
    const held = await claimPackage(tx, repositoryId, packageName)
    await insertArchive(tx, archive)
    const versionId = await insertVersion(tx, {
      packageId: held.id,
      version,
      metadata,
      sha256: archive.sha256,
      uploaderId: by.accountId,
      deployTokenId: by.token?.kind === 'deploy' ? by.token.tokenId : null,
      publishedAt: publication.publishedAt ?? null,
    })
    if (versionId === null) {
      const taken = await findTakenVersion(tx, repositoryId, packageName, version.normalized)
      return settleRepeat(taken as TakenVersion, publication)
    }
    await saveReadme(tx, versionId, readme)
    await copyDescription(tx, held)

    await relinkVersion(tx, held, versionId, baseUrl)
    const bytes = await renderDocument(tx, held, version.isDev, baseUrl)
    if (bytes > maxDocumentBytes) throw documentTooLarge(bytes, metadata)
    if (held.isNew) {
      // Both documents must tell Composer that the name is taken.
      await renderDocument(tx, held, !version.isDev, baseUrl)
      await noteListingChange(tx, held.repositoryId)
    }

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
