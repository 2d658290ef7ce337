import { createRequire } from 'node:module'
import { Command } from 'commander'
import { accountCommand } from './commands/account.ts'
import { applicationCommand } from './commands/application.ts'
import { archivesCommand, collectGarbageCommand, verifyArchivesCommand } from './commands/archives.ts'
import { backupCommand, restoreCommand } from './commands/backup.ts'
import { completionCommand } from './commands/completion.ts'
import { deployTokenCommand } from './commands/deploy-token.ts'
import { eventCommand } from './commands/event.ts'
import { groupCommand } from './commands/group.ts'
import { importCommand } from './commands/import.ts'
import { invitationCommand } from './commands/invitation.ts'
import { memberCommand } from './commands/member.ts'
import { rekeyCommand } from './commands/rekey.ts'
import { repositoryCommand } from './commands/repository.ts'
import { runProgram } from './commands/run.ts'
import { demoCommand, migrateCommand, serveCommand } from './commands/server.ts'
import { sessionCommand } from './commands/session.ts'
import { systemCommand } from './commands/system.ts'
import { tokenCommand } from './commands/token.ts'
import { upstreamCommand } from './commands/upstream.ts'
import { vendorCommand } from './commands/vendor.ts'

const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

const program = new Command('svc')
  .version(version, '--version', 'print the version')
  .description('An OAuth 2.0 authorization server and private Composer registries.')
  .addCommand(serveCommand())
  .addCommand(migrateCommand())
  .addCommand(demoCommand())
  .addCommand(systemCommand(version))
  .addCommand(accountCommand())
  .addCommand(sessionCommand())
  .addCommand(eventCommand())
  .addCommand(groupCommand())
  .addCommand(repositoryCommand())
  .addCommand(memberCommand())
  .addCommand(applicationCommand())
  .addCommand(tokenCommand())
  .addCommand(invitationCommand())
  .addCommand(deployTokenCommand())
  .addCommand(upstreamCommand())
  .addCommand(importCommand())
  .addCommand(vendorCommand())
  .addCommand(collectGarbageCommand())
  .addCommand(verifyArchivesCommand())
  .addCommand(archivesCommand())
  .addCommand(completionCommand())
  .addCommand(backupCommand())
  .addCommand(restoreCommand())
  .addCommand(rekeyCommand())

process.exitCode = await runProgram(program, process.argv)
