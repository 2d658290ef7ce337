import { Command, Option } from 'commander'
import type pg from 'pg'
import { isPackageName, toLowerAscii } from '../composer/package-name.ts'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import type { PackageChange } from '../packages/lifecycle/change.ts'
import { deletePackage, purgePackage, restorePackage } from '../packages/lifecycle/deletion.ts'
import { setOnlyTrustedPublishers } from '../packages/lifecycle/trusted-only.ts'
import { setAbandoned } from '../packages/lifecycle/warn.ts'
import { findPackage, type ListedPackage, listPackages } from '../packages/tables/listed-packages.ts'
import { cautionForLimit } from '../publishers/trusted-publishers.ts'
import { confirm, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theRepository, withDatabase } from './run.ts'

/** `svc package …` */
export function packageCommand(): Command {
  return new Command('package')
    .description('Published packages.')
    .addCommand(listCommand())
    .addCommand(setCommand())
    .addCommand(abandonCommand())
    .addCommand(unabandonCommand())
    .addCommand(deleteCommand())
    .addCommand(restoreCommand())
    .addCommand(purgeCommand())
}

/** A package of a repository, and how to change it. */
export interface NamedPackage {
  found: ListedPackage
  change: PackageChange
  /** The path of its repository. */
  path: string
}

/** Adds the arguments that name a package to a command. */
export function withPackageArguments(command: Command): Command {
  return command
    .argument('<path>', 'the repository, such as acme/php')
    .argument('<package>', 'the name of the package, such as acme/hello')
}

/** Opens the database and runs the work on a package, even a deleted one. Throws when there is no such package. */
export function withPackage<T>(
  path: string,
  name: string,
  work: (db: pg.Pool, about: NamedPackage) => Promise<T>,
): Promise<T> {
  return withDatabase(async (db, { baseUrl }) => {
    const { id: repositoryId } = await theRepository(db, path)
    const packageName = toLowerAscii(name)
    const found = await findPackage(db, repositoryId, packageName)
    if (!found) throw new Error(`There is no package ${JSON.stringify(name)} in ${path}.`)
    return work(db, { found, path, change: { repositoryId, packageName, by: operator, baseUrl } })
  })
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the packages of a repository by name.')
    .argument('<path>', 'the repository, such as acme/php')
    .option('--deleted', 'list deleted packages too')
    .action((path: string, options: ListOptions & { deleted?: boolean }) =>
      withDatabase(async (db) => {
        const { id } = await theRepository(db, path)
        await printList<ListedPackage>(options, {
          list: (part) => listPackages(db, id, part, options.deleted ? 'all' : 'undeleted'),
          keyOf: ({ name }) => name,
          describe: describePackage,
          line: ({ name, latestVersion, versionCount, isAbandoned, replacement, isDeleted }) =>
            [
              name,
              latestVersion ?? '-',
              formatCount(versionCount, 'version'),
              ...(isAbandoned ? [`abandoned${replacement ? `, use ${replacement}` : ''}`] : []),
              ...(isDeleted ? ['deleted'] : []),
            ].join('  '),
          none: `${path} has no packages.`,
        })
      }),
    )
}

function setCommand(): Command {
  return onPackage('set', 'Change the settings of a package.')
    .addOption(
      new Option('--only-trusted-publishers <yes|no>', 'whether only trusted publishers publish its versions')
        .choices(['yes', 'no'])
        .makeOptionMandatory(),
    )
    .action(
      async (path: string, name: string, options: { onlyTrustedPublishers: 'yes' | 'no' } & JsonOptions) => {
        const isOnly = options.onlyTrustedPublishers === 'yes'
        const caution = await withPackage(path, name, async (db, { change }) => {
          await setOnlyTrustedPublishers(db, change, isOnly)
          return isOnly ? cautionForLimit(db, change) : null
        })
        printResult(
          options,
          {
            path,
            package: name,
            only_trusted_publishers: isOnly,
            details: caution === null ? [] : [caution],
          },
          isOnly
            ? [`Only trusted publishers publish ${name}.`, caution ?? ''].join(' ').trim()
            : `${name} is published by everybody who may publish in ${path}.`,
        )
      },
    )
}

function abandonCommand(): Command {
  return onPackage('abandon', 'Mark a package as abandoned. Composer warns people who install it.')
    .option('--replacement <package>', 'the package to use instead, such as acme/greeter')
    .addHelpText('after', '\nExample:\n  svc package abandon acme/php acme/hello --replacement acme/greeter')
    .action(async (path: string, name: string, options: { replacement?: string } & JsonOptions) => {
      const replacement = options.replacement === undefined ? null : toLowerAscii(options.replacement)
      if (replacement !== null && !isPackageName(replacement)) {
        throw new Error('The replacement must be the name of a package, such as acme/greeter.')
      }
      await withPackage(path, name, (db, { change }) => setAbandoned(db, change, replacement ?? true))
      printResult(
        options,
        { path, package: name, abandoned: true, replacement },
        `${name} is abandoned${replacement === null ? '' : `: use ${replacement} instead`}.`,
      )
    })
}

function unabandonCommand(): Command {
  return onPackage('unabandon', 'Mark an abandoned package as maintained again.').action(
    async (path: string, name: string, options: JsonOptions) => {
      await withPackage(path, name, (db, { change }) => setAbandoned(db, change, null))
      const json = { path, package: name, abandoned: false, replacement: null }
      printResult(options, json, `${name} is maintained.`)
    },
  )
}

/** Nothing asks, because it can be restored. Scripts give `--force` to every deletion, so it is accepted. */
function deleteCommand(): Command {
  return onPackage(
    'delete',
    'Delete all versions of a package. Lock files can still install them, and svc package restore brings them back.',
  )
    .addOption(forceOption())
    .action(async (path: string, name: string, options: JsonOptions) => {
      await withPackage(path, name, (db, { change }) => deletePackage(db, change))
      printResult(
        options,
        { path, package: name },
        `${name} deleted. To undo it: svc package restore ${path} ${name}`,
      )
    })
}

function restoreCommand(): Command {
  return onPackage(
    'restore',
    'Restore the versions that the last deletion of the whole package deleted.',
  ).action(async (path: string, name: string, options: JsonOptions) => {
    await withPackage(path, name, (db, { change }) => restorePackage(db, change))
    printResult(options, { path, package: name }, `${name} restored.`)
  })
}

function purgeCommand(): Command {
  return onPackage(
    'purge',
    'Permanently delete all versions of a package. Not even lock files can install them. The name stays claimed.',
  )
    .addOption(forceOption())
    .action(async (path: string, name: string, options: ForceOptions) => {
      await withPackage(path, name, async (db, { change }) => {
        await confirm(
          `This deletes all versions of ${name} in ${path} for good.`,
          change.packageName,
          options,
        )
        await purgePackage(db, change)
      })
      printResult(options, { path, package: name }, `${name} purged.`)
    })
}

function onPackage(verb: string, description: string): Command {
  return withPackageArguments(new Command(verb)).description(description).addOption(jsonOption())
}

function describePackage(listed: ListedPackage): Record<string, unknown> {
  return {
    name: listed.name,
    description: listed.description,
    type: listed.type,
    latest_version: listed.latestVersion,
    version_count: listed.versionCount,
    downloads: listed.downloads,
    abandoned: listed.isAbandoned,
    replacement: listed.replacement,
    only_trusted_publishers: listed.onlyTrustedPublishers,
    deleted: listed.isDeleted,
    created_at: listed.createdAt,
  }
}
