import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream, existsSync } from 'node:fs'
import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { collectGarbage } from '../../src/archives/collect-garbage.ts'
import { openOwnStore } from '../../src/archives/store-owner.ts'
import { restoreBackup } from '../../src/backup/restore-backup.ts'
import { readConfig } from '../../src/config.ts'
import { bridgeCommit } from '../../src/database/baseline.ts'
import type { Queryable } from '../../src/database/database.ts'
import { startEmbeddedPostgres } from '../../src/database/embedded-postgres/embedded-postgres.ts'
import { builtInMigrations } from '../../src/database/migrate.ts'
import { operator } from '../../src/domain/principal.ts'
import {
  deleteRepository,
  removeExpiredRepositoriesJob,
  restoreRepository,
} from '../../src/groups/group-lifecycle.ts'
import { findGroup } from '../../src/groups/groups.ts'
import { findRepositoryByPath } from '../../src/groups/repositories.ts'
import type { JobContext } from '../../src/jobs/job.ts'
import { addPublisher, findPins } from '../../src/publishers/trusted-publishers.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aCaller, type Caller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { copyDatabase, dropDatabase, template } from '../support/database.ts'
import { countEvents } from '../support/event-rows.ts'
import { anOlderGroup } from '../support/group-rows.ts'
import { addLargeJobs } from '../support/job-rows.ts'
import { isLoading, whileLocked } from '../support/locks.ts'
import { lastWork, noteMigration } from '../support/maintenance-rows.ts'
import { versionRows } from '../support/package-rows.ts'
import { fastSettings, makeDataDir, removeDataDir } from '../support/postgres.ts'
import { databaseUrl, paste, program, runSvc, startServer, stopServer } from '../support/program.ts'
import { pinPublisher } from '../support/publisher-rows.ts'
import { aPackageZip, basic } from '../support/registry-actors.ts'
import { setDeletionDays } from '../support/repository-rows.ts'
import { countRows, dropRows, textsOf } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'
import { describeSchema, listTables, nextId } from '../support/schema.ts'
import { listUnknownTables } from '../support/statistics.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'

const t = useApp()
let folder: string
let caller: Caller
/** Publishes to a repository that was deleted afterwards, and can be restored. */
let deleted: Caller
/** A trusted publisher with a pinned project. */
let publisherId: string
let tokens: { access_token: string; refresh_token: string }
const databases: string[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-backup-'))
  const authorized = await anAuthorizedApplication(t)
  tokens = await authorized.tokens()
  caller = await aCaller(t)
  await caller.push('1.0.0')
  await caller.push('1.1.0', { manifest: { description: 'Tabs\tand\nnewlines \\ and «ünïcode»' } })
  await caller.push('2.0.0', { manifest: { description: 'purged' } })
  await caller.call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
  await caller.push('3.0.0', { manifest: { description: 'deleted' } })
  await caller.call('DELETE', '/packages/acme/lib/3.0.0')
  deleted = await aCaller(t)
  await deleted.push('1.0.0', { name: 'acme/kept', manifest: { description: 'in a deleted repository' } })
  await deleteRepository(t.db, operator, deleted.repository)
  publisherId = await addPublisher(
    t,
    { repositoryId: caller.repository.id, by: operator },
    { provider: 'github', project: 'acme/lib', workflow: 'release.yml', right: 'publish' },
  )
  await pinPublisher(t.db, publisherId, { repository_id: '17' })
  // A name that only an earlier release allowed.
  await anOlderGroup(t.db, 'explore')
  // The last use is written a few seconds later. It would differ between the backup and the comparison.
  const unused = () => countRows(t.db, 'personal_token', { lastUsedAt: null })
  await vi.waitFor(async () => expect(await unused()).toBe(0), 60_000)
})
beforeEach(() => rm(join(folder, 'b.tar'), { force: true }))
afterAll(async () => {
  for (const database of databases) await dropDatabase({ ...t.connection, database })
  await rm(folder, { recursive: true })
})

const here = () => ({
  DATABASE_URL: databaseUrl(t.connection),
  DATA_DIR: t.config.dataDir,
  MIGRATIONS_DIR: t.config.migrationsDir,
})

/** An installation whose database is a copy of another one, and that has no archives. */
async function anInstallation(source: string) {
  const database = `${t.connection.database}_${databases.length}`
  await copyDatabase(t.connection, source, database)
  databases.push(database)
  const dataDir = await mkdtemp(join(folder, 'data-'))
  const db = new pg.Pool({ ...t.connection, database })
  const environment = {
    DATABASE_URL: databaseUrl({ ...t.connection, database }),
    DATA_DIR: dataDir,
    MIGRATIONS_DIR: join(dataDir, 'migrations'),
  }
  return { db, database, dataDir, environment }
}

const anEmptyInstallation = () => anInstallation('template1')
/** An installation without data, whose database has the schema. */
const aMigratedInstallation = () => anInstallation(template)

/** Makes a backup of the installation as it is now. */
async function aBackup(): Promise<string> {
  await mkdir(t.config.migrationsDir, { recursive: true })
  const file = join(folder, 'b.tar')
  const { code, stderr } = await runCommand(['backup', file], here())
  expect([code, stderr]).toEqual([0, ''])
  expect((await lastWork(t.db, 'backup'))?.getTime()).toBeGreaterThan(Date.now() - 60_000)
  return file
}

let earlier: Promise<string> | undefined

/** Returns a backup that one of the tests before has made. For tests that need any backup. */
async function anEarlierBackup(): Promise<string> {
  earlier ??= (async () => {
    const file = join(folder, 'earlier.tar')
    await rename(await aBackup(), file)
    return file
  })()
  return earlier
}

let restored: ReturnType<typeof restoreEarlierBackup> | undefined

async function restoreEarlierBackup() {
  const installation = await anEmptyInstallation()
  const file = await anEarlierBackup()
  return { ...installation, outcome: await runCommand(['restore', file, '--json'], installation.environment) }
}

/** Returns the installation that one of the tests before has restored. Nothing may change it. */
async function anEarlierRestore(): ReturnType<typeof restoreEarlierBackup> {
  restored ??= restoreEarlierBackup()
  return restored
}

/** An installation with everything that a restore has left, for tests that need any restored installation. */
async function aRestoredInstallation() {
  const original = await anEarlierRestore()
  const copy = await anInstallation(original.database)
  await cp(original.dataDir, copy.dataDir, { recursive: true })
  return copy
}

/** Runs the server on an installation during an act. */
async function whileServed<T>(
  { db, environment }: Pick<Awaited<ReturnType<typeof anInstallation>>, 'db' | 'environment'>,
  act: (app: FastifyInstance) => Promise<T>,
): Promise<T> {
  const app = await buildApp({ config: readConfig(environment), db }, openLog('silent', new PassThrough()))
  try {
    return await act(app)
  } finally {
    await app.close()
  }
}

/** A command as a line of a shell. */
function shellLine(environment: Record<string, string>, ...words: string[]): string {
  const variables = Object.entries(environment).map(([name, value]) => `${name}='${value}'`)
  return ['env', ...variables, process.execPath, program, ...words].join(' ')
}

/** All rows of all tables, as text. */
async function contentOf(db: Queryable): Promise<Record<string, string[]>> {
  // A database that was restored into a new store has a new claim. A backup is noted when it has ended, and a restore has
  // checked its archives.
  const own = ['store_claim', 'maintenance', 'stored_archive']
  return textsOf(
    db,
    (await listTables(db)).filter((name) => !own.includes(name)),
  )
}

async function archivesOf(dataDir: string): Promise<Map<string, Buffer>> {
  const archives = new Map<string, Buffer>()
  for (const path of await readdir(join(dataDir, 'archives'), { recursive: true })) {
    if (path.endsWith('.zip')) archives.set(path, await readFile(join(dataDir, 'archives', path)))
  }
  return archives
}

describe('svc backup and svc restore', () => {
  it('bring every row, sequence, rule and archive into a new installation, byte by byte', async () => {
    expect((await stat(await anEarlierBackup())).mode & 0o777).toBe(0o600)
    const { db, dataDir, outcome } = await anEarlierRestore()
    expect([outcome.code, outcome.stderr]).toEqual([0, ''])
    expect(JSON.parse(outcome.stdout)).toMatchObject({ archives: 4, problems: [] })
    expect(await contentOf(db)).toEqual(await contentOf(t.db))
    expect(await describeSchema(db)).toEqual(await describeSchema(t.db))
    const [before, after] = [await archivesOf(t.config.dataDir), await archivesOf(dataDir)]
    for (const [path, bytes] of after) expect(bytes.equals(before.get(path) ?? Buffer.alloc(0))).toBe(true)
    expect(after.size).toBe(4)
    expect(await nextId(db, 'account_id_seq')).toBe(await nextId(t.db, 'account_id_seq'))
    expect(await listUnknownTables(db), 'the planner has statistics of all tables').toEqual([])
    await db.end()
  })

  it('leave an installation that serves the same tokens, packages and pages, and restores a deleted repository', async () => {
    const { db, environment } = await aRestoredInstallation()
    const server = await startServer({ ...environment, HOST: '127.0.0.1', LOG_LEVEL: 'silent' })
    const { authorization, path } = caller
    const root = await fetch(`${server.url}${path}p2/acme/lib.json`, { headers: { authorization } })
    const listed = (await root.json()) as { packages: Record<string, { dist: { url: string } }[]> }
    const url = new URL(listed.packages['acme/lib']?.[0]?.dist.url ?? '')
    const archive = await fetch(`${server.url}${url.pathname}`, { headers: { authorization } })
    expect([root.status, archive.status]).toEqual([200, 200])
    const user = await fetch(`${server.url}/api/user`, {
      headers: { authorization: `Bearer ${tokens.access_token}` },
    })
    expect(user.status).toBe(200)
    const pushed = await fetch(`${server.url}${path}upload/acme/other/1.0.0`, {
      method: 'PUT',
      headers: { authorization },
      body: new Uint8Array(aPackageZip('acme/other')),
    })
    expect(pushed.status).toBe(201)
    expect(await findPins(db, [publisherId])).toEqual(new Map([[publisherId, { repository_id: '17' }]]))
    const { repository } = deleted
    const restored = await runCommand(['repository', 'restore', repository.path, '--json'], environment)
    expect([restored.code, restored.stderr]).toEqual([0, ''])
    const kept = await fetch(`${server.url}${deleted.path}p2/acme/kept.json`, {
      headers: { authorization: deleted.authorization },
    })
    expect(kept.status).toBe(200)
    await stopServer(server)
    await db.end()
  })

  it('contain one consistent state while publications continue', async () => {
    let isRunning = true
    const publishing = (async () => {
      for (let i = 0; isRunning; i += 1) {
        await caller.push(`4.0.${i}`, { name: 'acme/busy', manifest: { description: String(i) } })
      }
    })()
    const file = await aBackup()
    isRunning = false
    await publishing
    const { db, environment } = await anEmptyInstallation()
    const restored = await runCommand(['restore', file, '--json'], environment)
    expect([restored.code, JSON.parse(restored.stdout).problems]).toEqual([0, []])
    const published = await versionRows(db, 'acme/busy')
    expect(await countEvents(db, { package: 'acme/busy' })).toBe(published.length)
    await db.end()
  })

  it('stream from one installation into another', async () => {
    await mkdir(t.config.migrationsDir, { recursive: true })
    const { db, dataDir, environment } = await anEmptyInstallation()
    const { code, stdout, stderr } = await paste(
      `set -o pipefail\n${shellLine(here(), 'backup', '-')} | ${shellLine(environment, 'restore', '-', '--json')}\n`,
      folder,
    )
    const { size } = await archivesOf(dataDir)
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { archives: size, problems: [] }])
    expect(stderr).toMatch(new RegExp(`^Wrote the backup: \\d+ rows, ${size} archives of \\d+ bytes\\.\n$`))
    expect(size).toBeGreaterThan(2)
    expect(await contentOf(db)).toEqual(await contentOf(t.db))
    await db.end()
  })

  it('leave the archives where they are with --database-only', async () => {
    await mkdir(t.config.migrationsDir, { recursive: true })
    const file = join(folder, 'database.tar')
    const backup = await runCommand(['backup', file, '--database-only'], here())
    expect([backup.code, backup.stdout]).toEqual([
      0,
      expect.stringMatching(
        new RegExp(
          `^Keep the archives in ${t.config.dataDir} too: the backup does not contain them\\.\\nWrote .*database\\.tar: \\d+ rows, no archives\\.\\n$`,
        ),
      ),
    ])
    expect((await readFile(file)).includes('.zip')).toBe(false)
    // The database is lost, and its archives are still there.
    const lost = await anEmptyInstallation()
    const copy = { ...lost.environment, DATA_DIR: join(lost.dataDir, 'copy') }
    await cp(join(t.config.dataDir, 'archives'), join(copy.DATA_DIR, 'archives'), { recursive: true })
    const { code, stdout } = await runCommand(['restore', file, '--json'], copy)
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { problems: [], claimed: false }])
    expect(await contentOf(lost.db)).toEqual(await contentOf(t.db))
    await lost.db.end()
    // Without its archives, the restore says which ones are missing.
    const empty = await anEmptyInstallation()
    const without = await runCommand(['restore', file, '--json'], empty.environment)
    expect([without.code, JSON.parse(without.stdout).problems[0]]).toMatchObject([1, { problem: 'missing' }])
    await empty.db.end()
  })

  it('work for the embedded PostgreSQL', async () => {
    const dataDir = await mkdtemp(join(folder, 'embedded-'))
    const made = await runCommand(['account', 'create', 'ann', '--json'], { DATA_DIR: dataDir })
    expect(made.code).toBe(0)
    const file = join(folder, 'b.tar')
    expect((await runCommand(['backup', file], { DATA_DIR: dataDir })).stderr).toBe('')
    const other = await mkdtemp(join(folder, 'embedded-'))
    const restored = await runCommand(['restore', file], { DATA_DIR: other })
    expect([restored.code, restored.stderr]).toEqual([0, ''])
    const again = await runCommand(['account', 'create', 'ann'], { DATA_DIR: other })
    expect(again.code).toBe(1)
    const twice = await runCommand(['restore', file], { DATA_DIR: other })
    expect([twice.code, twice.stderr]).toEqual([
      1,
      'svc: The database is not empty. Restore into a new one; without DATABASE_URL, into an empty DATA_DIR.\n',
    ])
  })

  it('carry the operator’s migrations and their tables', async () => {
    const { db, environment, dataDir } = await aMigratedInstallation()
    await mkdir(environment.MIGRATIONS_DIR)
    const sql = `create table report (id bigint generated always as identity primary key, text text);
insert into report (text) values ('kept');
create table visit (day date not null, report_id bigint references report) partition by range (day);
create table visit_of_2026 partition of visit for values from ('2026-01-01') to ('2027-01-01');
insert into visit values ('2026-05-01', 1);`
    await writeFile(join(environment.MIGRATIONS_DIR, '1000_report.sql'), sql)
    await writeFile(join(environment.MIGRATIONS_DIR, '0100_low_number.sql'), 'create table low (id bigint)')
    expect((await runCommand(['migrate'], environment)).code).toBe(0)
    await db.query(`insert into report (text) values ('later')`)
    const file = join(folder, 'b.tar')
    expect((await runCommand(['backup', file], environment)).stderr).toBe('')
    const copy = await anEmptyInstallation()
    const restored = await runCommand(['restore', file], copy.environment)
    expect([restored.code, restored.stderr]).toEqual([0, ''])
    expect(await contentOf(copy.db)).toEqual(await contentOf(db))
    expect(await readFile(join(copy.environment.MIGRATIONS_DIR, '1000_report.sql'), 'utf8')).toBe(sql)
    expect((await runCommand(['migrate'], copy.environment)).stdout).toBe('Nothing to apply.\n')
    expect(existsSync(dataDir)).toBe(true)
    await Promise.all([db.end(), copy.db.end()])
  })

  it('name the operator’s migrations whose files are missing, and take them from the new installation', async () => {
    const { db, environment } = await aRestoredInstallation()
    await mkdir(environment.MIGRATIONS_DIR, { recursive: true })
    const sql = 'create table report (id bigint)'
    const migration = join(environment.MIGRATIONS_DIR, '1000_report.sql')
    await writeFile(migration, sql)
    expect((await runCommand(['migrate'], environment)).code).toBe(0)
    await rm(migration)
    await db.query('insert into report values (42)')
    const file = join(folder, 'c.tar')
    const backup = await runCommand(['backup', file, '--json'], environment)
    expect([backup.code, JSON.parse(backup.stdout).missing_migrations]).toEqual([0, ['1000_report.sql']])
    const copy = await anEmptyInstallation()
    await rm(file)
    expect((await runCommand(['backup', file], environment)).stdout).toContain(
      'The backup does not contain the migrations 1000_report.sql, because their files are missing here.',
    )
    const refused = await runCommand(['restore', file], copy.environment)
    expect(refused.stderr).toContain(
      'the backup does not contain the migrations 1000_report.sql. Put them into MIGRATIONS_DIR, and run svc restore again.',
    )
    expect((await archivesOf(copy.dataDir)).size, 'it refuses before it receives archives').toBe(0)
    const given = join(copy.environment.MIGRATIONS_DIR, '1000_report.sql')
    await mkdir(copy.environment.MIGRATIONS_DIR, { recursive: true })
    await writeFile(given, `${sql} -- changed`)
    const other = await runCommand(['restore', file], copy.environment)
    expect(other.stderr).toBe(
      `svc: The migration ${given} differs from the one that the backup's database has: put the original file there, or move it away.\n`,
    )
    expect([await contentOf(copy.db), (await archivesOf(copy.dataDir)).size]).toEqual([{}, 0])
    await writeFile(given, sql)
    const restored = await runCommand(['restore', file], copy.environment)
    expect([restored.code, restored.stderr]).toEqual([0, ''])
    expect(await contentOf(copy.db)).toEqual(await contentOf(db))
    expect((await runCommand(['migrate'], copy.environment)).stdout).toBe('Nothing to apply.\n')
    await Promise.all([db.end(), copy.db.end()])
  })

  it('of an earlier release name missing migrations without a checksum', async () => {
    const { db, environment } = await aMigratedInstallation()
    await mkdir(environment.MIGRATIONS_DIR)
    const migration = join(environment.MIGRATIONS_DIR, '1000_report.sql')
    await writeFile(migration, 'create table report (id bigint)')
    expect((await runCommand(['migrate'], environment)).code).toBe(0)
    await rm(migration)
    const file = join(folder, 'b.tar')
    expect((await runCommand(['backup', file], environment)).code).toBe(0)
    const earlier = (await readFile(file, 'latin1')).replace(
      /\{\s*"name": ("1000_report\.sql"),\s*"checksum": "[0-9a-f]{64}"\s*\}/,
      (now, name: string) => name.padEnd(now.length),
    )
    expect(earlier).not.toContain('"name": "1000_report.sql"')
    await writeFile(file, earlier, 'latin1')
    const copy = await anEmptyInstallation()
    await mkdir(copy.environment.MIGRATIONS_DIR)
    await writeFile(
      join(copy.environment.MIGRATIONS_DIR, '1000_report.sql'),
      'create table report (id bigint)',
    )
    const restored = await runCommand(['restore', file], copy.environment)
    expect([restored.code, restored.stderr]).toEqual([0, ''])
    expect(await contentOf(copy.db)).toEqual(await contentOf(db))
    await Promise.all([db.end(), copy.db.end()])
  })

  it('refuse a folder for migrations that is read-only before any row is loaded', async () => {
    const { db, environment } = await aMigratedInstallation()
    await mkdir(environment.MIGRATIONS_DIR)
    await writeFile(join(environment.MIGRATIONS_DIR, '1000_report.sql'), 'create table report (id bigint)')
    expect((await runCommand(['migrate'], environment)).code).toBe(0)
    const file = join(folder, 'b.tar')
    expect((await runCommand(['backup', file], environment)).code).toBe(0)
    const copy = await anEmptyInstallation()
    // Nobody, root included, can write there.
    const readOnly = { ...copy.environment, MIGRATIONS_DIR: '/proc/self/fdinfo' }
    const { code, stderr } = await runCommand(['restore', file], readOnly)
    expect(code).toBe(1)
    expect(stderr).toContain(
      'The backup contains migrations (1000_report.sql), but /proc/self/fdinfo is not writable',
    )
    expect([await contentOf(copy.db), await archivesOf(copy.dataDir)]).toEqual([{}, new Map()])
    await Promise.all([db.end(), copy.db.end()])
  })
})

describe('svc backup', () => {
  it('fails when the reader of its stream goes away, or when it would write to a terminal', async () => {
    const { code, stderr } = await paste(
      `set -o pipefail\n${shellLine(here(), 'backup', '-')} | head -c 100 >stream.txt\n`,
      folder,
    )
    expect([code, stderr]).toEqual([1, expect.stringContaining('The output could not be written (EPIPE)')])
    const onTerminal = await paste(
      `script --quiet --return --command "${shellLine(here(), 'backup', '-')}" /dev/null\n`,
      folder,
    )
    expect([onTerminal.code, onTerminal.stdout]).toEqual([
      1,
      expect.stringContaining('svc: Standard output is a terminal: redirect it to a file or a program.'),
    ])
  })

  const partials = async () => (await readdir(folder)).filter((name) => name.endsWith('.partial'))

  /** Makes backups wait for their snapshot during an act. */
  async function whileWaiting<T>(act: () => Promise<T>): Promise<T> {
    return whileLocked(t.db, 'installation', act, 'row exclusive')
  }

  it('keeps a collection from removing archives while it runs', async () => {
    const volume = await openOwnStore(t.db, t.config)
    await whileLocked(
      t.db,
      'installation',
      () => expect(collectGarbage(t.db, volume)).rejects.toThrow('A backup is running'),
      'share',
    )
    await collectGarbage(t.db, volume)
  })

  it('names a missing and a damaged archive, and keeps the file, which can be restored', async () => {
    const { db, environment, dataDir } = await aRestoredInstallation()
    const [first = '', second = ''] = (await archivesOf(dataDir)).keys()
    await rm(join(dataDir, 'archives', first))
    const bytes = await readFile(join(dataDir, 'archives', second))
    await writeFile(join(dataDir, 'archives', second), bytes.fill(0, 0, 10))
    const file = join(folder, 'less.tar')
    const { code, stdout } = await runCommand(['backup', file], environment)
    expect([code, existsSync(file)]).toEqual([1, true])
    expect(stdout).toContain(`${first.slice(3, -4)} is missing.`)
    expect(stdout).toContain(`${second.slice(3, -4)} is damaged.`)
    await db.end()
    const other = await anEmptyInstallation()
    const restored = await runCommand(['restore', file], other.environment)
    expect(restored.stderr + restored.stdout).not.toContain('has other bytes')
    expect(Object.keys(await contentOf(other.db)).length).toBeGreaterThan(0)
    await other.db.end()
  })

  it('does not replace a file, and leaves none behind when it fails', async () => {
    const file = join(folder, 'there.tar')
    await writeFile(file, 'mine')
    const { code, stderr } = await runCommand(['backup', file], here())
    expect([code, stderr]).toEqual([1, `svc: The file ${file} already exists.\n`])
    const nowhere = await runCommand(['backup', join(folder, 'no', 'such', 'b.tar')], here())
    expect([nowhere.code, nowhere.stderr.split('\n').length]).toEqual([1, 2])
    expect(await partials()).toEqual([])
  })

  it('keeps every file whole when two run at once with the same name, and one of them succeeds', async () => {
    const file = join(folder, 'b.tar')
    const both = await whileWaiting(async () => {
      const running = [runSvc(['backup', file], here()), runSvc(['backup', file], here())]
      await expect.poll(partials).toHaveLength(2)
      return running
    })
    const [first, second] = (await Promise.all(both)).sort((a, b) => Number(a.code) - Number(b.code))
    expect([first?.code, first?.stderr]).toEqual([0, ''])
    expect([second?.code, second?.stderr]).toEqual([1, `svc: The file ${file} already exists.\n`])
    expect(await partials()).toEqual([])
    const { db, environment } = await anEmptyInstallation()
    expect((await runCommand(['restore', file], environment)).code).toBe(0)
    await db.end()
  })

  it('leaves no file behind after Ctrl-C, and removes the one of a backup that was killed', async () => {
    const file = join(folder, 'b.tar')
    for (const signal of ['SIGINT', 'SIGKILL'] as const) {
      const child = await whileWaiting(async () => {
        const env = { PATH: process.env['PATH'], ...here() }
        const started = spawn(process.execPath, [program, 'backup', file], { env, stdio: 'ignore' })
        const ended = once(started, 'exit')
        await expect.poll(partials).toHaveLength(1)
        started.kill(signal)
        await ended
        return started
      })
      expect([signal, child.exitCode]).toEqual([signal, signal === 'SIGINT' ? 130 : null])
      expect(await partials()).toHaveLength(signal === 'SIGINT' ? 0 : 1)
    }
    await aBackup()
    expect(await partials()).toEqual([])
  })

  it('refuses a DATA_DIR without a database, and so do the commands for archives', async () => {
    const dataDir = await mkdtemp(join(folder, 'nothing-'))
    const commands = [
      ['backup', join(folder, 'b.tar')],
      ['verify-archives'],
      ['collect-garbage'],
      ['archives', 'copy', '--to', join(folder, 'copy')],
    ]
    for (const words of commands) {
      const { code, stderr } = await runCommand(words, { DATA_DIR: dataDir })
      expect([words[0], code, stderr]).toEqual([
        words[0],
        1,
        `svc: There is no database in ${dataDir}. Set DATA_DIR or DATABASE_URL as for the server.\n`,
      ])
    }
    expect(await readdir(dataDir)).toEqual([])
  })

  it('refuses an empty database, also an embedded one that was only created, and leaves it empty', async () => {
    const { db, environment } = await anEmptyInstallation()
    const dataDir = await makeDataDir()
    const created = await startEmbeddedPostgres({ dataDir, settings: fastSettings })
    await created.stop()
    for (const settings of [{ ...environment, BASE_URL: 'https://svc.example.com' }, { DATA_DIR: dataDir }]) {
      const { code, stderr } = await runCommand(['backup', join(folder, 'b.tar')], settings)
      expect([code, stderr]).toEqual([
        1,
        'svc: The database is empty. Set DATA_DIR or DATABASE_URL as for the server.\n',
      ])
    }
    expect(await readdir(folder)).not.toContain('b.tar')
    expect(await contentOf(db)).toEqual({})
    await db.end()
    const postgres = await startEmbeddedPostgres({ dataDir, settings: fastSettings })
    // The end of a pool does not wait until its connections are closed.
    const embedded = new pg.Client(postgres.connection)
    await embedded.connect()
    expect(await contentOf(embedded)).toEqual({})
    await embedded.end()
    await postgres.stop()
    await removeDataDir(dataDir)
  })

  it('refuses a database of a newer release', async () => {
    await noteMigration(t.db, '0999_future.sql')
    const { code, stderr } = await runCommand(['backup', join(folder, 'b.tar')], here())
    expect([code, stderr]).toEqual([
      1,
      'svc: The database was migrated by a newer release (0999_future.sql): use its svc backup.\n',
    ])
    await dropRows(t.db, 'applied_migration', { name: '0999_future.sql' })
  })
})

describe('svc restore', () => {
  it('refuses a database or a volume that is not empty', async () => {
    const file = await anEarlierBackup()
    expect((await runCommand(['restore', file], here())).stderr).toContain('The database is not empty.')
    const { db, environment, dataDir } = await anEmptyInstallation()
    const [first = ''] = (await archivesOf(t.config.dataDir)).keys()
    await mkdir(join(dataDir, 'archives', first.slice(0, 2)), { recursive: true })
    await writeFile(join(dataDir, 'archives', first), 'x')
    expect((await runCommand(['restore', file], environment)).stderr).toBe(
      `svc: ${dataDir} contains archives of another database. Use an empty archive store.\n`,
    )
    expect(await contentOf(db)).toEqual({})
    await db.end()
  })

  it('refuses a file that was cut off, is damaged, or is something else, and leaves the database empty', async () => {
    const file = await anEarlierBackup()
    const { db, environment } = await anEmptyInstallation()
    const bytes = await readFile(file)
    const cut = join(folder, 'cut.tar')
    // In a header, in the manifest, in a function, in the rows of a table, and in the last entry.
    const lengths = [
      100,
      700,
      bytes.indexOf('functions/') + 600,
      bytes.indexOf('tables/event/') + 600,
      bytes.length - 1536,
    ]
    for (const length of [0, ...lengths]) {
      await cp(file, cut)
      await truncate(cut, length)
      const { code, stderr } = await runCommand(['restore', cut], environment)
      expect([length, code, stderr]).toEqual([
        length,
        1,
        expect.stringContaining('is not a backup of svc, or it is damaged'),
      ])
      expect(await contentOf(db)).toEqual({})
    }
    const at = bytes.indexOf('PK\u0003\u0004')
    bytes[at + 40] = (bytes[at + 40] ?? 0) ^ 1
    await writeFile(cut, bytes)
    const { stderr } = await runCommand(['restore', cut], environment)
    expect(stderr).toMatch(/the archive [0-9a-f]{64} has other bytes/)
    expect(await contentOf(db)).toEqual({})
    // The file is valid, so a restore after the failed ones succeeds.
    expect((await runCommand(['restore', file], environment)).code).toBe(0)
    await db.end()
  })

  it('that is killed leaves an empty database, and can be repeated', async () => {
    // More than one piece of the file. The restore waits for the second one, which it never gets.
    await addLargeJobs(t.db, 'bulk', 1000)
    const file = await aBackup()
    await dropRows(t.db, 'job', { name: 'bulk' })
    const bytes = await readFile(file)
    const second = bytes.indexOf('tables/job/2.gz')
    expect(second).toBeGreaterThan(0)
    const { db, environment, dataDir } = await anEmptyInstallation()
    const child = spawn(process.execPath, [program, 'restore', '-'], {
      env: { PATH: process.env['PATH'], ...environment },
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    child.stdin.on('error', () => {})
    child.stdin.write(bytes.subarray(0, second))
    while (!(await isLoading(db, 'job'))) await sleep(5)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await contentOf(db)).toEqual({})
    expect((await archivesOf(dataDir)).size).toBeGreaterThan(0)
    const served = await runSvc(['serve'], { ...environment, PORT: '1' })
    expect(served.stderr).toContain('but this database is empty')
    const again = await runCommand(['restore', file], environment)
    expect([again.code, again.stderr]).toEqual([0, ''])
    expect(await countRows(db, 'job', { name: 'bulk' })).toBe(1000)
    await db.end()
  })

  it('refuses a backup of a newer release', async () => {
    const file = await anEarlierBackup()
    const { db, environment } = await anEmptyInstallation()
    const text = (await readFile(file)).toString('latin1')
    const renamed = text.replace('0150_store_claim.sql', '0941_store_claim.sql')
    const changed = text.replace(/(?<="0150_store_claim\.sql",\s*"checksum": ")[0-9a-f]/, (digit) =>
      (Number.parseInt(digit, 16) ^ 1).toString(16),
    )
    expect(changed).not.toBe(text)
    const newer = { '0941_store_claim.sql': renamed, '0150_store_claim.sql': changed }
    for (const [name, content] of Object.entries(newer)) {
      await writeFile(join(folder, 'newer.tar'), Buffer.from(content, 'latin1'))
      const { stderr } = await runCommand(['restore', join(folder, 'newer.tar')], environment)
      expect(stderr).toBe(
        `svc: The backup was made by a newer release, which has the migration ${name}: restore it with that release.\n`,
      )
    }
    await db.end()
  })

  it('refuses a backup of a release before the baseline, and names the commit that restores it', async () => {
    const file = await anEarlierBackup()
    const { db, environment } = await anEmptyInstallation()
    const name = '0061_second_step_of_links.sql'
    const older = (await readFile(file)).toString('latin1').replace(name, '0941_second_step_of_links.sql')
    await writeFile(join(folder, 'older.tar'), Buffer.from(older, 'latin1'))
    const { code, stderr } = await runCommand(['restore', join(folder, 'older.tar')], environment)
    expect([code, stderr]).toEqual([
      1,
      `svc: The backup was made by an older release: it lacks the migration ${name}. Restore it with svc of the commit ${bridgeCommit}, and then start this release with that database.\n`,
    ])
    expect(await contentOf(db)).toEqual({})
    await db.end()
  })

  it('upgrades a backup of an older release, with its rows', async () => {
    const file = await anEarlierBackup()
    const { db, environment } = await anEmptyInstallation()
    const newer = join(folder, 'newer')
    await cp(builtInMigrations, newer, { recursive: true })
    await writeFile(
      join(newer, '0998_newer.sql'),
      `alter table account add column greeting text; update account set greeting = 'Hello ' || username;`,
    )
    await mkdir(environment.MIGRATIONS_DIR)
    const config = readConfig(environment)
    const { verification } = await restoreBackup(db, config, createReadStream(file), { builtInDir: newer })
    expect(verification.problems).toEqual([])
    const { rows } = await db.query('select greeting from account where username = $1', [
      caller.account.username,
    ])
    expect(rows).toEqual([{ greeting: `Hello ${caller.account.username}` }])
    await db.end()
  })

  it('upgrades a backup that an earlier release made, and serves its packages', async () => {
    const { db, environment } = await anEmptyInstallation()
    const packed = await readFile(new URL('../fixtures/backup-of-2026-11-24.tar.gz', import.meta.url))
    const file = join(folder, 'fixture.tar')
    await writeFile(file, gunzipSync(packed))
    const { code, stdout, stderr } = await runCommand(['restore', file, '--json'], environment)
    expect([code, stderr, JSON.parse(stdout)]).toMatchObject([
      0,
      '',
      { archives: 2, problems: [], claimed: true },
    ])
    const authorization = basic('svcp_I5lOX6zcjLO8Lkb8ZcX4d9avmvTaMw2b0ybQk0gRuq11bKEIg')
    await whileServed({ db, environment }, async (app) => {
      const url = '/acme/php/-/packages'
      expect((await app.inject('/readyz')).statusCode).toBe(200)
      const document = (await app.inject(`${url}/p2/acme/lib.json`)).json() as {
        packages: Record<string, { version: string; dist: { url: string; shasum: string } }[]>
      }
      const versions = document.packages['acme/lib'] ?? []
      expect(versions.map(({ version }) => version)).toEqual(['1.1.0', '1.0.0'])
      const dist = String(versions[0]?.dist.url)
      const archive = await app.inject(`${url}${dist.slice(dist.indexOf('/dist/'))}`)
      expect(createHash('sha1').update(archive.rawPayload).digest('hex')).toBe(versions[0]?.dist.shasum)
      // The token of the backup publishes.
      const pushed = await app.inject({
        method: 'PUT',
        url: `${url}/upload/acme/lib/1.2.0`,
        headers: { authorization },
        payload: aPackageZip('acme/lib'),
      })
      expect(pushed.statusCode).toBe(201)
    })
    await db.end()
  })

  it('upgrades a backup of an earlier release with a deleted repository, which is restored, and removed for good after its time', async () => {
    const { db, environment } = await anEmptyInstallation()
    const packed = await readFile(new URL('../fixtures/backup-of-2026-11-25.tar.gz', import.meta.url))
    await mkdir(environment.MIGRATIONS_DIR)
    const { verification } = await restoreBackup(
      db,
      readConfig(environment),
      Readable.from(gunzipSync(packed)),
    )
    expect(verification).toMatchObject({ archives: 1, problems: [] })
    const authorization = basic('svcp_HTYcSG6txB9dUw3KWOtcu6Yn9O311vV7ozdp4es2xFn4HrWlQ')
    const statusesOf = async (app: FastifyInstance) => {
      const get = async (url: string) => app.inject({ url, headers: { authorization } })
      const document = await get('/demo/php/-/packages/p2/demo/hello.json')
      if (document.statusCode !== 200) return [document.statusCode]
      const { packages } = document.json() as { packages: Record<string, { dist: { url: string } }[]> }
      const dist = new URL(packages['demo/hello']?.[0]?.dist.url ?? '').pathname
      return [200, (await get(dist)).statusCode]
    }
    const group = await findGroup(db, 'demo')
    if (group === null) throw new Error('the backup has the group demo')
    // The fourteen days of this backup have passed.
    await setDeletionDays(db, 0)
    await whileServed({ db, environment }, async (app) => {
      expect(await statusesOf(app)).toEqual([404])
      expect(await restoreRepository(db, operator, group, 'php')).toBe('demo/php')
      expect(await statusesOf(app)).toEqual([200, 200])
    })

    const repository = await findRepositoryByPath(db, 'demo/php')
    await deleteRepository(db, operator, { id: repository?.id ?? '', path: 'demo/php' })
    await setDeletionDays(db, 14)
    await removeExpiredRepositoriesJob.run({ db } as unknown as JobContext, {}, new AbortController().signal)
    expect([await countRows(db, 'repository'), await countRows(db, 'package')]).toEqual([0, 0])
    await db.end()
  })

  it('refuses a store with newer archives, which another database may use, unless it is forced', async () => {
    const file = await anEarlierBackup()
    await caller.push('5.0.0', { name: 'acme/newer', manifest: { description: 'after the backup' } })
    const { db, environment } = await anEmptyInstallation()
    const shared = { ...environment, DATA_DIR: t.config.dataDir }
    const { code, stderr } = await runCommand(['restore', file], shared)
    expect([code, stderr]).toEqual([
      1,
      `svc: ${t.config.dataDir} contains archives that are not in the backup. Use an empty archive store, because two databases must not share one. If no other database uses it, run svc restore --force.\n`,
    ])
    expect(await contentOf(db)).toEqual({})
    const forced = await runCommand(['restore', file, '--force'], shared)
    expect([forced.code, forced.stderr]).toEqual([0, ''])
    expect(forced.stdout).toContain('until you run svc archives claim')
    const collected = await runCommand(['collect-garbage'], shared)
    expect([collected.code, collected.stderr]).toEqual([
      1,
      expect.stringContaining('restored into an archive store in use'),
    ])
    expect((await runCommand(['archives', 'claim'], shared)).code).toBe(0)
    expect((await runCommand(['collect-garbage'], shared)).code).toBe(0)
    await db.end()
  })
})
