import { createRequire } from 'node:module'
import { makeProgram } from './commands/program.ts'
import { runProgram } from './commands/run.ts'

const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

process.exitCode = await runProgram(await makeProgram(version, process.argv[2]), process.argv)
