import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { preparePostgresBinaries, readPostgresVersion } from './binaries.ts'
import { clusterUser, createCluster, readClusterMajor, readPassword } from './cluster.ts'
import { connectAsHolder, findHolder, type Holder, type Purpose, tryHold } from './holder.ts'
import { type ClusterPaths, clusterPaths } from './layout.ts'
import {
  type Postmaster,
  readPostmaster,
  type Settings,
  startPostmaster,
  stopPostmaster,
} from './postmaster.ts'
import { chooseRunAs, findClusterOwner } from './run-as.ts'

/** The connection settings of an embedded PostgreSQL, as part of a pg.PoolConfig. They can be sent to a worker. */
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
  /** Resolves with the cause if PostgreSQL ends before `stop` is called. */
  exited: Promise<Error>
  /** Stops PostgreSQL; every connection to it ends. May be called more than once. */
  stop: () => Promise<void>
}

/** How to start an embedded PostgreSQL. */
export interface EmbeddedPostgresOptions {
  dataDir: string
  log?: Pick<FastifyBaseLogger, 'info'>
  purpose?: Purpose
  /** How long to wait for another holder to release it. */
  patienceSeconds?: number
  /** PostgreSQL's own parameters, for tests. */
  settings?: Settings
}

const fastShutdownSeconds = 30

/** The additional time to wait while nobody holds it: PostgreSQL is starting, recovering or stopping. */
const passingSeconds = 30

/**
 * Starts the PostgreSQL of a DATA_DIR and holds it. Creates the cluster if there is none, and adopts the server of a
 * killed svc. Throws when another svc holds it: an advisory lock of PostgreSQL decides, and ends with the holder's
 * connection.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, purpose = 'server', patienceSeconds = 5 } = options
  const paths = clusterPaths(dataDir)
  let deadline = Number.POSITIVE_INFINITY
  for (;;) {
    const attempt = await tryStart(paths, options, purpose)
    if ('connection' in attempt) return attempt
    // Creating the cluster may take long. Count only the time in which something blocks the start.
    deadline = Math.min(deadline, Date.now() + patienceSeconds * 1000)
    const limit = attempt.holder === null ? deadline + passingSeconds * 1000 : deadline
    if (Date.now() >= limit) throw attempt.problem ?? inUse(dataDir, attempt.holder)
    await sleep(100)
  }
}

/**
 * Returns the PostgreSQL that a running server holds for this DATA_DIR, or null. One that a command holds does not count,
 * because it ends with that command.
 */
export async function findEmbeddedPostgres(dataDir: string): Promise<PostgresConnection | null> {
  const paths = clusterPaths(dataDir)
  if ((await findClusterOwner(paths.cluster)) === null) return null
  const postmaster = await readPostmaster(paths.cluster)
  if (!postmaster?.running || !postmaster.ready) return null
  const connection = await describeConnection(paths, postmaster)
  const client = await connectAsHolder(connection, 'command')
  if (client === null) return null
  try {
    const holder = await findHolder(client)
    return holder?.purpose === 'server' ? connection : null
  } finally {
    await client.end()
  }
}

/** Why an attempt failed that may succeed later: another process holds the cluster, or PostgreSQL starts or stops. */
interface Refusal {
  holder: Holder | null
  problem?: unknown
}

async function tryStart(
  paths: ClusterPaths,
  options: EmbeddedPostgresOptions,
  purpose: Purpose,
): Promise<EmbeddedPostgres | Refusal> {
  const found = await findOrStart(paths, options)
  if ('holder' in found) return found
  const connection = await describeConnection(paths, found)
  const client = await connectAsHolder(connection, purpose)
  if (client === null) return { holder: null }
  try {
    const held = await tryHold(client)
    // When PostgreSQL stops or dies, the lock is free a moment before this connection ends.
    const now = await readPostmaster(paths.cluster)
    const isStaying = now !== null && now.pid === found.pid && now.running && now.ready
    if (held && isStaying) return hold(paths, found, connection, client)
    const holder = held ? null : await findHolder(client)
    await client.end()
    return { holder }
  } catch (problem) {
    // Another process stopped it in the meantime.
    await client.end().catch(() => {})
    return { holder: null, problem }
  }
}

/** Returns the running server of a cluster. Starts one if there is none. */
async function findOrStart(
  paths: ClusterPaths,
  { log, settings = {} }: EmbeddedPostgresOptions,
): Promise<Postmaster | Refusal> {
  const owner = await findClusterOwner(paths.cluster)
  const running = await readPostmaster(paths.cluster)
  if (running?.running) return running.ready ? running : { holder: null }
  if (owner !== null) await refuseOtherMajor(paths)
  const runAs = await chooseRunAs(owner)
  const native = await preparePostgresBinaries(runAs)
  if (owner === null) {
    log?.info(`creating a PostgreSQL cluster in ${paths.folder}`)
    await createCluster(paths, { native, runAs, sync: settings['fsync'] !== 'off' })
  }
  try {
    await startPostmaster(paths, { native, runAs, settings })
  } catch (problem) {
    return await explainFailure(paths, problem)
  }
  return (
    (await readPostmaster(paths.cluster)) ?? { holder: null, problem: new Error('PostgreSQL has stopped') }
  )
}

/** Another major version of PostgreSQL cannot read a cluster's files. Throws an Error that says how to upgrade. */
async function refuseOtherMajor(paths: ClusterPaths): Promise<void> {
  const [embedded = ''] = (await readPostgresVersion()).split('.')
  const major = await readClusterMajor(paths)
  if (major === embedded) return
  throw new Error(
    `${paths.folder} holds data of PostgreSQL ${major}, but this release of svc embeds PostgreSQL ${embedded}. ` +
      'Nothing was changed. Run "svc backup FILE" with the release that you used before, move this folder away, ' +
      'and run "svc restore FILE" with this release.',
  )
}

/** Returns when a retry may succeed, else throws the failure. */
async function explainFailure(paths: ClusterPaths, problem: unknown): Promise<Refusal> {
  // Another start was faster, and PostgreSQL accepts only one. Or the postmaster was killed, and its last backends
  const other = await readPostmaster(paths.cluster)
  if (other?.running) return { holder: null, problem }
  // are still running.
  const passing = /lock file "postmaster\.pid"|pre-existing shared memory block/
  if (passing.test(String(problem))) return { holder: null, problem }
  throw problem
}

function hold(
  paths: ClusterPaths,
  postmaster: Postmaster,
  connection: PostgresConnection,
  client: pg.Client,
): EmbeddedPostgres {
  let stopped: Promise<void> | null = null
  const exited = new Promise<Error>((resolve) => {
    const report = (error?: Error) => {
      if (stopped !== null) return
      resolve(
        new Error(`The embedded PostgreSQL has stopped: ${error?.message ?? 'it ended'}. See ${paths.log}.`),
      )
    }
    client.on('error', report)
    client.on('end', () => report())
  })
  return {
    connection,
    exited,
    stop() {
      // Keep the lock to the end, so that no other process adopts a server that is about to stop.
      stopped ??= stopAndLeave(postmaster, client)
      return stopped
    },
  }
}

async function stopAndLeave(postmaster: Postmaster, client: pg.Client): Promise<void> {
  await stopPostmaster(postmaster, fastShutdownSeconds)
  await client.end().catch(() => {})
}

function inUse(dataDir: string, holder: Holder | null): Error {
  if (holder === null)
    return new Error(`The PostgreSQL of DATA_DIR ${dataDir} is still starting or stopping.`)
  const who = holder.purpose === 'server' ? 'another svc' : 'an svc command'
  return new Error(
    `DATA_DIR ${dataDir} is in use by ${who} (process ${holder.pid}). Stop it, or set DATA_DIR to another folder.`,
  )
}

async function describeConnection(
  paths: ClusterPaths,
  { socketFolder }: Postmaster,
): Promise<PostgresConnection> {
  return {
    host: socketFolder,
    port: 5432,
    user: clusterUser,
    password: await readPassword(paths),
    database: 'postgres',
  }
}
