import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { makeProgram, nouns } from './commands/program.ts'
import { runProgram } from './commands/run.ts'
import { loginFile } from './commands/server-login.ts'
import { traceSources } from './domain/stack-traces.ts'

traceSources()

const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

process.exitCode = await runProgram(async (words) => {
  const [first, second] = words
  const noun = first === 'help' ? second : first
  const server = await serverOf(words)
  if (server === null) return makeProgram(version, noun)
  const { makeRemoteProgram } = await import('./commands/remote.ts')
  return makeRemoteProgram(version, server, nouns)
}, process.argv)

/** Most command lines work on a database, and need not load what speaks to a server. */
async function serverOf(words: readonly string[]): Promise<string | null> {
  if (!existsSync(loginFile()) && !words.some((word) => word.startsWith('--server'))) return null
  const { chooseServer } = await import('./commands/remote.ts')
  return chooseServer(words)
}
