import { Command } from 'commander'
import { builtInMigrations, migrate } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { jsonOption } from './options.ts'
import { printResult, withBareDatabase } from './run.ts'

/** `svc migrate`: updates the database's schema. `svc serve` does so too. */
export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Apply the migrations that the database lacks: the schema, then those of MIGRATIONS_DIR.')
    .addOption(jsonOption())
    .action(async (options: { json?: boolean }) => {
      let missing: string[] = []
      const applied = await withBareDatabase(async (db, config) =>
        migrate(db, await findMigrationsDir(config), builtInMigrations, (names) => {
          missing = names
        }),
      )
      const lines = [
        applied.length > 0 ? `Applied ${applied.join(', ')}.` : 'Nothing to apply.',
        ...(missing.length > 0 ? [`Warning: applied, but without a file here: ${missing.join(', ')}.`] : []),
      ]
      printResult(options, { applied, missing }, lines.join('\n'))
    })
}
