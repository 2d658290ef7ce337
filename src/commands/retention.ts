import { Command, InvalidArgumentError, Option } from 'commander'
import { operator } from '../domain/principal.ts'
import {
  describeJudged,
  describeRetention,
  explainVerdict,
  setRetention,
} from '../packages/lifecycle/retention.ts'
import {
  findRetention,
  type JudgedVersion,
  keyOfJudged,
  listJudged,
  maxArchiveDays,
  maxKeptVersions,
  type Retention,
  type RetentionRules,
} from '../packages/tables/retention.ts'
import { type JsonOptions, jsonOption, type ListOptions, wholeNumber, withListOptions } from './options.ts'
import { printList, printResult, theRepository, withDatabase } from './run.ts'

/** `svc retention …` */
export function retentionCommand(): Command {
  return new Command('retention')
    .description('Retention rules of a repository: which old versions are deleted and purged by themselves.')
    .addCommand(showCommand())
    .addCommand(setCommand())
    .addCommand(previewCommand())
}

/** A missing rule is undefined, and one that is off null. */
interface RuleOptions {
  keepDevelopment?: number | null
  deletedArchivesDays?: number | null
}

function withRules(command: Command): Command {
  return command
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(
      new Option(
        '--keep-development <n|off>',
        'how many development versions of each package stay: those that changed last',
      ).argParser(numberOrOff('versions', maxKeptVersions)),
    )
    .addOption(
      new Option(
        '--deleted-archives-days <days|off>',
        'after how many days the archive of a deleted version is purged',
      ).argParser(numberOrOff('days', maxArchiveDays)),
    )
}

function numberOrOff(unit: string, most: number): (text: string) => number | null {
  return (text) => {
    if (text === 'off') return null
    try {
      return wholeNumber(unit, 1, most)(text)
    } catch {
      throw new InvalidArgumentError(`It must be a whole number of ${unit} from 1 to ${most}, or off.`)
    }
  }
}

/** Returns the rules of the options. One that is missing stays as it is. */
function rulesOf({ keepDevelopment, deletedArchivesDays }: RuleOptions, stored: Retention): RetentionRules {
  return {
    keepDevelopment: keepDevelopment === undefined ? stored.keepDevelopment : keepDevelopment,
    deletedArchivesDays: deletedArchivesDays === undefined ? stored.deletedArchivesDays : deletedArchivesDays,
  }
}

function showCommand(): Command {
  return new Command('show')
    .description('Show the retention rules of a repository, and when they are applied next.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .addOption(jsonOption())
    .action(async (path: string, options: JsonOptions) => {
      const retention = await withDatabase(async (db) =>
        findRetention(db, (await theRepository(db, path)).id),
      )
      printResult(options, { path, ...describeRetention(retention) }, describe(path, retention))
    })
}

function setCommand(): Command {
  return withRules(new Command('set'))
    .description('Set retention rules. A new or stricter rule is applied a day later.')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc retention set acme/php --keep-development 10 --deleted-archives-days 90',
    )
    .action(async (path: string, options: RuleOptions & JsonOptions) => {
      if (options.keepDevelopment === undefined && options.deletedArchivesDays === undefined)
        throw new Error('Nothing to change: use --keep-development or --deleted-archives-days.')
      const retention = await withDatabase(async (db) => {
        const { id: repositoryId } = await theRepository(db, path)
        const rules = rulesOf(options, await findRetention(db, repositoryId))
        return setRetention(db, { repositoryId, by: operator }, rules)
      })
      printResult(options, { path, ...describeRetention(retention) }, describe(path, retention))
    })
}

function previewCommand(): Command {
  return withListOptions(withRules(new Command('preview')))
    .description('List the versions that the rules of a repository, or other rules, delete or purge now.')
    .option('--kept', 'list the versions that stay, and why')
    .action(async (path: string, options: RuleOptions & ListOptions & { kept?: boolean }) =>
      withDatabase(async (db) => {
        const { id } = await theRepository(db, path)
        const rules = rulesOf(options, await findRetention(db, id))
        const isGoing = !options.kept
        await printList<JudgedVersion>(options, {
          list: (part) => listJudged(db, id, rules, isGoing, part),
          keyOf: keyOfJudged,
          describe: describeJudged,
          line: (one) =>
            `${describeJudged(one).act.padEnd(6)}  ${one.packageName} ${one.version}  ${explainVerdict(one)}`,
          none: isGoing ? `Nothing of ${path} goes now.` : `The rules are about no version of ${path}.`,
        })
      }),
    )
}

function describe(path: string, { keepDevelopment, deletedArchivesDays, dueAt }: Retention): string {
  if (dueAt === null) return `${path} has no retention rules.`
  return [
    keepDevelopment !== null && `Development versions of each package that stay: ${keepDevelopment}`,
    deletedArchivesDays !== null &&
      `Archives of deleted versions are purged after ${deletedArchivesDays} days.`,
    `Applied next: ${dueAt.toISOString()}`,
  ]
    .filter((line) => line !== false)
    .join('\n')
}
