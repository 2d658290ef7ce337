import { Command } from 'commander'
import { openArchiveVolume } from '../registry/archives/archive-volume.ts'
import { collectGarbage } from '../registry/archives/collect-garbage.ts'
import { jsonOption } from './options.ts'
import { answer, withDatabase } from './run.ts'

/** `svc collect-garbage`: frees what deleted repositories, purged versions and broken uploads have left behind. */
export function collectGarbageCommand(): Command {
  return new Command('collect-garbage')
    .description('Remove archives that no version names, and leftovers of uploads, when untouched for a day.')
    .addOption(jsonOption())
    .addHelpText('after', '\nIt may run beside a server, and beside itself: once a day is often enough.')
    .action(async (options: { json?: boolean }) => {
      const collected = await withDatabase(async (db, { dataDir }) =>
        collectGarbage(db, await openArchiveVolume(dataDir)),
      )
      const { archives, temporaryFiles, bytes } = collected
      answer(
        options,
        { archives, temporary_files: temporaryFiles, bytes },
        `Removed ${archives} archives and ${temporaryFiles} temporary files: ${bytes} bytes.`,
      )
    })
}
