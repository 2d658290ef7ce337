import { Command, Option } from 'commander'
import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import { operator } from '../domain/principal.ts'
import { openOutbound } from '../outbound/outbound.ts'
import {
  type Delivery,
  describeDelivery,
  describeDetails,
  findDelivery,
  findWebhookOf,
  listDeliveries,
  queueAgain,
  queuePing,
} from '../webhooks/deliveries.ts'
import { choosableTypes, type MessageFormat, messageFormats } from '../webhooks/message-types.ts'
import {
  addWebhook,
  changeWebhook,
  describeWebhook,
  findWebhook,
  listWebhooks,
  removeWebhook,
  rotateSecret,
  type Webhook,
  type WebhookPlace,
  type WebhookSettings,
} from '../webhooks/webhooks.ts'
import { confirmInTerminal, type ForceOptions, forceOption } from './confirm.ts'
import { type JsonOptions, jsonOption, type ListOptions, withListOptions } from './options.ts'
import { printList, printResult, theGroup, theRepository, withDatabase } from './run.ts'

interface AddOptions extends JsonOptions {
  events?: string[]
  format: MessageFormat
}

interface SetOptions extends JsonOptions {
  url?: string
  events?: string[]
  format?: MessageFormat
}

/** `svc webhook …` */
export function webhookCommand(): Command {
  return new Command('webhook')
    .description(
      'Webhooks: URLs that get a message when something happens in a repository, a group, or on the site.',
    )
    .addCommand(addCommand())
    .addCommand(setCommand())
    .addCommand(listCommand())
    .addCommand(switchCommand('enable', true, 'Enable a webhook that was disabled.'))
    .addCommand(switchCommand('disable', false, 'Disable a webhook. Messages that wait are dropped.'))
    .addCommand(rotateCommand())
    .addCommand(testCommand())
    .addCommand(deliveriesCommand())
    .addCommand(deliveryCommand())
    .addCommand(resendCommand())
    .addCommand(removeCommand())
}

function addCommand(): Command {
  return new Command('add')
    .description('Add a webhook. Its secret is shown once.')
    .usage('[options] [<group>[/<name>]] <url>')
    .argument(
      '<place>',
      '<group> or <group>/<name>; without it, the webhook gets the events of the whole site',
    )
    .argument('[url]', 'URL of the receiver')
    .addOption(eventsOption('only these types of events, separated by commas (default: all)'))
    .addOption(formatOption().default('json'))
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `\nTypes of events: ${choosableTypes.join(', ')}\n\nExample:\n  svc webhook add acme/php https://ci.example.com/hook --events version.published,version.deleted`,
    )
    .action(async (...[first, second, options]: [string, string | undefined, AddOptions]) => {
      const [path, url] = second === undefined ? [null, first] : [first, second]
      const { id, secret } = await withDatabase(async (db, config) => {
        const place = await thePlace(db, path)
        const outbound = openOutbound(config)
        try {
          const { events = null, format } = options
          return await addWebhook({ config, db, outbound }, { place, by: operator }, { url, events, format })
        } finally {
          await outbound.close()
        }
      })
      const text = `Webhook ${id} added to ${path ?? 'the site'}.\nSecret, shown once: ${secret}`
      printResult(options, { id: Number(id), secret }, text)
    })
}

function eventsOption(description: string): Option {
  return new Option('--events <types>', description).argParser((text: string) =>
    text.split(',').filter((type) => type !== ''),
  )
}

function formatOption(): Option {
  return new Option('--format <format>', 'json, or what a chat displays').choices(messageFormats)
}

function setCommand(): Command {
  return new Command('set')
    .description(
      'Change the given settings of a webhook. A URL with another host makes a new secret, which is shown once.',
    )
    .argument('<id>', 'the id that list shows')
    .option('--url <url>', 'URL of the receiver')
    .addOption(eventsOption('only these types of events, separated by commas, or all'))
    .addOption(formatOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc webhook set 7 --url https://ci.example.com/new --events all')
    .action(async (id: string, { url, events, format, ...options }: SetOptions) => {
      const changes = {
        ...(url !== undefined && { url }),
        ...(events && { events: events.join() === 'all' ? null : events }),
        ...(format && { format }),
      }
      if (Object.keys(changes).length === 0)
        throw new Error('Nothing to change: give --url, --events or --format.')
      const secret = await change(id, changes)
      const text = `Webhook ${id} changed.${secret === null ? '' : `\nNew secret, shown once: ${secret}`}`
      printResult(options, { id: Number(id), ...(secret !== null && { secret }) }, text)
    })
}

/** Changes a webhook. Returns its new secret. Null when it keeps the secret. */
function change(id: string, changes: Partial<WebhookSettings>): Promise<string | null> {
  return withDatabase(async (db, config) => {
    const webhook = await theWebhook(db, id)
    const outbound = openOutbound(config)
    try {
      const about = { id: webhook.id, place: null, by: operator }
      const changed = await changeWebhook({ config, db, outbound }, about, changes)
      if (!changed) throw noWebhook(id)
      return changed.secret
    } finally {
      await outbound.close()
    }
  })
}

/** Finds the place with a path: `acme`, `acme/php`, or null for the site. */
async function thePlace(db: Queryable, path: string | null): Promise<WebhookPlace> {
  if (path === null) return { groupId: null, repositoryId: null }
  if (path.includes('/')) return { groupId: null, repositoryId: (await theRepository(db, path)).id }
  return { groupId: (await theGroup(db, path)).id, repositoryId: null }
}

function listCommand(): Command {
  return withListOptions(new Command('list'))
    .description('List the webhooks of a repository, a group or the site, the oldest first.')
    .argument('[place]', '<group> or <group>/<name>; without it, those of the site')
    .action((path: string | undefined, options: ListOptions) =>
      withDatabase(async (db) => {
        const place = await thePlace(db, path ?? null)
        await printList<Webhook>(options, {
          list: (part) => listWebhooks(db, place, part),
          keyOf: ({ id }) => id,
          describe: describeWebhook,
          line: ({ id, url, events, format, enabled, disabledBecause }) =>
            `${id}  ${url}  ${format}  ${events?.join(',') ?? 'all events'}  ${enabled ? 'enabled' : `disabled: ${disabledBecause ?? 'by a person'}`}`,
          none: `${path ?? 'The site'} has no webhooks.`,
        })
      }),
    )
}

function switchCommand(name: string, enabled: WebhookSettings['enabled'], description: string): Command {
  return new Command(name)
    .description(description)
    .argument('<id>', 'the id that list shows')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      await change(id, { enabled })
      printResult(options, { id: Number(id) }, `Webhook ${id} is ${name}d.`)
    })
}

function rotateCommand(): Command {
  return new Command('rotate')
    .description('Make a new secret for a webhook. The former one signs for 24 hours, too.')
    .argument('<id>', 'the id that list shows')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      const secret = await withDatabase(async (db, config) => {
        const webhook = await theWebhook(db, id)
        return rotateSecret({ config, db }, { id: webhook.id, place: null, by: operator })
      })
      if (secret === null) throw noWebhook(id)
      printResult(options, { id: Number(id), secret }, `New secret, shown once: ${secret}`)
    })
}

function testCommand(): Command {
  return new Command('test')
    .description('Let the server send a test message to a webhook.')
    .argument('<id>', 'the id that list shows')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      const delivery = await withDatabase(async (db) => queuePing(db, await theWebhook(db, id)))
      const text = `Delivery ${delivery} is queued: svc webhook deliveries ${id} shows the response.`
      printResult(options, { id: Number(id), delivery: Number(delivery) }, text)
    })
}

function deliveriesCommand(): Command {
  return withListOptions(new Command('deliveries'))
    .description('List the messages to a webhook of the last 30 days, the latest first.')
    .argument('<id>', 'the id that list shows')
    .action((id: string, options: ListOptions) =>
      withDatabase(async (db) => {
        const webhook = await theWebhook(db, id)
        await printList<Delivery>(options, {
          list: (part) => listDeliveries(db, webhook.id, part),
          keyOf: (delivery) => delivery.id,
          describe: describeDelivery,
          line: (delivery) => {
            const { at, state, status, attempt, failure } = describeDelivery(delivery)
            return [delivery.id, at, delivery.type, state, status, `attempt ${attempt}`, failure]
              .filter((part) => part !== null)
              .join('  ')
          },
          none: `Webhook ${id} has no deliveries.`,
        })
      }),
    )
}

function deliveryCommand(): Command {
  return new Command('delivery')
    .description('Show a message to a webhook, with its request and its attempts.')
    .argument('<delivery>', 'the id that deliveries shows')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      const delivery = await withDatabase(async (db) => {
        const webhookId = await findWebhookOf(db, id)
        return webhookId && findDelivery(db, webhookId, id)
      })
      if (!delivery) throw noDelivery(id)
      const described = describeDetails(delivery)
      const lines = [
        `${delivery.id}  ${described.type}  ${described.state}`,
        `Request: ${delivery.body ?? 'not sent yet'}`,
        ...described.attempts.flatMap(({ at, status, duration_ms, failure, response }) => [
          [at, status, `${duration_ms} ms`, failure].filter((part) => part !== null).join('  '),
          ...(response ? [response] : []),
        ]),
      ]
      printResult(options, described, lines.join('\n'))
    })
}

function resendCommand(): Command {
  return new Command('resend')
    .description('Send a message to its webhook again.')
    .argument('<delivery>', 'the id that deliveries shows')
    .addOption(jsonOption())
    .action(async (id: string, options: JsonOptions) => {
      await withDatabase(async (db: pg.Pool) => {
        const webhookId = await findWebhookOf(db, id)
        if (webhookId === null) throw noDelivery(id)
        await queueAgain(db, await theWebhook(db, webhookId), id)
      })
      printResult(options, { id: Number(id) }, `Delivery ${id} is queued again.`)
    })
}

function removeCommand(): Command {
  return new Command('remove')
    .description('Remove a webhook and its deliveries.')
    .argument('<id>', 'the id that list shows')
    .addOption(forceOption())
    .addOption(jsonOption())
    .addHelpText('after', '\nExample:\n  svc webhook remove 7')
    .action(async (id: string, options: ForceOptions) => {
      await withDatabase(async (db) => {
        const webhook = await theWebhook(db, id)
        const effect = `This removes the webhook ${id} to ${new URL(webhook.url).origin} and its deliveries.`
        await confirmInTerminal(effect, id, options)
        if (!(await removeWebhook(db, operator, { id: webhook.id, place: null }))) throw noWebhook(id)
      })
      printResult(options, { id: Number(id) }, `Webhook ${id} removed.`)
    })
}

async function theWebhook(db: Queryable, id: string): Promise<Webhook> {
  const webhook = await findWebhook(db, id, null)
  if (!webhook) throw noWebhook(id)
  return webhook
}

function noDelivery(id: string): Error {
  return new Error(`There is no delivery ${JSON.stringify(id)}.`)
}

function noWebhook(id: string): Error {
  return new Error(`There is no webhook ${JSON.stringify(id)}.`)
}
