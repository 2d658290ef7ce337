import { resolve } from 'node:path'
import { Command } from 'commander'
import { type Config, readAwsCredentials, readBucket } from '../config.ts'
import { findDatabaseId } from '../database/installation.ts'
import { type ArchiveStore, discardArchive, receiveArchive } from '../registry/archives/archive-store.ts'
import { openArchiveStore } from '../registry/archives/open-store.ts'
import { claimStore, openOwnStore } from '../registry/archives/store-owner.ts'
import { jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** How many archives are copied at once. */
const atOnce = 8

/** `svc archives …` */
export function archivesCommand(): Command {
  return new Command('archives').description('The store of archives.').addCommand(copyCommand())
}

function copyCommand(): Command {
  return new Command('copy')
    .description('Copy all archives into another store, and compare each with its hash.')
    .requiredOption('--to <store>', 'URL of a bucket as in ARCHIVE_STORE, or a folder to become DATA_DIR')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
An interrupted copy goes on where it was. To move: copy while the server runs, stop the server, copy what is new, and
start the server with the new ARCHIVE_STORE or DATA_DIR.`,
    )
    .action(async (options: { to: string; json?: boolean }) => {
      const copied = await withDatabase(async (db, config) => {
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
  // Each worker takes the next archive when it has copied the last one.
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
