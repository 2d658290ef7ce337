import { Command, InvalidArgumentError, Option } from 'commander'
import type { Queryable } from '../database/database.ts'
import { isCalendarDay } from '../domain/calendar-day.ts'
import { isPlainIp } from '../domain/setting-formats.ts'
import { identityActions } from '../events/actions.ts'
import { describeActor } from '../events/event-words.ts'
import { describeEvent, type IdentityEvent, listIdentityEvents } from '../events/identity-events.ts'
import { findApplicationByClientId } from '../oauth/applications.ts'
import { type ListOptions, withListOptions } from './options.ts'
import { printList, theAccount, withDatabase } from './run.ts'

interface EventOptions extends ListOptions {
  account?: string
  actor?: string
  application?: string
  action?: string
  ip?: string
  since?: Date
  until?: Date
}

/** `svc event …` */
export function eventCommand(): Command {
  return new Command('event')
    .description('What happened to accounts, sessions, tokens and applications.')
    .addCommand(listCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List identity events, latest first.')
    .option('--account <username>', 'only events about this account')
    .option('--actor <username>', 'only what this account did')
    .option('--application <client_id>', 'only events about this application')
    .addOption(new Option('--action <action>', 'only this action').choices(identityActions))
    .option('--ip <ip>', 'only events from this client IP', readIp)
    .option('--since <time>', 'only events from this time on, such as 2027-01-31T13:45Z', readTime)
    .option('--until <time>', 'only events before this time', readTime)
    .addHelpText('after', '\nExample:\n  svc event list --account ann --action sign-in-failed')
    .action((options: EventOptions) =>
      withDatabase(async (db) => {
        const { account, actor, application, action = null, ip = null, since = null, until = null } = options
        const accountId = account === undefined ? null : (await theAccount(db, account)).id
        const actorId = actor === undefined ? null : (await theAccount(db, actor)).id
        const applicationId = application === undefined ? null : await findApplicationId(db, application)
        const filter = { accountId, actorId, applicationId, action, ip, since, until }
        await printList<IdentityEvent>(options, {
          list: (part) => listIdentityEvents(db, filter, part),
          keyOf: ({ id }) => id,
          describe: describeEvent,
          line: (event) =>
            [
              event.happenedAt.toISOString(),
              event.action,
              event.username ?? event.application ?? '-',
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
