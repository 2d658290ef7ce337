#!/usr/bin/env node
import { Command } from 'commander'
import { migrateCommand } from './commands/migrate.ts'
import { runProgram } from './commands/run.ts'
import { serveCommand } from './commands/serve.ts'

const program = new Command('svc')
  .description('An OAuth 2.0 authorization server and private Composer registries.')
  .addCommand(serveCommand())
  .addCommand(migrateCommand())

process.exitCode = await runProgram(program, process.argv)
