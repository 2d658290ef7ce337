import { readFile } from 'node:fs/promises'
import { Command, Option } from 'commander'
import type pg from 'pg'
import { openStoreOfServer } from '../archives/store-owner.ts'
import type { Config } from '../config.ts'
import { formatCount } from '../domain/formats.ts'
import { operator } from '../domain/principal.ts'
import { openStorageRoom } from '../groups/storage-room.ts'
import { prefetchLock } from '../packages/prefetch.ts'
import { openArchiveMirror } from '../upstreams/archive-mirror.ts'
import { openUpstreamClient, type UpstreamClient } from '../upstreams/client/fetch.ts'
import { addUpstream, approvePackages, removeUpstream, setUpstream } from '../upstreams/configure.ts'
import { decideContest } from '../upstreams/contested-names.ts'
import { allowEarly } from '../upstreams/early-versions.ts'
import { forgetArchives } from '../upstreams/forget-archives.ts'
import { openMirror } from '../upstreams/mirror.ts'
import { listRemovedUpstreams, type RemovedUpstream } from '../upstreams/tables/removed-upstreams.ts'
import {
  listUpstreams,
  type Upstream,
  type UpstreamMode,
  upstreamModes,
} from '../upstreams/tables/upstreams.ts'
import { openLog } from '../web/server/log.ts'
import { confirm, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, wholeNumber, withListOptions } from './options.ts'
import { partOf, printList, printResult, theRepository, withDatabase } from './run.ts'

interface SettingOptions extends JsonOptions {
  mode?: UpstreamMode
  allow?: string[]
  deny?: string[]
  exempt?: string[]
  minimumAge?: number
  keepSource?: 'true' | 'false'
  position?: number
  credentials?: 'true' | 'false'
  credentialHosts?: string[]
  privateHosts?: 'true' | 'false'
}

/** `svc upstream …` */
export function upstreamCommand(): Command {
  return new Command('upstream')
    .description('Other Composer repositories, whose packages a repository offers through its own URL.')
    .addCommand(addCommand())
    .addCommand(listCommand())
    .addCommand(setCommand())
    .addCommand(removeCommand())
    .addCommand(approveCommand())
    .addCommand(allowCommand())
    .addCommand(forgetCommand())
    .addCommand(decideCommand())
    .addCommand(prefetchCommand())
}

function addCommand(): Command {
  return withSettings(new Command('add'))
    .description('Add an upstream to a repository. Its packages.json is read at once.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<url>', 'the URL of the Composer repository, such as https://repo.packagist.org')
    .option('--name <name>', 'its name in the repository (default: its host)')
    .addHelpText(
      'after',
      '\nBy default it offers all packages without approval (automatic), and svc asks it last.\n' +
        'A repository has at most 50 upstreams, with at most 500 patterns of each kind.\n' +
        'Patterns are Composer’s, with an optional constraint: symfony/* or symfony/*:^6.\n' +
        'Example:\n  svc upstream add acme/php https://repo.packagist.org --minimum-age 72',
    )
    .action(async (path: string, url: string, options: SettingOptions & { name?: string }) => {
      const { name } = options
      const added = await withRepository(path, (db, change, client, config) =>
        addUpstream({ config, db }, client, change, {
          url,
          ...(name !== undefined && { name }),
          ...settingsOf(options),
        }),
      )
      printResult(options, describe(added), `${path} has the upstream ${added.name}: ${added.url}`)
    })
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the upstreams of a repository, in the order in which svc asks them.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .option('--removed', 'list removed upstreams whose packages no other upstream may serve')
    .action((path: string, options: ListOptions & { removed?: boolean }) =>
      withDatabase(async (db) => {
        const { id } = await theRepository(db, path)
        if (options.removed) return printRemoved(db, id, path, options)
        await printList<Upstream>(options, {
          // A repository has at most 50 upstreams.
          list: async (part) => partOf(await listUpstreams(db, id), ({ name }) => name, part),
          keyOf: ({ name }) => name,
          describe: (upstream) => ({ ...describe(upstream) }),
          line: ({ position, name, url, mode, usesCredentials, failure }) =>
            `${position}  ${name}  ${url}  ${mode}${usesCredentials ? '' : '  without credentials'}${failure === null ? '' : `  failing: ${failure}`}`,
          none: `${path} has no upstreams.`,
        })
      }),
    )
}

function printRemoved(db: pg.Pool, repositoryId: string, path: string, options: ListOptions): Promise<void> {
  return printList<RemovedUpstream>(options, {
    list: (part) => listRemovedUpstreams(db, repositoryId, part),
    keyOf: ({ id }) => id,
    describe: ({ name, url, removedAt, packages }) => ({ name, url, removed_at: removedAt, packages }),
    line: ({ name, url, packages }) => `${name}  ${url}  packages: ${packages}`,
    none: `${path} has no removed upstreams that keep packages.`,
  })
}

function setCommand(): Command {
  return withSettings(new Command('set'))
    .description(
      'Change the given settings of an upstream. A list of patterns replaces the old one; "" empties it.',
    )
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<upstream>', 'its name in the repository')
    .addOption(
      new Option(
        '--credentials <choice>',
        'whether requests to it have the credentials of UPSTREAM_AUTH_FILE',
      ).choices(['true', 'false']),
    )
    .option(
      '--credential-hosts <hosts...>',
      'other hosts that get them, besides that of its URL (default: api.github.com)',
    )
    .addOption(
      new Option(
        '--private-hosts <choice>',
        'whether OUTBOUND_PRIVATE_HOSTS and OUTBOUND_HTTP hold for requests to it',
      ).choices(['true', 'false']),
    )
    .action(async (path: string, name: string, options: SettingOptions) => {
      const changed = await withRepository(path, (db, change) =>
        setUpstream(db, change, name, settingsOf(options)),
      )
      printResult(options, describe(changed), `The upstream ${name} of ${path} is changed.`)
    })
}

function removeCommand(): Command {
  return new Command('remove')
    .description('Remove an upstream. No other upstream serves its packages, unless they are released.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<upstream>', 'its name in the repository')
    .option('--release', 'let other upstreams serve the packages that it has served')
    .addHelpText(
      'after',
      '\nTo undo it, add the same URL again: the new upstream gets the packages of the removed one,\n' +
        'and its position.\n' +
        'With --release, <upstream> may also be the name or URL of an upstream that is removed already.',
    )
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, name: string, options: { release?: boolean } & ForceOptions) => {
      const { release: releasesNames = false } = options
      await withRepository(path, async (db, change) => {
        if (releasesNames) {
          await confirm(
            `Other upstreams may then serve the packages of ${name}, with other content.`,
            name,
            options,
          )
        }
        await removeUpstream(db, change, name, { releasesNames })
      })
      printResult(options, { path, name }, `${path} no longer has the upstream ${name}.`)
    })
}

function approveCommand(): Command {
  return new Command('approve')
    .description('Approve packages of upstreams in the mode approved.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<packages...>', 'such as monolog/monolog')
    .addOption(jsonOption())
    .action(async (path: string, packages: string[], options: JsonOptions) => {
      const approved = await withRepository(path, (db, change) => approvePackages(db, change, packages))
      printResult(
        options,
        { path, approved },
        `Approved: ${approved.join(', ') || 'none: all were approved before'}`,
      )
    })
}

function allowCommand(): Command {
  return new Command('allow')
    .description('Offer versions of a package before they have the minimum age of their upstream.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<package>', 'such as monolog/monolog')
    .argument('[version]', 'such as 3.0.0 (default: all versions that are held back now)')
    .addHelpText(
      'after',
      '\nLook at the versions first: the minimum age gives others the time to find malware.\n' +
        'Example:\n  svc upstream allow acme/php monolog/monolog 3.0.0',
    )
    .addOption(jsonOption())
    .action(async (path: string, packageName: string, version: string | undefined, options: JsonOptions) => {
      const allowed = await withRepository(path, (db, change, _client, config) =>
        allowEarly({ config, db }, change, { packageName, version: version ?? null }),
      )
      printResult(
        options,
        { path, package: packageName, allowed },
        `${path} offers ${packageName} ${allowed.join(', ')} now.`,
      )
    })
}

function forgetCommand(): Command {
  return new Command('forget')
    .description('Forget the stored archive of a version, when it has changed at the upstream.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<package>', 'such as monolog/monolog')
    .argument('<version>', 'such as 3.0.0')
    .addHelpText(
      'after',
      '\nUse it after an alarm, when you know why the archive has changed. The next request fetches what the upstream\n' +
        'serves, and the bytes must match the checksum that it announces.\n' +
        'Example:\n  svc upstream forget acme/php monolog/monolog 3.0.0',
    )
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, name: string, version: string, options: ForceOptions) => {
      const forgotten = await withRepository(path, async (db, change, client, config) => {
        const what = `${name} ${version}`
        await confirm(`svc forgets the stored bytes of ${what} in ${path} for good.`, what, options)
        return forgetArchives({ config, db, client }, change, { packageName: name, version })
      })
      printResult(
        options,
        {
          path,
          package: name,
          forgotten: forgotten.map(({ version, sha256, alarm }) => ({ version, sha256, alarm })),
        },
        `Forgotten. The next request for ${name} ${version} fetches what the upstream serves.`,
      )
    })
}

function decideCommand(): Command {
  return new Command('decide')
    .description('Decide which upstream serves a package that several upstreams have.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .argument('<package>', 'such as monolog/monolog')
    .argument('<upstream>', 'the name of the upstream in the repository')
    .addHelpText(
      'after',
      '\nUse it when svc has found a package at an upstream that comes before the one that serves it. The package is not\n' +
        'offered until you decide. Find out which of the two is yours: the other one may be the package of a stranger who\n' +
        'has taken the name. Stored archives still install from lock files.\n' +
        'Example:\n  svc upstream decide acme/php acme/lib private',
    )
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (path: string, packageName: string, upstreamName: string, options: ForceOptions) => {
      await withRepository(path, async (db, change) => {
        await confirm(
          `${packageName} of ${path} then comes from ${upstreamName} for good.`,
          packageName,
          options,
        )
        await decideContest(db, change, { packageName, upstreamName })
      })
      printResult(
        options,
        { path, package: packageName, upstream: upstreamName },
        `${packageName} comes from ${upstreamName}.`,
      )
    })
}

function prefetchCommand(): Command {
  return new Command('prefetch')
    .description('Fetch every archive that a lock file names, so that it installs without the upstreams.')
    .argument('<path>', '<group>/<name>, such as acme/php')
    .requiredOption('--lock <file>', 'a composer.lock')
    .addOption(jsonOption())
    .action(async (path: string, options: { lock: string } & JsonOptions) => {
      const lockText = await readFile(options.lock, 'utf8').catch((error: NodeJS.ErrnoException) => {
        throw new Error(`The lock file ${options.lock} cannot be read (${error.code}).`)
      })
      const items = await withRepository(path, async (db, { repositoryId }, client, config) => {
        const log = openLog('silent')
        const archives = await openStoreOfServer(db, config)
        const archiveMirror = openArchiveMirror(
          {
            db,
            client,
            archives,
            room: openStorageRoom({ config, db }),
            maxArchiveBytes: config.maxArchiveBytes,
          },
          log,
        )
        const mirror = openMirror({ config, db, client }, log)
        return prefetchLock({ db, mirror, archiveMirror }, repositoryId, lockText)
      })
      const failed = items.filter(({ outcome }) => outcome === 'failed')
      const lines = failed.map(({ name, version, reason }) => `${name} ${version}: ${reason}`)
      const fetched = items.filter(({ outcome }) => outcome === 'fetched').length
      printResult(
        options,
        { items },
        [`Fetched ${fetched} of ${items.length} archives.`, ...lines].join('\n'),
      )
      if (failed.length > 0) throw new Error(`${formatCount(failed.length, 'archive')} could not be fetched.`)
    })
}

function withSettings(command: Command): Command {
  return command
    .addOption(new Option('--mode <mode>', 'which packages it offers').choices(upstreamModes))
    .option('--allow <patterns...>', 'offer only these')
    .option('--deny <patterns...>', 'never offer these')
    .option('--exempt <patterns...>', 'the minimum age does not apply to these')
    .option(
      '--minimum-age <hours>',
      'offer no version that is younger than this',
      wholeNumber('hours', 0, 87_600),
    )
    .addOption(
      new Option(
        '--keep-source <choice>',
        'whether versions keep their source, from which Composer can clone them without svc',
      ).choices(['true', 'false']),
    )
    .option(
      '--position <number>',
      'svc asks upstreams with a lower position first',
      wholeNumber('positions', 1, 1000),
    )
    .addOption(jsonOption())
}

function settingsOf({
  mode,
  allow,
  deny,
  exempt,
  minimumAge,
  keepSource,
  position,
  credentials,
  credentialHosts,
  privateHosts,
}: SettingOptions) {
  const given = {
    mode,
    allow: withoutEmpty(allow),
    deny: withoutEmpty(deny),
    exempt: withoutEmpty(exempt),
    minimumAgeHours: minimumAge,
    keepsSource: keepSource && keepSource === 'true',
    position,
    usesCredentials: credentials && credentials === 'true',
    credentialHosts: withoutEmpty(credentialHosts),
    reachesPrivateHosts: privateHosts && privateHosts === 'true',
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

function withoutEmpty(patterns: string[] | undefined): string[] | undefined {
  return patterns?.filter((pattern) => pattern !== '')
}

/** Writes a warning when the command has succeeded. A command that fails writes only its error. */
export function warnOfUnusedKinds(kinds: string[]): void {
  process.once('exit', (code) => {
    if (code !== 0) return
    const what = 'UPSTREAM_AUTH_FILE contains kinds of credentials that svc does not use'
    process.stderr.write(`svc: Warning: ${what}: ${kinds.join(', ')}.\n`)
  })
}

/** Opens the database and a client for upstreams, runs the work on a repository, and closes both. */
export async function withRepository<T>(
  path: string,
  work: (db: pg.Pool, change: RepositoryChange, client: UpstreamClient, config: Config) => Promise<T>,
): Promise<T> {
  return withDatabase(async (db, config) => {
    const { id: repositoryId } = await theRepository(db, path)
    const client = openUpstreamClient(config, { onUnusedKinds: warnOfUnusedKinds })
    try {
      const change = { repositoryId, path, by: operator, baseUrl: config.baseUrl }
      return await work(db, change, client, config)
    } finally {
      await client.close()
    }
  })
}

interface RepositoryChange {
  repositoryId: string
  path: string
  by: typeof operator
  baseUrl: string
}

function describe({ minimumAgeHours, failedAt, ...upstream }: Upstream) {
  const { name, url, mode, allow, deny, exempt, position, failure } = upstream
  const { usesCredentials, credentialHosts, reachesPrivateHosts } = upstream
  const settings = { name, url, mode, allow, deny, exempt, minimum_age_hours: minimumAgeHours, position }
  return {
    ...settings,
    keeps_source: upstream.keepsSource,
    uses_credentials: usesCredentials,
    credential_hosts: credentialHosts,
    reaches_private_hosts: reachesPrivateHosts,
    failure,
    failed_at: failedAt,
  }
}
