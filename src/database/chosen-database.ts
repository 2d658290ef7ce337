import { access, constants, mkdir } from 'node:fs/promises'
import type pg from 'pg'
import type { Config } from '../config.ts'
import type { Log } from '../domain/log.ts'
import { openDatabase } from './database.ts'
import { clusterPaths } from './embedded-postgres/cluster.ts'
import {
  type EmbeddedPostgres,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from './embedded-postgres/embedded-postgres.ts'
import { findClusterOwner } from './embedded-postgres/run-as.ts'

/** The database of the configuration: the one of DATABASE_URL, or the embedded one under DATA_DIR. */
export interface ChosenDatabase {
  db: pg.Pool
  isEmbedded: boolean
  /** Resolves with the cause if the embedded PostgreSQL ends before `close`. */
  gone: Promise<Error>
  /** Closes the pool and stops the PostgreSQL that `open…` started. */
  close: () => Promise<void>
  /** Stops the PostgreSQL that `open…` started, and does not wait for running statements. Then exit the process. */
  abandon: () => Promise<void>
}

/**
 * Opens the database for the server. The server holds the embedded PostgreSQL until `close`. The signal ends the start of
 * PostgreSQL. Calls `onWait` when it only waits for the programs of PostgreSQL.
 */
export async function openForServer(
  config: Config,
  log: Log,
  { signal, onWait }: { signal: AbortSignal; onWait: () => void },
): Promise<ChosenDatabase> {
  await prepareDataDir(config.dataDir)
  if (config.databaseUrl !== null)
    return openUrl(config, config.databaseUrl, (error) => logBroken(log, error))
  const { dataDir } = config
  const postgres = await startEmbeddedPostgres({ dataDir, log, purpose: 'server', signal, onWait })
  return openHeld(postgres, (error) => logBroken(log, error))
}

/**
 * Opens the database for a command. Uses the embedded PostgreSQL of a running server, or starts one for the command. The
 * signal ends this start.
 */
export async function openForCommand(config: Config, signal: AbortSignal): Promise<ChosenDatabase> {
  if (config.databaseUrl !== null) return openUrl(config, config.databaseUrl, ignore)
  const running = await findEmbeddedPostgres(config.dataDir)
  if (running === null) {
    await prepareDataDir(config.dataDir)
    const postgres = await startEmbeddedPostgres({ dataDir: config.dataDir, purpose: 'command', signal })
    return openHeld(postgres, ignore)
  }
  const db = openDatabase(running, ignore)
  return { db, isEmbedded: true, gone: never, close: () => db.end(), abandon: async () => {} }
}

/** Returns whether the configuration has a database: DATABASE_URL, or an embedded one that was created before. */
export async function hasDatabase({ databaseUrl, dataDir }: Config): Promise<boolean> {
  return databaseUrl !== null || (await findClusterOwner(clusterPaths(dataDir).cluster)) !== null
}

const never = new Promise<Error>(() => {})

function openUrl(
  { preparesStatements }: Config,
  connectionString: string,
  onError: (error: Error) => void,
): ChosenDatabase {
  const db = openDatabase({ connectionString, preparesStatements }, onError)
  return { db, isEmbedded: false, gone: never, close: () => db.end(), abandon: async () => {} }
}

function openHeld(postgres: EmbeddedPostgres, onError: (error: Error) => void): ChosenDatabase {
  const db = openDatabase(postgres.connection, onError)
  const close = async () => {
    await db.end()
    await postgres.stop()
  }
  return { db, isEmbedded: true, gone: postgres.exited, close, abandon: () => postgres.stop() }
}

function logBroken(log: Log, error: Error): void {
  log.error(error, 'an idle database connection broke')
}

/** Ignores an error, because the next statement on the connection reports it. */
function ignore(): void {}

/** Creates the folder of DATA_DIR if it is missing. Throws an Error with its path if it cannot be created or written. */
async function prepareDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true })
    await access(dataDir, constants.W_OK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(
      `The folder ${dataDir} cannot be used (${code}). Set DATA_DIR to a folder that svc can write to.`,
    )
  }
}
