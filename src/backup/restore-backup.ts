import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type pg from 'pg'
import { extract } from 'tar-stream'
import type { ArchiveStore } from '../archives/archive-store.ts'
import { discardArchive, receiveArchive } from '../archives/local-store.ts'
import { settleRestoredClaim } from '../archives/store-claim.ts'
import { claimStore, openArchiveStore, openOwnStore } from '../archives/store-owner.ts'
import { type Verification, verifyArchives } from '../archives/verify-archives.ts'
import type { Config } from '../config.ts'
import {
  buildSchema,
  builtInMigrations,
  migrate,
  readSchema,
  type Schema,
  withMigrationLock,
} from '../database/migrate.ts'
import { writeNewFile } from '../database/new-file.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import type { SqlFile } from '../database/sql-file.ts'
import {
  analyzeTables,
  copyIn,
  isEmptyDatabase,
  listTables,
  prepareLoad,
  setSequences,
} from '../database/table-copy.ts'
import {
  BackupEnding,
  BackupManifest,
  DamagedBackup,
  parseEntry,
  readEntry,
  readEntryName,
  readEntrySql,
  readEntryText,
  type TarEntry,
} from './backup-file.ts'
import {
  findMissingMigrations,
  refuseMissing,
  refuseOtherMigrations,
  selectMigrations,
  withGivenMigrations,
} from './restore-schema.ts'

const maxPieceBytes = 1024 * 1024 * 1024

const decompress = promisify(gunzip)

/** Options of a restore. */
export interface RestoreOptions {
  builtInDir?: string
  /** Allow a store with archives that the backup does not contain. */
  isForced?: boolean
}

/** What was restored. `isClaimed`: the database has the claim on its archive store. */
export interface Restored {
  ending: BackupEnding
  isClaimed: boolean
  verification: Verification
}

/**
 * Restores a backup into an empty database and an empty archive store, brings the schema up to this release, and
 * verifies all archives. The database is filled in one transaction, so an interrupted restore leaves it empty, and can be
 * repeated. Throws when the restored data differs from the backup.
 */
export async function restoreBackup(
  db: pg.Pool,
  config: Config,
  input: Readable,
  { builtInDir = builtInMigrations, isForced = false }: RestoreOptions = {},
): Promise<Restored> {
  const { ending, isUsed } = await withMigrationLock(db, async (client) => {
    if (!(await isEmptyDatabase(client))) {
      throw new Error(
        'The database is not empty. Restore into a new one; without DATABASE_URL, into an empty DATA_DIR.',
      )
    }
    // The folder may be missing here, because the backup contains its files.
    if (config.isMigrationsDirGiven) await mkdir(config.migrationsDir, { recursive: true })
    const ours = await readSchema(await findMigrationsDir(config), builtInDir)
    const tar = extract()
    // Start to read before the first byte is written: an entry that no reader waits for is lost.
    const taken = takeEntries(tar, { client, config, ours, isForced })
    let damage: Error | null = null
    tar.on('error', (error: Error) => {
      damage = error
    })
    const read = pipeline(input, tar)
    try {
      return await Promise.race([taken, read.then(() => never)])
    } catch (error) {
      throw damage === null ? error : new DamagedBackup((damage as Error).message)
    }
  })
  await migrate(db, await findMigrationsDir(config), builtInDir)
  await analyzeTables(db)
  const store = await openOwnStore(db, config)
  const isClaimed = await settleRestoredClaim(db, store, { isUsed })
  return { ending, isClaimed, verification: await verifyArchives(db, store) }
}

const never = new Promise<never>(() => {})

async function takeEntries(
  tar: AsyncIterable<TarEntry>,
  { client, config, ours, isForced }: { client: pg.Client; config: Config; ours: Schema; isForced: boolean },
): Promise<{ ending: BackupEnding; isUsed: boolean }> {
  let source: { manifest: BackupManifest; store: ArchiveStore } | null = null
  const backup: Schema = { baseline: ours.baseline, builtIn: [], functions: [], operators: [] }
  const archives = { count: 0, names: new Set<string>(), damaged: new Set<string>() }
  let missing: SqlFile[] | null = null
  let load: Load | null = null
  let ending: BackupEnding | null = null

  for await (const entry of tar) {
    const path = entry.header.name
    const found = readEntryName(path)
    if (!found || ending) throw new DamagedBackup(`${path} does not belong there`)
    if (found.kind === 'manifest') {
      const manifest = parseEntry(BackupManifest, await readEntryText(entry), path)
      backup.builtIn = selectMigrations(manifest, ours)
      refuseOtherMigrations(manifest, ours)
      source = { manifest, store: await openArchiveStore(config) }
      await claimStore(source.store, manifest.databaseId)
      continue
    }
    if (!source) throw new DamagedBackup('it does not begin with backup.json')
    if (found.kind === 'function') backup.functions.push(await readEntrySql(entry, found.name))
    if (found.kind === 'migration') backup.operators.push(await readEntrySql(entry, found.name))
    if (found.kind === 'archive' || found.kind === 'table') {
      // Before the hours that the archives can take: it throws when a migration is missing.
      missing ??= await findMissingMigrations(config, backup.operators, ours)
      load ??= await beginLoad(client, source.manifest, withGivenMigrations(backup, source.manifest, ours))
      if (found.kind === 'archive') {
        archives.count += 1
        archives.names.add(found.name)
        if (!(await takeArchive(source.store, entry, found.name))) archives.damaged.add(found.name)
      } else {
        const rows = await decompress(await readEntry(entry), { maxOutputLength: maxPieceBytes })
        await load.write(found.name, rows)
      }
    }
    if (found.kind === 'ending') ending = parseEntry(BackupEnding, await readEntryText(entry), path)
  }

  if (!source || !ending || !load) throw new DamagedBackup('its end is missing')
  checkArchives(archives, ending)
  const isUsed = await hasOtherArchives(source.store, archives.names)
  // A backup without archives is restored beside the ones that it needs. Its database has no claim on them yet.
  if (isUsed && !isForced && source.manifest.hasArchives) throw usedStore(source.store)
  await load.end(ending)
  for (const { name, sql } of missing ?? []) await writeNewFile(join(config.migrationsDir, name), sql)
  return { ending, isUsed }
}

/** Stores an archive. Returns false, and stores nothing, when its bytes do not match its name. */
async function takeArchive(store: ArchiveStore, entry: TarEntry, sha256: string): Promise<boolean> {
  const received = await receiveArchive(store, Readable.from(entry), { maxBytes: entry.header.size })
  try {
    if (received.sha256 !== sha256) return false
    await store.keep(received)
    return true
  } finally {
    // A bucket leaves the received file where it is.
    await discardArchive(received)
  }
}

function checkArchives(
  found: { count: number; damaged: ReadonlySet<string> },
  { archives, problems }: BackupEnding,
) {
  if (found.count !== archives) throw new DamagedBackup(`it has ${found.count} of ${archives} archives`)
  const known = new Set(problems.map(({ sha256 }) => sha256))
  for (const sha256 of found.damaged) {
    if (!known.has(sha256)) throw new DamagedBackup(`the archive ${sha256} has other bytes`)
  }
}

/**
 * Returns whether the store has an archive that the backup does not contain. Then it is the store of the original
 * installation, which may still run.
 */
async function hasOtherArchives(store: ArchiveStore, names: ReadonlySet<string>): Promise<boolean> {
  for await (const { sha256 } of store.list()) {
    if (!names.has(sha256)) return true
  }
  return false
}

function usedStore({ place }: ArchiveStore): Error {
  return new Error(
    `${place} contains archives that are not in the backup. Use an empty archive store, because two databases must not share one. If no other database uses it, run svc restore --force.`,
  )
}

interface Load {
  write: (table: string, rows: Buffer) => Promise<void>
  end: (ending: BackupEnding) => Promise<void>
}

/** Creates the schema of the backup and loads its rows, one table after another. */
async function beginLoad(client: pg.Client, manifest: BackupManifest, backup: Schema): Promise<Load> {
  await buildSchema(client, backup)
  const made = await listTables(client)
  for (const table of manifest.tables) refuseMissing(table, made, manifest)
  const finishLoad = await prepareLoad(client, made)
  const tables = new Map(manifest.tables.map((table) => [table.name, table]))
  const rowCounts = new Map<string, number>()
  let current: { name: string; stream: Writable & { rowCount: number } } | null = null

  async function endTable(): Promise<void> {
    if (!current) return
    const { name, stream } = current
    current = null
    const finished = once(stream, 'finish')
    stream.end()
    await finished
    rowCounts.set(name, (rowCounts.get(name) ?? 0) + stream.rowCount)
  }

  return {
    async write(name, rows) {
      if (current?.name !== name) {
        await endTable()
        const table = tables.get(name)
        if (!table) throw new DamagedBackup(`the table ${name} does not belong there`)
        current = { name, stream: copyIn(client, table) }
        // `write` and `once` below report errors. Without this listener, an error between them would end the process.
        current.stream.on('error', () => {})
      }
      const { stream } = current
      await new Promise<void>((resolve, reject) => {
        stream.write(rows, (error) => (error ? reject(error) : resolve()))
      })
    },
    async end({ rows, sequences }) {
      await endTable()
      for (const { name } of manifest.tables) {
        const [loaded, expected] = [rowCounts.get(name) ?? 0, rows[name] ?? 0]
        if (loaded !== expected) {
          throw new DamagedBackup(`the table ${name} has ${loaded} of ${expected} rows`)
        }
      }
      await finishLoad()
      await setSequences(client, sequences)
    },
  }
}
