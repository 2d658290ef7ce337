import { access, constants, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import type { Config } from '../config.ts'
import type { Principal } from '../domain/principal.ts'
import type { Queryable } from './database.ts'
import {
  applyMigration,
  firstOperatorNumber,
  listAppliedMigrations,
  numberOf,
  readSchema,
  withMigrationLock,
} from './migrate.ts'
import { writeNewFile } from './new-file.ts'

type Folder = Pick<Config, 'migrationsDir' | 'isMigrationsDirGiven'>

/** Thrown when a file cannot be written into the folder of the operator's migrations. */
export class UnwritableMigration extends Error {
  constructor(path: string, { code }: NodeJS.ErrnoException) {
    super(`The migration ${path} cannot be written (${code}): check MIGRATIONS_DIR.`)
  }
}

/** Returns the folder of the operator's migrations, or null while the default folder does not exist. */
export async function findMigrationsDir({
  migrationsDir,
  isMigrationsDirGiven,
}: Folder): Promise<string | null> {
  if (isMigrationsDirGiven) return migrationsDir
  return access(migrationsDir).then(
    () => migrationsDir,
    () => null,
  )
}

/**
 * Returns whether the operator keeps migrations in files: the folder has some, or MIGRATIONS_DIR names a folder that svc can
 * write. Then a change of an application is also written as a migration, so that a rebuilt database has it.
 */
export async function keepsMigrations(config: Folder): Promise<boolean> {
  const { operators } = await readSchema(await findMigrationsDir(config))
  if (operators.length > 0 || !config.isMigrationsDirGiven) return operators.length > 0
  return access(config.migrationsDir, constants.W_OK).then(
    () => true,
    () => false,
  )
}

/**
 * Writes a migration with the operator's next free number, `NNNN_<what>.sql`, and returns its path. Numbers of the
 * names in `taken` are not used again, even if their files are missing. Throws `UnwritableMigration`.
 */
export async function writeMigration(
  config: Folder,
  what: string,
  sql: string,
  taken: readonly string[] = [],
): Promise<string> {
  const { operators } = await readSchema(await findMigrationsDir(config))
  const numbers = [...operators.map(({ name }) => name), ...taken].map(numberOf)
  const number = Math.max(firstOperatorNumber - 1, ...numbers) + 1
  const path = join(config.migrationsDir, `${number}_${what}.sql`)
  if (number > 9999) throw new Error('No number is left for a new migration: rename the migration 9999.')
  try {
    if (!config.isMigrationsDirGiven) await mkdir(config.migrationsDir, { recursive: true })
    await writeNewFile(path, sql)
  } catch (error) {
    throw new UnwritableMigration(path, error as NodeJS.ErrnoException)
  }
  return path
}

/** A migration to write and apply: the end of its file name, and its SQL. */
export interface NewMigration {
  what: string
  sql: string
  /** Throws when it must not be applied. It runs in the transaction in which the migration is applied. */
  check?: (tx: Queryable) => Promise<void>
}

/**
 * Writes a migration and applies it at once, so that a database rebuilt from the migrations gets the same state.
 * Returns its path. Removes a file that the database refuses, because it would stop every later start. Concurrent calls
 * of all processes take turns, so that the numbers have the order in which the migrations are applied.
 */
export async function writeAndApplyMigration(
  db: pg.Pool,
  config: Folder,
  by: Principal,
  { what, sql, check }: NewMigration,
): Promise<string> {
  let written: string | undefined
  try {
    return await withMigrationLock(db, async (client) => {
      await check?.(client)
      written = await writeMigration(config, what, sql, [...(await listAppliedMigrations(client)).keys()])
      await applyMigration(client, written, by)
      return written
    })
  } catch (error) {
    if (written !== undefined) await rm(written)
    throw error
  }
}
