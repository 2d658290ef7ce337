import { Command } from 'commander'

/**
 * The commands by name, in the order of `svc --help`. Each loads its modules only when it runs: to load those of all
 * commands takes longer than most commands.
 */
const commands = new Map<string, (version: string) => Promise<Command>>([
  ['serve', async () => (await import('./server.ts')).serveCommand()],
  ['migrate', async () => (await import('./server.ts')).migrateCommand()],
  ['demo', async () => (await import('./server.ts')).demoCommand()],
  ['system', async (version) => (await import('./system.ts')).systemCommand(version)],
  ['login', async () => (await import('./login.ts')).loginCommand()],
  ['logout', async () => (await import('./login.ts')).logoutCommand()],
  ['whoami', async () => (await import('./login.ts')).whoamiCommand()],
  ['push', async () => (await import('./login.ts')).pushCommand()],
  ['search', async () => (await import('./login.ts')).searchCommand()],
  ['composer-auth', async () => (await import('./login.ts')).composerAuthCommand()],
  ['account', async () => (await import('./account.ts')).accountCommand()],
  ['session', async () => (await import('./session.ts')).sessionCommand()],
  ['event', async () => (await import('./event.ts')).eventCommand()],
  ['group', async () => (await import('./group.ts')).groupCommand()],
  ['repository', async () => (await import('./repository.ts')).repositoryCommand()],
  ['member', async () => (await import('./member.ts')).memberCommand()],
  ['application', async () => (await import('./application.ts')).applicationCommand()],
  ['client-document', async () => (await import('./client-document.ts')).clientDocumentCommand()],
  ['token', async () => (await import('./token.ts')).tokenCommand()],
  ['invitation', async () => (await import('./invitation.ts')).invitationCommand()],
  ['deploy-token', async () => (await import('./deploy-token.ts')).deployTokenCommand()],
  ['project', async () => (await import('./project.ts')).projectCommand()],
  ['policy', async () => (await import('./policy.ts')).policyCommand()],
  ['source', async () => (await import('./source.ts')).sourceCommand()],
  ['webhook', async () => (await import('./webhook.ts')).webhookCommand()],
  ['trusted-publisher', async () => (await import('./trusted-publisher.ts')).trustedPublisherCommand()],
  ['package', async () => (await import('./package.ts')).packageCommand()],
  ['version', async () => (await import('./version.ts')).versionCommand()],
  ['advisory', async () => (await import('./advisory.ts')).advisoryCommand()],
  ['retention', async () => (await import('./retention.ts')).retentionCommand()],
  ['upstream', async () => (await import('./upstream.ts')).upstreamCommand()],
  ['stage', async () => (await import('./stage.ts')).stageCommand()],
  ['import', async () => (await import('./import.ts')).importCommand()],
  ['vendor', async () => (await import('./vendor.ts')).vendorCommand()],
  ['collect-garbage', async () => (await import('./archives.ts')).collectGarbageCommand()],
  ['verify-archives', async () => (await import('./archives.ts')).verifyArchivesCommand()],
  ['archives', async () => (await import('./archives.ts')).archivesCommand()],
  ['job', async () => (await import('./job.ts')).jobCommand()],
  ['completion', async () => (await import('./completion.ts')).completionCommand()],
  ['backup', async () => (await import('./backup.ts')).backupCommand()],
  ['restore', async () => (await import('./backup.ts')).restoreCommand()],
  ['keys', async () => (await import('./keys.ts')).keysCommand()],
  ['rekey', async () => (await import('./server.ts')).rekeyCommand()],
])

/** The first words of all commands. */
export const nouns: readonly string[] = [...commands.keys()]

/**
 * Returns the command line of `svc`. It has only the command that is named by `word`, the first word of the arguments.
 * It has every command if there is no such command, and for `completion`, which lists them. It has none for
 * `--version`.
 */
export async function makeProgram(version: string, word?: string): Promise<Command> {
  const named = word === undefined || word === 'completion' ? undefined : commands.get(word)
  const program = new Command('svc')
    .version(version, '--version', 'print the version')
    .description('An OAuth 2.0 authorization server and private Composer registries.')
  if (word === '--version') return program
  const loaded = (named ? [named] : [...commands.values()]).map((load) => load(version))
  for (const command of await Promise.all(loaded)) program.addCommand(command)
  return program
}
