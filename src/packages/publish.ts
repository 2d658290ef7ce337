import type pg from 'pg'
import type { ArchiveStore, ReceivedArchive } from '../archives/archive-store.ts'
import type { CheckedZip } from '../archives/check-zip.ts'
import { keepArchive, keepIfMissing } from '../archives/keep-archive.ts'
import { insertArchive } from '../archives/tables/archives.ts'
import { type Manifest, readComposerJson, refuseMissingAutoload } from '../composer/composer-json.ts'
import { isBranchVersion, type PublishedVersion } from '../composer/composer-version.ts'
import type { Json, JsonObject } from '../composer/manifest-json.ts'
import type { Config } from '../config.ts'
import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { noteListingChange } from '../documents/listing.ts'
import type { ReleaseRule } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import type { Provenance } from '../domain/provenance.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvent } from '../events/events.ts'
import { requireBelowLimit } from '../groups/limits.ts'
import type { StorageRoom } from '../groups/storage-room.ts'
import { refuseMirroredVendor } from '../upstreams/claims.ts'
import { renderDocument, renderEntriesAround, renderVersionChange } from './documents/render.ts'
import { requireTrustedPublisher } from './lifecycle/trusted-only.ts'
import type { ReadmeRenderer } from './readmes/render-readme.ts'
import { endStage, expireStages } from './stages/expire.ts'
import { claimPackage, type LockedPackage } from './tables/packages.ts'
import { releaseProvenance, saveProvenance, saveStagedProvenance } from './tables/provenance.ts'
import { saveReadme } from './tables/readmes.ts'
import {
  type CheckedUpload,
  findStagedNumber,
  insertStage,
  isReviewed,
  lockNumbers,
  type Stage,
} from './tables/staged-versions.ts'
import {
  findTakenVersion,
  insertVersion,
  type NewVersion,
  replaceVersion,
  type TakenVersion,
  unlistReplaced,
} from './tables/versions.ts'

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

/** The settings that `publishVersion` needs. */
export type PublishConfig = Pick<Config, 'baseUrl' | 'limits' | 'site'>

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
 * The outcome of an upload: the version is published, or it was published before with the same bytes, or it is staged and
 * waits for its release.
 */
export type Published =
  | { outcome: 'published' | 'repeated' }
  | { outcome: 'staged'; stage: Stage; isNew: boolean }

/**
 * Keeps a checked archive, and then publishes or stages the version (see `publishVersion`). The caller must check the
 * permission before. Throws 507 when the group has no room for a new archive.
 */
export async function publishArchive(
  { config, db, changes, readmes, archives, room }: PublishContext,
  target: PublishTarget,
  received: ReceivedArchive,
  {
    zip,
    manifest,
    by,
    release = 'direct',
    provenance = null,
  }: {
    zip: CheckedZip
    manifest: Manifest
    by: Principal
    release?: ReleaseRule
    provenance?: Provenance | null
  },
): Promise<Published> {
  const { repositoryId, packageName, version } = target
  const taken = await findTakenVersion(db, repositoryId, packageName, version.normalized)
  if (taken && !isBranchVersion(version)) {
    const outcome = settleRepeat(taken, { version, archive: received })
    // The store may have lost or damaged the archive. A repeated upload brings it back.
    await keepArchive(db, archives, received, async () => {})
    if (provenance)
      await transaction(changes, (tx) => attestVersion(tx, { ...target, by, archive: received, provenance }))
    return { outcome }
  }
  const publication = { ...target, metadata: manifest.metadata, by, release, provenance }
  return room.storing(repositoryId, received.size, () =>
    keepAndPublish({ config, db, changes, readmes, archives }, received, zip, publication),
  )
}

/** Keeps a checked archive in the store, and publishes or stages its version (see `publishVersion`). */
export async function keepAndPublish(
  {
    config,
    db,
    changes,
    readmes,
    archives,
  }: Pick<PublishContext, 'db' | 'changes' | 'archives'> & {
    config: PublishConfig
    readmes: Pick<ReadmeRenderer, 'render'>
  },
  received: ReceivedArchive,
  zip: CheckedZip,
  publication: Omit<Publication, 'readme' | 'archive'>,
): Promise<Published> {
  return keepArchive(db, archives, received, async () => {
    const readme = await readmes.render(zip.readme)
    const published = await publishVersion(changes, config, { ...publication, readme, archive: received })
    await keepIfMissing(archives, received)
    return published
  })
}

/** A checked upload with what decides about its publication. */
export interface Publication extends CheckedUpload {
  /** The time of an earlier publication elsewhere. The default is now. */
  publishedAt?: Date | null
  /** `reviewed` stages the version in any case. By default, the rules of the repository and the package decide. */
  release?: ReleaseRule
  /** Its verified attestations. Null without any. */
  provenance?: Provenance | null
}

/**
 * Publishes a version, or stages it where releases are reviewed. Every upload, import and Git source comes here. If
 * several uploads of one version race, one is first, and the others get 'repeated', the same stage, or an error (see
 * `settleRepeat`).
 */
async function publishVersion(
  pool: pg.Pool,
  config: PublishConfig,
  publication: Publication,
): Promise<Published> {
  const { repositoryId, packageName, version, release = 'direct' } = publication
  return transaction(pool, async (tx) => {
    await lockNumbers(tx, repositoryId, packageName)
    const staged = await findStagedNumber(tx, repositoryId, packageName, version.normalized)
    const isOutdated = isBranchVersion(version) && staged?.sha256 !== publication.archive.sha256
    if (staged && isOutdated) await endStage(tx, staged)
    else if (staged) {
      const stage = settleStaged(staged, publication)
      await attestStage(tx, publication, stage)
      return { outcome: 'staged', stage, isNew: false }
    }
    const isStaged = release === 'reviewed' || (await isReviewed(tx, repositoryId, packageName))
    const published = isStaged
      ? await stageVersion(tx, config, publication)
      : { outcome: await addVersion(tx, config, publication) }
    if (published.outcome === 'repeated') await attestVersion(tx, publication)
    return published
  })
}

/**
 * Returns what `publishVersion` would do with a version that the repository does not have, and throws as it does, as far as that
 * is known without the archive. Nothing is changed. `already there`: the number is staged.
 */
export async function foreseePublication(
  pool: pg.Pool,
  { repositoryId, packageName, version, by }: PublishTarget & { by: Principal },
): Promise<'published' | 'staged' | 'already there'> {
  return transaction(pool, async (tx) => {
    await lockNumbers(tx, repositoryId, packageName)
    if (await findStagedNumber(tx, repositoryId, packageName, version.normalized)) return 'already there'
    await tx.query('savepoint foreseen')
    await takePackage(tx, { repositoryId, packageName, by })
    await tx.query('rollback to savepoint foreseen')
    return (await isReviewed(tx, repositoryId, packageName)) ? 'staged' : 'published'
  })
}

/** Takes the name of a package for the version that somebody uploads. Throws when they may not have it. */
async function takePackage(
  tx: pg.PoolClient,
  { repositoryId, packageName, by }: Pick<PublishTarget, 'repositoryId' | 'packageName'> & { by: Principal },
): Promise<LockedPackage> {
  await refuseMirroredVendor(tx, repositoryId, packageName)
  const held = await claimPackage(tx, repositoryId, packageName, by)
  requireTrustedPublisher(held, by)
  return held
}

/**
 * Stages a version. It is judged by publishing it, which is then undone: so a stage is refused for what an upload would be
 * refused for, such as a document that becomes too large.
 */
async function stageVersion(
  tx: pg.PoolClient,
  config: PublishConfig,
  publication: Publication,
): Promise<Published> {
  const { repositoryId, packageName, version, archive, by } = publication
  await tx.query('savepoint judged')
  const outcome = await addVersion(tx, config, publication)
  await tx.query('rollback to savepoint judged')
  if (outcome === 'repeated') return { outcome }
  await expireStages(tx, 1, { repositoryId, packageName, normalized: version.normalized })
  await requireBelowLimit(tx, config, by, 'stages', repositoryId)
  await insertArchive(tx, archive)
  const stage = await insertStage(tx, publication)
  if (publication.provenance) await saveStagedProvenance(tx, stage.id, publication.provenance)
  const run = by.token?.run
  const details = {
    stage: stage.id,
    ...(run && { run }),
    sha256: archive.sha256,
    size: archive.size,
    ...countOf(publication.provenance),
  }
  await insertEvent(tx, by, {
    action: 'stage',
    repositoryId,
    packageName,
    version: version.version,
    details,
  })
  return { outcome: 'staged', stage, isNew: true }
}

/**
 * Stores a version, its documents and the event in a transaction that holds the numbers of the package, so the next
 * request sees all of them. `stage` is the stage that is released, whose uploader is not who publishes it.
 */
export async function addVersion(
  tx: pg.PoolClient,
  { baseUrl }: Pick<Config, 'baseUrl'>,
  publication: Publication,
  stage: Pick<Stage, 'id' | 'by'> | null = null,
): Promise<'published' | 'repeated'> {
  const { repositoryId, packageName, version, metadata, readme, archive, by } = publication
  const uploader = stage?.by ?? by
  const run = uploader.token?.run ?? null
  const held = await takePackage(tx, { repositoryId, packageName, by: uploader })
  await insertArchive(tx, archive)
  const fresh = {
    packageId: held.id,
    version,
    metadata,
    sha256: archive.sha256,
    uploaderId: uploader.accountId,
    deployTokenId: uploader.token?.kind === 'deploy' ? uploader.token.tokenId : null,
    run,
    publishedAt: publication.publishedAt ?? null,
  }
  const versionId = (await insertVersion(tx, fresh)) ?? (await replaceBranch(tx, held, fresh, baseUrl))
  if (versionId === null) {
    const taken = await findTakenVersion(tx, repositoryId, packageName, version.normalized)
    return settleRepeat(taken as TakenVersion, publication)
  }
  await saveReadme(tx, versionId, readme)
  const { provenance } = publication
  if (provenance) await saveProvenance(tx, attestedVersionOf(publication), provenance)
  if (stage) await releaseProvenance(tx, { stageId: stage.id, versionId })

  const bytes = await renderVersionChange(tx, held, { id: versionId, isDev: version.isDev }, baseUrl)
  if (bytes > maxDocumentBytes) throw documentTooLarge(bytes, metadata)
  if (held.isNew) {
    // Both documents must tell Composer that the name is taken.
    await renderDocument(tx, held, !version.isDev, baseUrl)
    await noteListingChange(tx, held.repositoryId)
  }

  const details = {
    ...(stage && { stage: stage.id }),
    ...(run && { run }),
    sha256: archive.sha256,
    size: archive.size,
    ...countOf(provenance),
  }
  const event = { repositoryId, packageName, version: version.version, action: 'publish', details } as const
  await insertEvent(tx, by, event)
  return 'published'
}

/** A repeated upload that may bring attestations. */
type RepeatedUpload = Pick<
  Publication,
  'repositoryId' | 'packageName' | 'version' | 'archive' | 'by' | 'provenance'
>

/** Stores the attestations of a repeated upload, if the published version has none. Writes the event. */
async function attestVersion(tx: pg.PoolClient, upload: RepeatedUpload): Promise<void> {
  if (!upload.provenance) return
  const isStored = await saveProvenance(tx, attestedVersionOf(upload), upload.provenance)
  if (isStored) await insertAttestEvent(tx, upload, {})
}

/** Stores the attestations of a repeated upload, if the staged version has none. Writes the event. */
async function attestStage(tx: pg.PoolClient, upload: RepeatedUpload, { id }: Stage): Promise<void> {
  if (!upload.provenance) return
  const isStored = await saveStagedProvenance(tx, id, upload.provenance)
  if (isStored) await insertAttestEvent(tx, upload, { stage: id })
}

async function insertAttestEvent(
  tx: pg.PoolClient,
  { repositoryId, packageName, version: { version }, archive, by, provenance }: RepeatedUpload,
  about: { stage?: string },
): Promise<void> {
  const run = by.token?.run
  const details = { ...about, ...(run && { run }), sha256: archive.sha256, ...countOf(provenance) }
  await insertEvent(tx, by, { action: 'attest', repositoryId, packageName, version, details })
}

function attestedVersionOf({ repositoryId, packageName, version, archive }: RepeatedUpload) {
  return { repositoryId, packageName, normalized: version.normalized, sha256: archive.sha256 }
}

/** The number of attestations, for the details of an event. */
function countOf(provenance: Provenance | null | undefined): { attestations?: number } {
  return provenance ? { attestations: provenance.attested.length } : {}
}

/**
 * Gives the development version of a branch the content of a new commit. Its entry gets another place in the document, so
 * the entry beside the former place is rendered first. Returns the id. Null for any other version, and for the same content.
 */
async function replaceBranch(
  tx: pg.PoolClient,
  held: LockedPackage,
  fresh: NewVersion,
  baseUrl: string,
): Promise<string | null> {
  const versionId = isBranchVersion(fresh.version) ? await unlistReplaced(tx, fresh) : null
  if (versionId === null) return null
  await renderEntriesAround(tx, held, versionId, baseUrl)
  await replaceVersion(tx, versionId, fresh)
  return versionId
}

/**
 * Handles the upload of a version that is staged. The same bytes get the same stage. Throws errcode 6 for other bytes, and
 * for another version that is equal for Composer.
 */
function settleStaged(staged: Stage, { version, archive }: Pick<Publication, 'version' | 'archive'>): Stage {
  if (staged.version !== version.version) {
    throw alreadyThere(
      `version ${staged.version} is staged`,
      `To Composer, ${version.version} is the same version.`,
    )
  }
  if (staged.sha256 !== archive.sha256) {
    throw alreadyThere(
      `version ${staged.version} is staged with other content`,
      'Reject it first, or upload another version.',
    )
  }
  return staged
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
