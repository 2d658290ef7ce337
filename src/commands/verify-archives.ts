import { Command } from 'commander'
import { openOwnStore } from '../registry/archives/store-owner.ts'
import { type Verification, verifyArchives } from '../registry/archives/verify-archives.ts'
import { jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** `svc verify-archives`: looks for damaged archives, and repairs nothing. Exits with 1 when it finds any. */
export function verifyArchivesCommand(): Command {
  return new Command('verify-archives')
    .description('Compare every archive with its hash and every version with its archive; repair nothing.')
    .addOption(jsonOption())
    .addHelpText('after', '\nIt reads every archive. Exit code 1 means that there is a problem.')
    .action(async (options: { json?: boolean }) => {
      const verification = await withDatabase(async (db, config) =>
        verifyArchives(db, await openOwnStore(db, config)),
      )
      printResult(options, verification, describeVerification(verification))
      const { length } = verification.problems
      if (length > 0)
        throw new Error(`${length} ${length === 1 ? 'archive has' : 'archives have'} a problem.`)
    })
}

/** Formats every problem with its versions, and the number of archives. */
export function describeVerification({ archives, problems }: Verification): string {
  const lines = problems.map(({ sha256, problem, versions }) =>
    [`${sha256} is ${problemTexts[problem]}`, ...versions.map((version) => `  ${version}`)].join('\n'),
  )
  return [...lines, `Read ${archives} archives.`].join('\n')
}

const problemTexts = {
  damaged: 'damaged: its bytes do not match its hash',
  missing: 'missing',
  'wrong size': 'not of the size that was published',
} as const
