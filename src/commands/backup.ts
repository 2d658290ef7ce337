import { randomBytes } from 'node:crypto'
import { createReadStream, rmSync } from 'node:fs'
import { access, open, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { Command } from 'commander'
import { keyFileOf } from '../accounts/second-factor/secret-key.ts'
import { countTotpFactors } from '../accounts/second-factor/totp-factors.ts'
import { isAlive } from '../database/embedded-postgres/cluster.ts'
import { noteMaintenance } from '../database/installation.ts'
import { nameNewFile, syncFolder } from '../database/new-file.ts'
import type { BackupEnding } from '../server/backup-file.ts'
import { restoreBackup } from '../server/restore-backup.ts'
import { writeBackup } from '../server/write-backup.ts'
import { describeVerification } from './archives.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, withBareDatabase, withExistingDatabase } from './run.ts'

/** `svc backup FILE`: writes database and archives into one file. */
export function backupCommand(): Command {
  return new Command('backup')
    .description('Write a snapshot of database and archives into one tar file. Servers can keep running.')
    .argument('<file>', 'a new file; it contains hashes of passwords and tokens, and all packages')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nTo upgrade PostgreSQL or to move svc: run svc backup, then run svc restore in a new installation.',
    )
    .action(async (file: string, options: JsonOptions) => {
      const path = resolve(file)
      await refuseExisting(path)
      const { ending, key } = await withExistingDatabase(async (db, config) => {
        const written = await writeFile(path, (output) => writeBackup(db, config, output))
        await noteMaintenance(db, 'backup')
        const hasSecrets = (await countTotpFactors(db)) > 0
        const place = config.secretKey === null ? keyFileOf(config) : 'SECRET_KEY'
        return { ending: written, key: hasSecrets ? place : null }
      })
      const { archives, bytes, problems, missingMigrations } = ending
      const rows = countRows(ending)
      const text = `Wrote ${file}: ${rows} rows, ${archives} archives of ${bytes} bytes.`
      const lines = problems.map(({ sha256, problem }) => `The archive ${sha256} is ${problem}.`)
      if (key !== null)
        lines.push(`Keep ${key} too: authenticator apps need this key, and the backup does not contain it.`)
      if (missingMigrations.length > 0) {
        const names = missingMigrations.join(', ')
        lines.push(
          `The backup does not contain the migrations ${names}, because their files are missing here. Run svc backup with the server's MIGRATIONS_DIR, or keep them: a restore needs those that create tables or columns.`,
        )
      }
      const json = {
        file: path,
        rows,
        archives,
        bytes,
        problems,
        key_to_keep: key,
        missing_migrations: missingMigrations,
      }
      printResult(options, json, [...lines, text].join('\n'))
      if (problems.length > 0)
        throw new Error('Some archives have a problem: run svc verify-archives to see their versions.')
    })
}

/** `svc restore FILE`: restores a backup into an empty installation. */
export function restoreCommand(): Command {
  return new Command('restore')
    .description('Restore a backup into an empty database and an empty DATA_DIR, then verify all archives.')
    .argument('<file>', 'a file that svc backup of this release or an older one wrote')
    .option('--force', 'allow an archive store of the same installation that has more archives')
    .addOption(jsonOption())
    .addHelpText('after', '\nAn interrupted restore changes nothing in the database: run it again.')
    .action(async (file: string, options: { force?: boolean } & JsonOptions) => {
      await access(file).catch((error: NodeJS.ErrnoException) => {
        throw new Error(`The file ${file} cannot be read (${error.code}).`)
      })
      const { ending, isClaimed, verification } = await withBareDatabase((db, config) =>
        restoreBackup(db, config, createReadStream(file, { highWaterMark: 2 ** 18 }), {
          isForced: options.force ?? false,
        }),
      )
      const rows = countRows(ending)
      const { archives, problems } = verification
      const lines = [describeVerification(verification), `Restored ${rows} rows and ${archives} archives.`]
      if (!isClaimed) {
        lines.push(
          'The server removes no archives and sends no mails until you run svc archives claim: do that when no other server uses the archive store.',
        )
      }
      printResult(options, { rows, archives, problems, claimed: isClaimed }, lines.join('\n'))
      if (problems.length > 0) throw new Error(`${problems.length} archives have a problem.`)
    })
}

async function refuseExisting(path: string): Promise<void> {
  const exists = await access(path).then(
    () => true,
    () => false,
  )
  if (exists) throw alreadyExists(path)
}

function alreadyExists(path: string): Error {
  return new Error(`The file ${path} already exists.`)
}

/**
 * Writes a temporary file, and gives it its name when it is complete and synced. Each run has its own temporary file,
 * because two runs with the same name would write into each other's file.
 */
async function writeFile<T>(path: string, write: (output: Writable) => Promise<T>): Promise<T> {
  const partial = `${path}.${process.pid}-${randomBytes(4).toString('hex')}.partial`
  await removeLeftovers(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The folder ${dirname(path)} cannot be used (${error.code}).`)
  })
  const remove = () => rmSync(partial, { force: true })
  // For Ctrl-C, which ends the process.
  process.once('exit', remove)
  try {
    const file = await open(partial, 'wx', 0o600)
    const result = await write(file.createWriteStream({ flush: true }))
    await nameNewFile(partial, path).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? alreadyExists(path) : error
    })
    await syncFolder(dirname(path))
    return result
  } finally {
    process.off('exit', remove)
    await rm(partial, { force: true })
  }
}

/**
 * Removes the temporary files of backups to this path that were killed. In containers, a new process may have the id of
 * the killed one.
 */
async function removeLeftovers(path: string): Promise<void> {
  for (const name of await readdir(dirname(path))) {
    if (!name.startsWith(`${basename(path)}.`)) continue
    const [, pid] = /^(\d+)-[0-9a-f]{8}\.partial$/.exec(name.slice(basename(path).length + 1)) ?? []
    if (pid === undefined || (Number(pid) !== process.pid && isAlive(Number(pid)))) continue
    await rm(join(dirname(path), name), { force: true })
  }
}

function countRows({ rows }: BackupEnding): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0)
}
