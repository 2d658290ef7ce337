import { Command, InvalidArgumentError } from 'commander'
import type pg from 'pg'
import { toLowerAscii } from '../composer/package-name.ts'
import { isCalendarDay } from '../domain/calendar-day.ts'
import { describeVersion } from '../packages/describe-version.ts'
import { maxQuarantineReasonCharacters, QuarantineReason } from '../packages/lifecycle/advisory-draft.ts'
import type { VersionChange } from '../packages/lifecycle/change.ts'
import { deleteVersion, purgeVersion, restoreVersion } from '../packages/lifecycle/deletion.ts'
import { liftQuarantine, quarantineVersion } from '../packages/lifecycle/warn.ts'
import { findVersion, type ListedVersion, listVersions } from '../packages/tables/listed-versions.ts'
import {
  describeDownloader,
  type ListedDownload,
  listRecordedDownloads,
} from '../packages/tables/recorded-downloads.ts'
import { confirm, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { withPackage, withPackageArguments } from './package.ts'
import { printList, printResult, theAccount, theRepository, withDatabase } from './run.ts'

/** `svc version …` */
export function versionCommand(): Command {
  return new Command('version')
    .description('Versions of published packages.')
    .addCommand(listCommand())
    .addCommand(deleteCommand())
    .addCommand(restoreCommand())
    .addCommand(purgeCommand())
    .addCommand(quarantineCommand())
    .addCommand(releaseCommand())
    .addCommand(downloadsCommand())
}

function listCommand(): Command {
  return withPackageArguments(withListOptions(new Command('list')))
    .description('List the versions of a package, the newest first.')
    .option('--deleted', 'list deleted and purged versions too')
    .action((path: string, name: string, options: ListOptions & { deleted?: boolean }) =>
      withPackage(path, name, (db, { found }) =>
        printList<ListedVersion>(options, {
          list: (part) => listVersions(db, found.id, options.deleted ? 'all' : 'undeleted', part),
          keyOf: ({ id }) => id,
          describe: describeVersion,
          line: (version) =>
            [
              version.version,
              version.publishedAt.toISOString(),
              `${version.size} bytes`,
              ...(version.quarantineReason === null ? [] : [`quarantined: ${version.quarantineReason}`]),
              ...(version.purgedAt ? ['purged'] : version.deletedAt ? ['deleted'] : []),
            ].join('  '),
          none: `${name} has no versions.`,
        }),
      ),
    )
}

/** Nothing asks, because it can be restored. Scripts give `--force` to every deletion, so it is accepted. */
function deleteCommand(): Command {
  return onVersion(
    'delete',
    'Delete a version. Lock files can still install it, and svc version restore brings it back.',
  )
    .addOption(forceOption())
    .action(async (path: string, name: string, version: string, options: JsonOptions) => {
      await withVersion(path, name, version, (db, change) => deleteVersion(db, change))
      const undo = `svc version restore ${path} ${name} ${version}`
      printResult(
        options,
        { path, package: name, version },
        `${name} ${version} deleted. To undo it: ${undo}`,
      )
    })
}

function restoreCommand(): Command {
  return onVersion('restore', 'Restore a deleted version.').action(
    async (path: string, name: string, version: string, options: JsonOptions) => {
      await withVersion(path, name, version, (db, change) => restoreVersion(db, change))
      printResult(options, { path, package: name, version }, `${name} ${version} restored.`)
    },
  )
}

function purgeCommand(): Command {
  return onVersion(
    'purge',
    'Permanently delete a version. Not even lock files can install it, and its number stays taken.',
  )
    .addOption(forceOption())
    .action(async (path: string, name: string, version: string, options: ForceOptions) => {
      const purged = `${name} ${version}`
      await withVersion(path, name, version, async (db, change) => {
        await confirm(`This deletes ${purged} in ${path} for good.`, purged, options)
        await purgeVersion(db, change)
      })
      printResult(options, { path, package: name, version }, `${purged} purged.`)
    })
}

function quarantineCommand(): Command {
  return onVersion(
    'quarantine',
    'Quarantine a version, or change the reason. No client can install it, not even from a lock file.',
  )
    .option('--reason <text>', 'shown to everyone who tries to install it', 'quarantined by its registry')
    .addHelpText(
      'after',
      '\nExample:\n  svc version quarantine acme/php acme/hello 1.0.0 --reason "published with a stolen token"',
    )
    .action(
      async (path: string, name: string, version: string, options: { reason: string } & JsonOptions) => {
        const { success, data: reason = '' } = QuarantineReason.safeParse(options.reason)
        if (!success) {
          throw new Error(
            `Give a reason of at most ${maxQuarantineReasonCharacters} characters, on one line.`,
          )
        }
        await withVersion(path, name, version, (db, change) => quarantineVersion(db, change, reason))
        const json = { path, package: name, version, reason }
        printResult(options, json, `${name} ${version} is quarantined: ${reason}`)
      },
    )
}

function releaseCommand(): Command {
  return onVersion('release', 'Release a version from its quarantine.').action(
    async (path: string, name: string, version: string, options: JsonOptions) => {
      await withVersion(path, name, version, (db, change) => liftQuarantine(db, change))
      const text = `${name} ${version} is no longer quarantined.`
      printResult(options, { path, package: name, version }, text)
    },
  )
}

interface DownloadOptions extends ListOptions {
  account?: string
  since?: string
  until?: string
}

function downloadsCommand(): Command {
  return withListOptions(new Command('downloads'))
    .description(
      'List who downloaded versions, counted by day (UTC), latest first. Packages of upstreams are included.',
    )
    .argument('[path]', 'only from this repository, such as acme/php')
    .argument('[package]', 'only this package, such as acme/hello')
    .argument('[version]', 'only this version, such as 1.0.0')
    .option('--account <username>', 'only downloads of this account')
    .option('--since <day>', 'only from this day on, such as 2027-01-31', readDay)
    .option('--until <day>', 'only until this day', readDay)
    .addHelpText(
      'after',
      `
It counts the archives that svc sent. What a client took from its own cache, and what a proxy or CDN sent, is not in it.

Examples:
  svc version downloads acme/php acme/hello 1.0.0
  svc version downloads --account ann --since 2027-01-31`,
    )
    .action(
      async (
        path: string | undefined,
        name: string | undefined,
        version: string | undefined,
        options: DownloadOptions,
      ) => {
        const { account, since = null, until = null } = options
        if (path === undefined && account === undefined) {
          throw new Error('Name a repository such as acme/php, or use --account.')
        }
        await withDatabase(async (db) => {
          const filter = {
            repositoryId: path === undefined ? null : (await theRepository(db, path)).id,
            packageName: name === undefined ? null : toLowerAscii(name),
            version: version ?? null,
            accountId: account === undefined ? null : (await theAccount(db, account)).id,
            since,
            until,
          }
          await printList<ListedDownload>(options, {
            list: (part) => listRecordedDownloads(db, filter, part),
            keyOf: ({ id }) => id,
            describe: describeDownload,
            line: (download) =>
              [
                download.day,
                `${download.count}x`,
                download.repository ?? 'deleted repository',
                download.packageName,
                download.version,
                describeDownloader(download),
              ].join('  '),
            none: 'There are no downloads.',
          })
        })
      },
    )
}

function describeDownload(download: ListedDownload): Record<string, unknown> {
  return {
    day: download.day,
    repository: download.repository,
    package: download.packageName,
    version: download.version,
    count: download.count,
    by: download.kind,
    account: download.username,
    token_id: download.tokenId,
    token: download.tokenName,
    client_id: download.clientId,
  }
}

function readDay(text: string): string {
  if (!isCalendarDay(text)) throw new InvalidArgumentError('It must be a day such as 2027-01-31.')
  return text
}

function onVersion(verb: string, description: string): Command {
  return withPackageArguments(new Command(verb))
    .description(description)
    .argument('<version>', 'the version as it was uploaded, such as 1.0.0')
    .addOption(jsonOption())
}

/** Opens the database and runs the work on a version, even a deleted one. Throws when there is no such version. */
function withVersion<T>(
  path: string,
  name: string,
  version: string,
  work: (db: pg.Pool, change: VersionChange) => Promise<T>,
): Promise<T> {
  return withPackage(path, name, async (db, { found, change }) => {
    if (!(await findVersion(db, found.id, version))) {
      throw new Error(`There is no version ${JSON.stringify(version)} of ${name} in ${path}.`)
    }
    return work(db, { ...change, version })
  })
}
