import type pg from 'pg'
import type { Config } from '../config.ts'
import { writeAndApplyMigration } from '../database/operator-migrations.ts'
import { renderStatusSeed, slugOf } from './application-seed.ts'
import {
  type Application,
  type ApplicationStatus,
  findApplicationByClientId,
  setApplicationStatus,
} from './applications.ts'

/** An application after a change. */
export interface ChangedApplication {
  application: Application
  /** The path of the migration that was written; null when none was. */
  migration: string | null
}

/**
 * Sets an application's status at once. Token checks read the status, so a suspended application stops on every
 * process. With `isMigration` the change is written as a migration as well, before it counts, so that a database
 * rebuilt from the migrations has the same state. Returns null for an unknown client id.
 */
export async function changeApplicationStatus(
  db: pg.Pool,
  config: Config,
  clientId: string,
  { verb, status, isMigration }: { verb: string; status: ApplicationStatus; isMigration: boolean },
): Promise<ChangedApplication | null> {
  const before = await findApplicationByClientId(db, clientId)
  if (before === null) return null
  if (isMigration) {
    const sql = renderStatusSeed(before, status)
    const migration = await writeAndApplyMigration(db, config, `${verb}_${slugOf(before)}`, sql)
    return { application: { ...before, status }, migration }
  }
  const application = await setApplicationStatus(db, clientId, status)
  return application && { application, migration: null }
}
