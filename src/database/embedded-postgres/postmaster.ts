import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, type FileHandle, mkdtemp, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterPaths, clusterArgument, isAlive } from './cluster.ts'
import type { RunAs } from './run-as.ts'

/** The facts about a PostgreSQL server in its postmaster.pid. */
export interface Postmaster {
  pid: number
  socketFolder: string
  /** Identifies the cluster's folder, which is the server's working directory, even after the folder was deleted. */
  folder: { dev: number; ino: number }
}

/** PostgreSQL's parameters by name. */
export type Settings = Record<string, string>

/** The settings that differ from PostgreSQL's defaults. The other defaults suit a small server. */
const ownSettings: Settings = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  jit: 'off',
}

/** A short path that every user can open. The path of a socket has a limited length, and DATA_DIR may be longer. */
const socketPrefix = '/tmp/svc-postgres-'

/** A start that finds a larger log begins a new one. */
const maxLogBytes = 10 * 1024 * 1024

/** How long to wait for the fast shutdown of a PostgreSQL that is still starting. */
const startingSeconds = 5

/** Reads postmaster.pid. The server that it describes may have died. Null when there is no such file. */
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

/**
 * Returns whether a postmaster runs. After a crash of the machine, another program may have the process id, so the
 * working directory must be the cluster's folder. A live postmaster must never count as dead, even if it has only begun
 * to write its postmaster.pid.
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
  // Root in a container may lack the right to see another user's working directory (CAP_SYS_PTRACE).
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return /^[^\0]*\bpostgres\0/.test(command) && command.includes(socketFolder)
}

/**
 * Starts PostgreSQL in its own session, so that Ctrl-C does not end it, and returns it when it is ready. When the signal
 * aborts, it stops PostgreSQL and throws. Calls `onWait` when PostgreSQL works, and this process waits for it.
 */
export async function startPostmaster(
  paths: ClusterPaths,
  start: {
    native: string
    runAs: RunAs
    settings: Settings
    signal: AbortSignal | undefined
    onWait: () => void
  },
): Promise<Postmaster> {
  const { native, runAs, settings, signal, onWait } = start
  const leftover = await readPostmaster(paths.cluster)
  const lock = join(paths.cluster, 'postmaster.pid')
  // A crash of the machine may leave an empty lock file, and PostgreSQL then refuses to start. Do not remove a new
  // one: PostgreSQL writes the content right after it creates the file.
  if (leftover?.pid === 0 && Date.now() - (await stat(lock)).mtimeMs > 2000) await rm(lock)
  const socketFolder = await mkdtemp(socketPrefix)
  const log = await openLog(paths.log)
  try {
    if (runAs !== null) await chown(socketFolder, runAs.uid, runAs.gid)
    const { size: logStart } = await log.stat()
    const parameters = { ...ownSettings, unix_socket_directories: socketFolder, ...settings }
    const options = Object.entries(parameters).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawn(join(native, 'bin/postgres'), ['-D', clusterArgument(paths.cluster), ...options], {
      ...runAs,
      cwd: paths.cluster,
      detached: true,
      env: {
        PATH: process.env['PATH'],
        LC_ALL: 'C',
        TZ: 'UTC',
        // PostgreSQL ignores a postmaster.pid with this process id. We know that no postmaster has the id now.
        ...(leftover !== null && !leftover.running ? { PG_GRANDPARENT_PID: String(leftover.pid) } : {}),
      },
      stdio: ['ignore', log.fd, log.fd],
    })
    child.unref()
    const endExitStop = stopOnExit(child.pid)
    onWait()
    const started = await waitUntilReady(child, paths, { logStart, signal }).finally(endExitStop)
    // In a copied DATA_DIR, the file names the PostgreSQL of the original, which may be running with this folder.
    if (leftover !== null && !isAlive(leftover.pid)) await removeSocketFolder(leftover.socketFolder)
    return started
  } catch (error) {
    await removeSocketFolder(socketFolder)
    throw error
  } finally {
    await log.close()
  }
}

/**
 * Waits without a limit. Recovery may take long, and after a kill it would start from the beginning. When the signal
 * aborts, stops PostgreSQL and throws.
 */
async function waitUntilReady(
  child: ChildProcess,
  paths: ClusterPaths,
  { logStart, signal }: { logStart: number; signal: AbortSignal | undefined },
): Promise<Postmaster> {
  const ended: string[] = []
  child.on('error', (error) => ended.push(error.message))
  child.on('exit', (code, signal) => ended.push(`exit ${signal ?? code}`))
  while (ended.length === 0) {
    const seen = await readPostmaster(paths.cluster)
    if (seen?.pid === child.pid && seen?.ready) return seen
    if (signal?.aborted) {
      if (seen !== null && seen.pid === child.pid) await stopPostmaster(seen, startingSeconds)
      else if (child.kill('SIGINT')) {
        // Nothing else may keep this process running.
        child.ref()
        await once(child, 'exit')
      }
      throw signal.reason
    }
    await sleep(10)
  }
  const written = (await readFile(paths.log)).subarray(logStart).toString('utf8')
  const tail = written.trim().split('\n').slice(-20).join('\n')
  throw new Error(`The embedded PostgreSQL did not start (${ended[0]}). From ${paths.log}:\n${tail}`)
}

/**
 * Tells PostgreSQL to stop when this process exits, for example at a second Ctrl-C. Returns a function that ends this.
 */
export function stopOnExit(pid: number | undefined): () => void {
  const stop = () => {
    try {
      if (pid !== undefined) process.kill(pid, 'SIGINT')
    } catch {
      // It has ended.
    }
  }
  process.once('exit', stop)
  return () => void process.off('exit', stop)
}

/** Stops PostgreSQL: fast shutdown, and after `fastSeconds` an immediate one (the next start recovers). */
export async function stopPostmaster(postmaster: Postmaster, fastSeconds: number): Promise<void> {
  if (!(await signalAndWait(postmaster, 'SIGINT', fastSeconds))) {
    await signalAndWait(postmaster, 'SIGQUIT', 10)
  }
  await removeSocketFolder(postmaster.socketFolder)
}

/** Returns false when the server still runs after `seconds`. */
async function signalAndWait(
  postmaster: Postmaster,
  signal: NodeJS.Signals,
  seconds: number,
): Promise<boolean> {
  const deadline = Date.now() + seconds * 1000
  try {
    if (await isRunning(postmaster)) process.kill(postmaster.pid, signal)
  } catch (error) {
    // The server ended after the check.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
  while (await isRunning(postmaster)) {
    if (Date.now() > deadline) return false
    await sleep(10)
  }
  return true
}

/** Removes a socket folder, and no other folder: the path may come from a postmaster.pid. */
async function removeSocketFolder(folder: string): Promise<void> {
  if (!folder.startsWith(socketPrefix) || !/^\w+$/.test(folder.slice(socketPrefix.length))) return
  await rm(folder, { recursive: true, force: true })
}

async function openLog(path: string): Promise<FileHandle> {
  const before = await stat(path).catch(() => null)
  if (before !== null && before.size > maxLogBytes) await rename(path, `${path}.old`)
  return open(path, 'a', 0o600)
}
