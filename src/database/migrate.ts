import { readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { projectRoot } from '../config.ts'
import type { Principal } from '../domain/principal.ts'
import { type Baseline, readBaseline, refuseOlderDatabase, runBaseline } from './baseline.ts'
import { advisoryLocks, type Queryable, setActor, together, withOwnConnection } from './database.ts'
import { isLostToAnother } from './errors.ts'
import { inOneTransaction, type MigrationEffects, readEffects } from './migration-effects.ts'
import { isTextOf, readChecksums, readSqlFile, runSqlFile, runSqlFiles, type SqlFile } from './sql-file.ts'
import {
  applyFunctions,
  type FunctionTexts,
  isNewText,
  listFunctionTexts,
  objectName,
  readFunctions,
  wordsOf,
} from './sql-functions.ts'
import { withoutTimeouts } from './table-copy.ts'
import { findTableLocks, lockBudgetMilliseconds, takeTableLocks } from './table-locks.ts'

/** All SQL files, in the order in which they are applied. */
export interface Schema {
  /** What a new database begins with. */
  baseline: Baseline
  /** Numbered migrations of the built-in schema after the baseline: tables, data, constraints. */
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

/** The pauses before a migration tries again to get its locks, in milliseconds. */
const firstPauseMilliseconds = 250
const maxPauseMilliseconds = 10_000
/** How often a process looks whether another one still migrates, in milliseconds. */
const turnMilliseconds = 50

/** What happens while migrations are applied. */
export interface MigrateReport {
  /** Receives the names of applied migrations whose file is missing. */
  missing?: (names: string[]) => void
  /** Called once when a migration waits for a lock. */
  waiting?: () => void
  /** Called when PostgreSQL works on files, or there are none. Until the end, this process mostly waits for it. */
  working?: () => void
}

/** The folder of the built-in schema's migrations. */
export const builtInMigrations = resolve(projectRoot, 'migrations')

/**
 * Applies every file that this database lacks, beside running processes of this and the previous release, and returns
 * their names. Each migration is a transaction, together with the functions of its triggers (`nextUnit`); then one
 * transaction replaces the changed functions and views; then the operator's files follow. Processes that start together
 * take turns. `migrationsDir` is null when there is no such folder. Files may be missing: an older release may run beside
 * a newer one, or the operator may keep a file elsewhere.
 *
 * A transaction takes all its locks before it changes anything, and waits only a moment for them (`takeTableLocks`). If
 * others hold one, such as a backup, which locks every table weakly, it lets them pass and starts again later. Throws
 * when the database is older than the baseline, and when an applied migration was changed. Throws an Error that names the
 * file when a file fails.
 */
export async function migrate(
  pool: pg.Pool,
  migrationsDir: string | null,
  builtInDir = builtInMigrations,
  { missing: reportMissing = () => {}, waiting = () => {}, working = () => {} }: MigrateReport = {},
): Promise<string[]> {
  const schema = await readSchema(migrationsDir, builtInDir)
  const migrations = [...schema.builtIn, ...schema.operators]
  const known = new Set([...schema.baseline.replaced.keys(), ...migrations.map(({ name }) => name)])
  const done: string[] = []
  let isFirst = true
  const applyAll = async (client: pg.Client) => {
    for (;;) {
      const step = await withPatience(client, waiting, async () => {
        const isNewDatabase = !(await isMigrated(client))
        const applied = await listApplied(client)
        if (!isNewDatabase) refuseOlderDatabase(schema.baseline, applied)
        for (const migration of migrations) refuseChange(migration, applied)
        const missing = [...applied.keys()].filter((name) => !known.has(name))
        if (isFirst && missing.length > 0) reportMissing(missing)
        isFirst = false
        const unit = nextUnit(schema, applied, await listFunctionTexts(client), isNewDatabase)
        const applying = unit === null ? null : applyUnit(pool, client, unit)
        working()
        await applying
        return unit
      })
      if (step === null) return done
      done.push(...[...migrationsOf(step), ...step.newFunctions].map(({ name }) => name))
    }
  }
  return withOwnConnection(pool, applyAll, { pipeline: true })
}

/** Files that are committed together. */
export interface MigrationUnit {
  /** The baseline in a new database, else null. */
  baseline: Baseline | null
  migrations: SqlFile[]
  /** The functions and views that are replaced after the migrations, in dependency order. */
  functions: SqlFile[]
  /** Those of them whose text is new to the database. */
  newFunctions: SqlFile[]
  effects: MigrationEffects[]
}

/** Returns the baseline's files and the migrations of a unit. */
export function migrationsOf({ baseline, migrations }: MigrationUnit): SqlFile[] {
  return [...(baseline?.files ?? []), ...migrations]
}

/**
 * Returns the files to apply next, or null.
 *
 * A migration creates a trigger function empty, or drops one, and its file in functions/ has the definition. Between two
 * commits the triggers of the running release must do their work. So the definition is applied with the migration, and
 * with it every later migration that has something which the definition needs.
 */
export function nextUnit(
  schema: Schema,
  applied: ReadonlyMap<string, string>,
  texts: FunctionTexts,
  isNewDatabase = false,
): MigrationUnit | null {
  const isNew = ({ name }: SqlFile) => !applied.has(name)
  const pending = schema.builtIn.filter(isNew)
  const changed = schema.functions.filter((file) => isNewText(file, texts))
  const unit = (migrations: SqlFile[], functions: readonly SqlFile[]): MigrationUnit => ({
    baseline: isNewDatabase ? schema.baseline : null,
    migrations,
    functions: [...functions],
    newFunctions: functions.filter((file) => isNewText(file, texts)),
    effects: migrations.map(readEffects),
  })
  // Nothing else uses a new database, and one transaction is fast.
  if (isNewDatabase) return unit(pending, schema.functions)
  if (pending.length === 0) {
    if (changed.length > 0) return unit([], schema.functions)
    const [own] = schema.operators.filter(isNew)
    return own === undefined ? null : unit([own], [])
  }
  const effects = pending.map(readEffects)
  const definitions = new Set<SqlFile>()
  let count = 1
  for (let i = 0; i < count; i += 1) {
    for (const file of definitionsOf(effects[i] as MigrationEffects, schema.functions, changed))
      definitions.add(file)
    const words = new Set([...definitions].flatMap((file) => [...wordsOf(file)]))
    const last = effects.findLastIndex(({ introduced }) => [...introduced].some((name) => words.has(name)))
    count = Math.max(count, last + 1)
  }
  const early = count === 1 ? undefined : findEarly(pending.slice(0, count), effects)
  if (early !== undefined) return unit([early], [])
  return unit(
    pending.slice(0, count),
    schema.functions.filter((file) => definitions.has(file)),
  )
}

/**
 * Returns a migration of a unit that commits by itself and needs nothing from those before it. It is applied first, because
 * the others hold their locks until the whole unit is done: with 100,000 accounts, requests waited 3 seconds for them.
 */
function findEarly(
  migrations: readonly SqlFile[],
  effects: readonly MigrationEffects[],
): SqlFile | undefined {
  const made = new Set<string>()
  return migrations.find((migration, i) => {
    const { commits, introduced, reshaped, redefined } = effects[i] as MigrationEffects
    const isEarly = commits && ![...wordsOf(migration)].some((word) => made.has(word))
    for (const name of [...introduced, ...reshaped, ...redefined]) made.add(name)
    return isEarly
  })
}

/** Returns the files of functions that a migration creates or drops, and the changed ones that these use. */
function definitionsOf(
  { redefined, cascades }: MigrationEffects,
  functions: readonly SqlFile[],
  changed: readonly SqlFile[],
): readonly SqlFile[] {
  if (cascades) return functions
  const wanted = new Set<string>()
  // The files are in dependency order, so a file comes after those that it uses.
  return functions.toReversed().filter((file) => {
    const name = objectName(file)
    if (!redefined.has(name) && !(wanted.has(name) && changed.includes(file))) return false
    for (const word of wordsOf(file)) wanted.add(word)
    return true
  })
}

/** Returns whether a unit is one migration that commits by itself, many times. */
export function commitsByItself({ baseline, migrations, functions, effects }: MigrationUnit): boolean {
  return (
    baseline === null && migrations.length === 1 && functions.length === 0 && effects[0]?.commits === true
  )
}

/** Applies the files of a unit in the client's transaction. */
async function applyUnit(pool: pg.Pool, client: pg.Client, unit: MigrationUnit): Promise<void> {
  const [first] = unit.migrations
  if (first !== undefined && commitsByItself(unit)) {
    await withOwnConnection(pool, (worker) => runOutsideTransaction(worker, first))
    await noteApplied(client, unit.migrations)
    return
  }
  if (unit.baseline !== null) {
    // Nothing else uses a new database.
    await together([applyBaseline(client, unit.baseline, unit.functions), apply(client, unit.migrations)])
  } else {
    // In a transaction, an index is not built concurrently and needs a stronger lock.
    const effects = unit.migrations.map(({ sql }) => readEffects({ sql: inOneTransaction(sql) }))
    await takeTableLocks(client, await findTableLocks(client, effects))
    await apply(client, unit.migrations)
  }
  if (unit.functions.length > 0) await applyFunctions(client, unit.functions, await listFunctionTexts(client))
}

/**
 * Runs a migration that commits by itself. It has one statement, which may be repeated after a failure: it builds an
 * index concurrently, or changes rows in steps. The transaction of `migrate` keeps the lock on another connection.
 */
async function runOutsideTransaction(worker: pg.Client, migration: SqlFile): Promise<void> {
  const isIndex = /\bindex concurrently\b/i.test(migration.sql)
  // To build an index concurrently, PostgreSQL waits for all older transactions. No request waits for that.
  await worker.query(`set statement_timeout = 0; set lock_timeout = ${isIndex ? 0 : lockBudgetMilliseconds}`)
  if (isIndex) {
    // A build that was interrupted leaves an index that no query uses.
    const { rows } = await worker.query<{ name: string }>(
      `select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
        where not i.indisvalid and pg_table_is_visible(c.oid) and c.relname = any ($1)`,
      [[...wordsOf(migration)]],
    )
    for (const { name } of rows) await worker.query(`drop index concurrently ${pg.escapeIdentifier(name)}`)
  }
  await runSqlFile(worker, migration)
}

/**
 * Applies one of the operator's migrations now, even when others are pending. Does nothing when it is applied already, and
 * throws when it was changed after that. Its identity events name who applies it. Call it in `withMigrationLock`.
 */
export async function applyMigration(client: pg.Client, path: string, by: Principal): Promise<void> {
  await client.query(setActor(by))
  const migration = await readSqlFile(path, basename(path))
  const applied = await listApplied(client)
  refuseChange(migration, applied)
  if (!applied.has(migration.name)) await apply(client, [migration])
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
  for (;;) {
    await client.query('begin')
    // A pooler may lend a connection on which svc has set limits before, so remove them.
    await withoutTimeouts(client)
    // A session's lock would stay on a connection that a pooler lends to others. Do not wait in PostgreSQL: a waiting
    // statement is an old transaction, for which the build of an index waits.
    const { rows } = await client.query<{ isMine: boolean }>(
      'select pg_try_advisory_xact_lock($1) as "isMine"',
      [advisoryLocks.migrations],
    )
    if (rows[0]?.isMine) break
    await client.query('rollback')
    await sleep(turnMilliseconds)
  }
  const result = await work()
  await client.query('commit')
  return result
}

/** Runs work as `inLockedTransaction` does, and again as long as others are in the way. */
async function withPatience<T>(client: pg.Client, onWait: () => void, work: () => Promise<T>): Promise<T> {
  for (let pause = firstPauseMilliseconds; ; pause = Math.min(pause * 2, maxPauseMilliseconds)) {
    try {
      return await inLockedTransaction(client, work)
    } catch (error) {
      if (!isLostToAnother(error instanceof Error && error.cause !== undefined ? error.cause : error))
        throw error
      await client.query('rollback')
      if (pause === firstPauseMilliseconds) onWait()
      await sleep(pause)
    }
  }
}

/**
 * Creates the schema of a backup inside the caller's transaction: the baseline, the built-in migrations, the functions of
 * the backup, and the operator's migrations. A failing migration of the operator is skipped, because it may need rows
 * that do not exist yet. The rows of the backup replace all rows later.
 */
export async function buildSchema(
  client: pg.Client,
  { baseline, builtIn, functions, operators }: Schema,
): Promise<void> {
  await listApplied(client)
  await runBaseline(client, baseline, functions)
  await runSqlFiles(client, builtIn.map(toRunInOneTransaction))
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

/** Returns the names of the files that this database lacks, in the order in which they would be applied. */
export async function pendingMigrations(pool: pg.Pool, schema: Schema): Promise<string[]> {
  const numbered = [...schema.builtIn, ...schema.operators]
  if (!(await isMigrated(pool)))
    return [...schema.baseline.files, ...numbered, ...schema.functions].map(({ name }) => name)
  const applied = await listAppliedMigrations(pool)
  const texts = await listFunctionTexts(pool)
  return [
    ...[...schema.baseline.replaced.keys(), ...numbered.map(({ name }) => name)].filter(
      (name) => !applied.has(name),
    ),
    ...schema.functions.filter((file) => isNewText(file, texts)).map(({ name }) => name),
  ]
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
  const release = await readRelease(builtInDir)
  const folders = new Set([builtInDir, ...(migrationsDir === null ? [] : [resolve(migrationsDir)])])
  const paths = (await Promise.all([...folders].map(listFiles)))
    .flat()
    .filter((path) => !isBuiltIn(path, builtInDir))
  const operators = await Promise.all(paths.map((path) => readSqlFile(path, basename(path))))
  // The operator's files may be in both folders. Sort them together.
  operators.sort((one, other) => (one.name < other.name ? -1 : 1))
  const numbered = [...release.builtIn, ...operators].map(({ name }) => name)
  const names = [...release.baseline.replaced.keys(), ...numbered]
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice) throw new Error(`Two migrations are named ${twice}: rename the one in ${migrationsDir}.`)
  return { ...release, operators }
}

/** The part of the schema that belongs to a release of svc. */
type ReleaseSchema = Omit<Schema, 'operators'>

let ownRelease: Promise<ReleaseSchema> | undefined

/** Reads what a release has. A process reads its own once: like its code, the files may be those of a newer one later. */
function readRelease(builtInDir: string): Promise<ReleaseSchema> {
  if (builtInDir !== builtInMigrations) return readBuiltInFiles(builtInDir)
  ownRelease ??= readBuiltInFiles(builtInDir)
  return ownRelease
}

async function readBuiltInFiles(builtInDir: string): Promise<ReleaseSchema> {
  const [baseline, functions, paths, amended] = await Promise.all([
    readBaseline(builtInDir),
    readFunctions(builtInDir),
    listFiles(builtInDir),
    // Other folders than ours have no such list.
    readChecksums(join(builtInDir, 'amended.sha256')).catch(() => new Map<string, string>()),
  ])
  const builtIn = await Promise.all(
    paths
      // A release that was unpacked over an older one has the old files, too.
      .filter((path) => isBuiltIn(path, builtInDir) && !baseline.replaced.has(basename(path)))
      .map(async (path) => {
        const file = await readSqlFile(path, basename(path))
        return { ...file, formerChecksum: amended.get(file.name) }
      }),
  )
  return { baseline, builtIn, functions }
}

function isBuiltIn(path: string, builtInDir: string): boolean {
  return dirname(path) === builtInDir && numberOf(basename(path)) < firstOperatorNumber
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

function refuseChange(migration: SqlFile, applied: Map<string, string>): void {
  const { name, path } = migration
  if (!applied.has(name) || isTextOf(migration, applied.get(name))) return
  throw new Error(
    `The migration ${path} was changed after it was applied: restore it, and put the change into a new file.`,
  )
}

async function apply(client: pg.Client, migrations: readonly SqlFile[]): Promise<void> {
  await runSqlFiles(client, migrations.map(toRunInOneTransaction))
  await noteApplied(client, migrations)
}

/** Applies the baseline, and notes the migrations that it replaces. So all databases have the same names. */
async function applyBaseline(
  client: pg.Client,
  baseline: Baseline,
  functions: readonly SqlFile[],
): Promise<void> {
  await runBaseline(client, baseline, functions)
  await noteApplied(
    client,
    Array.from(baseline.replaced, ([name, checksum]) => ({ name, checksum })),
  )
}

function toRunInOneTransaction({ path, sql }: SqlFile): Pick<SqlFile, 'path' | 'sql'> {
  return { path, sql: inOneTransaction(sql) }
}

async function noteApplied(
  client: pg.Client,
  migrations: readonly Pick<SqlFile, 'name' | 'checksum'>[],
): Promise<void> {
  await client.query(
    `insert into applied_migration (name, checksum)
     select name, checksum from json_to_recordset($1) as applied(name text, checksum text)`,
    [JSON.stringify(migrations.map(({ name, checksum }) => ({ name, checksum })))],
  )
}
