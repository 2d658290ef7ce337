import type pg from 'pg'
import type { Config } from '../config.ts'
import { type Actor, transaction } from '../database/database.ts'
import { writeAndApplyMigration } from '../database/operator-migrations.ts'
import { listMistakes } from './application-rules.ts'
import {
  type ApplicationChanges,
  renderChangeSeed,
  renderDeletionSeed,
  renderStatusSeed,
  slugOf,
} from './application-seed.ts'
import {
  type Application,
  type ApplicationStatus,
  findApplicationByClientId,
  setApplicationStatus,
} from './applications.ts'

/** An application after a change. */
export interface ChangedApplication {
  application: Application
  /** The path of the written migration. Null when none was written. */
  migration: string | null
}

/**
 * Sets an application's status. Token checks read the status, so the tokens of a suspended application stop working in
 * every process at once. With `isMigration` it first writes the change as a migration, so that a database rebuilt from
 * the migrations has the same state. Returns null for an unknown client id.
 */
export async function changeApplicationStatus(
  db: pg.Pool,
  config: Config,
  actor: Actor,
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
  const application = await transaction(db, (tx) => setApplicationStatus(tx, clientId, status), actor)
  return application && { application, migration: null }
}

/** Thrown when a change of an application breaks a limit of SPEC 2.1. */
export class UnacceptableChange extends Error {}

/**
 * Changes an application by a migration that is written and applied at once. Existing grants stay as they are. Returns
 * null for an unknown client id. Throws `UnacceptableChange` with a message for each broken limit.
 */
export async function changeApplication(
  db: pg.Pool,
  config: Config,
  clientId: string,
  changes: ApplicationChanges,
): Promise<ChangedApplication | null> {
  const before = await findApplicationByClientId(db, clientId)
  if (before === null) return null
  const after = { ...before, ...changes }
  const mistakes = listMistakes({ ...after, logo: changes.logo ?? null })
  if (mistakes.length > 0) {
    throw new UnacceptableChange(`The application cannot be changed: ${mistakes.join('; ')}.`)
  }
  const sql = renderChangeSeed(before, changes)
  const migration = await writeAndApplyMigration(db, config, `set_${slugOf(before)}`, sql)
  const application = await findApplicationByClientId(db, clientId)
  return application && { application, migration }
}

/**
 * Deletes an application with its authorizations and tokens, by a migration that is written and applied at once. Without
 * it, a rebuilt database would get the application again from its seed. Returns null for an unknown client id.
 */
export async function deleteApplication(
  db: pg.Pool,
  config: Config,
  clientId: string,
): Promise<ChangedApplication | null> {
  const application = await findApplicationByClientId(db, clientId)
  if (application === null) return null
  const sql = renderDeletionSeed(application)
  const migration = await writeAndApplyMigration(db, config, `delete_${slugOf(application)}`, sql)
  return { application, migration }
}
