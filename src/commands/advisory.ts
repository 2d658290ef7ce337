import { Command, Option } from 'commander'
import { readAdvisory } from '../packages/lifecycle/advisory-draft.ts'
import { publishAdvisory, withdrawAdvisory } from '../packages/lifecycle/warn.ts'
import { type Advisory, listAdvisories, severities } from '../packages/tables/package-warnings.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { withPackage, withPackageArguments } from './package.ts'
import { partOf, printList, printResult } from './run.ts'

/** `svc advisory …` */
export function advisoryCommand(): Command {
  return new Command('advisory')
    .description('Security advisories of published packages.')
    .addCommand(listCommand())
    .addCommand(addCommand())
    .addCommand(withdrawCommand())
}

function listCommand(): Command {
  return withPackageArguments(withListOptions(new Command('list')))
    .description('List the advisories of a package, oldest first. Withdrawn advisories are not listed.')
    .action((path: string, name: string, options: ListOptions) =>
      withPackage(path, name, (db, { found }) =>
        printList<Advisory>(options, {
          // A package has at most 500 advisories.
          list: async (part) =>
            partOf(await listAdvisories(db, found.id), ({ advisoryId }) => advisoryId, part),
          keyOf: ({ advisoryId }) => advisoryId,
          describe: describeAdvisory,
          line: ({ advisoryId, affectedVersions, severity, cve, title }) =>
            `${advisoryId}  ${affectedVersions}  ${severity ?? '-'}  ${cve ?? '-'}  ${title}`,
          none: `${name} has no advisories.`,
        }),
      ),
    )
}

interface DraftOptions extends JsonOptions {
  title: string
  affected: string
  cve: string
  link: string
  severity: string
}

function addCommand(): Command {
  return withPackageArguments(new Command('add'))
    .description('Publish an advisory for a package. Composer warns people who use an affected version.')
    .requiredOption('--title <text>', 'what is wrong, in one line of at most 255 characters')
    .requiredOption('--affected <constraint>', 'the affected versions, such as "<1.2.3"')
    .option('--cve <id>', 'such as CVE-2026-12345', '')
    .option('--link <url>', 'a page about it', '')
    .addOption(new Option('--severity <severity>', 'how severe it is').choices(severities).default(''))
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc advisory add acme/php acme/hello --title "Path traversal" --affected "<1.2.3"',
    )
    .action(async (path: string, name: string, options: DraftOptions) => {
      const { title, affected: affected_versions, cve, link, severity } = options
      const text = readAdvisory({ title, affected_versions, cve, link, severity })
      if (typeof text === 'string') throw new Error(text)
      const advisory = await withPackage(path, name, (db, { change }) => publishAdvisory(db, change, text))
      const { advisoryId } = advisory
      printResult(options, { path, ...describeAdvisory(advisory) }, `Advisory ${advisoryId} published.`)
    })
}

function withdrawCommand(): Command {
  return withPackageArguments(new Command('withdraw'))
    .description('Withdraw an advisory. Composer no longer warns.')
    .argument('<advisory>', 'its ID, as svc advisory list shows it')
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, name: string, advisoryId: string, options: ForceOptions) => {
      await withPackage(path, name, async (db, { found, change }) => {
        const known = (await listAdvisories(db, found.id)).find((one) => one.advisoryId === advisoryId)
        if (!known) throw new Error(`There is no advisory ${JSON.stringify(advisoryId)} of ${name}.`)
        await confirmInTerminal(`Composer will no longer warn about “${known.title}”.`, advisoryId, options)
        await withdrawAdvisory(db, change, advisoryId)
      })
      const json = { path, package: name, advisory_id: advisoryId }
      printResult(options, json, `Advisory ${advisoryId} of ${name} withdrawn.`)
    })
}

function describeAdvisory(advisory: Advisory): Record<string, unknown> {
  return {
    advisory_id: advisory.advisoryId,
    package: advisory.packageName,
    title: advisory.title,
    affected_versions: advisory.affectedVersions,
    cve: advisory.cve,
    link: advisory.link,
    severity: advisory.severity,
    reported_at: advisory.reportedAt,
  }
}
