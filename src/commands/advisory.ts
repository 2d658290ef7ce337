import { readFile } from 'node:fs/promises'
import { Command, Option } from 'commander'
import { operator } from '../domain/principal.ts'
import { readAdvisory } from '../packages/lifecycle/advisory-draft.ts'
import { publishAdvisory, withdrawAdvisory } from '../packages/lifecycle/warn.ts'
import { exportOsv } from '../packages/osv/export-osv.ts'
import { importOsv } from '../packages/osv/import-osv.ts'
import { type Advisory, listAdvisories, severities } from '../packages/tables/package-warnings.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { withPackage, withPackageArguments } from './package.ts'
import { partOf, printList, printResult, theRepository, withDatabase } from './run.ts'

/** `svc advisory …` */
export function advisoryCommand(): Command {
  return new Command('advisory')
    .description('Security advisories of published packages.')
    .addCommand(listCommand())
    .addCommand(addCommand())
    .addCommand(withdrawCommand())
    .addCommand(exportCommand())
    .addCommand(importCommand())
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

function exportCommand(): Command {
  return new Command('export')
    .description(
      'Print all advisories of a repository in OSV form, also those that were withdrawn: a JSON array.',
    )
    .argument('<path>', 'the repository, such as acme/php')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc advisory export acme/php > advisories.json')
    .action(async (path: string, options: JsonOptions) => {
      await withDatabase(async (db, { baseUrl }) => {
        const { id } = await theRepository(db, path)
        let separator = options.json ? '{"items":[' : '['
        for await (const record of exportOsv(db, { id, path, baseUrl })) {
          process.stdout.write(`${separator}\n${JSON.stringify(record)}`)
          separator = ','
        }
        process.stdout.write(`${separator === ',' ? '\n' : separator}]${options.json ? '}' : ''}\n`)
      })
    })
}

function importCommand(): Command {
  return new Command('import')
    .description(
      'Import advisories in OSV form into the packages of a repository. The same file again changes nothing.',
    )
    .argument('<path>', 'the repository, such as acme/php')
    .argument('<file>', 'a JSON file with one record, an array, or a record on each line')
    .option('--dry-run', 'only show what would be added, changed, withdrawn and skipped')
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc advisory import acme/php advisories.json --dry-run')
    .action(async (path: string, file: string, options: JsonOptions & { dryRun?: boolean }) => {
      const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
        throw new Error(`${file} cannot be read (${error.code}).`)
      })
      const isDryRun = options.dryRun ?? false
      const imported = await withDatabase(async (db, { baseUrl }) => {
        const { id: repositoryId } = await theRepository(db, path)
        const wanted = { repositoryId, by: operator, baseUrl, mayWithdraw: true, isDryRun }
        return importOsv(db, wanted, bytes)
      })
      const lines = imported.map(({ outcome, id, package: name, advisory, reason }) =>
        [outcome.padEnd(9), id, name ?? '-', advisory, reason].filter(Boolean).join('  '),
      )
      printResult(options, { path, dry_run: isDryRun, items: imported }, lines.join('\n'))
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
