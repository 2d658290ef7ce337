import { readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { projectRoot } from '../config.ts'
import { type Actor, advisoryLocks, type Queryable, setActor, withOwnConnection } from './database.ts'
import { readSqlFile, runSqlFile, type SqlFile } from './sql-file.ts'
import { applyFunctions, isNewText, listFunctionTexts, readFunctions } from './sql-functions.ts'
import { withoutTimeouts } from './table-copy.ts'

/** All SQL files, in the order in which they are applied. */
export interface Schema {
  /** Numbered migrations of the built-in schema: tables, data, constraints. */
  builtIn: SqlFile[]
  /** The current definition of each SQL function and view. */
  functions: SqlFile[]
  /** The operator's numbered migrations, from MIGRATIONS_DIR and from the project's `migrations/`. */
  operators: SqlFile[]
}

const fileName = /^\d{4}_[a-z0-9_]+\.sql$/
/**
 * The smallest number of a migration that svc writes for an operator. Built-in migrations of all releases stay below
 * it. So the two never have the same name, and the operator's migrations always come later.
 */
export const firstOperatorNumber = 1000

/**
 * How long a migration waits for a lock, while later statements wait behind it. Then it lets them pass. Longer than
 * PostgreSQL's `deadlock_timeout` (1 s): only after that time does PostgreSQL cancel an autovacuum that holds the lock.
 */
const lockMilliseconds = 2500
/** The longest pause before it tries again. */
const maxPauseMilliseconds = 10_000

/** What happens while migrations are applied. */
export interface MigrateReport {
  /** Receives the names of applied migrations whose file is missing. */
  missing?: (names: string[]) => void
  /** Called once when a migration waits for a lock. */
  waiting?: () => void
}

/** The folder of the built-in schema's migrations. */
export const builtInMigrations = resolve(projectRoot, 'migrations')

/**
 * Applies every file that this database lacks and returns their names. The built-in migrations and the changed SQL
 * functions are applied in one transaction, so no process ever sees new tables with old functions. After that, each of
 * the operator's files is applied in its own transaction. Processes that start together take turns. `migrationsDir` is
 * null when there is no such folder. Files may be missing: an older release may run beside a newer one, or the operator
 * may keep a file elsewhere.
 * A backup holds a weak lock on every table for as long as it runs. So a migration waits only a moment for a lock, and
 * starts again later: in between, other statements run.
 * Throws when an applied migration was changed. Throws an Error that names the file when a file fails.
 */
export async function migrate(
  pool: pg.Pool,
  migrationsDir: string | null,
  builtInDir = builtInMigrations,
  { missing: reportMissing = () => {}, waiting = () => {} }: MigrateReport = {},
): Promise<string[]> {
  const schema = await readSchema(migrationsDir, builtInDir)
  const migrations = [...schema.builtIn, ...schema.operators]
  let isReported = false
  return withOwnConnection(pool, async (client) => {
    const { done, seeds } = await withPatience(client, waiting, async () => {
      const applied = await listApplied(client)
      for (const migration of migrations) refuseChange(migration, applied)
      const known = new Set(migrations.map(({ name }) => name))
      const missing = [...applied.keys()].filter((name) => !known.has(name))
      if (missing.length > 0 && !isReported) reportMissing(missing)
      isReported = true
      const isNew = ({ name }: SqlFile) => !applied.has(name)
      const changed = await changeSchema(client, schema.builtIn.filter(isNew), schema.functions)
      return { done: changed, seeds: schema.operators.filter(isNew) }
    })
    for (const seed of seeds) {
      // Another process may have applied the file already, so take the lock again for each file.
      if (await withPatience(client, waiting, () => applyIfMissing(client, seed))) done.push(seed)
    }
    return done.map(({ name }) => name)
  })
}

/**
 * Applies one of the operator's migrations now, even when others are pending. Does nothing when it is applied already.
 * Its identity events name the actor. Call it in `withMigrationLock`.
 */
export async function applyMigration(client: pg.Client, path: string, actor: Actor): Promise<void> {
  await client.query(setActor(actor))
  await applyIfMissing(client, await readSqlFile(path, basename(path)))
}

/**
 * Runs work in one transaction on a separate connection, while no other process migrates or restores this database.
 * There is no timeout. Commits when the work returns, and rolls back when it throws.
 */
export async function withMigrationLock<T>(
  pool: pg.Pool,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  return withOwnConnection(pool, (client) => inLockedTransaction(client, () => work(client)))
}

/** Runs work in a transaction with the lock. On a failure the caller closes the connection, which rolls back. */
async function inLockedTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  // A pooler may lend a connection on which svc has set limits before, so remove them.
  await withoutTimeouts(client)
  // A session's lock would stay on a connection that a pooler lends to others.
  await client.query('select pg_advisory_xact_lock($1)', [advisoryLocks.migrations])
  const result = await work()
  await client.query('commit')
  return result
}

/** Runs work as `inLockedTransaction` does, and again as long as it waits too long for a lock. */
async function withPatience<T>(client: pg.Client, onWait: () => void, work: () => Promise<T>): Promise<T> {
  for (let pause = lockMilliseconds; ; pause = Math.min(pause * 2, maxPauseMilliseconds)) {
    try {
      return await inLockedTransaction(client, async () => {
        await client.query(`set local lock_timeout = ${lockMilliseconds}`)
        return work()
      })
    } catch (error) {
      if (!isLockTimeout(error)) throw error
      await client.query('rollback')
      if (pause === lockMilliseconds) onWait()
      await sleep(pause)
    }
  }
}

/** Returns whether an error, or its cause, is PostgreSQL's `lock_not_available`. */
function isLockTimeout(error: unknown): boolean {
  const thrown = error instanceof Error && error.cause !== undefined ? error.cause : error
  return thrown instanceof pg.DatabaseError && thrown.code === '55P03'
}

/**
 * Creates the schema of a backup inside the caller's transaction: the built-in migrations, the functions of the backup,
 * and the operator's migrations. A failing migration of the operator is skipped, because it may need rows that do not
 * exist yet. The rows of the backup replace all rows later.
 */
export async function buildSchema(
  client: pg.Client,
  { builtIn, functions, operators }: Schema,
): Promise<void> {
  await listApplied(client)
  for (const migration of builtIn) await runSqlFile(client, migration)
  await applyFunctions(client, functions, new Map())
  for (const migration of operators) {
    await client.query('savepoint operator_migration')
    try {
      await runSqlFile(client, migration)
    } catch {
      await client.query('rollback to savepoint operator_migration')
    }
  }
}

/** Applies built-in migrations and changed functions. Returns the files that were new to this database. */
async function changeSchema(
  client: pg.Client,
  missing: readonly SqlFile[],
  functions: readonly SqlFile[],
): Promise<SqlFile[]> {
  const texts = await listFunctionTexts(client)
  const changed = functions.filter((file) => isNewText(file, texts))
  if (missing.length === 0 && changed.length === 0) return []
  for (const migration of missing) await apply(client, migration)
  await applyFunctions(client, functions, texts)
  return [...missing, ...changed]
}

/** Returns the names of the files that this database lacks, in the order in which they would be applied. */
export async function pendingMigrations(pool: pg.Pool, schema: Schema): Promise<string[]> {
  const numbered = [...schema.builtIn, ...schema.operators]
  if (!(await isMigrated(pool))) return [...numbered, ...schema.functions].map(({ name }) => name)
  const applied = await listAppliedMigrations(pool)
  const texts = await listFunctionTexts(pool)
  return [
    ...numbered.filter(({ name }) => !applied.has(name)),
    ...schema.functions.filter((file) => isNewText(file, texts)),
  ].map(({ name }) => name)
}

/** Returns name → checksum of the applied migrations. Empty for an empty database. */
export async function listAppliedMigrations(db: Queryable): Promise<Map<string, string>> {
  return (await isMigrated(db)) ? readApplied(db) : new Map()
}

/** Returns whether any migration was applied to this database. */
export async function isMigrated(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ exists: boolean }>(
    `select to_regclass('applied_migration') is not null as exists`,
  )
  return rows[0]?.exists === true
}

/**
 * Reads all SQL files. Throws when a file or folder cannot be read, when a file has a wrong name, or when a name
 * appears twice.
 */
export async function readSchema(
  migrationsDir: string | null,
  builtInDir = builtInMigrations,
): Promise<Schema> {
  const folders = new Set([builtInDir, ...(migrationsDir === null ? [] : [resolve(migrationsDir)])])
  const paths = (await Promise.all([...folders].map(listFiles))).flat()
  const migrations = await Promise.all(paths.map((path) => readSqlFile(path, basename(path))))
  const twice = migrations.find(({ name }, index) => migrations.findIndex((m) => m.name === name) !== index)
  if (twice) throw new Error(`Two migrations are named ${twice.name}: rename the one in ${migrationsDir}.`)
  const [builtIn, operators] = [migrations.filter(isBuiltIn), migrations.filter((one) => !isBuiltIn(one))]
  // The operator's files may be in both folders. Sort them together.
  operators.sort((one, other) => (one.name < other.name ? -1 : 1))
  return { builtIn, operators, functions: await readFunctions(builtInDir) }

  function isBuiltIn({ path, name }: SqlFile): boolean {
    return dirname(path) === builtInDir && numberOf(name) < firstOperatorNumber
  }
}

/** Returns the number at the start of a migration's name. */
export function numberOf(name: string): number {
  return Number(name.slice(0, 4))
}

async function listFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The migrations in ${folder} cannot be read (${error.code}): check MIGRATIONS_DIR.`)
  })
  const sqlFiles = names.filter((name) => name.endsWith('.sql')).sort()
  const odd = sqlFiles.find((name) => !fileName.test(name))
  if (odd) throw new Error(`The migration ${join(folder, odd)} must be named like 1042_what_it_does.sql.`)
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
  return readApplied(client)
}

async function readApplied(db: Queryable): Promise<Map<string, string>> {
  const { rows } = await db.query<{ name: string; checksum: string }>(
    'select name, checksum from applied_migration order by name',
  )
  return new Map(rows.map((row) => [row.name, row.checksum]))
}

function refuseChange({ name, path, checksum }: SqlFile, applied: Map<string, string>): void {
  if (!applied.has(name) || applied.get(name) === checksum) return
  throw new Error(
    `The migration ${path} was changed after it was applied: restore it, and put the change into a new file.`,
  )
}

async function apply(client: pg.Client, { name, path, sql, checksum }: SqlFile): Promise<void> {
  await runSqlFile(client, { path, sql })
  await client.query('insert into applied_migration (name, checksum) values ($1, $2)', [name, checksum])
}

/**
 * Applies a migration unless it is already applied. Returns whether it was applied now. Throws when the migration was
 * changed after it was applied.
 */
async function applyIfMissing(client: pg.Client, migration: SqlFile): Promise<boolean> {
  const applied = await listApplied(client)
  refuseChange(migration, applied)
  if (applied.has(migration.name)) return false
  await apply(client, migration)
  return true
}
