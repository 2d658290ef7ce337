import { type ChildProcess, spawn } from 'node:child_process'
import { chown, mkdtemp, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterPaths, clusterArgument } from './layout.ts'
import type { RunAs } from './run-as.ts'

/** A running PostgreSQL, as its postmaster.pid describes it. */
export interface Postmaster {
  pid: number
  socketFolder: string
}

/** PostgreSQL's parameters by name. */
export type Settings = Record<string, string>

/** What differs from PostgreSQL's own defaults, which suit a small server. */
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

/** The log starts anew at a start that finds it larger. */
const maxLogBytes = 10 * 1024 * 1024

const recoverySeconds = 120

/** What postmaster.pid says: the running server, a dead one's leftover, or null when there is no such file. */
export async function readPostmaster(
  cluster: string,
): Promise<(Postmaster & { running: boolean; ready: boolean }) | null> {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null
      throw error
    },
  )
  if (text === null) return null
  const lines = text.split('\n')
  const pid = Number(lines[0])
  return {
    pid,
    socketFolder: lines[4] ?? '',
    running: pid > 0 && (await isPostmaster(pid, cluster)),
    ready: lines[7]?.trim() === 'ready',
  }
}

/** True while a process has this id, whoever owns it. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** After a machine's crash the id may belong to a stranger; a postmaster works in its cluster's folder. */
async function isPostmaster(pid: number, cluster: string): Promise<boolean> {
  if (process.platform !== 'linux') return isAlive(pid)
  try {
    const theirs = await stat(`/proc/${pid}/cwd`)
    const ours = await stat(cluster)
    return theirs.dev === ours.dev && theirs.ino === ours.ino
  } catch {
    return false
  }
}

/** Starts PostgreSQL, in a session of its own so that Ctrl-C does not reach it, and waits until it is ready. */
export async function startPostmaster(
  paths: ClusterPaths,
  { native, runAs, settings }: { native: string; runAs: RunAs; settings: Settings },
): Promise<Postmaster> {
  const leftover = await readPostmaster(paths.cluster)
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
        // PostgreSQL then counts this process id in a leftover postmaster.pid as stale: we know it is a stranger's.
        ...(leftover !== null && !leftover.running ? { PG_GRANDPARENT_PID: String(leftover.pid) } : {}),
      },
      stdio: ['ignore', log.fd, log.fd],
    })
    child.unref()
    await waitUntilReady(child, paths, from)
    if (leftover !== null) await removeSocketFolder(leftover.socketFolder)
    return { pid: child.pid ?? 0, socketFolder }
  } catch (error) {
    await removeSocketFolder(socketFolder)
    throw error
  } finally {
    await log.close()
  }
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

/** Stops PostgreSQL: fast shutdown, then, should that take too long, an immediate one (the next start recovers). */
export async function stopPostmaster(
  cluster: string,
  { pid, socketFolder }: Postmaster,
  fastSeconds: number,
): Promise<void> {
  if (!(await signalAndWait(cluster, pid, 'SIGINT', fastSeconds))) {
    await signalAndWait(cluster, pid, 'SIGQUIT', 10)
  }
  await removeSocketFolder(socketFolder)
}

async function signalAndWait(
  cluster: string,
  pid: number,
  signal: NodeJS.Signals,
  seconds: number,
): Promise<boolean> {
  const deadline = Date.now() + seconds * 1000
  if (!(await isRunning(cluster, pid))) return true
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
  while (await isRunning(cluster, pid)) {
    if (Date.now() > deadline) return false
    await sleep(10)
  }
  return true
}

/** PostgreSQL takes its postmaster.pid away as the last thing; one that was killed leaves it. */
async function isRunning(cluster: string, pid: number): Promise<boolean> {
  const seen = await readPostmaster(cluster)
  return seen !== null && seen.pid === pid && seen.running
}

/** A private folder with a short path: sockets' paths are limited, DATA_DIR's is not. */
async function makeSocketFolder(runAs: RunAs): Promise<string> {
  // Root's own TMPDIR may be closed to the user who runs PostgreSQL.
  const parent = runAs.ids !== null || tmpdir().length > maxSocketFolderBytes ? '/tmp' : tmpdir()
  const folder = await mkdtemp(join(parent, socketPrefix))
  if (runAs.ids !== null) await chown(folder, runAs.ids.uid, runAs.ids.gid)
  return folder
}

async function removeSocketFolder(folder: string): Promise<void> {
  if (!basename(folder).startsWith(socketPrefix)) return
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
