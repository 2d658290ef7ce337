import { isIP } from 'node:net'
import { Command, InvalidArgumentError, Option } from 'commander'
import {
  describeEvent,
  type IdentityEvent,
  identityActions,
  listIdentityEvents,
} from '../accounts/identity-events.ts'
import { type ListOptions, withListOptions } from './options.ts'
import { printList, theAccount, withDatabase } from './run.ts'

interface EventOptions extends ListOptions {
  account?: string
  action?: string
  ip?: string
}

/** `svc event …` */
export function eventCommand(): Command {
  return new Command('event')
    .description('What happened to accounts, sessions, tokens and applications.')
    .addCommand(listCommand())
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List identity events, the latest first.')
    .option('--account <username>', 'only events about this account')
    .addOption(new Option('--action <action>', 'only this action').choices(identityActions))
    .option('--ip <ip>', 'only events from this client IP', readIp)
    .addHelpText('after', '\nExample:\n  svc event list --account ann --action sign-in-failed')
    .action((options: EventOptions) =>
      withDatabase(async (db) => {
        const { account, action = null, ip = null } = options
        const accountId = account === undefined ? null : (await theAccount(db, account)).id
        await printList<IdentityEvent>(options, {
          list: (part) => listIdentityEvents(db, { accountId, action, ip }, part),
          keyOf: ({ id }) => id,
          describe: describeEvent,
          line: (event) =>
            [
              event.happenedAt.toISOString(),
              event.action,
              event.username ?? event.application ?? '-',
              `by ${event.actor ?? event.via ?? '-'}`,
              event.ip ?? '',
            ]
              .join('  ')
              .trimEnd(),
          none: 'There are no events.',
        })
      }),
    )
}

function readIp(text: string): string {
  if (isIP(text) === 0) throw new InvalidArgumentError('It must be an IP address.')
  return text
}
