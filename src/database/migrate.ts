import { readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import pg from 'pg'
import { projectRoot } from '../config.ts'
import { readSqlFile, runSqlFile, type SqlFile } from './sql-file.ts'
import { applyFunctions, isNewText, listFunctionTexts, readFunctions } from './sql-functions.ts'

/** All SQL files, in the order in which they are applied. */
export interface Schema {
  /** Numbered migrations of the built-in schema: tables, data, constraints. */
  builtIn: SqlFile[]
  /** The current definition of each SQL function and view. */
  functions: SqlFile[]
  /** The operator's numbered migrations. */
  operators: SqlFile[]
}

const fileName = /^\d{4}_[a-z0-9_]+\.sql$/
/** An arbitrary number that only `migrate` locks on this database. */
const advisoryLock = 7_382_001

/** The folder of the built-in schema's migrations. */
export const builtInMigrations = resolve(projectRoot, 'migrations')

/**
 * Applies every file that this database lacks and returns their names. The built-in migrations and the changed SQL
 * functions are applied in one transaction, so no process ever sees new tables with old functions. After that, each of
 * the operator's files is applied in its own transaction. Processes that start together take turns.
 * Throws when an applied migration was changed or is missing, and when a file fails: the Error names it.
 */
export async function migrate(
  pool: pg.Pool,
  migrationsDir: string,
  builtInDir = builtInMigrations,
): Promise<string[]> {
  const schema = await readSchema(migrationsDir, builtInDir)
  // Use a separate connection: migrations may run longer than the pool's timeout, and closing the connection always
  // releases the lock.
  const { options } = pool
  const client = new pg.Client({ ...options, password: options.password, query_timeout: undefined })
  // Without a listener, pg would end the process when the connection breaks. The running statement fails anyway.
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [advisoryLock])
    const applied = await listApplied(client)
    refuseChanges([...schema.builtIn, ...schema.operators], applied)
    const isMissing = ({ name }: SqlFile) => !applied.has(name)
    const changed = await changeSchema(client, schema.builtIn.filter(isMissing), schema.functions)
    const missing = schema.operators.filter(isMissing)
    for (const migration of missing) await inTransaction(client, () => apply(client, migration))
    return [...changed, ...missing].map(({ name }) => name)
  } finally {
    await client.end()
  }
}

/** Applies built-in migrations and changed functions in one transaction. Returns what was new to this database. */
async function changeSchema(
  client: pg.Client,
  missing: readonly SqlFile[],
  functions: readonly SqlFile[],
): Promise<SqlFile[]> {
  const texts = await listFunctionTexts(client)
  const changed = functions.filter((file) => isNewText(file, texts))
  if (missing.length === 0 && changed.length === 0) return []
  await inTransaction(client, async () => {
    for (const migration of missing) await apply(client, migration)
    await applyFunctions(client, functions, texts)
  })
  return [...missing, ...changed]
}

/** Returns the names of the files that this database lacks, in the order in which they would be applied. */
export async function pendingMigrations(pool: pg.Pool, schema: Schema): Promise<string[]> {
  const numbered = [...schema.builtIn, ...schema.operators]
  if (!(await isMigrated(pool))) return [...numbered, ...schema.functions].map(({ name }) => name)
  const { rows } = await pool.query<{ name: string }>('select name from applied_migration')
  const applied = new Set(rows.map(({ name }) => name))
  const texts = await listFunctionTexts(pool)
  return [
    ...numbered.filter(({ name }) => !applied.has(name)),
    ...schema.functions.filter((file) => isNewText(file, texts)),
  ].map(({ name }) => name)
}

/** Returns false for a database to which no migration was ever applied. */
export async function isMigrated(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ exists: boolean }>(
    `select to_regclass('applied_migration') is not null as exists`,
  )
  return rows[0]?.exists === true
}

/** Reads all SQL files. Throws when a file or folder cannot be read, is misnamed, or a name appears twice. */
export async function readSchema(migrationsDir: string, builtInDir = builtInMigrations): Promise<Schema> {
  const numbered = await readMigrations(migrationsDir, builtInDir)
  const isBuiltIn = ({ path }: SqlFile) => dirname(path) === builtInDir
  return {
    builtIn: numbered.filter(isBuiltIn),
    functions: await readFunctions(builtInDir),
    operators: numbered.filter((migration) => !isBuiltIn(migration)),
  }
}

/** Reads the numbered migrations: the built-in ones in the order of their names, then the operator's. */
export async function readMigrations(
  migrationsDir: string,
  builtInDir = builtInMigrations,
): Promise<SqlFile[]> {
  const folders = [...new Set([builtInDir, resolve(migrationsDir)])]
  const paths = (await Promise.all(folders.map(listFiles))).flat()
  const migrations = await Promise.all(paths.map((path) => readSqlFile(path, basename(path))))
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

/** Returns name → checksum of the numbered migrations that this database has. */
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

function refuseChanges(migrations: SqlFile[], applied: Map<string, string>): void {
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

async function apply(client: pg.Client, { name, path, sql, checksum }: SqlFile): Promise<void> {
  await runSqlFile(client, { path, sql })
  await client.query('insert into applied_migration (name, checksum) values ($1, $2)', [name, checksum])
}

/** A failure ends the connection, and so rolls back. */
async function inTransaction(client: pg.Client, work: () => Promise<void>): Promise<void> {
  await client.query('begin')
  await work()
  await client.query('commit')
}
