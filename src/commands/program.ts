import { Command } from 'commander'
import { accountCommand } from './account.ts'
import { applicationCommand } from './application.ts'
import { archivesCommand, collectGarbageCommand, verifyArchivesCommand } from './archives.ts'
import { backupCommand, restoreCommand } from './backup.ts'
import { completionCommand } from './completion.ts'
import { deployTokenCommand } from './deploy-token.ts'
import { eventCommand } from './event.ts'
import { groupCommand } from './group.ts'
import { importCommand } from './import.ts'
import { invitationCommand } from './invitation.ts'
import { memberCommand } from './member.ts'
import { repositoryCommand } from './repository.ts'
import { demoCommand, migrateCommand, rekeyCommand, serveCommand } from './server.ts'
import { sessionCommand } from './session.ts'
import { systemCommand } from './system.ts'
import { tokenCommand } from './token.ts'
import { upstreamCommand } from './upstream.ts'
import { vendorCommand } from './vendor.ts'

/** Returns the command line: every command of `svc`. */
export function makeProgram(version: string): Command {
  return new Command('svc')
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
}
