import pg from 'pg'
import { statements } from '../domain/observations.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'
import { isRefusedAfterFailure } from './errors.ts'

/** The pool, or a client inside a transaction: both can run a single statement. */
export type Queryable = Pick<pg.Pool, 'query'>

/** The name of the connections in `pg_stat_activity`. */
const applicationName = 'svc'

/*
 * Limits that PostgreSQL itself enforces, in milliseconds. A statement ends on the server before its caller gives up
 * (`query_timeout` below), unless it waits for others of its transaction (`together`), which is not committed then. So a
 * caller that got an error never has its change committed later.
 *
 * The limits are set by `SET` on every new connection, and by `SET LOCAL` in every transaction. They are not startup
 * parameters, because PgBouncer refuses connections with parameters that it does not know. In PgBouncer's transaction
 * mode, `SET` can reach another server connection, but `SET LOCAL` cannot.
 */
const statementMilliseconds = 25_000
const idleInTransactionMilliseconds = 30_000
/** How long a transaction waits for a locked row, such as a package to which another transaction publishes. */
const lockMilliseconds = 5_000

/** What pg's pools take, and the options of `openDatabase`. */
export type DatabaseOptions = pg.PoolConfig & { preparesStatements?: boolean; plansOnce?: boolean }

/**
 * Opens the pool that the whole process shares. Broken idle connections are replaced and reported to `onError`.
 * `statement_timeout` overrides the server-side limit of a statement, in milliseconds. With `preparesStatements: false`
 * no statement has a name. A pooler may run each statement on another server connection, which does not know the name.
 * With `plansOnce: true` each connection plans a named statement once, for all values. PostgreSQL would plan the first
 * five executions anew.
 */
export function openDatabase(
  {
    statement_timeout = statementMilliseconds,
    preparesStatements = true,
    plansOnce = false,
    ...connection
  }: DatabaseOptions,
  onError: (error: Error) => void,
): pg.Pool {
  const setLimits = (client: pg.ClientBase & { processID?: number }) =>
    client.query(
      `set statement_timeout = ${Number(statement_timeout)};
       set idle_in_transaction_session_timeout = ${idleInTransactionMilliseconds};
       ${plansOnce ? planOnce(client.processID) : ''}`,
    )
  const pool = new pg.Pool({
    application_name: applicationName,
    max: 10,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 60_000,
    // Without this limit, a connection that a failover has cut silently would wait until TCP gives up.
    query_timeout: 30_000,
    // A connection sends a statement without waiting for the results of those before it (`together`).
    pipeline: true,
    // Set the class in the options of the pool, so that side pools and separate connections use it too.
    Client: preparesStatements ? ObservedClient : UnnamedClient,
    ...connection,
    // After the given options, because those of another pool contain its `onConnect`. pg waits for this promise before
    // it hands out the connection, although its types do not show that.
    onConnect: setLimits as (client: pg.ClientBase) => void,
  })
  pool.on('error', (error: Error & { client?: unknown }) => {
    // pg attaches the connection to the error. In the log, the connection would fill pages and show the key that
    // cancels its statements.
    delete error.client
    // `end` does not wait until the connections are closed. When PostgreSQL stops before that, their errors do not
    // matter.
    if (!pool.ending) onError(error)
  })
  // A connection that breaks during use fails its statement. Without a listener, pg would also end the process.
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

/**
 * SQL: makes PostgreSQL plan each statement of a session once. Only on a direct connection: behind a pooler, which
 * reports another process id, the setting would apply to statements of other pools.
 */
function planOnce(processId = 0): string {
  return `select set_config('plan_cache_mode', 'force_generic_plan', false) where pg_backend_pid() = ${Number(processId)}`
}

/** A connection that reports the time and the outcome of each statement. */
class ObservedClient extends pg.Client {
  // biome-ignore lint/suspicious/noExplicitAny: pg's declaration has eleven overloads.
  override query(...given: any[]): any {
    const send = (...all: unknown[]): unknown => super.query(...(all as [string]))
    if (!statements.isWatched) return send(...given)
    const started = performance.now()
    const report = (outcome: string) =>
      statements.publish({ what: 'statement', outcome, seconds: (performance.now() - started) / 1000 })
    const callback: unknown = given.at(-1)
    if (typeof callback === 'function') {
      return send(...given.slice(0, -1), (error: Error | null, result: unknown) => {
        report(error ? 'error' : 'ok')
        callback(error, result)
      })
    }
    const sent = send(...given)
    if (sent instanceof Promise) {
      void sent.then(
        () => report('ok'),
        () => report('error'),
      )
    }
    return sent
  }
}

/** A connection whose statements have no names. PostgreSQL parses and plans each statement again. */
class UnnamedClient extends ObservedClient {
  // This override accepts every overload. It only removes the name.
  // biome-ignore lint/suspicious/noExplicitAny: pg's declaration has eleven overloads.
  override query(statement: any, ...rest: any[]): any {
    const hasName = typeof statement === 'object' && statement !== null && 'name' in statement
    // A stream, such as that of COPY, is passed on unchanged.
    const unnamed = hasName && 'text' in statement && !('submit' in statement)
    return super.query(unnamed ? { ...statement, name: undefined } : statement, ...(rest as []))
  }
}

/** SQL: begins a transaction with the limits above. A pool may have its own for locks. */
function begin({ options }: pg.Pool): string {
  return `begin; set local lock_timeout = ${Number(options.lock_timeout ?? lockMilliseconds)};
    set local statement_timeout = ${statementMilliseconds};
    set local idle_in_transaction_session_timeout = ${idleInTransactionMilliseconds}`
}

/**
 * The numbers of the advisory locks, which all belong to transactions. Each kind of work has its own, so that no kind
 * waits for another. Do not change a number, because processes of the previous release may run at the same time.
 */
export const advisoryLocks = {
  /** Held while migrations are applied. */
  migrations: 7_382_001,
  /** Shared by transactions that add a reference to an archive. A garbage collection holds it alone while it removes some. */
  archives: 7_382_002,
  /** Held while the key of stored secrets changes. */
  secretKey: 7_382_003,
  /** With a group. Shared by transactions that write the path of a repository into documents. A rename holds it alone. */
  paths: 7_382_004,
  /** With a group. Shared by deletions of its repositories. A rename in the group, or its deletion, holds it alone. */
  tenancy: 7_382_005,
  /** With a package. Held by transactions that take or free a version number. */
  numbers: 7_382_006,
  /** Held by transactions that register or rename an application: its name must not look like that of another one. */
  applicationNames: 7_382_007,
  /** Held by transactions that add a client metadata document to those that wait for a review. */
  clientDocuments: 7_382_009,
  /** With a group. Shared by transactions that store a lock file. The comparison of all lock files of a group holds it alone. */
  locks: 7_382_008,
  /** With a repository. Held by transactions that request a name of its upstreams. */
  requestedNames: 7_382_010,
  /** Held while downloads are counted: two processes that add totals could deadlock. */
  downloads: 7_338_002,
} as const

/**
 * Runs `work` in one transaction. Commits when `work` returns, and rolls back when it throws. A statement that waits
 * more than 5 seconds for a lock fails with an error for which `isOutage` returns true. Identity events of the
 * transaction name who acts.
 */
export async function transaction<T>(
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<T>,
  by?: Principal,
): Promise<T> {
  const tx = await pool.connect()
  try {
    await tx.query(by === undefined ? begin(pool) : `${begin(pool)}; ${setActor(by)}`)
    const result = await work(tx)
    await tx.query('commit')
    tx.release()
    return result
  } catch (error) {
    // A client that cannot even roll back is broken: the pool drops it, and PostgreSQL rolls back for it.
    await tx.query('rollback').then(
      () => tx.release(),
      (broken: Error) => tx.release(broken),
    )
    throw error
  }
}

/**
 * Waits for work on one transaction that was started together. The first statements of each are sent at once and run in
 * their order, so they cost one round trip. Returns the results. If a statement fails, PostgreSQL refuses those after
 * it. Throws the error of the failed one when all work has ended, so that no statement follows the rollback. Do not start
 * two statements of the same name.
 */
export async function together<const Work extends readonly Promise<unknown>[]>(
  work: Work,
): Promise<{ -readonly [I in keyof Work]: Awaited<Work[I]> }> {
  const errors = (await Promise.allSettled(work)).flatMap((ended) =>
    ended.status === 'rejected' ? [ended.reason as unknown] : [],
  )
  if (errors.length > 0) throw errors.find((error) => !isRefusedAfterFailure(error)) ?? errors[0]
  return Promise.all(work)
}

/**
 * Returns SQL that stores who acts for the running transaction. `transaction` sends it together with `begin`, so it
 * costs no round trip.
 */
export function setActor(by: Principal): string {
  const actor = JSON.stringify(describePrincipal(by))
  return `select set_config('svc.actor', ${pg.escapeLiteral(actor)}, true)`
}

/**
 * Runs work on a separate connection to the pool's database. The work may take longer than the pool's timeout. With
 * `pipeline`, the connection sends statements without waiting, as those of the pool, and cannot COPY.
 */
export async function withOwnConnection<T>(
  { options }: pg.Pool,
  work: (client: pg.Client) => Promise<T>,
  { pipeline = false }: Pick<pg.ClientConfig, 'pipeline'> = {},
): Promise<T> {
  const Client = (options.Client as typeof pg.Client | undefined) ?? pg.Client
  const client = new Client({
    ...options,
    password: options.password,
    query_timeout: undefined,
    pipeline,
    // While a backup or a restore copies archives, the connection is silent. A firewall may drop it after minutes.
    keepAlive: true,
    keepAliveInitialDelayMillis: 60_000,
  })
  // Without a listener, pg would end the process when the connection breaks. The running statement fails anyway.
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/**
 * Opens a small pool on the database of another pool, for work that must not take connections from requests. When all
 * its connections are busy, only that work waits. The caller closes the pool.
 */
export function openSidePool(
  main: pg.Pool,
  options: Pick<DatabaseOptions, 'max' | 'min' | 'plansOnce'>,
  onError: (error: Error) => void,
): pg.Pool {
  // The password is not enumerable in pg, so that logs do not show it. A spread would lose the password.
  return openDatabase({ ...main.options, min: 0, password: main.options.password, ...options }, onError)
}

/**
 * An SQL expression for `with`. The commit of its statement does not wait for the disk. Use it only where a crash of
 * PostgreSQL may lose the statement without harm, such as for the time of a last use. Refer to it with `and exists
 * (select from lazily)`.
 */
export const lazily = `lazily as materialized (select set_config('synchronous_commit', 'off', true))`

/**
 * Returns a function that deletes expired rows of a table, at most `limit` in one statement, and returns how many.
 * `key` is the primary key. It skips rows that others have locked: the next sweep deletes them.
 */
export function sweepOf(
  table: string,
  key: string,
  isExpired = 'expires_at < now()',
): (db: Queryable, limit: number) => Promise<number> {
  const text = `delete from ${table} where (${key}) in (
    select ${key} from ${table} where ${isExpired} limit $1 for update skip locked)`
  return async (db, limit) => (await db.query(text, [limit])).rowCount ?? 0
}

/**
 * Returns an SQL expression for the `with` of an insertion that anyone can cause. It deletes the oldest rows of an owner,
 * so that `kept` rows remain before the insertion. `condition` selects the rows of the owner, such as `network = $1`, and
 * needs an index. One insertion deletes at most 1000 rows. The inner query locks nothing: `offset` would lock the rows that
 * stay, too.
 */
export function surplusOf(table: string, key: string, condition: string, kept: number): string {
  return `surplus as (
    delete from ${table} where ${key} in (
      select ${key} from ${table}
       where ${key} = any(array(select ${key} from ${table} where ${condition}
                                 order by expires_at desc offset ${kept} limit 1000))
         for update skip locked))`
}
