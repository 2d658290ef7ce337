import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { rareOptimization } from './rare-optimization.ts'

/** The command in `bin` of package.json. It runs the build of `npm run build`. */
export const program = fileURLToPath(new URL('../../bin/svc.js', import.meta.url))

/** How a program ended. */
export interface Outcome {
  code: number | null
  stdout: string
  stderr: string
}

/** Variables of the environment by name. PATH and HOME are always set. */
export type Environment = Record<string, string>

/** A folder without a file `.env`, in which commands run. */
export const plainFolder = fileURLToPath(new URL('.', import.meta.url))

/** Runs `svc …` to its end. */
export async function runSvc(
  words: string[],
  environment: Environment,
  input = '',
  cwd = plainFolder,
): Promise<Outcome> {
  const child = spawn(process.execPath, [program, ...words], { cwd, env: environmentOf(environment) })
  child.stdin.end(input)
  return outcomeOf(child)
}

/** Runs `svc …` to its end in a terminal, where a person types the lines. Returns all output in `stdout`. */
export async function runSvcInTerminal(
  words: string[],
  environment: Environment,
  typed: string,
): Promise<Outcome> {
  const line = [process.execPath, program, ...words]
    .map((word) => `'${word.replaceAll("'", `'\\''`)}'`)
    .join(' ')
  const terminal = ['--quiet', '--return', '--command', line, '/dev/null']
  const child = spawn('script', terminal, { cwd: plainFolder, env: environmentOf(environment) })
  child.stdin.end(typed)
  return outcomeOf(child)
}

/** Runs `svc …` to its end. It cannot write a file of more than 4 KiB, as on a disk that is nearly full. */
export async function runSvcWithin4KiB(words: string[], environment: Environment): Promise<Outcome> {
  const line = ['-c', 'ulimit -f 4; exec "$@"', 'bash', process.execPath, program, ...words]
  const env = environmentOf(environment)
  return outcomeOf(spawn('bash', line, { cwd: plainFolder, env, stdio: ['ignore', 'pipe', 'pipe'] }))
}

/** Runs a script with Node to its end. */
export async function runNode(words: string[], environment: Environment = {}): Promise<Outcome> {
  return outcomeOf(spawn(process.execPath, words, { cwd: plainFolder, env: environmentOf(environment) }))
}

/** Pastes lines into a shell of a user whose home folder is `home`. */
export async function paste(lines: string, home: string, environment: Environment = {}): Promise<Outcome> {
  const env = environmentOf({ HOME: home, NO_COLOR: '1', ...environment })
  const child = spawn('bash', ['-e'], { cwd: home, env })
  child.stdin.end(lines)
  return outcomeOf(child)
}

/** A running `svc serve`. */
export interface Server {
  process: ChildProcess
  url: string
  /** The outcome of the program, when it ends. */
  outcome: Promise<Outcome>
  /** Returns the text that it has printed so far. */
  printed: () => string
  /** Returns the log that it has written so far. */
  logged: () => string
}

/**
 * Starts `svc serve` and waits until it listens. If it ends instead, throws with its outcome, and if it takes more than 200
 * seconds, with what it has printed. `command` is the program of another release, and `flags` are those of Node.
 */
export async function startServer(
  environment: Environment,
  cwd = plainFolder,
  command = program,
  flags: readonly string[] = [],
): Promise<Server> {
  const port = environment['PORT'] ?? String(await freePort())
  const env = environmentOf({ PORT: port, ...environment })
  const words = [...rareOptimization, ...flags, command, 'serve']
  const child = spawn(process.execPath, words, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  child.stdout.on('data', (text: Buffer) => {
    printed += text.toString()
  })
  let logged = ''
  child.stderr.on('data', (text: Buffer) => {
    logged += text.toString()
  })
  const outcome = outcomeOf(child)
  const ended = outcome.then((end) => Promise.reject(new Error(`svc serve ended: ${JSON.stringify(end)}`)))
  ended.catch(() => {})
  const started = performance.now()
  while (!printed.includes('listens on')) {
    await Promise.race([sleep(20), ended])
    if (performance.now() - started < 200_000) continue
    child.kill('SIGKILL')
    throw new Error(`svc serve does not listen after 200 seconds: ${printed}`)
  }
  return {
    process: child,
    url: `http://127.0.0.1:${port}`,
    outcome,
    printed: () => printed,
    logged: () => logged,
  }
}

/** Stops a server as a supervisor does. */
export async function stopServer(server: Server): Promise<Outcome> {
  server.process.kill('SIGTERM')
  return server.outcome
}

/** Returns a connection as a DATABASE_URL. */
export function databaseUrl({ user, password, host = '', database }: pg.PoolConfig): string {
  return `postgres://${user}:${String(password)}@/${database}?host=${encodeURIComponent(host)}`
}

/** Ports below those that systems give to connections and to servers that ask for any port. */
const portsFrom = 10_000
const portsUntil = 30_000
/** Has a file for each port that a process of this or another run has taken. Another user could not write to it. */
const takenPorts = join(tmpdir(), `svc-test-ports-${userInfo().uid}`)

/**
 * Returns a loopback port that is free, and that no other process takes until it is used: neither another test nor a
 * connection. It belongs to this process.
 */
export async function freePort(): Promise<number> {
  await mkdir(takenPorts, { recursive: true })
  for (;;) {
    const port = randomInt(portsFrom, portsUntil)
    if ((await take(port)) && (await isFree(port))) return port
  }
}

/** Takes a port, unless a process that still runs has taken it. */
async function take(port: number): Promise<boolean> {
  const file = join(takenPorts, String(port))
  try {
    await writeFile(file, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  // An empty file is being written.
  const owner = await readFile(file, 'utf8').catch(() => '')
  if (owner !== '' && !isRunning(Number(owner))) await rm(file, { force: true })
  return false
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return true
  } catch {
    return false
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
}

function environmentOf(environment: Environment): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], HOME: process.env['HOME'], ...environment }
}

async function outcomeOf(child: ChildProcess): Promise<Outcome> {
  const outcome: Outcome = { code: null, stdout: '', stderr: '' }
  child.stdout?.on('data', (text: Buffer) => {
    outcome.stdout += text.toString()
  })
  child.stderr?.on('data', (text: Buffer) => {
    outcome.stderr += text.toString()
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { ...outcome, code }
}
