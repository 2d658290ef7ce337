import pg from 'pg'
import { type Queryable, transaction } from './database.ts'

/** Returns the id of this database: a UUID that the migration created. */
export async function findDatabaseId(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ id: string }>('select id from installation')
  const [row] = rows
  if (!row)
    throw new Error(
      'The database has lost its id: the table installation must have one row. Restore a backup.',
    )
  return row.id
}

/** Runs work that removes archives. Throws while a backup runs, because the backup still reads its archives. */
export async function unlessBackupRuns<T>(
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return transaction(pool, async (tx) => {
    try {
      // This lock conflicts with the lock of `openSnapshot`. Unlike a session's advisory lock, it also works behind
      // PgBouncer.
      await tx.query('lock table installation in row exclusive mode nowait')
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== '55P03') throw error
      throw new Error(
        'A backup is running. Try again when it has ended: archives cannot be removed until then.',
      )
    }
    return work(tx)
  })
}

/** The state of the database, for administrators. */
export interface DatabaseState {
  /** The id of the installation: a UUID. */
  id: string
  /** The version of PostgreSQL, such as `17.4`. */
  version: string
  bytes: number
  connections: number
  maxConnections: number
  /** The latest migration that is applied. */
  migration: string
}

/** Reads the state of the database. */
export async function findDatabaseState(db: Queryable): Promise<DatabaseState> {
  const { rows } = await db.query<DatabaseState>(
    `select id, split_part(current_setting('server_version'), ' ', 1) as version,
            pg_database_size(current_database())::float8 as bytes,
            (select count(*)::int from pg_stat_activity where datname = current_database()) as connections,
            current_setting('max_connections')::int as "maxConnections",
            (select max(name) from applied_migration) as migration
       from installation`,
  )
  return rows[0] as DatabaseState
}

/** Returns the size of the database on disk, in bytes. */
export async function findDatabaseBytes(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ bytes: number }>(
    'select pg_database_size(current_database())::float8 as bytes',
  )
  return (rows[0] as { bytes: number }).bytes
}

/** Work that operators must not forget, and that leaves no other trace in the database. */
export type MaintenanceWork = 'backup' | 'garbage-collection'

/** Stores that a backup or a garbage collection has ended now. */
export async function noteMaintenance(db: Queryable, work: MaintenanceWork): Promise<void> {
  await db.query(
    `insert into maintenance (work, ended_at) values ($1, now())
     on conflict (work) do update set ended_at = excluded.ended_at`,
    [work],
  )
}

/** Returns when each kind of work last ended. Kinds that never ended are missing. */
export async function findMaintenance(db: Queryable): Promise<ReadonlyMap<MaintenanceWork, Date>> {
  const { rows } = await db.query<{ work: MaintenanceWork; endedAt: Date }>(
    'select work, ended_at as "endedAt" from maintenance',
  )
  return new Map(rows.map(({ work, endedAt }) => [work, endedAt]))
}

/** Returns whether the database refuses changes: it is a standby, or its operator has made it read-only. */
export async function isReadOnly(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isReadOnly: boolean }>(
    `select current_setting('transaction_read_only')::boolean as "isReadOnly"`,
  )
  return rows[0]?.isReadOnly === true
}

/** The public URLs of the server, without a slash at the end. */
export interface ServerUrls {
  baseUrl: string
  authUrl: string
}

/** Stores the URLs of a starting server, so that commands can print them (CONTRACT 3.3). */
export async function noteServerUrls(db: Queryable, { baseUrl, authUrl }: ServerUrls): Promise<void> {
  await db.query(
    `insert into server_urls (base_url, auth_url) values ($1, $2)
     on conflict (is_only) do update set base_url = excluded.base_url, auth_url = excluded.auth_url`,
    [baseUrl, authUrl],
  )
}

/** Returns the URLs of the server that started last. Null when none has started yet. */
export async function findServerUrls(db: Queryable): Promise<ServerUrls | null> {
  const { rows } = await db.query<ServerUrls>(
    `select base_url as "baseUrl", auth_url as "authUrl" from server_urls`,
  )
  return rows[0] ?? null
}
