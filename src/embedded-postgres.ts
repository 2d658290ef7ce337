import type { FastifyBaseLogger } from 'fastify'
import { preparePostgresBinaries } from './embedded-postgres/binaries.ts'
import { clusterUser, createCluster, hasCluster, readPassword } from './embedded-postgres/cluster.ts'
import { type ClusterPaths, clusterPaths } from './embedded-postgres/layout.ts'
import {
  type Postmaster,
  type Settings,
  startPostmaster,
  stopPostmaster,
} from './embedded-postgres/postmaster.ts'
import { chooseRunAs } from './embedded-postgres/run-as.ts'

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
  /** Stops PostgreSQL; every connection to it ends. May be called more than once. */
  stop: () => Promise<void>
}

/** What to start. */
export interface EmbeddedPostgresOptions {
  dataDir: string
  log?: Pick<FastifyBaseLogger, 'info'>
  /** PostgreSQL's own parameters, for tests. */
  settings?: Settings
}

const stopSeconds = 30

/** Starts the PostgreSQL of a DATA_DIR (made when missing). */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDir, log, settings = {} } = options
  const paths = clusterPaths(dataDir)
  const runAs = await chooseRunAs(paths.cluster)
  const native = await preparePostgresBinaries(runAs)
  if (!(await hasCluster(paths))) {
    log?.info(`making a PostgreSQL cluster in ${paths.folder}`)
    await createCluster(paths, { native, runAs, sync: settings['fsync'] !== 'off' })
  }
  const postmaster = await startPostmaster(paths, { native, runAs, settings })
  return {
    connection: await describeConnection(paths, postmaster),
    stop: () => stopPostmaster(paths.cluster, postmaster, stopSeconds),
  }
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
