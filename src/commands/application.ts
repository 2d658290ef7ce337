import { Command } from 'commander'
import { UnwritableMigration } from '../database/operator-migrations.ts'
import { hashSecret, makeSecret } from '../domain/secrets.ts'
import { changeApplicationStatus } from '../oauth/application-changes.ts'
import { type ApplicationStatus, listApplications, rotateClientSecret } from '../oauth/applications.ts'
import { newCommand } from './application-new.ts'
import { jsonOption, wholeNumber } from './options.ts'
import { answer, withDatabase } from './run.ts'

const daySeconds = 86_400

/** `svc application …` */
export function applicationCommand(): Command {
  return new Command('application')
    .description('Registered third-party applications (SPEC 2.1).')
    .addCommand(newCommand())
    .addCommand(listCommand())
    .addCommand(statusCommand('approve', 'approved', 'Publish an application: people can authorize it.'))
    .addCommand(
      statusCommand('suspend', 'suspended', 'Stop an application: none of its tokens works any more.'),
    )
    .addCommand(rotateCommand())
}

function listCommand(): Command {
  return new Command('list')
    .description('List the applications, oldest first.')
    .addOption(jsonOption())
    .action(async (options: { json?: boolean }) => {
      const applications = await withDatabase((db) => listApplications(db))
      const items = applications.map((application) => ({
        client_id: application.clientId,
        name: application.name,
        status: application.status,
        website: application.website,
        redirect_uri: application.redirectUri,
        scopes: application.scopes,
        resource_scope: application.resourceScope,
        exact_redirect: application.exactRedirect,
        resource_server: application.isResourceServer,
        created_at: application.createdAt,
      }))
      const lines = items.map(({ client_id, status, name }) => `${client_id}  ${status.padEnd(9)}  ${name}`)
      answer(options, { items }, lines.join('\n') || 'There are no applications.')
    })
}

interface StatusOptions {
  migration: boolean
  json?: boolean
}

function statusCommand(verb: string, status: ApplicationStatus, description: string): Command {
  return new Command(verb)
    .description(`${description} It takes effect at once, and a migration is written too.`)
    .argument('<client_id>', 'as svc application list shows it')
    .option('--no-migration', 'change only this database')
    .addOption(jsonOption())
    .action(async (clientId: string, options: StatusOptions) => {
      const changed = await withDatabase((db, config) =>
        changeApplicationStatus(db, config, clientId, { verb, status, isMigration: options.migration }),
      ).catch(explainUnwritable)
      if (!changed) throw unknownApplication(clientId)
      const { application, migration } = changed
      const text = `${application.name} is ${status}.${migration ? ` Written: ${migration}` : ''}`
      answer(options, { client_id: clientId, status, migration }, text)
    })
}

function rotateCommand(): Command {
  return new Command('rotate-secret')
    .description('Make a new client secret, printed once. The old one works until the overlap ends.')
    .argument('<client_id>', 'as svc application list shows it')
    .option(
      '--overlap-seconds <n>',
      'how long both work',
      wholeNumber('seconds', 0, 365 * daySeconds),
      daySeconds,
    )
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc application rotate-secret k7c2… --overlap-seconds 3600')
    .action(async (clientId: string, options: { overlapSeconds: number; json?: boolean }) => {
      const { overlapSeconds } = options
      const secret = makeSecret('client')
      const application = await withDatabase((db) =>
        rotateClientSecret(db, clientId, hashSecret(secret), overlapSeconds),
      )
      if (!application) throw unknownApplication(clientId)
      answer(
        options,
        { client_id: clientId, client_secret: secret, overlap_seconds: overlapSeconds },
        `The new client secret of ${application.name}, shown only now: ${secret}\nThe old one works ${overlapSeconds} s more.`,
      )
    })
}

/** Nothing was changed: the migration is written first. */
function explainUnwritable(error: unknown): never {
  if (!(error instanceof UnwritableMigration)) throw error
  throw new Error(`${error.message} With --no-migration only this database changes.`)
}

function unknownApplication(clientId: string): Error {
  return new Error(`There is no application with the client_id ${JSON.stringify(clientId)}.`)
}
