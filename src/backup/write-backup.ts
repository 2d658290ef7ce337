import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type pg from 'pg'
import { type Pack, pack } from 'tar-stream'
import type { ArchiveStore } from '../archives/archive-store.ts'
import { openOwnStore } from '../archives/store-owner.ts'
import { listArchivesAfter } from '../archives/tables/archives.ts'
import type { Config } from '../config.ts'
import { withOwnConnection } from '../database/database.ts'
import { findDatabaseId } from '../database/installation.ts'
import {
  firstOperatorNumber,
  listAppliedMigrations,
  numberOf,
  pendingMigrations,
  readSchema,
  type Schema,
} from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { listFunctionTexts } from '../database/sql-functions.ts'
import { type CopiedTable, copyOut, listSequences, openSnapshot } from '../database/table-copy.ts'
import { type BackupEnding, type BackupManifest, backupFormat } from './backup-file.ts'

/** Rows are gzipped in pieces of about this size, because the size of a tar entry comes before its content. */
const pieceBytes = 8 * 1024 * 1024
/** Compared with gzip's default, this level takes a tenth of the time and makes a fifth more bytes. */
const gzipLevel = 1

const compress = promisify(gzip)

/** What was written, and the operator's migrations that are not in the backup because their files are missing. */
export type WrittenBackup = BackupEnding & { missingMigrations: string[] }

/**
 * Writes a snapshot of database and archives as one tar file, while servers run. `end.json` names missing and damaged
 * archives. With `isDatabaseOnly` it leaves the archives out. Throws when the database does not have the schema of this
 * release.
 */
export async function writeBackup(
  db: pg.Pool,
  config: Config,
  output: Writable,
  { isDatabaseOnly = false }: { isDatabaseOnly?: boolean } = {},
): Promise<WrittenBackup> {
  const schema = await readSchema(await findMigrationsDir(config))
  const missingMigrations = await refuseOtherSchema(db, schema)
  const archives = await openOwnStore(db, config)
  return withOwnConnection(db, async (client) => {
    const tables = await openSnapshot(client)
    const source = { client, schema, missingMigrations, archives: isDatabaseOnly ? null : archives, tables }
    const tar = pack()
    const written = pipeline(tar, output)
    // When the disk is full, stop the work at once and throw only one error.
    const failed = written.then(() => new Promise<never>(() => {}))
    failed.catch(() => {})
    try {
      const ending = await Promise.race([writeEntries(tar, source), failed])
      tar.finalize()
      await written
      return { ...ending, missingMigrations: missingMigrations.map(({ name }) => name) }
    } catch (error) {
      tar.destroy()
      throw error
    }
  })
}

/** Throws when the database has another schema. Returns the operator's applied migrations whose file is missing. */
async function refuseOtherSchema(db: pg.Pool, schema: Schema): Promise<BackupManifest['missingMigrations']> {
  const pending = await pendingMigrations(db, schema)
  if (pending.length > 0)
    throw new Error(`The database lacks migrations (${pending.join(', ')}): run svc migrate.`)
  // An operator may have given a file a number of the built-in schema.
  const known = new Set([...listBuiltIn(schema), ...schema.operators].map(({ name }) => name))
  const applied = Array.from(await listAppliedMigrations(db), ([name, checksum]) => ({ name, checksum }))
  const unknown = applied.filter(({ name }) => !known.has(name))
  const texts = await listFunctionTexts(db)
  const newer = [
    ...unknown.filter(({ name }) => numberOf(name) < firstOperatorNumber),
    ...schema.functions.filter(({ name, checksum }) => texts.get(name)?.at(-1) !== checksum),
  ].map(({ name }) => name)
  if (newer.length === 0) return unknown
  throw new Error(`The database was migrated by a newer release (${newer.join(', ')}): use its svc backup.`)
}

/** Lists the built-in migrations of a migrated database: those that the baseline replaces, and the later ones. */
function listBuiltIn({ baseline, builtIn }: Schema): BackupManifest['migrations'] {
  const replaced = Array.from(baseline.replaced, ([name, checksum]) => ({ name, checksum }))
  return [...replaced, ...builtIn.map(({ name, checksum }) => ({ name, checksum }))]
}

interface Source {
  client: pg.Client
  schema: Schema
  missingMigrations: BackupManifest['missingMigrations']
  /** Null when the backup is to have no archives. */
  archives: ArchiveStore | null
  tables: CopiedTable[]
}

async function writeEntries(tar: Pack, source: Source): Promise<BackupEnding> {
  const { client, schema, missingMigrations, tables } = source
  const manifest: BackupManifest = {
    format: backupFormat,
    id: randomUUID(),
    databaseId: await findDatabaseId(client),
    madeAt: new Date().toISOString(),
    migrations: listBuiltIn(schema),
    missingMigrations,
    hasArchives: source.archives !== null,
    tables,
  }
  await writeJson(tar, 'backup.json', manifest)
  for (const { name, sql } of schema.functions) await writeEntry(tar, name, Buffer.from(sql))
  for (const { name, sql } of schema.operators) await writeEntry(tar, `migrations/${name}`, Buffer.from(sql))
  const archives = await writeArchives(tar, source)
  const rows: Record<string, number> = {}
  for (const table of tables) rows[table.name] = await writeRows(tar, client, table)
  const ending = { ...archives, rows, sequences: await listSequences(client) }
  await writeJson(tar, 'end.json', ending)
  return ending
}

async function writeArchives(tar: Pack, { client, archives }: Source) {
  const written: Pick<BackupEnding, 'archives' | 'bytes' | 'problems'> = {
    archives: 0,
    bytes: 0,
    problems: [],
  }
  if (archives === null) return written
  for (let last: string | undefined = ''; last !== undefined; ) {
    const batch = await listArchivesAfter(client, last)
    for (const { sha256 } of batch) {
      const archive = await archives.read(sha256)
      if (!archive) {
        written.problems.push({ sha256, problem: 'missing' })
        continue
      }
      const hash = createHash('sha256')
      archive.bytes.on('data', (chunk) => hash.update(chunk))
      await streamEntry(tar, { name: `archives/${sha256}.zip`, size: archive.size }, archive.bytes)
      written.archives += 1
      written.bytes += archive.size
      if (hash.digest('hex') !== sha256) written.problems.push({ sha256, problem: 'damaged' })
    }
    last = batch.at(-1)?.sha256
  }
  return written
}

/** Returns the number of rows. */
async function writeRows(tar: Pack, client: pg.Client, table: CopiedTable): Promise<number> {
  const rows = copyOut(client, table)
  let piece: Buffer[] = []
  let size = 0
  let pieces = 0
  const writePiece = async () => {
    pieces += 1
    const content = await compress(Buffer.concat(piece), { level: gzipLevel })
    await writeEntry(tar, `tables/${table.name}/${pieces}.gz`, content)
    piece = []
    size = 0
  }
  for await (const chunk of rows as AsyncIterable<Buffer>) {
    piece.push(chunk)
    size += chunk.length
    if (size >= pieceBytes) await writePiece()
  }
  if (size > 0) await writePiece()
  return rows.rowCount
}

async function writeJson(tar: Pack, name: string, content: object): Promise<void> {
  await writeEntry(tar, name, Buffer.from(JSON.stringify(content, null, 1)))
}

async function writeEntry(tar: Pack, name: string, content: Buffer): Promise<void> {
  const entry = tar.entry({ name, size: content.length, mode: 0o600 })
  const ended = once(entry, 'finish')
  entry.end(content)
  await ended
}

async function streamEntry(
  tar: Pack,
  header: { name: string; size: number },
  content: Readable,
): Promise<void> {
  const entry = tar.entry({ ...header, mode: 0o600 })
  await pipeline(content, entry)
}
