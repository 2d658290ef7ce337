import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'

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

/** A folder without a file `.env`. */
const plainFolder = fileURLToPath(new URL('.', import.meta.url))

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
export async function paste(lines: string, home: string): Promise<Outcome> {
  const child = spawn('bash', ['-e'], { cwd: home, env: environmentOf({ HOME: home, NO_COLOR: '1' }) })
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
}

/**
 * Starts `svc serve` and waits until it listens. If it ends instead, throws with its outcome. `command` is the program of
 * another release, and `flags` are those of Node.
 */
export async function startServer(
  environment: Environment,
  cwd = plainFolder,
  command = program,
  flags: readonly string[] = [],
): Promise<Server> {
  const port = environment['PORT'] ?? String(await freePort())
  const env = environmentOf({ PORT: port, ...environment })
  const words = [...flags, command, 'serve']
  const child = spawn(process.execPath, words, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  child.stdout.on('data', (text: Buffer) => {
    printed += text.toString()
  })
  const outcome = outcomeOf(child)
  const ended = outcome.then((end) => Promise.reject(new Error(`svc serve ended: ${JSON.stringify(end)}`)))
  ended.catch(() => {})
  while (!printed.includes('listens on')) await Promise.race([sleep(20), ended])
  return { process: child, url: `http://127.0.0.1:${port}`, outcome, printed: () => printed }
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

/** Returns a loopback port that is free. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
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
