import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { refuseOlderBackup } from '../database/baseline.ts'
import type { Schema } from '../database/migrate.ts'
import { writeNewFile } from '../database/new-file.ts'
import { isTextOf, type SqlFile } from '../database/sql-file.ts'
import type { CopiedTable } from '../database/table-copy.ts'
import type { BackupManifest } from './backup-file.ts'

/**
 * Returns the built-in migrations of the backup's database after the baseline. Throws when the database was older than the
 * baseline, or when this release lacks one of its migrations.
 */
export function selectMigrations({ migrations }: BackupManifest, { baseline, builtIn }: Schema): SqlFile[] {
  refuseOlderBackup(baseline, new Map(migrations.map(({ name, checksum }) => [name, checksum])))
  const byName = new Map(builtIn.map((migration) => [migration.name, migration]))
  const later = migrations.filter(({ name, checksum }) => baseline.replaced.get(name) !== checksum)
  return later.map(({ name, checksum }) => {
    const migration = byName.get(name)
    if (migration && isTextOf(migration, checksum)) return migration
    throw new Error(
      `The backup was made by a newer release, which has the migration ${name}: restore it with that release.`,
    )
  })
}

/**
 * Throws when a file of this installation has the name of a migration that the backup lacks, but another text. After the
 * restore, no start would accept it.
 */
export function refuseOtherMigrations({ missingMigrations }: BackupManifest, { operators }: Schema): void {
  const checksums = new Map(missingMigrations.map(({ name, checksum }) => [name, checksum]))
  for (const { name, path, checksum } of operators) {
    if ((checksums.get(name) ?? checksum) === checksum) continue
    throw new Error(
      `The migration ${path} differs from the one that the backup's database has: put the original file there, or move it away.`,
    )
  }
}

/** Adds the operator's migrations that the backup lacks, if this installation has their files. */
export function withGivenMigrations(
  backup: Schema,
  { missingMigrations }: BackupManifest,
  ours: Schema,
): Schema {
  const wanted = new Set(missingMigrations.map(({ name }) => name))
  const given = ours.operators.filter(({ name }) => wanted.has(name))
  const operators = [...backup.operators, ...given].sort((one, other) => (one.name < other.name ? -1 : 1))
  return { ...backup, operators }
}

/** Throws when the schema that was made for a restore lacks a table of the backup, or one of its columns. */
export function refuseMissing(
  { name, columns }: CopiedTable,
  made: readonly CopiedTable[],
  { missingMigrations }: BackupManifest,
): void {
  const found = made.find((table) => table.name === name)
  const missing = columns.filter((column) => !found?.columns.includes(column))
  if (missing.length === 0) return
  const help =
    missingMigrations.length === 0
      ? "one of the operator's migrations fails in an empty database"
      : `the backup does not contain the migrations ${missingMigrations.map((migration) => migration.name).join(', ')}. Put them into MIGRATIONS_DIR, and run svc restore again`
  throw new Error(
    `The schema lacks ${found ? `the columns ${missing.join(', ')} of ` : ''}the table ${name}: ${help}.`,
  )
}

/**
 * Returns the operator's migrations of the backup that this installation lacks. Throws when a file with the same name has
 * another text, or when the folder is read-only. It is called before hours of work, because the files are written last.
 */
export async function findMissingMigrations(
  config: Config,
  files: readonly SqlFile[],
  ours: Schema,
): Promise<SqlFile[]> {
  const byName = new Map(ours.operators.map((migration) => [migration.name, migration]))
  for (const { name, checksum } of files) {
    const there = byName.get(name)
    if (there && there.checksum !== checksum) {
      throw new Error(`The migration ${there.path} differs from the one in the backup: move it away.`)
    }
  }
  const missing = files.filter(({ name }) => !byName.has(name))
  if (missing.length === 0) return []
  try {
    await mkdir(config.migrationsDir, { recursive: true })
    // Root may write to every folder, so only a file shows whether it is read-only.
    const probe = join(config.migrationsDir, `${randomUUID()}.partial`)
    await writeNewFile(probe, '')
    await rm(probe)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(
      `The backup contains migrations (${missing.map(({ name }) => name).join(', ')}), but ${config.migrationsDir} is not writable (${code}): make it writable, or copy them there first.`,
    )
  }
  return missing
}
