import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import pg from 'pg'
import { together } from './database.ts'

/** A file of SQL: a numbered migration (`NNNN_what.sql`), or one SQL function or view (`functions/what.sql`). */
export interface SqlFile {
  name: string
  path: string
  sql: string
  checksum: string
  /** The checksum that a migration had before it was amended, with which a database may have applied it. */
  formerChecksum?: string | undefined
}

/** Reads one file. Throws an Error with the file's path when it cannot be read. */
export async function readSqlFile(path: string, name: string): Promise<SqlFile> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The migration ${path} cannot be read (${error.code}).`)
  })
  return { name, path, sql: bytes.toString('utf8'), checksum: checksumOf(bytes) }
}

/** Returns whether a checksum is that of the file's text, or of the text before it was amended. */
export function isTextOf(file: SqlFile, checksum: string | undefined): boolean {
  return checksum !== undefined && (checksum === file.checksum || checksum === file.formerChecksum)
}

/** Reads a list that sha256sum has written: name → checksum. Throws when it cannot be read. */
export async function readChecksums(path: string): Promise<Map<string, string>> {
  const list = await readFile(path, 'utf8')
  return new Map(
    Array.from(list.matchAll(/^([0-9a-f]{64}) {2}(\S+)$/gm), ([, checksum = '', name = '']) => [
      name,
      checksum,
    ]),
  )
}

/** Returns the checksum by which an applied file is recognized: SHA-256 in lower-case hex. */
export function checksumOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Runs one file. On a failure it throws an Error with the file's path and the broken rule. */
export async function runSqlFile(
  client: pg.Client,
  { path, sql }: Pick<SqlFile, 'path' | 'sql'>,
): Promise<void> {
  try {
    await client.query(sql)
  } catch (error) {
    throw new Error(`The migration ${path} failed: ${reason(error)}`, { cause: error })
  }
}

/**
 * Runs files one after another in the caller's transaction. If the connection sends statements without waiting, PostgreSQL
 * gets them all at once, and works on them while this process does other things. Throws as `runSqlFile` does.
 */
export async function runSqlFiles(
  client: pg.Client,
  files: readonly Pick<SqlFile, 'path' | 'sql'>[],
): Promise<void> {
  if (client.pipeline) await together(files.map((file) => runSqlFile(client, file)))
  else for (const file of files) await runSqlFile(client, file)
}

function reason(error: unknown): string {
  if (!(error instanceof pg.DatabaseError)) return String(error)
  return error.constraint ? `${error.message} (rule: ${error.constraint})` : error.message
}
