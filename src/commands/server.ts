import { Command } from 'commander'
import { rekey } from '../accounts/second-factor/rekey.ts'
import { keyFileOf } from '../accounts/second-factor/secret-key.ts'
import { readConfig } from '../config.ts'
import { builtInMigrations, migrate } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { registryUrl } from '../repositories/repositories.ts'
import { makeDemo, resetDemo } from '../server/demo.ts'
import { describeWalk } from '../server/demo-walk.ts'
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
      const { serve } = await import('../server/serve.ts')
      await serve(readConfig(process.env))
      process.exit(0)
    })
}

/** `svc migrate`: updates the schema of the database, as `svc serve` does at its start. */
export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Apply pending migrations: first the built-in ones, then those in MIGRATIONS_DIR.')
    .addOption(jsonOption())
    .action(async (options: JsonOptions) => {
      let missing: string[] = []
      const applied = await withBareDatabase(async (db, config) =>
        migrate(db, await findMigrationsDir(config), builtInMigrations, {
          missing: (names) => {
            missing = names
          },
          waiting: () =>
            process.stderr.write('A migration waits for another transaction, such as a backup.\n'),
        }),
      )
      const lines = [
        applied.length > 0 ? `Applied ${applied.join(', ')}.` : 'Nothing to apply.',
        ...(missing.length > 0
          ? [`Warning: these applied migrations have no file here: ${missing.join(', ')}.`]
          : []),
      ]
      printResult(options, { applied, missing }, lines.join('\n'))
    })
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

/** `svc rekey`: encrypts the secrets of authenticator apps with a new key. */
export function rekeyCommand(): Command {
  return new Command('rekey')
    .description('Encrypt the secrets of authenticator apps with a new key. Servers can keep running.')
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
        ...(await rekey(db, config)),
        file: keyFileOf(config),
      }))
      const place = key === 'file' ? `the new key in ${file}` : 'SECRET_KEY'
      const json = { secrets, key: key === 'file' ? file : key }
      printResult(options, json, `${secrets} secrets are now encrypted with ${place}.`)
    })
}
