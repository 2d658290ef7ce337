import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { hasNoAccounts } from '../accounts/accounts.ts'
import type { Config } from '../config.ts'
import { type ChosenDatabase, openForServer } from '../database/chosen-database.ts'
import { builtInMigrations, migrate } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { noteServerUrls } from '../database/server-urls.ts'
import { lacksNewestArchive } from '../registry/archives/verify-archives.ts'
import { openOwnVolume } from '../registry/archives/volume-owner.ts'
import { rerenderDocuments } from '../registry/documents/rerender.ts'
import { buildApp } from './app.ts'
import { type Demo, makeDemo } from './demo.ts'
import { describeWalk } from './demo-walk.ts'
import { openLog } from './log.ts'

/** Running requests have half of it; the rest is for the database. Supervisors wait about as long. */
const maxStopSeconds = 20

/** Runs the server until SIGTERM or SIGINT, then stops it cleanly. Throws when it cannot start or go on. */
export async function serve(config: Config): Promise<void> {
  const signal = nextSignal()
  const log = openLog(config.logLevel)
  process.on('uncaughtException', (error) => {
    // Nobody foresaw it, so the state is unknown: a supervisor starts afresh.
    log.fatal(error, 'stopping at once, because of a bug')
    process.exit(1)
  })
  const database = await openForServer(config, log)
  try {
    await prepare(database, config, log)
    const app = await buildApp({ config, db: database.db }, log)
    const demo = await listenWithDemo(app, config, database)
    await noteServerUrls(database.db, config)
    say(`svc listens on ${config.baseUrl}`)
    if (demo) say(describeWalk(demo, config))
    const stopRendering = renderInBackground(database, config, log)
    const failure = await Promise.race([signal, database.gone])
    log.info('stopping')
    await stopRendering()
    await app.close()
    if (failure instanceof Error) throw failure
  } finally {
    await database.close()
  }
}

/** Brings the database up to date. Throws when the archives belong to another database; warns when the newest is missing. */
async function prepare({ db }: ChosenDatabase, config: Config, log: FastifyBaseLogger): Promise<void> {
  const applied = await migrate(db, await findMigrationsDir(config), builtInMigrations, (missing) =>
    log.warn(
      { missing },
      'applied migrations have no file here: is this an older release, or a seed kept elsewhere?',
    ),
  )
  if (applied.length > 0) log.info({ applied }, 'the database is migrated')
  const { dataDir } = config
  if (await lacksNewestArchive(db, await openOwnVolume(db, dataDir))) {
    log.warn({ dataDir }, 'DATA_DIR lacks the newest archive: svc verify-archives lists what is missing')
  }
}

/**
 * Renders documents anew, while the server already serves the stored ones: after a change of BASE_URL or of the format
 * of documents. Returns a function that stops it and waits for the document in progress.
 */
function renderInBackground(
  { db }: ChosenDatabase,
  config: Config,
  log: FastifyBaseLogger,
): () => Promise<void> {
  const stop = new AbortController()
  const running = rerenderDocuments(db, config.baseUrl, stop.signal).then(
    (rendered) => {
      if (rendered.packages + rendered.repositories > 0) log.info(rendered, 'rendered documents anew')
    },
    (error: unknown) =>
      log.error({ err: error }, 'could not render all documents anew; the next start goes on'),
  )
  return async () => {
    stop.abort()
    await running
  }
}

/**
 * Listens, and makes the demo of an empty database of one's own; null for any other. There is none when listening
 * fails, for nobody would ever see its secrets.
 */
async function listenWithDemo(
  app: FastifyInstance,
  config: Config,
  { db, isEmbedded }: ChosenDatabase,
): Promise<Demo | null> {
  if (isEmbedded && (await hasNoAccounts(db))) return makeDemo(db, () => listen(app, config))
  await listen(app, config)
  return null
}

async function listen(app: FastifyInstance, { host, port }: Config): Promise<void> {
  try {
    await app.listen({ host, port })
  } catch (error) {
    await app.close()
    throw error
  }
}

/**
 * Resolves at the first SIGTERM or SIGINT. A later one ends the process at once; within a second it is the same
 * Ctrl-C once more, from npm, which passes on what the terminal has sent to both. A stop, or a start that it ends,
 * takes no longer than its bound.
 */
function nextSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first: number | null = null
    const onSignal = (signal: NodeJS.Signals) => {
      if (first === null) setTimeout(() => process.exit(1), maxStopSeconds * 1000).unref()
      first ??= Date.now()
      if (Date.now() - first > 1000) process.exit(1)
      resolve(signal)
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
  })
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
