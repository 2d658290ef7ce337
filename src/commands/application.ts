import { Command, Option } from 'commander'
import type { Queryable } from '../database/database.ts'
import { UnwritableMigration } from '../database/operator-migrations.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import { operator } from '../domain/principal.ts'
import type { TokenAlgorithm } from '../domain/token-algorithm.ts'
import { applicationActions } from '../events/actions.ts'
import { describeIdentityEvent } from '../events/event.ts'
import { type ListedEvent, listEvents } from '../events/event-list.ts'
import { describeActor } from '../events/event-words.ts'
import {
  changeApplication,
  changeApplicationStatus,
  deleteApplication,
  renewClientSecret,
} from '../oauth/application-changes.ts'
import type { ApplicationChanges } from '../oauth/application-seed.ts'
import {
  type Application,
  type ApplicationStatus,
  applicationStatuses,
  describeApplication,
  findApplicationByClientId,
  findApplicationUse,
  listApplications,
} from '../oauth/applications.ts'
import { newCommand, readLogo } from './application-new.ts'
import { confirm, confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import {
  applicationScopeOption,
  type JsonOptions,
  jsonOption,
  type ListOptions,
  resourceScopeOption,
  tokenAlgorithmOption,
  wholeNumber,
  withListOptions,
} from './options.ts'
import { formatValue, printList, printResult, withDatabase } from './run.ts'

const daySeconds = 86_400

/** `svc application …` */
export function applicationCommand(): Command {
  return new Command('application')
    .description('Registered third-party applications.')
    .addCommand(newCommand())
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(setCommand())
    .addCommand(deleteCommand())
    .addCommand(statusCommand('approve', 'approved', 'Approve an application: people can authorize it.'))
    .addCommand(
      statusCommand('suspend', 'suspended', 'Stop an application: none of its tokens works any more.')
        .option(...reasonOption)
        .addOption(forceOption()),
    )
    .addCommand(
      statusCommand(
        'decline',
        'declined',
        'Decline an application that waits for review, or withdraw its approval.',
      )
        .requiredOption(...reasonOption)
        .addOption(forceOption()),
    )
    .addCommand(rotateCommand())
    .addCommand(historyCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the applications, oldest first.')
    .addOption(new Option('--state <state>', 'only those in this state').choices(applicationStatuses))
    .action((options: ListOptions & { state?: ApplicationStatus }) =>
      withDatabase((db) =>
        printList<Application>(options, {
          list: (part) => listApplications(db, part, options.state),
          keyOf: ({ clientId }) => clientId,
          describe: describeApplication,
          line: ({ clientId, status, name }) => `${clientId}  ${status.padEnd(9)}  ${name}`,
          none: 'There are no applications.',
        }),
      ),
    )
}

function showCommand(): Command {
  return new Command('show')
    .description('Show an application.')
    .argument('<client_id>', 'as svc application list shows it')
    .addOption(jsonOption())
    .action(async (clientId: string, options: JsonOptions) => {
      const details = await withDatabase(async (db) => {
        const application = await theApplication(db, clientId)
        const { accounts, lastUsedAt } = await findApplicationUse(db, application.id)
        return { ...describeApplication(application), accounts, last_used_at: lastUsedAt }
      })
      const lines = Object.entries(details).map(
        ([name, value]) => `${name.padEnd(15)}  ${formatValue(value)}`,
      )
      printResult(options, details, lines.join('\n'))
    })
}

interface SetOptions extends JsonOptions {
  name?: string
  description?: string
  website?: string
  redirectUri?: string
  logo?: string
  scope?: string[]
  resourceScope?: ResourceScope
  developer?: string
  exactRedirect?: boolean
  public?: boolean
  device?: boolean
  idTokenAlg?: TokenAlgorithm
  postLogoutRedirectUri?: string
  backchannelLogoutUri?: string
  resourceServer?: boolean
}

function setCommand(): Command {
  return new Command('set')
    .description(
      'Change an application at once. Tokens keep what was granted to them. Where you keep migrations, one is written too.',
    )
    .argument('<client_id>', 'as svc application list shows it')
    .option('--name <name>', 'at most 50 characters')
    .option('--description <text>', 'at most 350 characters; empty removes it')
    .option('--website <url>', 'official website, at most 128 characters')
    .option('--redirect-uri <url>', 'URL to which the browser returns after the authorization')
    .option('--logo <file>', 'PNG, JPEG, GIF or WebP, at most 1 MB')
    .addOption(applicationScopeOption().makeOptionMandatory(false))
    .addOption(resourceScopeOption('which resources it may access'))
    .option('--developer <username>', 'who asked for it, and sees its state; empty removes it')
    .option('--exact-redirect', 'allow only the Redirect URL itself')
    .option('--no-exact-redirect', 'allow any URL on the host of the Redirect URL')
    .option('--public', 'a program on the machines of people: its client secret no longer works')
    .option('--no-public', 'it needs a client secret: make one with rotate-secret')
    .option('--device', 'let it ask with a code that the person confirms in a browser (RFC 8628)')
    .option('--no-device', 'end that')
    .addOption(tokenAlgorithmOption())
    .option(
      '--post-logout-redirect-uri <url>',
      'URL to which the browser returns after a sign-out that it has begun; empty removes it',
    )
    .option(
      '--backchannel-logout-uri <url>',
      'URL that gets a logout token when a session ends; empty removes it',
    )
    .option('--resource-server', 'let it introspect access, personal and deploy tokens of everybody')
    .option('--no-resource-server', 'allow it to introspect only its own tokens')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nExample:\n  svc application set k7c2… --redirect-uri https://bot.example.com/back',
    )
    .action(async (clientId: string, options: SetOptions) => {
      const changes = await readChanges(options)
      if (Object.keys(changes).length === 0) throw new Error('Nothing to change: --help lists the options.')
      const changed = await withDatabase((db, config) =>
        changeApplication(db, config, operator, clientId, changes),
      )
      if (!changed) throw unknownApplication(clientId)
      const { application, migration } = changed
      const json = { ...describeApplication(application), migration }
      printResult(options, json, `${application.name} changed.${migration ? ` Written: ${migration}` : ''}`)
    })
}

async function readChanges(options: SetOptions): Promise<ApplicationChanges> {
  const { name, description, website, redirectUri, logo, scope, resourceScope } = options
  const { developer, exactRedirect, public: isPublic, device, resourceServer } = options
  const { idTokenAlg, postLogoutRedirectUri: back, backchannelLogoutUri: told } = options
  return {
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description: description || null }),
    ...(website !== undefined && { website }),
    ...(redirectUri !== undefined && { redirectUri }),
    ...(developer !== undefined && { developer: developer || null }),
    ...(exactRedirect !== undefined && { exactRedirect }),
    ...(scope !== undefined && { scopes: scope }),
    ...(resourceScope !== undefined && { resourceScope }),
    ...(isPublic !== undefined && { isPublic }),
    ...(device !== undefined && { isDevice: device }),
    ...(idTokenAlg !== undefined && { idTokenAlg }),
    ...(back !== undefined && { postLogoutRedirectUri: back || null }),
    ...(told !== undefined && { backchannelLogoutUri: told || null }),
    ...(resourceServer !== undefined && { isResourceServer: resourceServer }),
    ...(logo !== undefined && { logo: await readLogo(logo) }),
  }
}

function deleteCommand(): Command {
  return new Command('delete')
    .description(
      'Delete an application with its authorizations and tokens at once. Where you keep migrations, one is written too.',
    )
    .argument('<client_id>', 'as svc application list shows it')
    .addOption(forceOption())
    .addOption(jsonOption())
    .action(async (clientId: string, options: ForceOptions) => {
      const deleted = await withDatabase(async (db, config) => {
        const { name } = await theApplication(db, clientId)
        await confirm(`This deletes ${name} with all its authorizations and tokens for good.`, name, options)
        return deleteApplication(db, config, operator, clientId)
      })
      if (!deleted) throw unknownApplication(clientId)
      const { application, migration } = deleted
      printResult(
        options,
        { client_id: clientId, migration },
        `${application.name} deleted.${migration ? ` Written: ${migration}` : ''}`,
      )
    })
}

const reasonOption = [
  '--reason <text>',
  'the reason, for administrators and the developer; at most 350 characters',
] as const

interface StatusOptions extends ForceOptions {
  reason?: string
  migration: boolean
}

function statusCommand(verb: string, status: ApplicationStatus, description: string): Command {
  return new Command(verb)
    .description(`${description} It takes effect at once. Where you keep migrations, one is written too.`)
    .argument('<client_id>', 'as svc application list shows it')
    .option('--no-migration', 'change only this database')
    .addOption(jsonOption())
    .action(async (clientId: string, options: StatusOptions) => {
      const changed = await withDatabase(async (db, config) => {
        const { name, status: former } = await theApplication(db, clientId)
        if (former === 'approved' && status !== 'approved') {
          const effect = `This ends all authorizations and tokens of ${name} for good, also for a later approval.`
          await confirmInTerminal(effect, name, options)
        }
        return changeApplicationStatus(db, config, operator, clientId, {
          verb,
          status,
          reason: options.reason || null,
          isMigration: options.migration,
        })
      }).catch(explainUnwritable)
      if (!changed) throw unknownApplication(clientId)
      const { application, migration } = changed
      const text = `${application.name} is ${status}.${migration ? ` Written: ${migration}` : ''}`
      printResult(options, { client_id: clientId, status, migration }, text)
    })
}

function rotateCommand(): Command {
  return new Command('rotate-secret')
    .description('Make a new client secret, printed once. The old one works until the overlap ends.')
    .argument('<client_id>', 'as svc application list shows it')
    .option(
      '--overlap-seconds <n>',
      'how many seconds both secrets work',
      wholeNumber('seconds', 0, 365 * daySeconds),
      daySeconds,
    )
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc application rotate-secret k7c2… --overlap-seconds 3600')
    .action(async (clientId: string, options: { overlapSeconds: number } & JsonOptions) => {
      const { overlapSeconds } = options
      const renewed = await withDatabase((db) => renewClientSecret(db, operator, clientId, overlapSeconds))
      if (!renewed) throw unknownApplication(clientId)
      const { application, secret } = renewed
      printResult(
        options,
        { client_id: clientId, client_secret: secret, overlap_seconds: overlapSeconds },
        `The new client secret of ${application.name}, shown only now: ${secret}\nThe old one works ${overlapSeconds} s more.`,
      )
    })
}

function historyCommand(): Command {
  return withListOptions(new Command('history'))
    .description('List who registered, reviewed and changed an application, latest first.')
    .argument('<client_id>', 'as svc application list shows it')
    .action((clientId: string, options: ListOptions) =>
      withDatabase(async (db) => {
        const application = await theApplication(db, clientId)
        const filter = { applicationId: application.id, actions: applicationActions }
        await printList<ListedEvent>(options, {
          list: (part) => listEvents(db, filter, part),
          keyOf: ({ key }) => key,
          describe: describeIdentityEvent,
          line: (event) =>
            `${event.happenedAt.toISOString()}  ${event.action}  by ${describeActor(event) || '-'}  ${formatValue(event.details)}`,
          none: 'The application has no history.',
        })
      }),
    )
}

/** Adds a hint to the error of an unwritable migration. Nothing is changed then: the migration is written first. */
function explainUnwritable(error: unknown): never {
  if (!(error instanceof UnwritableMigration)) throw error
  throw new Error(`${error.message} With --no-migration only this database changes.`)
}

async function theApplication(db: Queryable, clientId: string): Promise<Application> {
  const application = await findApplicationByClientId(db, clientId)
  if (!application) throw unknownApplication(clientId)
  return application
}

function unknownApplication(clientId: string): Error {
  return new Error(`There is no application with the client_id ${JSON.stringify(clientId)}.`)
}
