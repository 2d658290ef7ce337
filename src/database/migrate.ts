import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import pg from 'pg'
import { projectRoot } from '../config.ts'

/** A migration file: `NNNN_what.sql`. */
export interface Migration {
  name: string
  path: string
  sql: string
  checksum: string
}

const fileName = /^\d{4}_[a-z0-9_]+\.sql$/
/** Any number that no other program takes on this database: "svc migrates". */
const advisoryLock = 7_382_001

/** The folder of the built-in schema's migrations. */
export const builtInMigrations = resolve(projectRoot, 'migrations')

/**
 * Applies every migration that this database lacks: the built-in schema's, then the operator's, each folder in
 * the order of the names, each file in a transaction of its own. Processes that start together take turns, so
 * each file runs once. Answers the names that were applied.
 * Throws when an applied file was changed or is missing, and when a file fails: the Error names it.
 */
export async function migrate(pool: pg.Pool, migrationsDir: string): Promise<string[]> {
  const migrations = await readMigrations(migrationsDir)
  // A connection of its own: a migration may take its time, and ending it gives the lock back, whatever a failure left.
  const { options } = pool
  const client = new pg.Client({ ...options, password: options.password, query_timeout: undefined })
  // A connection that breaks fails the statement that runs on it; pg would end the process too.
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [advisoryLock])
    const applied = await listApplied(client)
    refuseChanges(migrations, applied)
    const missing = migrations.filter(({ name }) => !applied.has(name))
    for (const migration of missing) await apply(client, migration)
    return missing.map(({ name }) => name)
  } finally {
    await client.end()
  }
}

/** The names of those migrations that this database lacks. */
export async function pendingMigrations(pool: pg.Pool, migrations: readonly Migration[]): Promise<string[]> {
  const names = migrations.map(({ name }) => name)
  if (!(await isMigrated(pool))) return names
  const { rows } = await pool.query<{ name: string }>('select name from applied_migration')
  return names.filter((name) => !rows.some((row) => row.name === name))
}

/** False for a database that no migration was ever applied to. */
export async function isMigrated(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ exists: boolean }>(
    `select to_regclass('applied_migration') is not null as exists`,
  )
  return rows[0]?.exists === true
}

/** The built-in migrations, then the operator's; in one folder they are simply in the order of their names. */
export async function readMigrations(migrationsDir: string): Promise<Migration[]> {
  const folders = [...new Set([builtInMigrations, resolve(migrationsDir)])]
  const paths = (await Promise.all(folders.map(listFiles))).flat()
  const migrations = await Promise.all(paths.map(readMigration))
  const twice = migrations.find(({ name }, index) => migrations.findIndex((m) => m.name === name) !== index)
  if (twice) throw new Error(`Two migrations are named ${twice.name}: rename the one in ${migrationsDir}.`)
  return migrations
}

async function listFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The migrations in ${folder} cannot be read (${error.code}): check MIGRATIONS_DIR.`)
  })
  const sqlFiles = names.filter((name) => name.endsWith('.sql')).sort()
  const odd = sqlFiles.find((name) => !fileName.test(name))
  if (odd) throw new Error(`The migration ${join(folder, odd)} must be named like 0042_what_it_does.sql.`)
  return sqlFiles.map((name) => join(folder, name))
}

async function readMigration(path: string): Promise<Migration> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The migration ${path} cannot be read (${error.code}).`)
  })
  const checksum = createHash('sha256').update(bytes).digest('hex')
  return { name: basename(path), path, sql: bytes.toString('utf8'), checksum }
}

/** Name → checksum of what this database has. */
async function listApplied(client: pg.Client): Promise<Map<string, string>> {
  await client.query(
    `create table if not exists applied_migration (
       name       text primary key,
       checksum   text not null,
       applied_at timestamptz not null default now()
     )`,
  )
  const { rows } = await client.query<{ name: string; checksum: string }>(
    'select name, checksum from applied_migration order by name',
  )
  return new Map(rows.map((row) => [row.name, row.checksum]))
}

function refuseChanges(migrations: Migration[], applied: Map<string, string>): void {
  const byName = new Map(migrations.map((migration) => [migration.name, migration]))
  for (const [name, checksum] of applied) {
    const migration = byName.get(name)
    if (!migration) {
      throw new Error(
        `The migration ${name} was applied to this database but its file is missing: restore it.`,
      )
    }
    if (migration.checksum !== checksum) {
      throw new Error(
        `The migration ${migration.path} was changed after it was applied: restore it, and put the change into a new file.`,
      )
    }
  }
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  try {
    await client.query('begin')
    await client.query(migration.sql)
    await client.query('insert into applied_migration (name, checksum) values ($1, $2)', [
      migration.name,
      migration.checksum,
    ])
    await client.query('commit')
  } catch (error) {
    throw new Error(`The migration ${migration.path} failed: ${reason(error)}`, { cause: error })
  }
}

function reason(error: unknown): string {
  if (!(error instanceof pg.DatabaseError)) return String(error)
  return error.constraint ? `${error.message} (rule: ${error.constraint})` : error.message
}
