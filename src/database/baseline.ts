import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { readChecksums, readSqlFile, runSqlFiles, type SqlFile } from './sql-file.ts'
import { objectName } from './sql-functions.ts'

/**
 * The schema with which a new database begins: tables, constraints and first rows, by area. It is what the first numbered
 * migrations made, one after another, and stands in place of their files.
 */
export interface Baseline {
  /** In the order in which they are applied. */
  files: SqlFile[]
  /** name → checksum of the migrations that the files replace. A database that has them goes on from there. */
  replaced: ReadonlyMap<string, string>
}

/** A commit that still has the replaced migrations. It upgrades every older database and restores every older backup. */
export const bridgeCommit = '439bc776790ff1bb5dd26309d70f4f58db04379a'

/** Functions that constraints of the baseline call. They use no table, so they come before its files. */
const checks = new Set(['are_scopes', 'image_type', 'is_plain_text'])

/**
 * Reads the baseline of a folder of built-in migrations. Without the folder `baseline`, nothing is replaced. Throws when a
 * file cannot be read.
 */
export async function readBaseline(builtInDir: string): Promise<Baseline> {
  const folder = join(builtInDir, 'baseline')
  const names = await readdir(folder).catch((): string[] => [])
  if (names.length === 0) return { files: [], replaced: new Map() }
  const sqlFiles = names.filter((name) => name.endsWith('.sql')).sort()
  const files = await Promise.all(sqlFiles.map((name) => readSqlFile(join(folder, name), `baseline/${name}`)))
  return { files, replaced: await readChecksums(join(folder, 'replaced.sha256')) }
}

/** Runs the files of the baseline in the caller's transaction. */
export async function runBaseline(
  client: pg.Client,
  { files }: Baseline,
  functions: readonly SqlFile[],
): Promise<void> {
  if (files.length === 0) return
  await runSqlFiles(client, [...functions.filter((file) => checks.has(objectName(file))), ...files])
}

/** Throws when a database lacks a replaced migration. `applied` has the names of its migrations. */
export function refuseOlderDatabase({ replaced }: Baseline, applied: ReadonlyMap<string, string>): void {
  const lacking = findLacking(replaced, applied)
  if (lacking === undefined) return
  throw new Error(
    `This database was made by an older release: it lacks the migration ${lacking}. Start svc of the commit ${bridgeCommit} once with it, and then this release.`,
  )
}

/** Throws when the database of a backup lacked a replaced migration. `applied` has the names of its migrations. */
export function refuseOlderBackup({ replaced }: Baseline, applied: ReadonlyMap<string, string>): void {
  const lacking = findLacking(replaced, applied)
  if (lacking === undefined) return
  throw new Error(
    `The backup was made by an older release: it lacks the migration ${lacking}. Restore it with svc of the commit ${bridgeCommit}, and then start this release with that database.`,
  )
}

function findLacking(
  replaced: Baseline['replaced'],
  applied: ReadonlyMap<string, string>,
): string | undefined {
  return [...replaced.keys()].find((name) => !applied.has(name))
}
