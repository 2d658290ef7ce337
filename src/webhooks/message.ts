import { shortenText } from '../domain/plain-text.ts'
import type { Event } from '../events/event.ts'
import { describeActor, putIntoWords } from '../events/event-words.ts'
import { reviewUrl } from '../packages/stages/describe-stage.ts'
import type { MessageFormat } from './message-types.ts'

/** A message to a webhook, before it has a format. */
export interface Message {
  type: string
  timestamp: Date
  data: Record<string, unknown>
  /** The same in a sentence, for chats. */
  text: string
  /** Where people read more. */
  url: string
}

const maxCharacters = 500

/** The details of events that messages contain. All others are for those who read the log. */
const toldDetails = [
  'stage',
  'advisory_id',
  'severity',
  'reason',
  'replacement',
  'upstream',
  'also_at',
  'source',
  'tag',
  'failure',
  'project',
  'environment',
  'findings',
  'name',
  'expires_at',
  'username',
  'role',
  'from',
]

/** Returns the message about an event. It says what happened and where: the receiver reads more through the API. */
export function messageAbout(type: string, event: Event, baseUrl: string): Message {
  const { repositoryPath, packageName, version, happenedAt, details, tokenName, username } = event
  const group = event.groupName ?? repositoryPath?.split('/')[0] ?? null
  const url = urlOf(event, group, baseUrl)
  const told = toldDetails
    .filter((name) => details[name] !== undefined)
    .map((name) => [name, shortened(details[name])] as const)
  const by = describeActor(event) || tokenName
  const { said, more } = putIntoWords(event)
  const subject = [packageName, version].filter((part) => part !== null).join(' ')
  const words = [by ?? 'svc', said, subject || repositoryPath || group, subject && `in ${repositoryPath}`]
  // The words about an account have no actor: `Token expires soon`.
  const start = username === null ? words.filter((word) => word).join(' ') : `${said} for ${username}`
  return {
    type,
    timestamp: happenedAt,
    data: {
      group,
      repository: repositoryPath,
      package: packageName,
      version,
      by: by ?? null,
      url,
      ...(username !== null && { username }),
      ...Object.fromEntries(told),
    },
    text: shortenText(start + (more && `: ${more}`), maxCharacters),
    url,
  }
}

/** Returns the message that tests a webhook. */
export function pingMessage(webhookId: string, timestamp: Date, baseUrl: string): Message {
  const text = `This is a test message of the webhook ${webhookId}.`
  return { type: 'ping', timestamp, data: { webhook: Number(webhookId) }, text, url: baseUrl }
}

/** The bodies of messages. Slack escapes in its own way; a text run of Teams has no markup, and Matrix gets HTML. */
const bodies: Record<MessageFormat, (message: Message) => object> = {
  json: ({ type, timestamp, data }) => ({ type, timestamp: timestamp.toISOString(), data }),
  slack: ({ text, url }) => ({ text: `${escapeMarkup(text)}\n${escapeMarkup(url)}` }),
  teams: ({ text, url }) => ({
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.2',
          body: [{ type: 'RichTextBlock', inlines: [{ type: 'TextRun', text }] }],
          actions: [{ type: 'Action.OpenUrl', title: 'Open', url }],
        },
      },
    ],
  }),
  matrix: ({ text, url }) => ({
    text: `${text} ${url}`,
    html: `${escapeMarkup(text)} <a href="${escapeMarkup(url)}">Open</a>`,
  }),
}

/** Returns the body of a message in a format. */
export function formatMessage(message: Message, format: MessageFormat): string {
  return JSON.stringify(bodies[format](message))
}

/** Pages of a group that some actions are about. */
const pageOf: Record<string, string> = { 'deploy-token-expiring': '/-/deploy-tokens' }

/** The tokens of an account, or the page of a staged version or a package, or that of its repository or group. */
function urlOf(
  { action, username, repositoryPath, packageName, details }: Event,
  group: string | null,
  baseUrl: string,
): string {
  if (username !== null) return `${baseUrl}/settings/tokens`
  if (repositoryPath === null) return group === null ? baseUrl : `${baseUrl}/${group}${pageOf[action] ?? ''}`
  const { stage: id } = details
  if (typeof id === 'string') return reviewUrl(baseUrl, repositoryPath, { id })
  return `${baseUrl}/${repositoryPath}${packageName === null ? '' : `/packages/${packageName}`}`
}

function shortened(value: unknown): unknown {
  // A list, of problems in a lock file, tells the first ones. The body of a message has a maximum.
  if (Array.isArray(value)) return value.slice(0, 3)
  return typeof value === 'string' ? shortenText(value, maxCharacters) : value
}

function escapeMarkup(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
