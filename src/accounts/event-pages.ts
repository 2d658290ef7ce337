import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type pg from 'pg'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { readQuery, text } from '../http/forms.ts'
import { PageError, pageNotFound } from '../http/page-error.ts'
import { page } from '../http/pages.ts'
import { findAccountByUsername } from './accounts.ts'
import { describeAction, describeActor, describeBrowser, describeSubject } from './event-words.ts'
import {
  describeEvent,
  type EventFilter,
  type IdentityEvent,
  identityActions,
  listIdentityEvents,
} from './identity-events.ts'
import { readSession, redirectToSignIn } from './visitor.ts'

const eventsPerPage = 50
/** How many events one statement of an export reads. */
const eventsPerRead = 1_000
/** An export ends after so many events; `svc event list` has no such limit. */
const maxExported = 100_000

interface ShownEvent {
  happenedAt: Date
  what: string
  subject: string
  username: string | null
  by: string
  ip: string | null
  browser: string
}

interface EventList {
  events: ShownEvent[]
  /** The query of the next page; null on the last one. */
  next: string | null
}

const securityPage = page<EventList>('accounts/security')
const adminEventsPage = page<
  EventList & {
    filter: { account: string; action: string; ip: string }
    actions: { value: string; words: string }[]
    problem: string | null
    csv: string
    json: string
  }
>('accounts/admin-events')

const SecurityQuery = z.object({ after: text })
const AdminQuery = z.object({ account: text, action: text, ip: text, after: text, format: text })

/** `/settings/security`: what happened to one's own account. */
export async function securityRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get('/settings/security', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    const { after } = readQuery(SecurityQuery, request)
    const list = await readPage(context.db, { accountId: session.account.id }, {}, after)
    return securityPage(reply, session, list)
  })
}

/** `/admin/events`: all identity events, for site administrators, with filters and exports. */
export async function adminEventRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { db } = context

  app.get('/admin/events', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    if (!session.account.isAdmin) throw pageNotFound()
    const { after, format, ...sent } = readQuery(AdminQuery, request)
    const filter = { account: sent.account.trim(), action: sent.action, ip: sent.ip.trim() }
    const read = await readFilter(db, filter)
    if (typeof read !== 'string' && format !== '') return sendExport(reply, db, read, format)

    const query = (more: Record<string, string>) => `?${queryOf({ ...filter, ...more })}`
    const list =
      typeof read === 'string' ? { events: [], next: null } : await readPage(db, read, filter, after)
    return adminEventsPage(typeof read === 'string' ? reply.code(400) : reply, session, {
      ...list,
      filter,
      actions: identityActions.map((value) => ({ value, words: describeAction(value) })),
      problem: typeof read === 'string' ? read : null,
      csv: query({ format: 'csv' }),
      json: query({ format: 'json' }),
    })
  })
}

/** What the filter asks for, or why it cannot be used. */
async function readFilter(
  db: pg.Pool,
  { account, action, ip }: { account: string; action: string; ip: string },
): Promise<EventFilter | string> {
  if (ip !== '' && isIP(ip) === 0) return 'This is no IP address.'
  if (action !== '' && !(identityActions as readonly string[]).includes(action)) {
    return 'There is no such action.'
  }
  const found = account === '' ? null : await findAccountByUsername(db, account)
  if (account !== '' && !found) return 'There is no account with this username.'
  return { accountId: found?.id ?? null, action: action || null, ip: ip || null }
}

async function readPage(
  db: pg.Pool,
  filter: EventFilter,
  query: Record<string, string>,
  after: string,
): Promise<EventList> {
  const found = await listIdentityEvents(db, filter, { after: after || null, limit: eventsPerPage + 1 })
  const shown = found.slice(0, eventsPerPage)
  const last = shown.at(-1)
  return {
    events: shown.map(describe),
    next: found.length > eventsPerPage && last ? `?${queryOf({ ...query, after: last.id })}` : null,
  }
}

function describe(event: IdentityEvent): ShownEvent {
  return {
    happenedAt: event.happenedAt,
    what: describeAction(event.action),
    subject: describeSubject(event),
    username: event.username,
    by: describeActor(event),
    ip: event.ip,
    browser: event.userAgent === null ? '' : describeBrowser(event.userAgent),
  }
}

function queryOf(fields: Record<string, string>): string {
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== '')).toString()
}

function sendExport(reply: FastifyReply, db: pg.Pool, filter: EventFilter, format: string): FastifyReply {
  if (format !== 'csv' && format !== 'json') throw new PageError(400, 'An export is csv or json.')
  void reply.header('content-disposition', `attachment; filename="events.${format}"`)
  if (format === 'json') {
    // A Buffer: for strings Fastify appends a charset to the content type.
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

/** A field of RFC 4180. Spreadsheets would run a text that begins like a formula: a quote in front keeps it a text. */
function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  const plain = typeof value === 'string' ? value : JSON.stringify(value)
  const safe = /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
