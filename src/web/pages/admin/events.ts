import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type pg from 'pg'
import * as z from 'zod'
import { findAccountByUsername } from '../../../accounts/accounts.ts'
import { isCalendarDay } from '../../../domain/calendar-day.ts'
import { isPlainIp } from '../../../domain/setting-formats.ts'
import { identityActions } from '../../../events/actions.ts'
import { describeAction } from '../../../events/event-words.ts'
import {
  describeEvent,
  type EventFilter,
  type IdentityEvent,
  listIdentityEvents,
} from '../../../events/identity-events.ts'
import { findApplicationByClientId } from '../../../oauth/applications.ts'
import { readQuery, text } from '../../forms.ts'
import { isClientId } from '../../oauth/logo.ts'
import { PageError } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { type EventList, queryOf, readEventPage } from '../account/event-pages.ts'
import type { AdminContext } from './administrator.ts'

/** How many events one statement of an export reads. */
const eventsPerRead = 1_000
/** The maximum number of events in an export. `svc event list` has no such limit. */
const maxExported = 100_000

const filterFields = {
  account: text,
  actor: text,
  application: text,
  action: text,
  ip: text,
  since: text,
  until: text,
}
const EventsQuery = z.object({ ...filterFields, after: text, format: text })
type SentFilter = Record<keyof typeof filterFields, string>

const nothing: EventList = { events: [], isContinued: false, isFiltered: true, next: null }
const eventsPage = page<
  EventList & {
    filter: SentFilter
    actions: { value: string; words: string }[]
    problem: string | null
    csv: string
    json: string
  }
>('admin/events')

/** `/admin/events`: all identity events, with filters and exports. */
export async function adminEventRoutes(app: FastifyInstance, { db, sessionOf }: AdminContext): Promise<void> {
  app.get('/admin/events', async (request, reply) => {
    const { after, format, ...sent } = readQuery(EventsQuery, request)
    const filter = Object.fromEntries(
      Object.entries(sent).map(([name, value]) => [name, value.trim()]),
    ) as SentFilter
    const read = await readFilter(db, filter)
    if (typeof read !== 'string' && format !== '') return sendExport(reply, db, read, format)

    const query = (more: Record<string, string>) => `?${queryOf({ ...filter, ...more })}`
    const list = typeof read === 'string' ? nothing : await readEventPage(db, read, filter, after)
    return eventsPage(typeof read === 'string' ? reply.code(400) : reply, sessionOf(request), {
      ...list,
      filter,
      actions: identityActions.map((value) => ({ value, words: describeAction(value) })),
      problem: typeof read === 'string' ? read : null,
      csv: query({ format: 'csv' }),
      json: query({ format: 'json' }),
    })
  })
}

/** Returns the filter, or a sentence when it cannot be used. */
async function readFilter(db: pg.Pool, sent: SentFilter): Promise<EventFilter | string> {
  const { account, actor, application, action, ip } = sent
  if (ip !== '' && !isPlainIp(ip)) return 'Enter a valid IP address.'
  if (action !== '' && !(identityActions as readonly string[]).includes(action)) {
    return 'There is no such action.'
  }
  const [since, until] = [readTime(sent.since), readTime(sent.until)]
  if (since === 'unreadable' || until === 'unreadable')
    return 'This is not a valid time. Enter it in UTC, such as 2027-01-31T13:45.'
  const accountId = account === '' ? null : await findAccountId(db, account)
  const actorId = actor === '' ? null : await findAccountId(db, actor)
  if (accountId === undefined || actorId === undefined) return 'There is no account with this username.'
  const found = isClientId(application) ? await findApplicationByClientId(db, application) : null
  if (application !== '' && !found) return 'There is no application with this client id.'
  return {
    accountId,
    actorId,
    applicationId: found?.id ?? null,
    action: action || null,
    ip: ip || null,
    since,
    until,
  }
}

async function findAccountId(db: pg.Pool, username: string): Promise<string | undefined> {
  return (await findAccountByUsername(db, username))?.id
}

/** Reads a date, or a date and a time in UTC, in the format of browsers. Null when it is missing. */
function readTime(sent: string): Date | null | 'unreadable' {
  if (sent === '') return null
  const [, day = '', time = '00:00'] =
    /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)Z?)?$/.exec(sent) ?? []
  const moment = new Date(`${day}T${time}Z`)
  return isCalendarDay(day) && !Number.isNaN(moment.getTime()) ? moment : 'unreadable'
}

function sendExport(reply: FastifyReply, db: pg.Pool, filter: EventFilter, format: string): FastifyReply {
  if (format !== 'csv' && format !== 'json') throw new PageError(400, 'An export is csv or json.')
  void reply.header('content-disposition', `attachment; filename="events.${format}"`)
  if (format === 'json') {
    // Send a stream: for strings Fastify appends a charset to the content type.
    return reply.type('application/x-ndjson').send(Readable.from(exportLines(db, filter, toJsonLine)))
  }
  const lines = exportLines(db, filter, toCsvLine, `${csvColumns.join(',')}\r\n`)
  return reply.type('text/csv; charset=utf-8').send(Readable.from(lines))
}

async function* exportLines(
  db: pg.Pool,
  filter: EventFilter,
  toLine: (event: IdentityEvent) => string,
  head = '',
): AsyncGenerator<Buffer> {
  if (head !== '') yield Buffer.from(head)
  let after: string | null = null
  for (let count = 0; count < maxExported; count += eventsPerRead) {
    const events: IdentityEvent[] = await listIdentityEvents(db, filter, { after, limit: eventsPerRead })
    if (events.length > 0) yield Buffer.from(events.map(toLine).join(''))
    if (events.length < eventsPerRead) return
    after = events.at(-1)?.id ?? null
  }
}

function toJsonLine(event: IdentityEvent): string {
  return `${JSON.stringify(describeEvent(event))}\n`
}

const csvColumns = [
  'id',
  'happened_at',
  'action',
  'account',
  'application',
  'client_id',
  'actor',
  'via',
  'ip',
  'user_agent',
  'request_id',
  'details',
]

function toCsvLine(event: IdentityEvent): string {
  const described = describeEvent(event)
  return `${csvColumns.map((name) => csvField(described[name])).join(',')}\r\n`
}

/** Formats a CSV field (RFC 4180). Spreadsheets run text that begins like a formula. A leading quote prevents this. */
function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  const plain = typeof value === 'string' ? value : JSON.stringify(value)
  const safe = /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
