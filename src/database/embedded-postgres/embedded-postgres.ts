import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Log } from '../../domain/log.ts'
import { preparePostgresBinaries } from './binaries.ts'
import { type ClusterPaths, clusterPaths, clusterUser, createCluster, refuseOtherMajor } from './cluster.ts'
import {
  type Postmaster,
  readPostmaster,
  type Settings,
  startPostmaster,
  stopOnExit,
  stopPostmaster,
} from './postmaster.ts'
import { chooseRunAs, findClusterOwner } from './run-as.ts'

/**
 * The connection settings of an embedded PostgreSQL, as part of a pg.PoolConfig. They can be sent in a message to a
 * worker.
 */
export interface PostgresConnection {
  /** The folder of the Unix socket. */
  host: string
  port: number
  user: string
  password: string
  database: string
}

/** A PostgreSQL that this process holds until it calls `stop`. */
export interface EmbeddedPostgres {
  connection: PostgresConnection
  /** Resolves with the reason if PostgreSQL ends before `stop` is called. */
  exited: Promise<Error>
  /** Stops PostgreSQL, which ends every connection to it. May be called more than once. */
  stop: () => Promise<void>
}

/**
 * Why a process holds the cluster. Other processes use the PostgreSQL of a server, but not that of a command, which
 * stops soon.
 */
type Purpose = 'server' | 'command'

/** The options of a start. */
export interface EmbeddedPostgresOptions {
  dataDir: string
  log?: Pick<Log, 'info'>
  purpose?: Purpose
  /** How long to wait until another process releases the cluster. */
  patienceSeconds?: number
  /** Ends a start: `startEmbeddedPostgres` stops the PostgreSQL that it is starting, and throws. */
  signal?: AbortSignal
  /** Called when PostgreSQL's programs begin to work. This process then only waits for them. */
  onWait?: () => void
  /** PostgreSQL's own parameters, for tests. */
  settings?: Settings
}

/** The process that holds a cluster. */
interface Holder {
  purpose: Purpose
  pid: number
}

/**
 * A refusal after which a later attempt may succeed. `holder` is the process that holds the cluster, or null while
 * PostgreSQL starts or stops.
 */
interface RefusedStart {
  holder: Holder | null
  problem?: unknown
}

/** The process with this session-level advisory lock holds the cluster. The key is "svc" in ASCII, and 1. */
const lockKey = [0x737663, 1]

const fastShutdownSeconds = 30

/** How much longer to wait when no process holds the cluster: PostgreSQL is starting, recovering or stopping. */
const transitionSeconds = 30

/** Errors of a connection while PostgreSQL starts, recovers or stops. */
const transitionErrors = ['57P01', '57P03', 'ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE']

/**
 * PostgreSQL's messages when it is already running. Another process started it, or the last backends of a killed
 * postmaster still run.
 */
const alreadyRunning = /lock file "postmaster\.pid"|pre-existing shared memory block/

/**
 * Starts the PostgreSQL of a DATA_DIR and holds it. Creates a missing cluster, and adopts the server that a killed svc
 * left running. Throws when another svc holds the cluster. An advisory lock in PostgreSQL itself decides who holds it:
 * the lock ends with the connection of its holder. If this process exits without `stop`, it tells PostgreSQL to stop.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, patienceSeconds = 5, signal } = options
  const paths = clusterPaths(dataDir)
  let deadline = Number.POSITIVE_INFINITY
  for (;;) {
    const attempt = await tryStart(paths, options)
    if ('connection' in attempt) return attempt
    // The creation of a cluster may take long, so the wait counts from the first refusal.
    deadline = Math.min(deadline, Date.now() + patienceSeconds * 1000)
    const limit = attempt.holder === null ? deadline + transitionSeconds * 1000 : deadline
    if (Date.now() >= limit) throw attempt.problem ?? inUse(dataDir, attempt.holder)
    await sleep(100)
    signal?.throwIfAborted()
  }
}

/**
 * Returns the PostgreSQL that a running server holds for this DATA_DIR, or null. The PostgreSQL of a command does not
 * count, because it stops with that command.
 */
export async function findEmbeddedPostgres(dataDir: string): Promise<PostgresConnection | null> {
  const paths = clusterPaths(dataDir)
  // Throws when the cluster belongs to another user.
  await findClusterOwner(paths.cluster)
  const postmaster = await readPostmaster(paths.cluster)
  if (!postmaster?.running || !postmaster.ready) return null
  const connection = await describeConnection(paths, postmaster)
  const client = await connect(connection, 'command')
  if (client === null) return null
  try {
    const holder = await findHolder(client)
    return holder?.purpose === 'server' ? connection : null
  } finally {
    await client.end()
  }
}

async function tryStart(
  paths: ClusterPaths,
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres | RefusedStart> {
  const found = await findOrStart(paths, options)
  if ('holder' in found) return found
  const connection = await describeConnection(paths, found)
  const client = await connect(connection, options.purpose ?? 'server')
  if (client === null) return { holder: null }
  try {
    const { rows } = await client.query('select pg_try_advisory_lock($1, $2) as held', lockKey)
    // When PostgreSQL stops or dies, the lock may become free a moment before our connection ends.
    const now = await readPostmaster(paths.cluster)
    const isStaying = now !== null && now.pid === found.pid && now.running && now.ready
    if (rows[0].held && isStaying) return hold(paths, found, connection, client)
    const holder = rows[0].held ? null : await findHolder(client)
    await client.end()
    return { holder }
  } catch (problem) {
    // PostgreSQL stopped while we asked for the lock.
    await client.end().catch(() => {})
    return { holder: null, problem }
  }
}

/** Returns the running server of a cluster. Starts one when there is none. */
async function findOrStart(
  paths: ClusterPaths,
  { log, settings = {}, signal, onWait = () => {} }: EmbeddedPostgresOptions,
): Promise<Postmaster | RefusedStart> {
  const owner = await findClusterOwner(paths.cluster)
  const seen = await readPostmaster(paths.cluster)
  if (seen?.running) return seen.ready ? seen : { holder: null }
  if (owner !== null) await refuseOtherMajor(paths)
  const runAs = await chooseRunAs(owner)
  const native = await preparePostgresBinaries(runAs)
  if (owner === null) {
    log?.info(`creating a PostgreSQL cluster in ${paths.folder}`)
    await createCluster(paths, { native, runAs, sync: settings['fsync'] !== 'off', onWait })
  }
  signal?.throwIfAborted()
  try {
    return await startPostmaster(paths, { native, runAs, settings, signal, onWait })
  } catch (problem) {
    if (alreadyRunning.test(String(problem))) return { holder: null, problem }
    throw problem
  }
}

/**
 * Connects with a name that shows other processes who holds the cluster. Returns null while PostgreSQL starts or
 * stops.
 */
async function connect(config: PostgresConnection, purpose: Purpose): Promise<pg.Client | null> {
  const client = new pg.Client({ ...config, application_name: `svc ${purpose} pid ${process.pid}` })
  // Without a listener, a lost connection would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (error) {
    await client.end().catch(() => {})
    const { code, message } = error as Error & { code?: string }
    if (transitionErrors.includes(code ?? '') || message.startsWith('Connection terminated')) return null
    throw error
  }
}

/** Asks PostgreSQL which process holds the cluster. Null for none. */
async function findHolder(client: pg.Client): Promise<Holder | null> {
  const { rows } = await client.query<{ name: string }>(
    `select activity.application_name as name
       from pg_locks as lock
       join pg_stat_activity as activity on activity.pid = lock.pid
      where lock.locktype = 'advisory' and lock.granted and lock.classid = $1 and lock.objid = $2`,
    lockKey,
  )
  const [, purpose, pid] = /^svc (server|command) pid (\d+)$/.exec(rows[0]?.name ?? '') ?? []
  return purpose === undefined ? null : { purpose: purpose as Purpose, pid: Number(pid) }
}

function hold(
  paths: ClusterPaths,
  postmaster: Postmaster,
  connection: PostgresConnection,
  client: pg.Client,
): EmbeddedPostgres {
  let stopped: Promise<void> | null = null
  const endExitStop = stopOnExit(postmaster.pid)
  const exited = new Promise<Error>((resolve) => {
    const report = (reason: string) => {
      endExitStop()
      if (stopped !== null) return
      resolve(new Error(`The embedded PostgreSQL has stopped: ${reason}. See ${paths.log}.`))
    }
    client.on('error', (error) => report(error.message))
    client.on('end', () => report('the connection ended'))
  })
  const stopAndLeave = async () => {
    // Keep the lock until PostgreSQL has stopped, so that no process adopts a server that is about to stop.
    await stopPostmaster(postmaster, fastShutdownSeconds)
    endExitStop()
    await client.end().catch(() => {})
  }
  return {
    connection,
    exited,
    stop() {
      stopped ??= stopAndLeave()
      return stopped
    },
  }
}

function inUse(dataDir: string, holder: Holder | null): Error {
  if (holder === null)
    return new Error(
      `The PostgreSQL of DATA_DIR ${dataDir} is still starting or stopping. Try again in a minute.`,
    )
  const who = holder.purpose === 'server' ? 'another svc' : 'an svc command'
  return new Error(
    `DATA_DIR ${dataDir} is in use by ${who} (process ${holder.pid}). Stop it, or set DATA_DIR to another folder.`,
  )
}

async function describeConnection(
  { password }: ClusterPaths,
  { socketFolder }: Postmaster,
): Promise<PostgresConnection> {
  return {
    host: socketFolder,
    port: 5432,
    user: clusterUser,
    password: (await readFile(password, 'utf8')).trim(),
    database: 'postgres',
  }
}
