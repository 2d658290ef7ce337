import { resolve } from 'node:path'
import { Command } from 'commander'
import type { Config } from '../config.ts'
import { findDatabaseId } from '../database/installation.ts'
import { readAwsCredentials, readBucket } from '../domain/bucket.ts'
import type { ArchiveStore } from '../registry/archives/archive-store.ts'
import { collectGarbage } from '../registry/archives/collect-garbage.ts'
import { discardArchive, receiveArchive } from '../registry/archives/local-store.ts'
import { claimArchives } from '../registry/archives/store-claim.ts'
import { claimStore, openArchiveStore, openOwnStore } from '../registry/archives/store-owner.ts'
import { type Verification, verifyArchives } from '../registry/archives/verify-archives.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, withExistingDatabase } from './run.ts'

/** How many archives are copied at once. */
const atOnce = 8

/** `svc archives …` */
export function archivesCommand(): Command {
  return new Command('archives')
    .description('The archive store.')
    .addCommand(copyCommand())
    .addCommand(claimCommand())
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
    .description('Copy all archives into another store. Each is compared with its hash while it is copied.')
    .requiredOption(
      '--to <store>',
      'the URL of a bucket as in ARCHIVE_STORE, or the folder of a new DATA_DIR',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Run it again to continue an interrupted copy. To move the archives: copy while the server runs, stop the server, copy
again, and start the server with the new ARCHIVE_STORE or DATA_DIR.`,
    )
    .action(async (options: { to: string } & JsonOptions) => {
      const copied = await withExistingDatabase(async (db, config) => {
        const from = await openOwnStore(db, config)
        const to = await openArchiveStore({ ...config, ...readTarget(options.to, config) })
        if (to.place === from.place) throw new Error(`The archives are already in ${to.place}.`)
        await claimStore(to, await findDatabaseId(db))
        return copyArchives(from, to)
      })
      const { archives, known, bytes, damaged } = copied
      const lines = damaged.map((sha256) => `${sha256} is damaged and was not copied.`)
      const text = `Copied ${archives} archives of ${bytes} bytes. ${known} were there already.`
      printResult(options, copied, [...lines, text].join('\n'))
      if (damaged.length > 0) throw new Error(`${damaged.length} archives are damaged.`)
    })
}

function readTarget(to: string, { dataDir }: Config): Pick<Config, 'dataDir' | 'archiveStore'> {
  if (to === '') throw new Error('--to is empty: write the URL of a bucket, or a folder.')
  if (!to.includes('://')) return { dataDir: resolve(to), archiveStore: null }
  const bucket = readBucket(to, readAwsCredentials(process.env))
  if (typeof bucket === 'string') throw new Error(`--to ${bucket}.`)
  return { dataDir, archiveStore: bucket }
}

interface Copied {
  archives: number
  known: number
  bytes: number
  damaged: string[]
}

async function copyArchives(from: ArchiveStore, to: ArchiveStore): Promise<Copied> {
  const copied: Copied = { archives: 0, known: 0, bytes: 0, damaged: [] }
  const listed = from.list()
  // Each worker takes the next archive after it has copied its last one.
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for await (const { sha256, size } of listed) await copyOne(sha256, size)
    }),
  )
  return copied

  async function copyOne(sha256: string, size: number): Promise<void> {
    if ((await to.stat(sha256))?.size === size) {
      copied.known += 1
      return
    }
    const archive = await from.read(sha256)
    if (!archive) return
    const received = await receiveArchive(to, archive.bytes, { maxBytes: archive.size })
    try {
      if (received.sha256 !== sha256) {
        copied.damaged.push(sha256)
        return
      }
      await to.keep(received)
      copied.archives += 1
      copied.bytes += size
    } finally {
      await discardArchive(received)
    }
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
        `${isDryRun ? 'Would remove' : 'Removed'} ${archives} archives and ${temporaryFiles} temporary files: ${bytes} bytes.`,
      )
    })
}

/** `svc verify-archives`: finds damaged archives and repairs nothing. Exits with 1 when it finds any. */
export function verifyArchivesCommand(): Command {
  return new Command('verify-archives')
    .description(
      'Check every archive against its hash, and every version against its archive. It repairs nothing.',
    )
    .addOption(jsonOption())
    .addHelpText('after', '\nIt reads every archive. Exit code 1 means that there is a problem.')
    .action(async (options: JsonOptions) => {
      const verification = await withExistingDatabase(async (db, config) =>
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
