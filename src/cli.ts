import { createRequire } from 'node:module'
import { makeProgram } from './commands/program.ts'
import { runProgram } from './commands/run.ts'
import { traceSources } from './domain/stack-traces.ts'

traceSources()

const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

const [first, second] = process.argv.slice(2)

process.exitCode = await runProgram(
  await makeProgram(version, first === 'help' ? second : first),
  process.argv,
)
