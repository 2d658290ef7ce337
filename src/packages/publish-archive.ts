import type pg from 'pg'
import type { ArchiveStore, ReceivedArchive } from '../archives/archive-store.ts'
import type { CheckedZip } from '../archives/check-zip.ts'
import { keepArchive, keepArchiveFor, keepNamedArchive } from '../archives/keep-archive.ts'
import { type Manifest, readComposerJson, refuseMissingAutoload } from '../composer/composer-json.ts'
import type { PublishedVersion } from '../composer/composer-version.ts'
import type { AppContext } from '../context.ts'
import type { Principal } from '../domain/principal.ts'
import type { StorageRoom } from '../groups/storage-room.ts'
import { publishVersion, settleRepeat } from './publish.ts'
import type { ReadmeRenderer } from './readmes/render-readme.ts'
import { findTakenVersion } from './tables/versions.ts'

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
    await keepArchive(db, archives, received)
    return outcome
  }
  return room.storing(repositoryId, received.size, () =>
    keepArchiveFor(db, archives, received, async () => {
      const outcome = await publishVersion(changes, {
        ...target,
        metadata: manifest.metadata,
        readme: await readmes.render(zip.readme),
        archive: received,
        by,
        baseUrl: config.baseUrl,
      })
      await keepNamedArchive(archives, received)
      return outcome
    }),
  )
}
