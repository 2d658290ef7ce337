import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { findAccountByUsername } from '../../accounts/accounts.ts'
import type { Queryable } from '../../database/database.ts'
import { isCalendarDay } from '../../domain/calendar-day.ts'
import { formatCount, formatNumber } from '../../domain/formats.ts'
import { type ListPart, pageOf } from '../../domain/paging.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { isPlainIp } from '../../domain/setting-formats.ts'
import { type Area, actionsOf, areas, filterableActions } from '../../events/actions.ts'
import { eventCsvHead, eventCsvLine } from '../../events/event-csv.ts'
import { type AuditFilter, type ListedEvent, type Means, means } from '../../events/event-list.ts'
import { capitalize, describeAction } from '../../events/event-words.ts'
import { readQuery, text } from '../forms.ts'
import { PageError } from '../page-error.ts'
import { type EventRows, showEvent } from './event-rows.ts'

const eventsPerPage = 50
/** How many events one statement of an export reads. */
const eventsPerRead = 1_000
/** A page counts up to so many events that match its filter. */
const maxCounted = 1_000
/** The maximum number of events in an export. `svc event list` has no such limit. */
const maxExported = 100_000

const fields = {
  account: text,
  actor: text,
  application: text,
  action: text,
  repository: text,
  package: text,
  means: text,
  ip: text,
  since: text,
  until: text,
}
/** The fields of the filter as they were sent. */
export type SentFilter = Record<keyof typeof fields, string>
const EventsQuery = z.object({ ...fields, after: text, format: text })

/** What `partials/event-list` shows: the filter, the events that it finds, and links that keep it. */
export interface EventPage extends EventRows {
  filter: SentFilter
  /** The names of the fields of this page. */
  fields: readonly (keyof SentFilter)[]
  /** The actions by area, for the filter. */
  areas: { area: Area; words: string; actions: { value: string; words: string }[] }[]
  means: { value: Means; words: string }[]
  problem: string | null
  /** How many events match the filter, in words. Null without a filter, and when the count takes too long. */
  matching: string | null
  csv: string
  json: string
  /** The query of the events of the last 7 days, with the rest of the filter. */
  lastWeek: string
}

const meansWords: Record<Means, string> = {
  browser: 'Browser',
  'personal-token': 'Personal access token',
  'deploy-token': 'Deploy token',
  'publisher-token': 'Trusted publisher',
  source: 'Git source',
  application: 'Application',
  command: 'Command line',
  svc: 'svc itself',
}

/** The events of a page: those of a filter, and how JSON has them. */
export interface EventSource {
  db: Queryable
  /** The fields of the filter that the page has. */
  fields: readonly (keyof SentFilter)[]
  /** The areas whose actions the page can have. */
  areas: readonly Area[]
  list: (filter: AuditFilter, part: ListPart) => Promise<ListedEvent[]>
  /** Counts the events of a filter, up to `most`. Null when that takes too long. */
  count: (filter: AuditFilter, most: number) => Promise<number | null>
  describe: (event: ListedEvent) => Record<string, unknown>
  /** Finds the application with a client id. Null without one. Undefined on a page without this field. */
  findApplicationId?: (clientId: string) => Promise<string | null>
  /** Whether a filter by a username that nobody has is a mistake. Otherwise it only finds nothing. */
  namesUnknownAccounts: boolean
  /** Whether all events are of one group, so that its name says nothing. */
  isOfOneGroup: boolean
}

/** Reads the filter of a request. Returns the content of the page, or sends the export that the request asks for. */
export async function readEventPage(
  request: FastifyRequest,
  reply: FastifyReply,
  source: EventSource,
): Promise<EventPage | FastifyReply> {
  const { after, format, ...sent } = readQuery(EventsQuery, request)
  const filter = Object.fromEntries(
    Object.entries(sent).map(([name, value]) => [
      name,
      source.fields.includes(name as keyof SentFilter) ? value.trim() : '',
    ]),
  ) as SentFilter
  const read = await readFilter(source, filter)
  const part = { after: after || null, limit: format === '' ? eventsPerPage : eventsPerRead }
  const found = typeof read === 'string' ? read : await readPart(source, read, part)
  if (format !== '' && typeof read !== 'string' && typeof found !== 'string')
    return sendExport(reply, format, {
      first: found,
      readOn: (next) => pageOf((more) => source.list(read, more), { ...part, after: next }, keyOf),
      describe: source.describe,
    })
  if (typeof found === 'string') void reply.code(400)
  const { rows, next } = typeof found === 'string' ? { rows: [], next: null } : found
  const isFiltered = queryOf(filter) !== ''
  const isOnePage = after === '' && next === null
  const [path] = request.url.split('?', 1) as [string]
  const query = (more: Record<string, string>) => `?${queryOf({ ...filter, ...more })}`
  const links = {
    repository: (repository: string) => `${path}?${queryOf({ repository })}`,
    package: ({ repositoryPath }: { repositoryPath?: string | null }, name: string) =>
      `${path}?${queryOf({ repository: repositoryPath ?? '', package: name })}`,
    account: (account: string) => `${path}?${queryOf({ account })}`,
  }
  return {
    filter,
    fields: source.fields,
    areas: source.areas.map((area) => ({
      area,
      words: areas[area].words,
      actions: areas[area].actions.map((value) => ({ value, words: capitalize(describeAction(value)) })),
    })),
    means: means.map((value) => ({ value, words: meansWords[value] })),
    problem: typeof found === 'string' ? found : null,
    matching:
      isFiltered && typeof read !== 'string'
        ? describeMatching(isOnePage ? rows.length : await source.count(read, maxCounted))
        : null,
    events: rows.map((event) =>
      showEvent(source.isOfOneGroup ? { ...event, groupName: null } : event, links),
    ),
    isContinued: after !== '',
    isFiltered,
    next: next && query({ after: next }),
    csv: query({ format: 'csv' }),
    json: query({ format: 'json' }),
    lastWeek: query({ since: weekAgo(), until: '' }),
  }
}

function describeMatching(count: number | null): string | null {
  if (count === null) return null
  if (count === maxCounted) return `${formatNumber(count)} or more events match`
  return `${formatCount(count, 'event')} ${count === 1 ? 'matches' : 'match'}`
}

/** Returns the time 7 days ago in the format of browsers, in UTC: `2027-01-31T13:45`. */
function weekAgo(): string {
  return new Date(Date.now() - 7 * 86_400_000).toISOString().slice(0, 16)
}

/** Returns the filter, or a sentence when it cannot be used. */
async function readFilter(source: EventSource, sent: SentFilter): Promise<AuditFilter | string> {
  const { account, actor, application, action, ip, repository, package: packageName } = sent
  if (ip !== '' && !isPlainIp(ip)) return 'Enter a valid IP address.'
  if (action !== '' && !filterableActions.includes(action)) return 'There is no such action.'
  if (sent.means !== '' && !(means as readonly string[]).includes(sent.means))
    return 'There is no such means.'
  if (repository !== '' && !/^[^/]{1,64}\/[^/]{1,100}$/.test(repository))
    return 'Enter a repository as a path, such as acme/php.'
  if (packageName.length > 300) return 'There is no package with this name.'
  const [since, until] = [readTime(sent.since), readTime(sent.until)]
  if (since === 'unreadable' || until === 'unreadable')
    return 'This is not a valid time. Enter it in UTC, such as 2027-01-31T13:45.'
  const [about, by] = [await findAccount(source, account), await findAccount(source, actor)]
  if (about === 'unknown' || by === 'unknown') return 'There is no account with this username.'
  const applicationId = application === '' ? null : await source.findApplicationId?.(application)
  if (application !== '' && !applicationId) return 'There is no application with this client id.'
  return {
    account: about,
    // An account that does not exist did nothing.
    actorId: by && (by.id ?? '0'),
    applicationId: applicationId ?? null,
    actions: action === '' ? null : actionsOf(action),
    repositoryPath: repository || null,
    packageName: packageName || null,
    means: (sent.means || null) as Means | null,
    ip: ip || null,
    since,
    until,
  }
}

async function findAccount(
  { db, namesUnknownAccounts }: EventSource,
  username: string,
): Promise<{ id: string | null; username: string } | null | 'unknown'> {
  if (username === '') return null
  const id = (await findAccountByUsername(db, username))?.id ?? null
  return id === null && namesUnknownAccounts ? 'unknown' : { id, username }
}

/** Reads a date, or a date and a time in UTC, in the format of browsers. Null when it is missing. */
function readTime(sent: string): Date | null | 'unreadable' {
  if (sent === '') return null
  const [, day = '', time = '00:00'] =
    /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)Z?)?$/.exec(sent) ?? []
  const moment = new Date(`${day}T${time}Z`)
  return isCalendarDay(day) && !Number.isNaN(moment.getTime()) ? moment : 'unreadable'
}

/** Reads a part of the events. Returns a sentence when it takes too long. */
async function readPart(
  { list }: EventSource,
  filter: AuditFilter,
  part: ListPart,
): Promise<FoundEvents | string> {
  try {
    return await pageOf((more) => list(filter, more), part, keyOf)
  } catch (error) {
    if (error instanceof Refusal && error.errcode === errcode.deadlineExceeded) return error.sentence
    throw error
  }
}

interface FoundEvents {
  rows: ListedEvent[]
  /** The key after which the next part begins. Null for the last part. */
  next: string | null
}

const keyOf = ({ key }: ListedEvent): string => key

/** What an export sends: its first part, and how it reads the others. */
interface Export extends Pick<EventSource, 'describe'> {
  first: FoundEvents
  readOn: (next: string) => Promise<FoundEvents>
}

/** How the lines of an export are written. `end` is the last one when older events are missing. */
interface ExportFormat {
  type: string
  head: string
  line: (described: Record<string, unknown>) => string
  end: string
}

const missing = `only the latest ${maxExported} events: narrow the filter, or use svc event list`
const exportFormats: Record<'csv' | 'json', ExportFormat> = {
  csv: {
    type: 'text/csv; charset=utf-8',
    head: eventCsvHead,
    line: eventCsvLine,
    end: eventCsvLine({ action: 'truncated', details: missing }),
  },
  json: {
    type: 'application/x-ndjson',
    head: '',
    line: (described) => `${JSON.stringify(described)}\n`,
    end: `${JSON.stringify({ truncated: true, details: missing })}\n`,
  },
}

function sendExport(reply: FastifyReply, format: string, events: Export): FastifyReply {
  if (format !== 'csv' && format !== 'json') throw new PageError(400, 'An export is csv or json.')
  const written = exportFormats[format]
  const [, group = 'site'] = /^\/([\w.-]+)\/-\//.exec(reply.request.url) ?? []
  const name = `events-${group}-${new Date().toISOString().slice(0, 10)}.${format}`
  void reply.header('content-disposition', `attachment; filename="${name}"`)
  // Send a stream: for strings Fastify appends a charset to the content type. It reads one part ahead, not sixteen.
  return reply.type(written.type).send(Readable.from(exportLines(events, written), { highWaterMark: 1 }))
}

/** When a part cannot be read, the connection is aborted, so that nobody takes the file for a complete one. */
async function* exportLines(
  { first, readOn, describe }: Export,
  { head, line, end }: ExportFormat,
): AsyncGenerator<Buffer> {
  let { rows, next } = first
  let count = rows.length
  yield Buffer.from(head + rows.map((event) => line(describe(event))).join(''))
  while (next !== null && count < maxExported) {
    ;({ rows, next } = await readOn(next))
    count += rows.length
    yield Buffer.from(rows.map((event) => line(describe(event))).join(''))
  }
  if (next !== null) yield Buffer.from(end)
}

/** Returns the fields that are not empty as a query. */
export function queryOf(sent: Record<string, string>): string {
  return new URLSearchParams(Object.entries(sent).filter(([, value]) => value !== '')).toString()
}
