import { type ChildProcess, spawn } from 'node:child_process'
import { chown, mkdtemp, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterPaths, clusterArgument } from './layout.ts'
import type { RunAs } from './run-as.ts'

/** A running PostgreSQL, as its postmaster.pid describes it. */
export interface Postmaster {
  pid: number
  socketFolder: string
  /** The folder of its cluster. It stays the working directory of the server even when it is deleted. */
  folder: { dev: number; ino: number }
}

/** PostgreSQL's parameters by name. */
export type Settings = Record<string, string>

/** The parameters that differ from PostgreSQL's defaults. The defaults fit a small server. */
const ownSettings: Settings = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  jit: 'off',
}

const socketPrefix = 'svc-postgres-'

/** Linux allows 107 bytes for a socket's path, macOS 103; `/.s.PGSQL.5432.lock` follows. */
const maxSocketFolderBytes = 80

/** A start empties a log that is larger. */
const maxLogBytes = 10 * 1024 * 1024

const recoverySeconds = 120

/** Reads postmaster.pid: a running server, or the leftover of a dead one. Null when there is no such file. */
export async function readPostmaster(
  cluster: string,
): Promise<(Postmaster & { running: boolean; ready: boolean }) | null> {
  try {
    const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8')).split('\n')
    const { dev, ino } = await stat(cluster)
    const postmaster = { pid: Number(lines[0]), socketFolder: lines[4] ?? '', folder: { dev, ino } }
    return { ...postmaster, running: await isRunning(postmaster), ready: lines[7]?.trim() === 'ready' }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Returns whether a process has this id, also one of another user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Returns whether the postmaster runs. After a crash of the machine another process may have its id, so the working
 * directory is compared with the cluster's folder. A running postmaster must never count as dead, not even one that is
 * still writing its postmaster.pid.
 */
async function isRunning({ pid, socketFolder, folder }: Postmaster): Promise<boolean> {
  if (!(pid > 0) || !isAlive(pid)) return false
  if (process.platform !== 'linux') return true
  try {
    const cwd = await stat(`/proc/${pid}/cwd`)
    return cwd.dev === folder.dev && cwd.ino === folder.ino
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return false
  }
  // Root in a container may not be allowed to read another user's working directory (CAP_SYS_PTRACE).
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return /^[^\0]*\bpostgres\0/.test(command) && command.includes(socketFolder)
}

/** Starts PostgreSQL and waits until it is ready. It gets a separate session, so that Ctrl-C does not stop it. */
export async function startPostmaster(
  paths: ClusterPaths,
  { native, runAs, settings }: { native: string; runAs: RunAs; settings: Settings },
): Promise<void> {
  const leftover = await readPostmaster(paths.cluster)
  if (leftover?.pid === 0) await removeEmptyLock(paths.cluster)
  const socketFolder = await makeSocketFolder(runAs)
  const { log, from } = await openLog(paths.log)
  try {
    const child = spawn(join(native, 'bin/postgres'), postmasterArguments(paths, socketFolder, settings), {
      ...runAs.ids,
      cwd: paths.cluster,
      detached: true,
      env: {
        PATH: process.env['PATH'],
        LC_ALL: 'C',
        TZ: 'UTC',
        // PostgreSQL treats this process id in postmaster.pid as stale. Its real process is not a postmaster.
        ...(leftover !== null && !leftover.running ? { PG_GRANDPARENT_PID: String(leftover.pid) } : {}),
      },
      stdio: ['ignore', log.fd, log.fd],
    })
    child.unref()
    await waitUntilReady(child, paths, from)
  } catch (error) {
    await removeSocketFolder(socketFolder)
    throw error
  } finally {
    await log.close()
  }
  if (leftover !== null) await removeSocketFolder(leftover.socketFolder)
}

/** Removes an empty lock file, which a crash of the machine may leave. PostgreSQL does not start with one. */
async function removeEmptyLock(cluster: string): Promise<void> {
  const path = join(cluster, 'postmaster.pid')
  const { size, mtimeMs } = await stat(path)
  // A newer one is just being written.
  if (size === 0 && Date.now() - mtimeMs > 2000) await rm(path)
}

function postmasterArguments(paths: ClusterPaths, socketFolder: string, settings: Settings): string[] {
  const all = { ...ownSettings, unix_socket_directories: socketFolder, ...settings }
  return [
    '-D',
    clusterArgument(paths.cluster),
    ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
}

async function waitUntilReady(child: ChildProcess, paths: ClusterPaths, logFrom: number): Promise<void> {
  let ended: string | null = null
  child.on('error', (error) => {
    ended = error.message
  })
  child.on('exit', (code, signal) => {
    ended = `exit ${signal ?? code}`
  })
  const deadline = Date.now() + recoverySeconds * 1000
  while (ended === null) {
    const seen = await readPostmaster(paths.cluster)
    if (seen?.pid === child.pid && seen?.ready) return
    if (Date.now() > deadline) {
      child.kill('SIGQUIT')
      ended = `not ready after ${recoverySeconds} s`
    }
    await sleep(10)
  }
  const tail = await readLog(paths.log, logFrom)
  throw new Error(`The embedded PostgreSQL did not start (${ended}). From ${paths.log}:\n${tail}`)
}

/** Stops PostgreSQL with a fast shutdown. If that takes too long, with an immediate one: the next start recovers. */
export async function stopPostmaster(postmaster: Postmaster, fastSeconds: number): Promise<void> {
  if (!(await signalAndWait(postmaster, 'SIGINT', fastSeconds))) {
    await signalAndWait(postmaster, 'SIGQUIT', 10)
  }
  await removeSocketFolder(postmaster.socketFolder)
}

async function signalAndWait(
  postmaster: Postmaster,
  signal: NodeJS.Signals,
  seconds: number,
): Promise<boolean> {
  const deadline = Date.now() + seconds * 1000
  if (await isRunning(postmaster)) sendSignal(postmaster.pid, signal)
  while (await isRunning(postmaster)) {
    if (Date.now() > deadline) return false
    await sleep(10)
  }
  return true
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Creates a private folder with a short path, because the path of a socket is limited and DATA_DIR may be long. */
async function makeSocketFolder(runAs: RunAs): Promise<string> {
  // The user who runs PostgreSQL may not be allowed to enter root's TMPDIR.
  const parent = runAs.ids !== null || tmpdir().length > maxSocketFolderBytes ? '/tmp' : tmpdir()
  const folder = await mkdtemp(join(parent, socketPrefix))
  if (runAs.ids !== null) await chown(folder, runAs.ids.uid, runAs.ids.gid)
  return folder
}

async function removeSocketFolder(folder: string): Promise<void> {
  // The name may come from a postmaster.pid. Remove only folders that svc creates.
  if (!basename(folder).startsWith(socketPrefix) || !['/tmp', tmpdir()].includes(dirname(folder))) return
  await rm(folder, { recursive: true, force: true })
}

async function openLog(path: string): Promise<{ log: Awaited<ReturnType<typeof open>>; from: number }> {
  const before = await stat(path).catch(() => null)
  if (before !== null && before.size > maxLogBytes) await rename(path, `${path}.old`)
  const log = await open(path, 'a', 0o600)
  const { size } = await log.stat()
  return { log, from: size }
}

async function readLog(path: string, from: number): Promise<string> {
  const text = await readFile(path)
  return text.subarray(from).toString('utf8').trim().split('\n').slice(-20).join('\n')
}
