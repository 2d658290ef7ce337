import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { hasNoAccounts } from '../accounts/accounts.ts'
import { explainMissingKey } from '../accounts/second-factor/check-factor.ts'
import { readSecretKeys } from '../accounts/second-factor/secret-key.ts'
import { countForeignSecrets } from '../accounts/second-factor/totp-factors.ts'
import type { Config } from '../config.ts'
import type { ChosenDatabase } from '../database/chosen-database.ts'
import { noteServerUrls } from '../database/installation.ts'
import { builtInMigrations, migrate } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { enqueue } from '../jobs/job.ts'
import { openOwnStore, refuseEmptyDatabase } from '../registry/archives/store-owner.ts'
import { lacksNewestArchive } from '../registry/archives/verify-archives.ts'
import { renderOutdatedJob, rerenderDocuments } from '../registry/documents/rerender.ts'
import { buildApp } from './app.ts'
import { type Demo, makeDemo } from './demo.ts'
import { describeWalk } from './demo-walk.ts'
import { letConnectionsEnd } from './drain.ts'

/**
 * Migrates the database, and serves requests until a stop is requested or the database ends. Throws when the server cannot
 * start or continue.
 */
export async function runServer(
  database: ChosenDatabase,
  { config, log, stopRequested }: { config: Config; log: FastifyBaseLogger; stopRequested: Promise<void> },
): Promise<void> {
  // PostgreSQL works on the schema while this process builds the app.
  const [app] = await Promise.all([
    buildApp({ config, db: database.db }, log),
    prepare(database, config, log),
  ])
  const demo = await listenWithDemo(app, config, database)
  await noteServerUrls(database.db, config)
  say(`svc listens on ${config.baseUrl}`)
  if (demo) say(describeWalk(demo, config))
  const stopRendering = renderInBackground(database, config, log)
  const failure = await Promise.race([stopRequested, database.gone])
  log.info('stopping')
  await stopRendering()
  await letConnectionsEnd(app)
  await app.close()
  if (failure instanceof Error) throw failure
}

/**
 * Migrates the database. Throws when the archives belong to another database. Logs a warning when the newest archive is
 * missing.
 */
async function prepare({ db }: ChosenDatabase, config: Config, log: FastifyBaseLogger): Promise<void> {
  await refuseEmptyDatabase(db, config)
  const applied = await migrate(db, await findMigrationsDir(config), builtInMigrations, {
    missing: (missing) =>
      log.warn(
        { missing },
        'applied migrations have no file here: this may be an older release, or their files are elsewhere',
      ),
    waiting: () => log.warn('a migration waits for another transaction, such as a backup'),
  })
  if (applied.length > 0) {
    const migrations = applied.filter((name) => !name.startsWith('functions/'))
    const functions = applied.length - migrations.length
    log.info(
      { migrations: migrations.length, latest: migrations.at(-1), functions },
      'the database is migrated',
    )
  }
  const keys = await readSecretKeys(config)
  const foreign = await countForeignSecrets(
    db,
    keys.map(({ id }) => id),
  )
  if (foreign > 0) log.error({ accounts: foreign }, explainMissingKey(config))
  const { dataDir } = config
  if (await lacksNewestArchive(db, await openOwnStore(db, config))) {
    log.warn(
      { dataDir },
      'the newest archive is missing: run svc verify-archives to list all missing archives',
    )
  }
}

/**
 * Renders documents again in the background after BASE_URL or the document format changed. Meanwhile the server serves
 * the stored documents. Returns a function that stops the work and waits for the current document.
 */
function renderInBackground(
  { db }: ChosenDatabase,
  config: Config,
  log: FastifyBaseLogger,
): () => Promise<void> {
  const stop = new AbortController()
  const running = rerenderDocuments(db, config.baseUrl, stop.signal).then(
    (rendered) => {
      if (rendered.packages + rendered.repositories > 0) log.info(rendered, 'documents rendered again')
    },
    async (error: unknown) => {
      log.error({ err: error }, 'could not render all documents again: a job continues')
      await enqueue(db, renderOutdatedJob, {}).catch((err: unknown) =>
        log.error({ err }, 'could not start that job: the next start continues'),
      )
    },
  )
  return async () => {
    stop.abort()
    await running
  }
}

/**
 * Listens, and creates the demo in an empty embedded database. Returns null for any other database. If listening fails,
 * it creates no demo, because its secrets could not be printed.
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

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
