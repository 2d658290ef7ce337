import pg from 'pg'

/** Whatever a single statement can run on: the pool, or a client inside a transaction. */
export type Queryable = Pick<pg.Pool, 'query'>

/** Names the connection in `pg_stat_activity`. */
const applicationName = 'svc'

/** The pool that the whole process shares. Connections that break while idle are replaced, and reported to `onError`. */
export function openDatabase(connection: pg.PoolConfig, onError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({
    application_name: applicationName,
    max: 20,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 60_000,
    // A database that went away without a word, as in a failover, would be waited for until TCP gives up.
    query_timeout: 30_000,
    ...connection,
  })
  pool.on('error', (error: Error & { client?: unknown }) => {
    // pg hangs the connection on it: for a log that is pages long, and holds the key that cancels its statements.
    delete error.client
    // `end` does not wait until the connections are closed, and PostgreSQL may stop before they are.
    if (!pool.ending) onError(error)
  })
  // A connection that breaks while in use fails the statement of whoever uses it; pg would end the process too.
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

/** Runs `work` in one transaction: committed when it answers, rolled back when it throws. */
export async function transaction<T>(pool: pg.Pool, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    const answer = await work(tx)
    await tx.query('commit')
    tx.release()
    return answer
  } catch (error) {
    // A client that cannot even roll back is broken: the pool drops it, and PostgreSQL rolls back for it.
    await tx.query('rollback').then(
      () => tx.release(),
      (broken: Error) => tx.release(broken),
    )
    throw error
  }
}

/** The name of the constraint or unique index that a statement broke; null for any other error. */
export function brokenConstraint(error: unknown): string | null {
  return error instanceof pg.DatabaseError ? (error.constraint ?? null) : null
}

/** Whether the database cannot be reached, is shutting down or has no connection left: worth a retry. */
export function isOutage(thrown: Error): boolean {
  if (thrown instanceof pg.DatabaseError) return /^(?:08|53|57P)/.test(thrown.code ?? '')
  const code = 'code' in thrown ? thrown.code : undefined
  return (
    ['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EPIPE'].includes(String(code)) ||
    /timeout exceeded when trying to connect|Connection terminated|Query read timeout/.test(thrown.message)
  )
}
