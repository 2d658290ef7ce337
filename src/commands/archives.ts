import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Command } from 'commander'
import type { ArchiveStore } from '../archives/archive-store.ts'
import { collectGarbage } from '../archives/collect-garbage.ts'
import { discardArchive, receiveArchive } from '../archives/local-store.ts'
import {
  type ArchiveSource,
  openFolderSource,
  repairArchives,
  sourceOfStore,
} from '../archives/repair-archives.ts'
import { claimArchives } from '../archives/store-claim.ts'
import { claimStore, openArchiveStore, openOwnStore, openStoreOfServer } from '../archives/store-owner.ts'
import { type ArchiveProblem, type Verification, verifyArchives } from '../archives/verify-archives.ts'
import { sourceOfBackup } from '../backup/backup-source.ts'
import type { Config } from '../config.ts'
import { findDatabaseId } from '../database/installation.ts'
import { readBucket } from '../domain/bucket.ts'
import { formatCount } from '../domain/formats.ts'
import { type FoundArchive, listFoundArchives, readSha256 } from '../packages/tables/found-archives.ts'
import { openUpstreamClient } from '../upstreams/client/fetch.ts'
import { sourceOfUpstreams } from '../upstreams/repair-source.ts'
import { explainFailure } from '../web/server/failure.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, withDatabase, withExistingDatabase } from './run.ts'
import { warnOfUnusedKinds } from './upstream.ts'

/** How many archives are copied at once. */
const atOnce = 8

/** `svc archives …` */
export function archivesCommand(): Command {
  return new Command('archives')
    .description('The archive store.')
    .addCommand(findCommand())
    .addCommand(copyCommand())
    .addCommand(claimCommand())
}

function findCommand(): Command {
  return withListOptions(new Command('find'))
    .description('List the versions with an archive, in all repositories.')
    .argument('<sha256>', 'the SHA-256 of the archive, such as sha256sum prints it')
    .action(async (text: string, options: ListOptions) => {
      const sha256 = readSha256(text)
      if (sha256 === null) throw new Error('A SHA-256 has 64 hexadecimal digits.')
      await withDatabase((db) =>
        printList<FoundArchive>(options, {
          list: (part) => listFoundArchives(db, null, sha256, part),
          keyOf: ({ key }) => key,
          describe: ({ repository, packageName, version, state, size, storedAt }) => ({
            repository,
            package: packageName,
            version,
            state,
            size,
            stored_at: storedAt,
          }),
          line: ({ repository, packageName, version, state, size, storedAt }) =>
            [repository, packageName, version, state, `${size} bytes`, storedAt.toISOString()].join('  '),
          none: 'No version has this archive.',
        }),
      )
    })
}

function claimCommand(): Command {
  return new Command('claim')
    .description(
      'Let the server of this database remove archives and send mails, after a restore or in a copy.',
    )
    .option('--force', 'also while the server of another database uses the archive store')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Of several databases that use one archive store, such as an original and its copy, one has the claim. Only its servers
remove archives and send mails. Stop all servers of the other databases before you run this command.`,
    )
    .action(async (options: { force?: boolean } & JsonOptions) => {
      const isForced = options.force ?? false
      const { place, isNew } = await withExistingDatabase(async (db, config) => {
        const store = await openOwnStore(db, config)
        return { place: store.place, isNew: await claimArchives(db, store, { isForced }) }
      })
      const text = isNew
        ? `This database has claimed the archives in ${place}. Servers of other databases remove none of them any more.`
        : `This database has the claim on the archives in ${place} already.`
      printResult(options, { place, new: isNew }, text)
    })
}

function copyCommand(): Command {
  return new Command('copy')
    .description('Copy all archives into another store, and compare them with their hashes.')
    .requiredOption(
      '--to <store>',
      'the URL of a bucket as in ARCHIVE_STORE, or the folder of a new DATA_DIR',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Between two buckets of one endpoint and region, the store copies the archives itself. Other copies go through this machine,
eight archives at once. Run it again to continue an interrupted copy. To move the archives: copy while the server runs, stop the server, copy
again, and start the server with the new ARCHIVE_STORE or DATA_DIR.`,
    )
    .action(async (options: { to: string } & JsonOptions) => {
      const copied = await withExistingDatabase(async (db, config) => {
        const from = await openOwnStore(db, config)
        const to = await openArchiveStore({ ...config, ...readPlace('--to', options.to, config) })
        if (to.place === from.place) throw new Error(`The archives are already in ${to.place}.`)
        await claimStore(to, await findDatabaseId(db))
        return copyArchives(from, to)
      })
      const { archives, known, bytes, damaged, unchecked } = copied
      const lines = damaged.map((sha256) => `${sha256} is damaged and was not copied.`)
      const text = `Copied ${formatCount(archives, 'archive')} of ${bytes} bytes. ${known} ${known === 1 ? 'was' : 'were'} there already.`
      if (unchecked > 0) {
        lines.push(
          `The store copied ${unchecked} of them itself, without a comparison with their hashes: run svc verify-archives with the new ARCHIVE_STORE.`,
        )
      }
      printResult(options, copied, [...lines, text].join('\n'))
      if (damaged.length > 0)
        throw new Error(
          `${formatCount(damaged.length, 'archive')} ${damaged.length === 1 ? 'is' : 'are'} damaged.`,
        )
    })
}

/** Reads the URL of a bucket, or the path of a folder, from an option of the command line. */
function readPlace(
  option: string,
  place: string,
  { dataDir }: Config,
): Pick<Config, 'dataDir' | 'archiveStore'> {
  if (place === '') throw new Error(`${option} is empty: write the URL of a bucket, or a folder.`)
  if (!place.includes('://')) return { dataDir: resolve(place), archiveStore: null }
  const bucket = readBucket(place, process.env)
  if (typeof bucket === 'string') throw new Error(`${option} ${bucket}.`)
  return { dataDir, archiveStore: bucket }
}

interface Copied {
  archives: number
  known: number
  bytes: number
  damaged: string[]
  /** How many were copied by the service of both buckets, which has not compared them with their hashes. */
  unchecked: number
}

async function copyArchives(from: ArchiveStore, to: ArchiveStore): Promise<Copied> {
  const copied: Copied = { archives: 0, known: 0, bytes: 0, damaged: [], unchecked: 0 }
  const listed = from.list()
  // Each worker takes the next archive after it has copied its last one.
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      // An error ends the listing, and with it the other workers.
      for await (const { sha256, size } of listed) {
        await copyOne(sha256, size).catch((error: unknown) => {
          throw new Error(`${sha256} was not copied to ${to.place}: ${explainFailure(error)}`, {
            cause: error,
          })
        })
      }
    }),
  )
  return copied

  async function copyOne(sha256: string, size: number): Promise<void> {
    if ((await to.stat(sha256))?.size === size) {
      copied.known += 1
      return
    }
    const outcome = (await to.copyFrom(from, { sha256, size })) ?? (await copyThroughHere(from, to, sha256))
    if (outcome === null) return
    if (outcome === 'damaged') {
      copied.damaged.push(sha256)
      return
    }
    copied.archives += 1
    copied.bytes += size
    if (outcome === 'unchecked') copied.unchecked += 1
  }
}

/** Copies an archive by a temporary file. Null when it is missing now. */
async function copyThroughHere(
  from: ArchiveStore,
  to: ArchiveStore,
  sha256: string,
): Promise<'copied' | 'damaged' | null> {
  const archive = await from.read(sha256)
  if (!archive) return null
  const received = await receiveArchive(to, archive.bytes, { maxBytes: archive.size })
  try {
    if (received.sha256 !== sha256) return 'damaged'
    await to.keep(received)
    return 'copied'
  } finally {
    await discardArchive(received)
  }
}

/** `svc collect-garbage`: removes the archives of deleted repositories, purged versions and failed uploads. */
export function collectGarbageCommand(): Command {
  return new Command('collect-garbage')
    .description(
      'Remove archives that no version has used for 14 days, and leftover files of uploads after a day.',
    )
    .option('--dry-run', 'only show how much would be removed')
    .option('--force', 'allow the removal of more than half of the archives')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nThe server does this once a day. You can run this command while the server runs.',
    )
    .action(async (options: { dryRun?: boolean; force?: boolean } & JsonOptions) => {
      const { dryRun: isDryRun = false, force: isForced = false } = options
      const { archives, temporaryFiles, bytes } = await withExistingDatabase(async (db, config) =>
        collectGarbage(db, await openOwnStore(db, config), { isDryRun, isForced }),
      )
      printResult(
        options,
        { archives, temporary_files: temporaryFiles, bytes, dry_run: isDryRun },
        `${isDryRun ? 'Would remove' : 'Removed'} ${formatCount(archives, 'archive')} and ${formatCount(temporaryFiles, 'temporary file')}: ${bytes} bytes.`,
      )
    })
}

/** `svc verify-archives`: finds damaged archives, and repairs them with `--repair`. Exits with 1 when a problem is left. */
export function verifyArchivesCommand(): Command {
  return new Command('verify-archives')
    .description('Check every archive against its hash, and every version against its archive.')
    .option('--repair', 'store good bytes again, from the places of --from and from upstreams')
    .option(
      '--from <places...>',
      'with --repair: backup files, the folder of another DATA_DIR, or URLs of buckets as in ARCHIVE_STORE',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
It reads every archive. Exit code 1 means that there is a problem. --repair takes only bytes that match the hash: from the
places in their order, and then from the upstreams of mirrored packages. The server can run meanwhile.`,
    )
    .action(async ({ repair = false, from = [], ...options }: VerifyOptions) => {
      if (from.length > 0 && !repair) throw new Error('--from needs --repair.')
      const left = repair ? await repairAll(from, options) : await verifyAll(options)
      if (left > 0) throw new Error(`${left} ${left === 1 ? 'archive has' : 'archives have'} a problem.`)
    })
}

interface VerifyOptions extends JsonOptions {
  repair?: boolean
  from?: string[]
}

/** Prints every problem. Returns how many there are. */
async function verifyAll(options: JsonOptions): Promise<number> {
  const verification = await withExistingDatabase(async (db, config) =>
    verifyArchives(db, await openOwnStore(db, config)),
  )
  printResult(options, verification, describeVerification(verification))
  return verification.problems.length
}

/** Repairs what it can, and prints it. Returns how many problems are left. */
async function repairAll(places: readonly string[], options: JsonOptions): Promise<number> {
  const { archives, repaired, left } = await withExistingDatabase(async (db, config) => {
    const given = await Promise.all(places.map((place) => openSource(place, config)))
    const store = await openStoreOfServer(db, config)
    const verification = await verifyArchives(db, store)
    const client = openUpstreamClient(config, { onUnusedKinds: warnOfUnusedKinds })
    try {
      const sources = [...given, sourceOfUpstreams(db, client)]
      const repair = await repairArchives(db, store, verification.problems, sources)
      return { archives: verification.archives, ...repair }
    } finally {
      await client.close()
    }
  })
  const lines = [
    ...repaired.map(({ sha256, from }) => `${sha256} was repaired from ${from}.`),
    ...left.flatMap((problem) => [describeProblem(problem), ...describeReasons(problem.reasons)]),
    `Read ${formatCount(archives, 'archive')}, repaired ${repaired.length}, and could not repair ${left.length}.`,
  ]
  printResult(options, { archives, repaired, problems: left }, lines.join('\n'))
  return left.length
}

function describeReasons(reasons: readonly string[]): string[] {
  if (reasons.length > 0) return reasons.map((reason) => `  Not repaired. ${reason}`)
  return [
    '  Not repaired. No source has it: name a backup or another store with --from, or upload the same file again.',
  ]
}

/** Opens a place of `--from`. Throws before anything is read when it does not exist. */
async function openSource(place: string, config: Config): Promise<ArchiveSource> {
  if (place.includes('://'))
    return sourceOfStore(await openArchiveStore({ ...config, ...readPlace('--from', place, config) }))
  const path = resolve(place)
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`--from ${place} cannot be read (${error.code}).`)
  })
  return found.isDirectory() ? openFolderSource(path) : sourceOfBackup(path)
}

/** Formats every problem with its versions, and the number of archives. */
export function describeVerification({ archives, problems }: Verification): string {
  return [...problems.map(describeProblem), `Read ${formatCount(archives, 'archive')}.`].join('\n')
}

function describeProblem({ sha256, problem, versions }: ArchiveProblem): string {
  return [`${sha256} is ${problemTexts[problem]}`, ...versions.map((version) => `  ${version}`)].join('\n')
}

const problemTexts = {
  damaged: 'damaged: its bytes do not match its hash',
  missing: 'missing',
  'wrong size': 'not of the size that was published',
} as const
