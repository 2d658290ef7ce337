import * as z from 'zod'
import { checksumOf, type SqlFile } from '../database/sql-file.ts'

/*
 * A backup is one tar file. Its entries, in this order:
 *
 *   backup.json                     the manifest: format, database, migrations, and tables with their columns
 *   functions/<name>.sql            SQL functions and views, in the order in which they are created
 *   migrations/<NNNN_what>.sql      the operator's migrations
 *   archives/<sha256>.zip           every archive that the snapshot needs, unless only the database was wanted
 *   tables/<table>/<number>.gz      rows in PostgreSQL's text format, cut into pieces, gzipped
 *   end.json                        the number of rows and archives: a file without it is incomplete
 *
 * Built-in migrations are not part of it: the release that restores the backup has them.
 */

/** The version of this file format. A restore rejects every other version. */
export const backupFormat = 1

const name = z.string().min(1).max(200)
const count = z.number().int().nonnegative()

/** Earlier releases wrote only the name. Then the checksum is null. */
const MissingMigration = z.union([
  z.object({ name, checksum: name }),
  name.transform((given) => ({ name: given, checksum: null })),
])

/** `backup.json` */
export const BackupManifest = z.object({
  format: z.literal(backupFormat),
  id: z.uuid(),
  databaseId: z.uuid(),
  madeAt: z.iso.datetime(),
  /** Built-in migrations, in their order. */
  migrations: z.array(z.object({ name, checksum: name })).max(10_000),
  /** The operator's migrations that the database has, but the backup does not, because their files were missing. */
  missingMigrations: z.array(MissingMigration).max(10_000).default([]),
  /** Whether the backup has the archives that its rows need. Earlier releases always wrote them. */
  hasArchives: z.boolean().default(true),
  tables: z.array(z.object({ name, columns: z.array(name) })).max(10_000),
})
export type BackupManifest = z.output<typeof BackupManifest>

/** `end.json` */
export const BackupEnding = z.object({
  archives: count,
  bytes: count,
  rows: z.record(z.string(), count),
  sequences: z.array(z.object({ name, value: z.string().regex(/^-?\d{1,19}$/), isCalled: z.boolean() })),
  /** Archives that were missing or damaged when the backup was made. */
  problems: z.array(z.object({ sha256: z.string(), problem: z.string() })),
})
export type BackupEnding = z.output<typeof BackupEnding>

/** Parses the name of an entry. Returns null for a name that is not part of the format. */
export function readEntryName(
  path: string,
):
  | { kind: 'manifest' | 'ending' }
  | { kind: 'function' | 'migration' | 'archive' | 'table'; name: string }
  | null {
  if (path === 'backup.json') return { kind: 'manifest' }
  if (path === 'end.json') return { kind: 'ending' }
  for (const { kind, pattern } of patterns) {
    const found = pattern.exec(path)?.[1]
    if (found !== undefined) return { kind, name: found }
  }
  return null
}

const patterns = [
  { kind: 'function', pattern: /^(functions\/[a-z][a-z0-9_]*\.sql)$/ },
  { kind: 'migration', pattern: /^migrations\/(\d{4}_[a-z0-9_]+\.sql)$/ },
  { kind: 'archive', pattern: /^archives\/([0-9a-f]{64})\.zip$/ },
  { kind: 'table', pattern: /^tables\/([^/]{1,200})\/\d+\.gz$/ },
] as const

/** The maximum size of an entry other than an archive. */
const maxEntryBytes = 512 * 1024 * 1024

/** A file in the tar file. */
export interface TarEntry extends AsyncIterable<unknown> {
  header: { name: string; size: number }
  /** Skips what was not read of the entry. */
  resume: () => unknown
}

/** Thrown for a file that is not a backup, is damaged, or is incomplete. */
export class DamagedBackup extends Error {
  constructor(what: string) {
    super(`The file is not a backup of svc, or it is damaged: ${what}.`)
  }
}

/** Reads a migration or a function of a backup. */
export async function readEntrySql(entry: TarEntry, name: string): Promise<SqlFile> {
  const sql = await readEntryText(entry)
  return { name, path: name, sql, checksum: checksumOf(Buffer.from(sql)) }
}

/** Reads an entry as text. */
export async function readEntryText(entry: TarEntry): Promise<string> {
  return (await readEntry(entry)).toString('utf8')
}

/** Reads an entry into memory. Throws DamagedBackup when it is too large. */
export async function readEntry(entry: TarEntry): Promise<Buffer> {
  if (entry.header.size > maxEntryBytes) throw new DamagedBackup(`${entry.header.name} is too large`)
  const chunks: Buffer[] = []
  for await (const chunk of entry as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Parses the JSON of an entry. Throws DamagedBackup when it does not fit the schema. */
export function parseEntry<T>(schema: { parse: (value: unknown) => T }, text: string, path: string): T {
  try {
    return schema.parse(JSON.parse(text))
  } catch {
    throw new DamagedBackup(`${path} cannot be read`)
  }
}
