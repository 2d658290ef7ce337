import { Command, InvalidArgumentError, Option } from 'commander'
import type { Queryable } from '../database/database.ts'
import { isCalendarDay } from '../domain/calendar-day.ts'
import { isPlainIp } from '../domain/setting-formats.ts'
import { actionsOf, filterableActions } from '../events/actions.ts'
import { describeEvent, type Event } from '../events/event.ts'
import { type AuditFilter, type ListedEvent, listEvents, type Means, means } from '../events/event-list.ts'
import { describeActor } from '../events/event-words.ts'
import { findApplicationByClientId } from '../oauth/applications.ts'
import { type ListOptions, withListOptions } from './options.ts'
import { printList, theAccount, theGroup, withDatabase } from './run.ts'

interface EventOptions extends ListOptions {
  account?: string
  actor?: string
  application?: string
  group?: string
  repository?: string
  package?: string
  action?: string
  means?: Means
  ip?: string
  since?: Date
  until?: Date
}

/** `svc event …` */
export function eventCommand(): Command {
  return new Command('event')
    .description('Who did what: packages, repositories, groups, accounts, tokens and applications.')
    .addCommand(listCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List events, latest first.')
    .option('--account <username>', 'only events about this account, what it did, and changes of its roles')
    .option('--actor <username>', 'only what this account did')
    .option('--application <client_id>', 'only events about this application')
    .option('--group <group>', 'only events of this group and its repositories')
    .option(
      '--repository <path>',
      'only events of repositories that have, or had, this path, such as acme/php',
    )
    .option('--package <name>', 'only events of this package')
    .addOption(
      new Option('--action <action>', 'only this action, or the actions of an area').choices(
        filterableActions,
      ),
    )
    .addOption(new Option('--means <means>', 'only what was done in this way').choices(means))
    .option('--ip <ip>', 'only events from this client IP', readIp)
    .option('--since <time>', 'only events from this time on, such as 2027-01-31T13:45Z', readTime)
    .option('--until <time>', 'only events before this time', readTime)
    .addHelpText(
      'after',
      '\nExample:\n  svc event list --account ann --action sign-in-failed\n  svc event list --group acme --action settings',
    )
    .action((options: EventOptions) =>
      withDatabase(async (db) => {
        const { account, actor, application, group } = options
        const about = account === undefined ? null : await theAccount(db, account)
        const filter: AuditFilter = {
          account: about,
          actorId: actor === undefined ? null : (await theAccount(db, actor)).id,
          applicationId: application === undefined ? null : await findApplicationId(db, application),
          groupId: group === undefined ? null : (await theGroup(db, group)).id,
          repositoryPath: options.repository ?? null,
          packageName: options.package ?? null,
          actions: options.action === undefined ? null : actionsOf(options.action),
          means: options.means ?? null,
          ip: options.ip ?? null,
          since: options.since ?? null,
          until: options.until ?? null,
        }
        await printList<ListedEvent>(options, {
          list: (part) => listEvents(db, filter, part),
          keyOf: ({ key }) => key,
          describe: describeEvent,
          line: (event) =>
            [
              event.happenedAt.toISOString(),
              event.action,
              subjectOf(event),
              `by ${describeActor(event) || '-'}`,
              event.ip ?? '',
            ]
              .join('  ')
              .trimEnd(),
          none: 'There are no events.',
        })
      }),
    )
}

function subjectOf({
  username,
  application,
  repositoryPath,
  groupName,
  packageName,
  version,
}: Event): string {
  const place = [repositoryPath, packageName, version].filter((part) => part !== null).join(' ')
  return username ?? application ?? (place || (groupName ?? '-'))
}

async function findApplicationId(db: Queryable, clientId: string): Promise<string> {
  const application = await findApplicationByClientId(db, clientId)
  if (!application) throw new Error(`There is no application ${JSON.stringify(clientId)}.`)
  return application.id
}

function readTime(text: string): Date {
  const [, day = ''] = /^(\d{4}-\d\d-\d\d)(?:T.+)?$/.exec(text) ?? []
  const moment = new Date(text)
  if (!isCalendarDay(day) || Number.isNaN(moment.getTime()))
    throw new InvalidArgumentError('It must be a time such as 2027-01-31T13:45Z.')
  return moment
}

function readIp(text: string): string {
  if (!isPlainIp(text)) throw new InvalidArgumentError('It must be an IP address.')
  return text
}
