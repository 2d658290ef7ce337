import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { syncFolder } from '../new-file.ts'
import { readPostgresVersion } from './binaries.ts'
import type { RunAs } from './run-as.ts'

/** The superuser that initdb creates. It owns the tables of svc. */
export const clusterUser = 'svc'

/** The process id of the creator follows, so that a later start can recognize a leftover folder. */
const stagingPrefix = 'postgres-staging-'

/** The paths of the embedded PostgreSQL in a DATA_DIR. */
export interface ClusterPaths {
  folder: string
  cluster: string
  password: string
  log: string
}

/** Returns the paths below DATA_DIR/postgres, absolute. */
export function clusterPaths(dataDir: string): ClusterPaths {
  const folder = join(resolve(dataDir), 'postgres')
  return {
    folder,
    cluster: join(folder, 'cluster'),
    password: join(folder, 'password'),
    log: join(folder, 'server.log'),
  }
}

/**
 * Returns the path of the cluster for a PostgreSQL process that starts in the cluster's folder. On Linux the path is
 * that of the working directory. So PostgreSQL needs no access to the parent folders, such as /root, which its user may
 * not enter.
 */
export function clusterArgument(cluster: string): string {
  return process.platform === 'linux' ? '/proc/self/cwd' : cluster
}

/** Returns true while a process of any user has this id. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Throws when another major version of PostgreSQL created the cluster, because its files are unreadable then. The Error
 * says how to upgrade.
 */
export async function refuseOtherMajor({ folder, cluster }: ClusterPaths): Promise<void> {
  const [embedded] = (await readPostgresVersion()).split('.')
  const major = (await readFile(join(cluster, 'PG_VERSION'), 'utf8')).trim()
  if (major === embedded) return
  throw new Error(
    `${folder} holds data of PostgreSQL ${major}, but this release of svc embeds PostgreSQL ${embedded}. ` +
      'Nothing was changed. Run "svc backup FILE" with the release that you used before, move this folder away, ' +
      'and run "svc restore FILE" with this release.',
  )
}

/** Syncs the whole file system at once. A sync of each of the thousand files takes seconds on a busy disk. */
const syncMethod = process.platform === 'linux' ? ['--sync-method=syncfs'] : []

/** How to create a cluster. */
export interface ClusterOptions {
  native: string
  runAs: RunAs
  /** Whether to wait until all files are on the disk. */
  sync: boolean
  /** Called when initdb works, and this process waits for it. */
  onWait: () => void
}

/**
 * Creates the cluster in a staging folder and moves it into place by one rename. So the cluster is never incomplete.
 * When several first starts run at once, one of them wins.
 */
export async function createCluster(paths: ClusterPaths, options: ClusterOptions): Promise<void> {
  const dataDir = dirname(paths.folder)
  await mkdir(dataDir, { recursive: true })
  await removeLeftovers(dataDir)
  const staging = await mkdtemp(join(dataDir, `${stagingPrefix}${process.pid}-`))
  try {
    await initialize(staging, options)
    await rename(staging, paths.folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
      // Another process has created the cluster. Use that one.
      if (existsSync(paths.cluster)) return
      throw new Error(`${paths.folder} is not empty, but contains no PostgreSQL cluster. Move it away.`)
    })
    if (!options.sync) return
    // initdb has synced the files. Sync the names of the folders above them too.
    await syncFolder(dataDir)
    await syncFolder(dirname(dataDir)).catch((error: NodeJS.ErrnoException) => {
      // A folder such as /srv that we may enter but not read. It existed before, so it needs no sync.
      if (error.code !== 'EACCES') throw error
    })
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

async function initialize(staging: string, { native, runAs, sync, onWait }: ClusterOptions): Promise<void> {
  const cluster = join(staging, 'cluster')
  await mkdir(cluster, { mode: 0o700 })
  const password = await open(join(staging, 'password'), 'w+', 0o600)
  try {
    await password.writeFile(randomBytes(24).toString('base64url'))
    await password.sync()
    if (runAs !== null) {
      await chown(cluster, runAs.uid, runAs.gid)
      // initdb opens the file again through /dev/fd, which needs the right to read it.
      await password.chown(runAs.uid, runAs.gid)
    }
    const options = [
      `--pgdata=${clusterArgument(cluster)}`,
      `--username=${clusterUser}`,
      '--auth=scram-sha-256',
      '--pwfile=/dev/fd/3',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--data-checksums',
      ...(sync ? syncMethod : ['--no-sync']),
    ]
    const child = spawn(join(native, 'bin/initdb'), options, {
      ...runAs,
      cwd: cluster,
      env: { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'ignore', 'pipe', password.fd],
    })
    onWait()
    const [[code, signal], output] = await Promise.all([once(child, 'close'), text(child.stderr as Readable)])
    if (code !== 0) throw new Error(`initdb failed (${signal ?? code}): ${output.trim()}`)
  } finally {
    await password.close()
  }
  if (sync) await syncFolder(staging)
}

/** Removes the staging folders of starts that were killed during initdb. */
async function removeLeftovers(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    if (!name.startsWith(stagingPrefix)) continue
    const pid = Number.parseInt(name.slice(stagingPrefix.length), 10)
    // With our own process id, the folder is a leftover of an earlier container, where every start may get the same id.
    if (pid !== process.pid && isAlive(pid)) continue
    // The killed start's initdb may still write for a moment.
    await rm(join(dataDir, name), { recursive: true, force: true, maxRetries: 10 })
  }
}
