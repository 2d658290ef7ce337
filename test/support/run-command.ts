import { mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { inject } from 'vitest'
import { type Environment, type Outcome, plainFolder, runSvc } from './program.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Has a folder for each command that has run as a program in this test run. */
    asPrograms: string
  }
}

/**
 * Runs `svc …` to its end. The first run of each command in a test run is a program. The others run the same built files
 * in this process, because most of the time of a short command is the start of Node.
 */
export async function runCommand(words: string[], environment: Environment, input = ''): Promise<Outcome> {
  const [noun = '', verb = ''] = words
  const name = words.includes('--help') ? '--help' : `${noun} ${/^[a-z-]+$/.test(verb) ? verb : ''}`
  const run = (await isFirst(name)) ? runSvc : runHere
  return run(words, environment, input)
}

/** Returns whether no process of this test run has run the command before. */
async function isFirst(name: string): Promise<boolean> {
  try {
    await mkdir(join(inject('asPrograms'), encodeURIComponent(name)))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  }
}

/** Runs `svc …` in this process. */
export function runHere(words: string[], environment: Environment, input = ''): Promise<Outcome> {
  return inTurn(() => runBuilt(words, environment, { input, isTTY: false }))
}

/** Runs `svc …` in this process as in a terminal, where a person types the lines. */
export function runHereInTerminal(
  words: string[],
  environment: Environment,
  typed: string,
): Promise<Outcome> {
  return inTurn(() => runBuilt(words, environment, { input: typed, isTTY: true }))
}

let previous: Promise<unknown> = Promise.resolve()

/** Runs a command after those that run here already: a process has one environment and one output. */
function inTurn(run: () => Promise<Outcome>): Promise<Outcome> {
  const outcome = previous.then(run)
  previous = outcome.catch(() => {})
  return outcome
}

const cli = new URL('../../dist/cli.js', import.meta.url)
/** The `import` of Node, which does not transform the built files. */
const { load } = createRequire(import.meta.url)('./load.cjs') as { load: (url: string) => Promise<unknown> }
let runs = 0

async function runBuilt(
  words: string[],
  environment: Environment,
  { input, isTTY }: { input: string; isTTY: boolean },
): Promise<Outcome> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const printed = Promise.all([text(stdout), text(stderr)])
  const { env, argv, exitCode } = process
  const folder = process.cwd()
  const exitListeners = process.listeners('exit')
  const formatter = Object.getOwnPropertyDescriptor(Error, 'prepareStackTrace') ?? {
    value: undefined,
    configurable: true,
    writable: true,
  }
  const streams = Object.getOwnPropertyDescriptors(process)
  process.env = { PATH: env['PATH'], HOME: env['HOME'], ...environment }
  process.argv = [process.execPath, cli.pathname, ...words]
  process.chdir(plainFolder)
  for (const [name, value] of Object.entries({
    stdin: Readable.from(input === '' ? [] : [input]),
    stdout,
    stderr,
  }))
    Object.defineProperty(process, name, { value: Object.assign(value, { isTTY }), configurable: true })
  try {
    runs += 1
    // Only this file runs again. It imports the others, which are loaded already.
    await load(`${cli.href}?run=${runs}`)
    const code = Number(process.exitCode)
    for (const listener of process.listeners('exit')) {
      if (exitListeners.includes(listener)) continue
      process.off('exit', listener)
      listener(code)
    }
    stdout.end()
    stderr.end()
    const [out, err] = await printed
    return { code, stdout: out, stderr: err }
  } finally {
    for (const name of ['stdin', 'stdout', 'stderr'] as const)
      Object.defineProperty(process, name, streams[name])
    Object.assign(process, { env, argv, exitCode })
    Object.defineProperty(Error, 'prepareStackTrace', formatter)
    process.chdir(folder)
  }
}
