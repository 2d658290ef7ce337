import { readdirSync, readFileSync } from 'node:fs'
import type { LightMyRequestResponse } from 'fastify'
import { beforeAll, describe, expect, it } from 'vitest'
import { post, signIn } from '../../support/actors.ts'
import { useListeningApp } from '../../support/listening.ts'
import { freePort } from '../../support/program.ts'
import { changeTexts, listTextColumns, type TextColumn } from '../../support/schema.ts'
import { makeTourData, tourEnvironment } from '../../support/tour-data.ts'

/** The start of the element that the test puts into every text. No page may have it as an element. */
const mark = '<b class=from-'
/** Inside an attribute, the mark would end the value. */
const markedText = (from: string) => `"'${mark}${from}>`

/**
 * Texts that svc makes itself: HTML, whose sanitizer has its own tests, and what it reads back in a format of its own.
 */
const ownTexts = [
  'version_readme.content',
  'account.password_hash',
  'package_version.version',
  'package_version.normalized',
  'mirrored_document.held_back',
]

/** Members of JSON that svc writes and reads back: a time, and a word that decides what the page shows. */
const ownMembers = ['at', 'outcome']

const port = await freePort()
const t = useListeningApp(port, tourEnvironment)

const cookies = { visitor: '', ann: '', root: '' }
type Viewer = keyof typeof cookies

beforeAll(async () => {
  await makeTourData({ db: t.db, baseUrl: `http://127.0.0.1:${port}` })
  cookies.ann = await signIn(t.app, { username: 'ann' })
  cookies.root = await signIn(t.app, { username: 'root' })
  for (const column of await listTextColumns(t.db)) await markColumn(column)
})

/** Puts the mark into all texts of a column, in each row whose constraints allow it. */
async function markColumn(place: TextColumn): Promise<void> {
  const name = `${place.table}.${place.column}`
  if (!ownTexts.includes(name)) await changeTexts(t.db, place, (value) => markTexts(value, markedText(name)))
}

/** Adds the mark to every text of a value. */
function markTexts(value: unknown, mark: string): unknown {
  if (typeof value === 'string') return value + mark
  if (Array.isArray(value)) return value.map((item) => markTexts(item, mark))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      ownMembers.includes(key) ? item : markTexts(item, mark),
    ]),
  )
}

/** Opens every page that links lead to, and sends the forms that search. Returns the pages by their URL. */
async function crawl(viewer: Viewer, starts: string[]): Promise<Map<string, LightMyRequestResponse>> {
  const pages = new Map<string, LightMyRequestResponse>()
  const waiting = [...starts]
  const known = new Set(waiting)
  for (let url = waiting.shift(); url !== undefined; url = waiting.shift()) {
    const response = await t.app.inject({ url, headers: { cookie: cookies[viewer] } })
    if (!String(response.headers['content-type']).startsWith('text/html')) continue
    pages.set(url, response)
    for (const link of linksOf(url, response.body)) {
      const shape = shapeOf(link)
      if (known.has(shape)) continue
      known.add(shape)
      waiting.push(link)
    }
  }
  return pages
}

/**
 * Returns what two links to one page have in common: they may differ in numbers, in the values of a filter of events (the
 * forms put marked values there), in the version whose file they show, and in where a sign-in leads.
 */
function shapeOf(link: string): string {
  const [path = '', query = ''] = link.split('?', 2)
  const left = /\/(?:activity|events|login)$/.test(path)
    ? [...new URLSearchParams(query)]
        .map(([name, value]) => (value.includes(mark) ? `${name} marked` : name))
        .join()
    : query.replace(/version=[^&]*(?=&path=)/, '')
  return `${path}?${left}`.replaceAll(/\d+/g, '0')
}

const decode = (text: string) =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')

function linksOf(url: string, html: string): string[] {
  const base = new URL(url, t.config.baseUrl)
  const links = [...html.matchAll(/ href="([^"]*)"/g)]
    .map(([, href = '']) => decode(href))
    .flatMap((href) => (URL.canParse(href, base.href) ? new URL(href, base) : []))
  const searches = formsOf(html)
    .filter(({ method, texts }) => method === 'get' && texts.length > 0)
    .map(({ action, fields }) => new URL(`${action ?? base.pathname}?${new URLSearchParams(fields)}`, base))
  return (
    [...links, ...searches]
      .filter(({ origin, pathname }) => origin === base.origin && !/\/-\/packages\/|^\/docs\//.test(pathname))
      // An export of events is no page.
      .filter(({ searchParams }) => !['csv', 'json'].includes(searchParams.get('format') ?? ''))
      .map(({ pathname, search }) => pathname + search)
  )
}

interface Form {
  method: string
  action: string | null
  fields: Record<string, string>
  /** The names of fields in which a person writes. */
  texts: string[]
}

/** Reads the forms of a page, with the mark in the fields in which a person writes. */
function formsOf(html: string): Form[] {
  return [...html.matchAll(/<form\b([^>]*)>(.*?)<\/form>/gs)].map(([, attributes = '', content = '']) => {
    const fields: Record<string, string> = {}
    const texts: string[] = []
    for (const [, kind = '', about = ''] of content.matchAll(/<(input|textarea|select)\b([^>]*)/g)) {
      const name = attribute(about, 'name')
      if (name === null) continue
      const type = kind === 'input' ? (attribute(about, 'type') ?? 'text') : kind
      if (['text', 'search', 'url', 'email', 'textarea'].includes(type)) {
        texts.push(name)
        fields[name] = markedText('form')
      } else if (type === 'hidden' || ((type === 'radio' || type === 'checkbox') && / checked/.test(about))) {
        fields[name] = attribute(about, 'value') ?? 'on'
      } else if (type === 'password') {
        fields[name] = 'wrong password'
      } else if (type === 'select') {
        const options = content.slice(content.indexOf(about))
        fields[name] = attribute(/<option([^>]* selected[^>]*)>/.exec(options)?.[1] ?? '', 'value') ?? ''
      }
    }
    return {
      method: attribute(attributes, 'method') ?? 'get',
      action: attribute(attributes, 'action'),
      fields,
      texts,
    }
  })
}

function attribute(attributes: string, name: string): string | null {
  const value = new RegExp(` ${name}="([^"]*)"`).exec(attributes)?.[1]
  return value === undefined ? null : decode(value)
}

function expectNoMark(what: string, { body, statusCode }: LightMyRequestResponse): void {
  const at = body.indexOf(mark)
  expect(at === -1 ? '' : body.slice(Math.max(0, at - 100), at + 60), what).toBe('')
  expect(statusCode, what).not.toBe(500)
}

const starts: Record<Viewer, string[]> = {
  visitor: ['/', '/acme/open', '/sign-up'],
  ann: ['/', '/acme/php', '/acme/open'],
  root: ['/', '/admin', '/acme/php'],
}

/** The texts that pages show, and the fields of forms that were refused. */
const shownTexts = `account.display_name advisory.advisory_id advisory.affected_versions advisory.title
  application.description application.name deploy_token.name form mirrored_archive.alarm mirrored_archive.version
  mirrored_package.description package.description package.replacement package_version.composer package_version.metadata
  package_version.quarantine_reason personal_token.name repository.description session.network session.user_agent
  upstream.failure`.split(/\s+/)

describe('texts of people and packages on pages', () => {
  it('are never HTML, on no page and in no answer to a form', async () => {
    const seen = new Set<string>()
    for (const viewer of Object.keys(starts) as Viewer[]) {
      const pages = await crawl(viewer, starts[viewer])
      expect(pages.size, viewer).toBeGreaterThan(viewer === 'visitor' ? 10 : 50)
      for (const [url, response] of pages) {
        expectNoMark(`${url} of ${viewer}`, response)
        for (const [, from = ''] of response.body.matchAll(/&lt;b class=from-([\w.]+)/g)) seen.add(from)
      }
      const sent = new Set<string>()
      for (const [url, { body }] of pages) {
        for (const { method, action, fields, texts } of formsOf(body)) {
          const target = (action ?? url).replace(/\?.*/, '')
          const form = `${target} ${Object.keys(fields).join()}`
          if (method !== 'post' || texts.length === 0 || sent.has(form) || target === '/logout') continue
          sent.add(form)
          expectNoMark(`POST ${form} of ${viewer}`, await post(t.app, target, cookies[viewer], fields))
        }
      }
    }
    // A page that does not show a text any more would prove nothing about it.
    expect([...seen].sort()).toEqual(expect.arrayContaining(shownTexts))
  }, 300_000)
})

/** Expressions whose text is HTML: parts of templates, words of the templates themselves, and rendered documents. */
const htmlExpressions = [
  /^include\(/,
  /^time\(/,
  /^(?:tab|here|works)\(.*\)$/,
  /\? '[^']*' : '[^']*'$/,
  // Rendered documents, files with highlighted code, and pictures of svc.
  /^(?:it\.(?:body|reference|document\.html|readme\.content|enrolment\.qrCode)|changelog\.content)$/,
  // Pictures and the link to the administrators escape what they contain. `more` is a part of a template.
  /^it\.(?:pictureOf\(.*\)|linkContact\(.*\)|administrator|more \?\? '')$/,
  /^(?:html|it\.file\.lines\?\.\[0\]\?\.html \?\? '')$/,
]

describe('templates', () => {
  it('output only these expressions without escaping', () => {
    const files = readdirSync('views', { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.eta') && name !== 'mail/text.eta',
    )
    const raw = files.flatMap((file) =>
      [...readFileSync(`views/${file}`, 'utf8').matchAll(/<%~\s*(.*?)\s*%>/gs)]
        .map(([, expression = '']) => expression)
        .filter((expression) => !htmlExpressions.some((known) => known.test(expression)))
        .map((expression) => `${file}: ${expression}`),
    )
    expect(raw.sort()).toEqual([])
  })
})
