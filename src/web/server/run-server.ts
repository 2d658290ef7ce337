import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { hasNoAccounts } from '../../accounts/accounts.ts'
import { explainMissingKey } from '../../accounts/second-factor/totp.ts'
import { countForeignSecrets } from '../../accounts/second-factor/totp-factors.ts'
import { openOwnStore, refuseEmptyDatabase } from '../../archives/store-owner.ts'
import { countMissingArchives } from '../../archives/verify-archives.ts'
import { type Config, projectRoot } from '../../config.ts'
import type { ChosenDatabase } from '../../database/chosen-database.ts'
import { noteServerUrls } from '../../database/installation.ts'
import { builtInMigrations, migrate } from '../../database/migrate.ts'
import { findMigrationsDir } from '../../database/operator-migrations.ts'
import { readSecretKeys } from '../../database/secret-key.ts'
import { listGroupsInTheWay } from '../../groups/groups.ts'
import { enqueue } from '../../jobs/job.ts'
import { addCommandLineClient } from '../../oauth/command-line-client.ts'
import { renderOutdatedJob, rerenderDocuments } from '../../packages/documents/rerender.ts'
import { buildApp } from './app.ts'
import { type Demo, makeDemo } from './demo.ts'
import { fillDemo } from './demo-content.ts'
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
  let onWork = () => {}
  const working = new Promise<void>((resolve) => {
    onWork = resolve
  })
  const preparing = prepare(database, config, log, onWork)
  // Building the app keeps this process busy for a while: begin when PostgreSQL works on the schema.
  const building = Promise.race([working, preparing]).then(() => buildApp({ config, db: database.db }, log))
  const [app] = await Promise.all([building, preparing])
  const demo = await listenWithDemo(app, config, database)
  await noteServerUrls(database.db, config)
  const logo = await readFile(join(projectRoot, 'views/demo-logo.png'))
  await addCommandLineClient(database.db, { website: config.baseUrl, logo })
  say(`svc listens on ${config.baseUrl}`)
  if (demo) say(describeWalk(demo, config))
  const filling =
    demo &&
    fillDemo({ config, db: database.db }, demo.repository, log).catch((error: unknown) =>
      log.error({ err: error }, 'the demo lacks its packages: run svc demo --reset'),
    )
  const stopping = new AbortController()
  const rendering = renderDocumentsAgain(database, config, log, stopping.signal)
  void lookForArchives(database, config, log, stopping.signal)
  const failure = await Promise.race([stopRequested, database.gone])
  log.info('stopping')
  stopping.abort()
  await Promise.all([rendering, filling])
  await letConnectionsEnd(app)
  await app.close()
  if (failure instanceof Error) throw failure
}

/**
 * Migrates the database. Throws when the archives belong to another database. Calls `onWork` when PostgreSQL works on the
 * schema.
 */
async function prepare(
  { db }: ChosenDatabase,
  config: Config,
  log: FastifyBaseLogger,
  onWork: () => void,
): Promise<void> {
  await refuseEmptyDatabase(db, config)
  const applied = await migrate(db, await findMigrationsDir(config), builtInMigrations, {
    missing: (missing) =>
      log.warn(
        { missing },
        'applied migrations have no file here: this may be an older release, or their files are elsewhere',
      ),
    waiting: () => log.warn('a migration waits for another transaction, such as a backup'),
    working: onWork,
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
  const groups = await listGroupsInTheWay(db)
  if (groups.length > 0) {
    const about = 'groups have the name of a page of svc, which their own page hides: rename them'
    log.warn({ groups }, about)
  }
  await openOwnStore(db, config)
}

/** Reports a store that is an older copy, or another folder, and how many archives it lacks. */
async function lookForArchives(
  { db }: ChosenDatabase,
  config: Config,
  log: FastifyBaseLogger,
  stop: AbortSignal,
): Promise<void> {
  try {
    const store = await openOwnStore(db, config)
    const counted = await countMissingArchives(db, store, stop)
    if (counted === null || stop.aborted) return
    const { missing, archives } = counted
    const about = `${store.place} lacks ${missing} of ${archives} archives`
    log.error(
      { ...counted, place: store.place },
      `${about}: check DATA_DIR and ARCHIVE_STORE, or restore a backup; svc verify-archives lists them`,
    )
  } catch (error) {
    // A stop does not wait for a slow bucket, and closes the database.
    if (!stop.aborted) log.warn({ err: error }, 'could not look whether archives are missing')
  }
}

/**
 * Renders documents again after BASE_URL or the document format changed. A document that a request needs before is
 * rendered for it.
 */
async function renderDocumentsAgain(
  { db }: ChosenDatabase,
  config: Config,
  log: FastifyBaseLogger,
  stop: AbortSignal,
): Promise<void> {
  try {
    const rendered = await rerenderDocuments(db, config.baseUrl, stop)
    if (rendered.packages + rendered.repositories > 0) log.info(rendered, 'documents rendered again')
  } catch (error) {
    log.error({ err: error }, 'could not render all documents again: a job continues')
    await enqueue(db, renderOutdatedJob, {}).catch((err: unknown) =>
      log.error({ err }, 'could not start that job: the next start continues'),
    )
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
