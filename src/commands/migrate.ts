import { Command } from 'commander'
import { migrate } from '../database/migrate.ts'
import { answer, withBareDatabase } from './run.ts'

/** `svc migrate`: brings the database up to date; `svc serve` does so too. */
export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Apply the migrations that the database lacks: the schema, then those of MIGRATIONS_DIR.')
    .option('--json', 'answer with one JSON object')
    .action(async (options: { json?: boolean }) => {
      const applied = await withBareDatabase((db, { migrationsDir }) => migrate(db, migrationsDir))
      const text = applied.length > 0 ? `Applied ${applied.join(', ')}.` : 'Nothing to apply.'
      answer(options, { applied }, text)
    })
}
