import { openArchiveStore } from '../../archives/store-owner.ts'
import { countArchives } from '../../archives/tables/archives.ts'
import { findClaim } from '../../archives/tables/store-claims.ts'
import { type ArchiveHealth, findArchiveHealth } from '../../archives/tables/stored-archives.ts'
import type { Config } from '../../config.ts'
import type { Queryable } from '../../database/database.ts'
import { type DatabaseState, findDatabaseState, findMaintenance } from '../../database/installation.ts'
import { type DiskSpace, measureDisk } from '../../domain/disk-space.ts'
import { countJobs, type JobCount } from '../../jobs/job-rows.ts'

/** The state of the installation. */
export interface SystemState {
  database: DatabaseState
  isEmbedded: boolean
  /** `unclaimed`: why this database has no claim on the store. Null when it has the claim. */
  store: { place: string; archives: number; bytes: number; unclaimed: string | null } & ArchiveHealth
  /** The counts of jobs, by name. */
  jobs: JobCount[]
  /** When the last garbage collection and the last svc backup ended. Null when there was none. */
  collectedAt: Date | null
  backedUpAt: Date | null
  /** The disk of DATA_DIR. Null when the file system does not report its size. */
  disk: ({ directory: string } & DiskSpace) | null
}

/** Reads the state of database, archive store, queue and disk. */
export async function readSystemState(db: Queryable, config: Config): Promise<SystemState> {
  const { place } = await openArchiveStore(config)
  const [database, archives, health, { lostBecause: unclaimed }, jobs, maintenance, disk] = await Promise.all(
    [
      findDatabaseState(db),
      countArchives(db),
      findArchiveHealth(db),
      findClaim(db),
      countJobs(db),
      findMaintenance(db),
      // A command may run before the server has created the folder.
      measureDisk(config.dataDir).catch(() => null),
    ],
  )
  return {
    database,
    isEmbedded: config.databaseUrl === null,
    store: { place, ...archives, unclaimed, ...health },
    jobs: jobs.toSorted((one, other) => one.name.localeCompare(other.name)),
    collectedAt: maintenance.get('garbage-collection') ?? null,
    backedUpAt: maintenance.get('backup') ?? null,
    disk: disk && { directory: config.dataDir, ...disk },
  }
}
