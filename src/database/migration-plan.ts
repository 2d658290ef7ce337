import type pg from 'pg'
import { refuseOlderDatabase } from './baseline.ts'
import {
  builtInMigrations,
  commitsByItself,
  isMigrated,
  listAppliedMigrations,
  type MigrationUnit,
  migrationsOf,
  nextUnit,
  readSchema,
} from './migrate.ts'
import type { LockMode } from './migration-effects.ts'
import { listFunctionTexts } from './sql-functions.ts'
import { findTableLocks } from './table-locks.ts'

/** Files that `migrate` would commit together. */
export interface PlannedStep {
  migrations: string[]
  /** The functions and views that it would replace. */
  functions: string[]
  /** Its locks on tables that exist. */
  locks: PlannedLock[]
  /** Whether it commits many times, so that it holds no lock for long. */
  isInSteps: boolean
  /** About how long it takes, and so how long it holds its locks. */
  seconds: number
}

/** A lock that a step takes on a table. */
export interface PlannedLock {
  table: string
  mode: LockMode
  /** Which statements of requests wait for it. */
  waiting: 'none' | 'writes' | 'reads and writes'
  /** About how many rows the table has. */
  rows: number
  /** The size of the table with its indexes. */
  bytes: number
}

/**
 * How much of a table and its indexes a migration changes in a second. It is the rate of the slowest kind, an update of
 * every row, measured with an embedded PostgreSQL on two cores: a million token pairs with their indexes, 552 MiB, took 29
 * seconds. A rewrite by `alter table` reached 130 MiB a second, a new index and a new check more than 1 GiB.
 */
const bytesPerSecond = 20 * 1024 * 1024
/** How long a step takes that touches no rows, in seconds. */
const shortSeconds = 0.1

/**
 * Returns the steps that `migrate` would do, with their locks and about how long they take, from the sizes of the tables.
 * Changes nothing. Throws when a file cannot be read, and when the database is older than the baseline.
 */
export async function planMigrations(
  pool: pg.Pool,
  migrationsDir: string | null,
  builtInDir = builtInMigrations,
): Promise<PlannedStep[]> {
  const schema = await readSchema(migrationsDir, builtInDir)
  const applied = await listAppliedMigrations(pool)
  const texts = await listFunctionTexts(pool)
  let isNewDatabase = !(await isMigrated(pool))
  if (!isNewDatabase) refuseOlderDatabase(schema.baseline, applied)
  const steps: PlannedStep[] = []
  for (;;) {
    const unit = nextUnit(schema, applied, texts, isNewDatabase)
    if (unit === null) return steps
    steps.push(await planStep(pool, unit))
    isNewDatabase = false
    for (const { name, checksum } of unit.migrations) applied.set(name, checksum)
    for (const { name, checksum } of unit.newFunctions)
      texts.set(name, [...(texts.get(name) ?? []), checksum])
  }
}

async function planStep(pool: pg.Pool, unit: MigrationUnit): Promise<PlannedStep> {
  const { newFunctions, effects } = unit
  const locks = await findTableLocks(pool, effects)
  const touched = effects.filter(({ touchesRows }) => touchesRows)
  const read = touched.flatMap(({ locks, reads }) => [...locks.keys(), ...reads])
  const sizes = await findSizes(pool, [...read, ...locks.map(({ table }) => table)])
  const bytes = [...new Set(read)].reduce((sum, name) => sum + (sizes.get(name)?.bytes ?? 0), 0)
  return {
    migrations: migrationsOf(unit).map(({ name }) => name),
    functions: newFunctions.map(({ name }) => name),
    locks: locks.map(({ table, mode }) => ({
      table,
      mode,
      waiting: waitingFor(mode),
      ...(sizes.get(table) ?? { rows: 0, bytes: 0 }),
    })),
    isInSteps: commitsByItself(unit),
    seconds: Math.round((shortSeconds + bytes / bytesPerSecond) * 10) / 10,
  }
}

function waitingFor(mode: LockMode): PlannedLock['waiting'] {
  if (mode === 'access exclusive') return 'reads and writes'
  return mode === 'share' || mode === 'share row exclusive' ? 'writes' : 'none'
}

/** Returns the sizes of the tables that exist. */
async function findSizes(
  pool: pg.Pool,
  tables: readonly string[],
): Promise<Map<string, { rows: number; bytes: number }>> {
  const { rows } = await pool.query<{ name: string; rows: number; bytes: number }>(
    `select relname as name, greatest(reltuples, 0)::float8 as rows, pg_total_relation_size(oid)::float8 as bytes
       from pg_class where relname = any ($1) and relkind = 'r' and pg_table_is_visible(oid)`,
    [tables],
  )
  return new Map(rows.map(({ name, ...size }) => [name, size]))
}
