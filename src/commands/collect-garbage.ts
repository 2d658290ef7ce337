import { Command } from 'commander'
import { collectGarbage } from '../registry/archives/collect-garbage.ts'
import { openOwnStore } from '../registry/archives/store-owner.ts'
import { jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** `svc collect-garbage`: removes the archives of deleted repositories, purged versions and failed uploads. */
export function collectGarbageCommand(): Command {
  return new Command('collect-garbage')
    .description('Remove archives without a version, and leftovers of uploads, after a day without use.')
    .option('--dry-run', 'only show how much would be removed')
    .option('--force', 'allow the removal of more than half of the archives')
    .addOption(jsonOption())
    .addHelpText('after', '\nThe server does this once a day. The command may run beside it.')
    .action(async (options: { dryRun?: boolean; force?: boolean; json?: boolean }) => {
      const { dryRun: isDryRun = false, force: isForced = false } = options
      const { archives, temporaryFiles, bytes } = await withDatabase(async (db, config) =>
        collectGarbage(db, await openOwnStore(db, config), { isDryRun, isForced }),
      )
      printResult(
        options,
        { archives, temporary_files: temporaryFiles, bytes, dry_run: isDryRun },
        `${isDryRun ? 'Would remove' : 'Removed'} ${archives} archives and ${temporaryFiles} temporary files: ${bytes} bytes.`,
      )
    })
}
