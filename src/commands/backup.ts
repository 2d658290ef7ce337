import { randomBytes } from 'node:crypto'
import { createReadStream, rmSync } from 'node:fs'
import { access, open, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { Writable } from 'node:stream'
import { Command } from 'commander'
import { countTotpFactors } from '../accounts/second-factor/totp-factors.ts'
import { openArchiveStore } from '../archives/store-owner.ts'
import type { BackupEnding } from '../backup/backup-file.ts'
import { restoreBackup } from '../backup/restore-backup.ts'
import { writeBackup } from '../backup/write-backup.ts'
import { isAlive } from '../database/embedded-postgres/cluster.ts'
import { noteMaintenance } from '../database/installation.ts'
import { nameNewFile, syncFolder } from '../database/new-file.ts'
import { keyFileOf } from '../database/secret-key.ts'
import { formatCount } from '../domain/formats.ts'
import { describeVerification } from './archives.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, withBareDatabase, withExistingDatabase } from './run.ts'

/** `svc backup FILE`: writes database and archives into one file, or to standard output. */
export function backupCommand(): Command {
  return new Command('backup')
    .description('Write a snapshot of database and archives into one tar file. Servers can keep running.')
    .argument(
      '<file>',
      'a new file, or - for standard output; it contains hashes of passwords and tokens, and all packages',
    )
    .option('--database-only', 'leave the archives out, because the archive store has its own backup')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
To upgrade PostgreSQL or to move svc: run svc backup, then run svc restore in a new installation. With - the result is
printed to standard error. A stream that ends early is not a backup: check the exit code.`,
    )
    .action(async (file: string, { databaseOnly = false, ...options }: BackupOptions) => {
      const isStream = file === '-'
      const path = resolve(file)
      if (!isStream) await refuseExisting(path)
      else if (process.stdout.isTTY)
        throw new Error('Standard output is a terminal: redirect it to a file or a program.')
      const { ending, key, place } = await withExistingDatabase(async (db, config) => {
        const write = (output: Writable) => writeBackup(db, config, output, { isDatabaseOnly: databaseOnly })
        const written = await (isStream ? write(standardOutput()) : writeFile(path, write))
        await noteMaintenance(db, 'backup')
        const hasSecrets = (await countTotpFactors(db)) > 0
        const keyPlace = config.secretKey === null ? keyFileOf(config) : 'SECRET_KEY'
        const { place: storePlace } = await openArchiveStore(config)
        return { ending: written, key: hasSecrets ? keyPlace : null, place: storePlace }
      })
      const { archives, bytes, problems, missingMigrations } = ending
      const rows = countRows(ending)
      const what = databaseOnly ? 'no archives' : `${formatCount(archives, 'archive')} of ${bytes} bytes`
      const text = `Wrote ${isStream ? 'the backup' : file}: ${rows} rows, ${what}.`
      const lines = problems.map(({ sha256, problem }) => `The archive ${sha256} is ${problem}.`)
      if (databaseOnly) lines.push(`Keep the archives in ${place} too: the backup does not contain them.`)
      if (key !== null)
        lines.push(`Keep ${key} too: authenticator apps need this key, and the backup does not contain it.`)
      if (missingMigrations.length > 0) {
        const names = missingMigrations.join(', ')
        lines.push(
          `The backup does not contain the migrations ${names}, because their files are missing here. Run svc backup with the server's MIGRATIONS_DIR, or keep them: a restore needs those that create tables or columns.`,
        )
      }
      const json = {
        file: isStream ? null : path,
        rows,
        archives,
        bytes,
        problems,
        key_to_keep: key,
        missing_migrations: missingMigrations,
      }
      printResult(options, json, [...lines, text].join('\n'), isStream ? process.stderr : process.stdout)
      if (problems.length > 0)
        throw new Error('Some archives have a problem: run svc verify-archives to see their versions.')
    })
}

interface BackupOptions extends JsonOptions {
  databaseOnly?: boolean
}

/** Returns a stream to standard output that does not end it. An error of standard output ends the command (`run.ts`). */
function standardOutput(): Writable {
  return new Writable({
    write: (chunk, _encoding, done) => void process.stdout.write(chunk, () => done()),
  })
}

/** `svc restore FILE`: restores a backup into an empty installation. */
export function restoreCommand(): Command {
  return new Command('restore')
    .description('Restore a backup into an empty database and an empty DATA_DIR, then verify all archives.')
    .argument(
      '<file>',
      'a file that svc backup of this release or an older one wrote, or - for standard input',
    )
    .option('--force', 'allow an archive store of the same installation that has more archives')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
An interrupted restore changes nothing in the database: run it again. A backup with --database-only needs no --force for
the archive store of the same installation.`,
    )
    .action(async (file: string, options: { force?: boolean } & JsonOptions) => {
      if (file !== '-') {
        await access(file).catch((error: NodeJS.ErrnoException) => {
          throw new Error(`The file ${file} cannot be read (${error.code}).`)
        })
      }
      const { ending, isClaimed, verification } = await withBareDatabase((db, config) => {
        const input = file === '-' ? process.stdin : createReadStream(file, { highWaterMark: 2 ** 18 })
        return restoreBackup(db, config, input, { isForced: options.force ?? false })
      })
      const rows = countRows(ending)
      const { archives, problems } = verification
      const lines = [
        describeVerification(verification),
        `Restored ${rows} rows and ${formatCount(ending.archives, 'archive')}.`,
      ]
      if (!isClaimed) {
        lines.push(
          'The server removes no archives and sends no mails until you run svc archives claim: do that when no other server uses the archive store.',
        )
      }
      printResult(options, { rows, archives, problems, claimed: isClaimed }, lines.join('\n'))
      if (problems.length > 0) throw new Error(`${formatCount(problems.length, 'archive')} with a problem.`)
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
  let output: Writable | undefined
  try {
    output = (await open(partial, 'wx', 0o600)).createWriteStream({ flush: true })
    const result = await write(output)
    await nameNewFile(partial, path).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? alreadyExists(path) : error
    })
    await syncFolder(dirname(path))
    return result
  } finally {
    process.off('exit', remove)
    output?.destroy()
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
