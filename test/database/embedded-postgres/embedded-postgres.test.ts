import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished, vi } from 'vitest'
import { findPostgresPackage, linkLibraries } from '../../../src/database/embedded-postgres/binaries.ts'
import { clusterPaths, isAlive } from '../../../src/database/embedded-postgres/cluster.ts'
import {
  type EmbeddedPostgres,
  type EmbeddedPostgresOptions,
  findEmbeddedPostgres,
  type PostgresConnection,
  startEmbeddedPostgres,
} from '../../../src/database/embedded-postgres/embedded-postgres.ts'
import { readPostmaster } from '../../../src/database/embedded-postgres/postmaster.ts'
import { type Holder, makeClone, nativeFolder, startHolder } from '../../support/clone.ts'
import { fastSettings, makeDataDir, removeDataDir } from '../../support/postgres.ts'

const isRoot = process.geteuid?.() === 0
let clone: string
/** A DATA_DIR with a cluster that was started and stopped. */
let stopped: string

beforeAll(async () => {
  clone = await mkdtemp(join(tmpdir(), 'svc-test-clone-'))
  await makeClone(clone)
  stopped = await makeDataDir()
  await (await start(stopped)).stop()
})

afterAll(async () => {
  await rm(clone, { recursive: true, force: true })
  await removeDataDir(stopped)
})

/** Creates an empty DATA_DIR. After the test it is removed, and processes in it are ended. */
async function aDataDir(): Promise<string> {
  const dataDir = await makeDataDir()
  onTestFinished(() => removeDataDir(dataDir))
  return dataDir
}

/**
 * Creates a DATA_DIR with a cluster that was started and stopped. To create one with initdb takes ten times as long as
 * this copy.
 */
async function aDataDirWithCluster(): Promise<string> {
  const dataDir = await aDataDir()
  copyCluster(stopped, dataDir)
  return dataDir
}

/** Copies the files of a cluster into an empty DATA_DIR. The owner stays the same. */
function copyCluster(from: string, to: string): void {
  execFileSync('cp', ['-a', clusterPaths(from).folder, to])
}

async function start(
  dataDir: string,
  options: Partial<EmbeddedPostgresOptions> = {},
): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ dataDir, settings: fastSettings, patienceSeconds: 60, ...options })
}

/** Starts another process that holds the PostgreSQL of a DATA_DIR. It is killed after the test. */
function aHolder(
  dataDir: string,
  options: { purpose?: string; ids?: { uid: number; gid: number }; clone?: string } = {},
): Holder {
  const { ids, purpose = 'server' } = options
  const holder = startHolder(
    options.clone ?? clone,
    { dataDir, purpose, patienceSeconds: 1, settings: fastSettings },
    ids,
  )
  onTestFinished(() => void holder.process.kill('SIGKILL'))
  return holder
}

async function query(connection: PostgresConnection, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

async function postmasterOf(dataDir: string) {
  return readPostmaster(clusterPaths(dataDir).cluster)
}

describe('startEmbeddedPostgres', () => {
  it('makes a durable UTF-8 cluster with checksums, reachable over a private socket by password only, tells when the caller only waits, and keeps the data from one start to the next', async () => {
    const dataDir = await aDataDir()
    const whileWaiting: string[] = []
    const onWait = () => {
      whileWaiting.push(existsSync(clusterPaths(dataDir).cluster) ? 'starting' : 'creating the cluster')
    }
    const postgres = await startEmbeddedPostgres({ dataDir, onWait })
    const [settings] = await query(
      postgres.connection,
      `select current_setting('server_encoding') as encoding, upper('é') as upper,
              current_setting('listen_addresses') as addresses, current_setting('data_checksums') as checksums,
              current_setting('fsync') as fsync, current_setting('full_page_writes') as pages,
              current_setting('synchronous_commit') as commit, current_setting('TimeZone') as zone`,
    )
    expect(settings).toEqual({
      encoding: 'UTF8',
      upper: 'É',
      addresses: '',
      checksums: 'on',
      fsync: 'on',
      pages: 'on',
      commit: 'on',
      zone: 'UTC',
    })
    expect((await stat(postgres.connection.host)).mode & 0o777).toBe(0o700)
    expect((await stat(clusterPaths(dataDir).password)).mode & 0o777).toBe(0o600)
    await expect(query({ ...postgres.connection, password: 'guess' }, 'select 1')).rejects.toThrow(
      'password authentication failed',
    )
    await query(postgres.connection, 'create table kept (n int); insert into kept values (7)')
    await query(postgres.connection, 'create database original')
    await query(postgres.connection, 'create database copy template original')
    await postgres.stop()
    expect(whileWaiting).toEqual(['creating the cluster', 'starting'])
    const second = await start(dataDir, { onWait })
    expect(whileWaiting).toEqual(['creating the cluster', 'starting', 'starting'])
    expect(await query(second.connection, 'select n from kept')).toEqual([{ n: 7 }])
    expect(await query({ ...second.connection, database: 'copy' }, 'select 1 as one')).toEqual([{ one: 1 }])
    await second.stop()
  })

  it('starts a copied DATA_DIR beside its running original, and leaves that one its socket', async () => {
    const dataDir = await aDataDirWithCluster()
    const original = await start(dataDir)
    await query(original.connection, 'create table kept (n int); insert into kept values (7)')
    await query(original.connection, 'checkpoint')
    const copied = await aDataDir()
    // The copy has the postmaster.pid of the running original.
    copyCluster(dataDir, copied)
    const copy = await start(copied)
    expect(await query(copy.connection, 'select n from kept')).toEqual([{ n: 7 }])
    expect(copy.connection.host).not.toBe(original.connection.host)
    expect(await query(original.connection, 'select n from kept')).toEqual([{ n: 7 }])
    await copy.stop()
    expect(await query(original.connection, 'select n from kept')).toEqual([{ n: 7 }])
    await original.stop()
  })

  it('leaves nothing running and no socket folder after stop, which may be called twice', async () => {
    const dataDir = await aDataDirWithCluster()
    const postgres = await start(dataDir)
    const postmaster = await postmasterOf(dataDir)
    await Promise.all([postgres.stop(), postgres.stop()])
    await postgres.stop()
    // The parent of the process must reap it, which may take a moment.
    await waitUntil(async () => !isAlive(postmaster?.pid ?? 0))
    await expect(stat(postgres.connection.host)).rejects.toThrow('ENOENT')
  })

  it('stops with clients connected and busy', async () => {
    const dataDir = await aDataDirWithCluster()
    const postgres = await start(dataDir)
    const asleep = query(postgres.connection, 'select pg_sleep(60)').catch((error: Error) => error.message)
    const running = `select count(*)::int from pg_stat_activity where query = 'select pg_sleep(60)'`
    await expect.poll(() => query(postgres.connection, running)).toEqual([{ count: 1 }])
    await postgres.stop()
    expect(await asleep).toMatch(/terminat/)
  })

  it('gives PostgreSQL its own session, so that Ctrl-C does not end it', async () => {
    const dataDir = await aDataDirWithCluster()
    const postgres = await start(dataDir)
    const { pid } = (await postmasterOf(dataDir)) ?? { pid: 0 }
    // Signal 0 checks that there is a process group whose leader is PostgreSQL.
    expect(process.kill(-pid, 0)).toBe(true)
    await postgres.stop()
  })

  it('starts an empty cluster after DATA_DIR was deleted under a running PostgreSQL, which can still be stopped', async () => {
    const dataDir = await aDataDirWithCluster()
    const first = await start(dataDir)
    const orphan = await postmasterOf(dataDir)
    await query(first.connection, 'create table gone (n int)')
    await rm(dataDir, { recursive: true, force: true, maxRetries: 10 })
    const second = await start(dataDir)
    await expect(query(second.connection, 'select n from gone')).rejects.toThrow('does not exist')
    await first.stop()
    await waitUntil(async () => !isAlive(orphan?.pid ?? 0))
    expect(await query(second.connection, 'select 1 as one')).toEqual([{ one: 1 }])
    await second.stop()
  })

  it('shows the end of the log when PostgreSQL does not start', async () => {
    const dataDir = await aDataDirWithCluster()
    const failure = start(dataDir, { settings: { ...fastSettings, shared_buffers: 'plenty' } })
    await expect(failure).rejects.toThrow(/did not start \(exit 1\).*shared_buffers.*plenty/s)
    await (await start(dataDir)).stop()
  })

  it('refuses a cluster of another major version, says how to upgrade, and leaves it alone', async () => {
    const dataDir = await aDataDirWithCluster()
    const first = await start(dataDir)
    await query(first.connection, 'create table kept (n int)')
    await first.stop()
    const versionFile = join(clusterPaths(dataDir).cluster, 'PG_VERSION')
    const version = await readFile(versionFile, 'utf8')
    await writeFile(versionFile, '17\n')
    await expect(start(dataDir)).rejects.toThrow(
      /holds data of PostgreSQL 17, but this release of svc embeds PostgreSQL \d+\..*svc backup.*svc restore/,
    )
    await writeFile(versionFile, version)
    const second = await start(dataDir)
    expect(await query(second.connection, 'select n from kept')).toEqual([])
    await second.stop()
  })

  it('refuses a DATA_DIR/postgres with something else in it', async () => {
    const dataDir = await aDataDir()
    await mkdir(join(dataDir, 'postgres/photos'), { recursive: true })
    await expect(start(dataDir)).rejects.toThrow('is not empty, but contains no PostgreSQL cluster')
  })
})

describe('the first start', () => {
  it('leaves no half-made cluster when it is killed in the middle', async () => {
    const dataDir = await aDataDir()
    for (const entry of ['cluster', 'cluster/base', 'cluster/base/1']) {
      const holder = aHolder(dataDir)
      await waitUntil(async () => (await stagingEntries(dataDir)).includes(entry))
      holder.process.kill('SIGKILL')
      await once(holder.process, 'exit')
      expect(await readdir(dataDir)).not.toContain('postgres')
    }
    const postgres = await start(dataDir)
    expect(await query(postgres.connection, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(await readdir(dataDir)).toEqual(['postgres'])
    await postgres.stop()
  })

  it('removes what an earlier container with the same process id left', async () => {
    const dataDir = await aDataDir()
    await mkdir(join(dataDir, `postgres-staging-${process.pid}-left/cluster/base`), { recursive: true })
    await (await start(dataDir)).stop()
    expect(await readdir(dataDir)).toEqual(['postgres'])
  })

  it('is won by one of several processes; the others say who has it', async () => {
    const dataDir = await aDataDir()
    const holders = [aHolder(dataDir), aHolder(dataDir), aHolder(dataDir)]
    const results = await Promise.allSettled(holders.map((holder) => holder.started))
    const winner = results.findIndex((result) => result.status === 'fulfilled')
    const refusals = results.flatMap((result) =>
      result.status === 'rejected' ? [(result.reason as Error).message] : [],
    )
    const refusal = `DATA_DIR ${dataDir} is in use by another svc (process ${holders[winner]?.process.pid}). Stop it, or set DATA_DIR to another folder.`
    expect(refusals).toEqual([refusal, refusal])
    expect(await readdir(dataDir)).toEqual(['postgres'])
  })
})

describe('a DATA_DIR in use', () => {
  it('cannot be used by a second server, and is found by commands', async () => {
    expect(await findEmbeddedPostgres(await aDataDir())).toBeNull()
    const dataDir = await aDataDirWithCluster()
    expect(await findEmbeddedPostgres(dataDir)).toBeNull()
    const first = await start(dataDir)
    await expect(start(dataDir, { patienceSeconds: 0 })).rejects.toThrow(
      `DATA_DIR ${dataDir} is in use by another svc (process ${process.pid}). Stop it, or set DATA_DIR to another folder.`,
    )
    expect(await findEmbeddedPostgres(dataDir)).toEqual(first.connection)
    await first.stop()
    expect(await findEmbeddedPostgres(dataDir)).toBeNull()
  })

  it('lets a server wait while a command uses it, and is not found by other commands', async () => {
    const dataDir = await aDataDirWithCluster()
    const command = await start(dataDir, { purpose: 'command' })
    expect(await findEmbeddedPostgres(dataDir)).toBeNull()
    await expect(start(dataDir, { patienceSeconds: 0 })).rejects.toThrow('in use by an svc command')
    const server = start(dataDir, { patienceSeconds: 60 })
    await sleep(300)
    await command.stop()
    expect(await query((await server).connection, 'select 1 as one')).toEqual([{ one: 1 }])
    await (await server).stop()
  })

  it('is adopted when its svc was killed, and stops with the new svc', async () => {
    const dataDir = await aDataDirWithCluster()
    const killed = aHolder(dataDir)
    await query(await killed.started, 'create table kept as select 7 as n')
    const orphan = await postmasterOf(dataDir)
    killed.process.kill('SIGKILL')
    await once(killed.process, 'exit')
    const adopted = await start(dataDir)
    expect(await postmasterOf(dataDir)).toEqual(orphan)
    expect(await query(adopted.connection, 'select n from kept')).toEqual([{ n: 7 }])
    await adopted.stop()
    // The new parent of the orphaned process must reap it, which may take a moment.
    await waitUntil(async () => !isAlive(orphan?.pid ?? 0))
  })
})

describe('when PostgreSQL dies', () => {
  it('reports it to its holder, and the next start recovers committed data', async () => {
    const dataDir = await aDataDirWithCluster()
    const postgres = await startEmbeddedPostgres({ dataDir })
    await query(postgres.connection, 'create table kept as select 7 as n')
    const postmaster = await postmasterOf(dataDir)
    process.kill(postmaster?.pid ?? 0, 'SIGKILL')
    expect((await postgres.exited).message).toContain('The embedded PostgreSQL has stopped')
    await postgres.stop()
    const next = await start(dataDir)
    expect(await query(next.connection, 'select n from kept')).toEqual([{ n: 7 }])
    await expect(stat(postgres.connection.host)).rejects.toThrow('ENOENT')
    await next.stop()
  })

  it('ignores a leftover postmaster.pid whose process id another program has now', async () => {
    const dataDir = await aDataDirWithCluster()
    const { cluster } = clusterPaths(dataDir)
    const { uid, gid } = await stat(cluster)
    const stranger = spawn('sleep', ['60'], { ...(isRoot ? { uid, gid } : {}) })
    onTestFinished(() => void stranger.kill())
    const lock = join(cluster, 'postmaster.pid')
    await writeFile(lock, `${stranger.pid}\n/proc/self/cwd\n1\n5432\n/tmp/nowhere\n\n1 1\nready   \n`)
    if (isRoot) await chown(lock, uid, gid)
    const postgres = await start(dataDir)
    expect((await postmasterOf(dataDir))?.pid).not.toBe(stranger.pid)
    await postgres.stop()
    expect(isAlive(stranger.pid ?? 0)).toBe(true)
  })
})

describe('after a crash of the machine', () => {
  it('removes an empty lock file, with which PostgreSQL would not start', async () => {
    const dataDir = await aDataDirWithCluster()
    await writeFile(join(clusterPaths(dataDir).cluster, 'postmaster.pid'), '')
    const postgres = await start(dataDir)
    expect(await query(postgres.connection, 'select 1 as one')).toEqual([{ one: 1 }])
    await postgres.stop()
  })
})

describe('the socket', () => {
  it('is in a folder with a short path, whatever TMPDIR is', async () => {
    const dataDir = await aDataDirWithCluster()
    vi.stubEnv('TMPDIR', join(tmpdir(), 'long'.repeat(30)))
    onTestFinished(() => void vi.unstubAllEnvs())
    const postgres = await start(dataDir)
    expect(postgres.connection.host).toMatch(/^\/tmp\/svc-postgres-\w{6}$/)
    await postgres.stop()
    await expect(stat(postgres.connection.host)).rejects.toThrow('ENOENT')
  })
})

describe('the log', () => {
  it('starts a new log when it is large, and keeps the old one beside it', async () => {
    const dataDir = await aDataDirWithCluster()
    const { log } = clusterPaths(dataDir)
    await writeFile(log, Buffer.alloc(10 * 1024 * 1024 + 1))
    await (await start(dataDir)).stop()
    expect((await stat(`${log}.old`)).size).toBe(10 * 1024 * 1024 + 1)
    expect(await readFile(log, 'utf8')).toContain('database system is ready')
  })
})

describe('the binaries', () => {
  it('get the library links that npm may withhold, also from several starts at once', async () => {
    const native = nativeFolder(clone)
    const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as { target: string }[]
    for (const { target } of links) await rm(join(native, '..', target), { force: true })
    await Promise.all([linkLibraries(native), linkLibraries(native), linkLibraries(native)])
    for (const { target } of links) expect((await stat(join(native, '..', target))).size).toBeGreaterThan(0)
    expect(execFileSync(join(native, 'bin/postgres'), ['--version'], { encoding: 'utf8' })).toMatch(/ 18\./)
  })

  it.each(['win32-x64', 'linux-riscv64', 'freebsd-x64'])(
    'do not exist for %s, and the error says what to do',
    (platform) => {
      expect(() => findPostgresPackage(platform)).toThrow(
        `There is no embedded PostgreSQL for ${platform}. Set DATABASE_URL to use your own PostgreSQL.`,
      )
    },
  )
})

describe.runIf(isRoot)('as root', () => {
  it('runs PostgreSQL as another user, from folders that only root can enter', async () => {
    const dataDir = await aDataDir()
    const closed = await stat(clone)
    expect(closed.uid).toBe(0)
    expect(closed.mode & 0o777).toBe(0o700)
    const holder = aHolder(dataDir)
    expect(await query(await holder.started, 'show data_directory')).toEqual([
      { data_directory: '/proc/self/cwd' },
    ])
    const { pid } = (await postmasterOf(dataDir)) ?? { pid: 0 }
    expect((await stat(`/proc/${pid}`)).uid).not.toBe(0)
    holder.process.disconnect()
    await once(holder.process, 'exit')
    await waitUntil(async () => !isAlive(pid))
  })

  it('continues the cluster of an ordinary user as that user; the user cannot continue one of root', async () => {
    const { folder, ids } = await anOrdinaryUsersClone()
    const holder = aHolder(join(folder, 'data'), { ids, clone: folder })
    await holder.started
    const { pid } = (await postmasterOf(join(folder, 'data'))) ?? { pid: 0 }
    expect((await stat(`/proc/${pid}`)).uid).toBe(ids.uid)
    holder.process.disconnect()
    await once(holder.process, 'exit')
    const continued = await start(join(folder, 'data'))
    expect((await stat(`/proc/${(await postmasterOf(join(folder, 'data')))?.pid}`)).uid).toBe(ids.uid)
    await continued.stop()
    await mkdir(join(folder, 'roots'))
    copyCluster(stopped, join(folder, 'roots'))
    await expect(aHolder(join(folder, 'roots'), { ids, clone: folder }).started).rejects.toThrow(
      'belongs to another user',
    )
  })
})

/** A clone in a folder that everybody can access, owned by a user that is not root. */
async function anOrdinaryUsersClone(): Promise<{ folder: string; ids: { uid: number; gid: number } }> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-clone-'))
  onTestFinished(async () => {
    for (const name of ['data', 'roots']) await removeDataDir(join(folder, name))
    await rm(folder, { recursive: true, force: true })
  })
  await makeClone(folder)
  await chmod(folder, 0o755)
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'])))
  execFileSync('chown', ['-R', `${uid}:${gid}`, folder])
  return { folder, ids: { uid: uid ?? 0, gid: gid ?? 0 } }
}

async function stagingEntries(dataDir: string): Promise<string[]> {
  const names = (await readdir(dataDir)).filter((name) => name.startsWith('postgres-staging-'))
  const entries = await Promise.all(
    names.map((name) => readdir(join(dataDir, name), { recursive: true }).catch(() => [])),
  )
  return entries.flat()
}

async function waitUntil(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(5)
}

describe('the PostgreSQL of a test run', () => {
  it('has room for two hundred connections', async () => {
    expect(await query(inject('postgres'), 'show max_connections')).toEqual([{ max_connections: '200' }])
  })
})
