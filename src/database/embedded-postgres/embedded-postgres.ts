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

/** How to reach an embedded PostgreSQL: usable as (part of) a pg.PoolConfig, plain enough to be sent to a worker. */
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
  /** Resolves with what happened if PostgreSQL ends before `stop` is called. */
  exited: Promise<Error>
  /** Stops PostgreSQL; every connection to it ends. May be called more than once. */
  stop: () => Promise<void>
}

/** What to start. */
export interface EmbeddedPostgresOptions {
  dataDir: string
  log?: Pick<FastifyBaseLogger, 'info'>
  purpose?: Purpose
  /** How long to wait for another holder to let go. */
  patienceSeconds?: number
  /** PostgreSQL's own parameters, for tests. */
  settings?: Settings
}

const fastShutdownSeconds = 30

/** How much longer to wait when nobody holds it: PostgreSQL is starting, recovering or stopping. */
const passingSeconds = 30

/**
 * Starts the PostgreSQL of a DATA_DIR and holds it: makes the cluster when there is none, adopts the server that a
 * killed svc left running, and throws when another svc holds it. PostgreSQL itself decides this by an advisory lock, which
 * ends with its holder's connection.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, purpose = 'server', patienceSeconds = 5 } = options
  const paths = clusterPaths(dataDir)
  let deadline = Number.POSITIVE_INFINITY
  for (;;) {
    const attempt = await tryStart(paths, options, purpose)
    if ('connection' in attempt) return attempt
    // Making the cluster may take long. Patience only counts while something is in the way.
    deadline = Math.min(deadline, Date.now() + patienceSeconds * 1000)
    const limit = attempt.holder === null ? deadline + passingSeconds * 1000 : deadline
    if (Date.now() >= limit) throw attempt.problem ?? inUse(dataDir, attempt.holder)
    await sleep(100)
  }
}

/**
 * The PostgreSQL that a running server holds for this DATA_DIR, or null. One that a command holds does not count, as
 * it ends with that command.
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

/** Why an attempt may succeed later: somebody holds the cluster, or PostgreSQL is starting or stopping. */
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
    // A stop, or PostgreSQL's death, frees the lock a moment before it ends our connection, too.
    const now = await readPostmaster(paths.cluster)
    const isStaying = now !== null && now.pid === found.pid && now.running && now.ready
    if (held && isStaying) return hold(paths, found, connection, client)
    const holder = held ? null : await findHolder(client)
    await client.end()
    return { holder }
  } catch (problem) {
    // Somebody stopped it meanwhile.
    await client.end().catch(() => {})
    return { holder: null, problem }
  }
}

/** The running server of a cluster, started when there is none. */
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
    log?.info(`making a PostgreSQL cluster in ${paths.folder}`)
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

/** Returns when another try is worthwhile, else throws the failure. */
async function explainFailure(paths: ClusterPaths, problem: unknown): Promise<Refusal> {
  // Another start was faster, and PostgreSQL accepts only one.
  const other = await readPostmaster(paths.cluster)
  if (other?.running) return { holder: null, problem }
  // Or the postmaster was killed, and its last backends have not noticed yet.
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
        new Error(`The embedded PostgreSQL went away: ${error?.message ?? 'it ended'}. See ${paths.log}.`),
      )
    }
    client.on('error', report)
    client.on('end', () => report())
  })
  return {
    connection,
    exited,
    stop() {
      // The lock is kept to the end, so that nobody adopts a server that is about to stop.
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
