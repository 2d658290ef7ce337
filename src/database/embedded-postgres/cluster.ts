import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdir, mkdtemp, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type ClusterPaths, clusterArgument } from './layout.ts'
import { isAlive } from './postmaster.ts'
import type { RunAs } from './run-as.ts'

/** The superuser that initdb creates. It owns svc's tables. */
export const clusterUser = 'svc'

/** The name of a staging folder contains the process id of its creator, so that leftovers can be recognized. */
const stagingPrefix = 'postgres-staging-'

/** Returns the generated password of the cluster's superuser. */
export async function readPassword(paths: ClusterPaths): Promise<string> {
  return (await readFile(paths.password, 'utf8')).trim()
}

/** Returns the major version of the PostgreSQL that made the cluster, such as `18`. */
export async function readClusterMajor(paths: ClusterPaths): Promise<string> {
  return (await readFile(join(paths.cluster, 'PG_VERSION'), 'utf8')).trim()
}

/**
 * Creates the cluster in a staging folder and moves it into place by one rename. So it is never incomplete, and one of
 * several concurrent first starts wins.
 */
export async function createCluster(
  paths: ClusterPaths,
  { native, runAs, sync }: { native: string; runAs: RunAs; sync: boolean },
): Promise<void> {
  const dataDir = dirname(paths.folder)
  await mkdir(dataDir, { recursive: true })
  await removeLeftovers(dataDir)
  const staging = await mkdtemp(join(dataDir, `${stagingPrefix}${process.pid}-`))
  try {
    await initialize(staging, { native, runAs, sync })
    await rename(staging, paths.folder).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
      const winner = await stat(paths.cluster).catch(() => null)
      if (winner === null)
        throw new Error(`${paths.folder} is not empty, but contains no PostgreSQL cluster.`)
    })
    if (sync) {
      // initdb has synced the files. Sync the folders above too.
      await syncFolder(dataDir)
      await syncFolder(dirname(dataDir)).catch((error: NodeJS.ErrnoException) => {
        // This user may enter but not read a folder such as /srv. It existed before, so it needs no sync.
        if (error.code !== 'EACCES') throw error
      })
    }
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

async function initialize(
  staging: string,
  { native, runAs, sync }: { native: string; runAs: RunAs; sync: boolean },
): Promise<void> {
  const cluster = join(staging, 'cluster')
  await mkdir(cluster, { mode: 0o700 })
  const password = await open(join(staging, 'password'), 'w+', 0o600)
  try {
    await password.writeFile(randomBytes(24).toString('base64url'))
    await password.sync()
    if (runAs.ids !== null) {
      await chown(cluster, runAs.ids.uid, runAs.ids.gid)
      // initdb opens it again through /dev/fd, which requires read permission.
      await password.chown(runAs.ids.uid, runAs.ids.gid)
    }
    await runInitdb(cluster, password.fd, { native, runAs, sync })
  } finally {
    await password.close()
  }
  if (sync) await syncFolder(staging)
}

async function runInitdb(
  cluster: string,
  passwordFd: number,
  { native, runAs, sync }: { native: string; runAs: RunAs; sync: boolean },
): Promise<void> {
  const child = spawn(
    join(native, 'bin/initdb'),
    [
      `--pgdata=${clusterArgument(cluster)}`,
      `--username=${clusterUser}`,
      '--auth=scram-sha-256',
      '--pwfile=/dev/fd/3',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--data-checksums',
      ...(sync ? [] : ['--no-sync']),
    ],
    {
      ...runAs.ids,
      cwd: cluster,
      env: { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'ignore', 'pipe', passwordFd],
    },
  )
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  await new Promise<void>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0) return resolve()
      reject(new Error(`initdb failed (${signal ?? code}): ${output.trim()}`))
    })
  })
}

/** Removes the leftovers of a start that was killed during initdb. */
async function removeLeftovers(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    if (!name.startsWith(stagingPrefix)) continue
    const path = join(dataDir, name)
    if (await hasMaker(path, Number.parseInt(name.slice(stagingPrefix.length), 10))) continue
    // Its initdb may still write for a moment.
    await rm(path, { recursive: true, force: true, maxRetries: 10 })
  }
}

async function hasMaker(staging: string, pid: number): Promise<boolean> {
  if (pid !== process.pid) return isAlive(pid)
  // In a container every start may get the same process id. Only folders that are newer than this process are its own.
  const made = await stat(staging).catch(() => null)
  return made !== null && made.mtimeMs >= Date.now() - process.uptime() * 1000
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
