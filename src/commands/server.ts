import { Command } from 'commander'
import { totpSecrets } from '../accounts/second-factor/totp-factors.ts'
import { readConfig } from '../config.ts'
import { builtInMigrations, migrate } from '../database/migrate.ts'
import { type PlannedStep, planMigrations } from '../database/migration-plan.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { rekey } from '../database/rekey.ts'
import { keyFileOf } from '../database/secret-key.ts'
import { formatCount } from '../domain/formats.ts'
import { registryUrl } from '../groups/repositories.ts'
import { openidKeySecrets } from '../openid/keys.ts'
import { sourceSecrets } from '../sources/source-secrets.ts'
import { makeDemo, resetDemo } from '../web/server/demo.ts'
import { fillDemo } from '../web/server/demo-content.ts'
import { describeWalk } from '../web/server/demo-walk.ts'
import { openLog } from '../web/server/log.ts'
import { webhookSecrets } from '../webhooks/webhook-secrets.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, withBareDatabase, withDatabase } from './run.ts'

/** `svc serve`: what `npm start` runs. */
export function serveCommand(): Command {
  return new Command('serve')
    .description(
      'Run the server until SIGTERM, SIGINT or SIGHUP. All configuration comes from the environment.',
    )
    .action(async () => {
      // Load the server's modules only here: the other commands of this file need few of them.
      const { serve } = await import('../web/server/serve.ts')
      await serve(readConfig(process.env))
      process.exit(0)
    })
}

/** `svc migrate`: updates the schema of the database, as `svc serve` does at its start. */
export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Apply pending migrations: first the built-in ones, then those in MIGRATIONS_DIR.')
    .option('--plan', 'only print what would run, what it locks, and about how long')
    .addOption(jsonOption())
    .action(async (options: { plan?: boolean } & JsonOptions) => {
      if (options.plan) await printPlan(options)
      else await migrateNow(options)
    })
}

async function migrateNow(options: JsonOptions): Promise<void> {
  let missing: string[] = []
  const applied = await withBareDatabase(async (db, config) =>
    migrate(db, await findMigrationsDir(config), builtInMigrations, {
      missing: (names) => {
        missing = names
      },
      waiting: () => process.stderr.write('A migration waits for another transaction, such as a backup.\n'),
    }),
  )
  const lines = [
    applied.length > 0 ? `Applied ${applied.join(', ')}.` : 'Nothing to apply.',
    ...(missing.length > 0
      ? [`Warning: these applied migrations have no file here: ${missing.join(', ')}.`]
      : []),
  ]
  printResult(options, { applied, missing }, lines.join('\n'))
}

async function printPlan(options: JsonOptions): Promise<void> {
  const steps = await withBareDatabase(async (db, config) =>
    planMigrations(db, await findMigrationsDir(config)),
  )
  const json = steps.map(({ isInSteps, ...step }) => ({ ...step, in_steps: isInSteps }))
  printResult(options, { steps: json }, describePlan(steps))
}

/** Returns the plan as text: for each step its files, the tables for which requests wait, and its duration. */
function describePlan(steps: readonly PlannedStep[]): string {
  if (steps.length === 0) return 'Nothing to apply.'
  const described = steps.map(({ migrations, functions, locks, isInSteps, seconds }, i) => {
    const replaced = functions.length === 0 ? [] : [`${functions.length} functions and views`]
    const waits = locks
      .filter(({ waiting }) => waiting !== 'none')
      .map(({ table, waiting, rows, bytes }) => {
        const size = `${Math.round(rows)} rows, ${(bytes / 1024 / 1024).toFixed(1)} MiB`
        return `   locks ${table} (${size}): ${waiting} wait`
      })
    return [
      `${i + 1}. ${[...migrations, ...replaced].join(', ')}`,
      ...(waits.length > 0 ? waits : ['   locks nothing that requests wait for']),
      `   takes about ${seconds} s${isInSteps ? ', in many short transactions' : ''}`,
    ].join('\n')
  })
  return ['svc migrate would commit these steps, one after another:', ...described].join('\n')
}

/** `svc demo`: creates the demo, as the first start on an empty embedded database does. */
export function demoCommand(): Command {
  return new Command('demo')
    .description(
      'Create an account, a repository, an application and a token to try svc, and print commands to paste.',
    )
    .option('--reset', 'give the demo a new password, secret and token, and print the commands again')
    .addOption(jsonOption())
    .action(async (options: { reset?: boolean } & JsonOptions) => {
      await withDatabase(async (db, config) => {
        const demo = options.reset ? await resetDemo(db) : await makeDemo(db)
        await fillDemo({ config, db }, demo.repository, openLog('silent'))
        const { clientId, clientSecret, ...rest } = demo
        const json = {
          ...rest,
          registry_url: registryUrl(config.baseUrl, demo.repository),
          client_id: clientId,
          client_secret: clientSecret,
        }
        printResult(options, json, describeWalk(demo, config).trim())
      })
    })
}

/** `svc rekey`: encrypts the secrets of authenticator apps, Git sources and webhooks, and the keys of ID tokens, with a new key. */
export function rekeyCommand(): Command {
  return new Command('rekey')
    .description(
      'Encrypt the secrets of authenticator apps, Git sources and webhooks, and the keys of ID tokens, with a new key. Servers can keep running.',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Without SECRET_KEY it creates a new key in DATA_DIR/secret-key. With SECRET_KEY: set SECRET_KEY to the new key and
SECRET_KEY_PREVIOUS to the old one, restart the servers, run svc rekey, and remove SECRET_KEY_PREVIOUS.
If it is interrupted, run it again.`,
    )
    .action(async (options: JsonOptions) => {
      const { secrets, key, file } = await withDatabase(async (db, config) => ({
        ...(await rekey(db, config, [totpSecrets, sourceSecrets, webhookSecrets, openidKeySecrets])),
        file: keyFileOf(config),
      }))
      const place = key === 'file' ? `the new key in ${file}` : 'SECRET_KEY'
      const json = { secrets, key: key === 'file' ? file : key }
      printResult(
        options,
        json,
        `${formatCount(secrets, 'secret')} ${secrets === 1 ? 'is' : 'are'} now encrypted with ${place}.`,
      )
    })
}
