import { readdir, readFile } from 'node:fs/promises'
import { posix, resolve } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import MarkdownIt, { type Token } from 'markdown-it'
import * as z from 'zod'
import { projectRoot } from '../../config.ts'
import { keepResult } from '../../domain/keep-result.ts'
import { hasTag, tagOf } from '../conditional-requests.ts'
import { readQuery, text } from '../forms.ts'
import { pageNotFound } from '../page-error.ts'
import { nobody, page } from '../pages.ts'
import { anybody } from '../visit.ts'
import {
  type DescribedParameter,
  describeOperations,
  describeResponseTypes,
  isShared,
  listSharedParameters,
} from './api-reference.ts'
import type { PagesContext } from './permit.ts'

/** A part of a document below a heading. */
interface Section {
  id: string
  title: string
  /** The text of the section, without markup. */
  text: string
}

/** A section that a search found. */
export interface FoundSection {
  name: string
  documentTitle: string
  id: string
  title: string
  /** The text around the first match. */
  excerpt: string
}

/** The maximum number of sections that a search shows. People add words to find fewer. */
const maxFound = 30
const excerptCharacters = 160

const DocsQuery = z.object({ q: text })

/** A file of docs/, rendered. */
interface Document {
  /** The name in its URL: `nginx` for `docs/nginx.md`, `rules/oauth` for `docs/rules/oauth.md`. */
  name: string
  title: string
  html: string
  /** Its sections, for the table of contents. */
  sections: Section[]
}

/** Documents for the same people, as docs/README.md lists them, with what each is about in one line. */
interface Shelf {
  title: string
  documents: (Document & { summary: string })[]
}

const docsPage = page<{
  shelves: Shelf[]
  search: string
  /** Null without a search. */
  found: FoundSection[] | null
}>('pages/docs')
const documentPage = page<{ document: Document; folder: Document | undefined }>('pages/document')
const referencePage = page<{ reference: string }>('pages/api-reference')
const typesPage = page<{ reference: string }>('pages/api-types')

/**
 * `/docs` shows the files of docs/, which are part of the program. `/docs/api` shows the endpoints of the API, and
 * `/docs/api/types` the objects in its responses.
 */
export async function docsRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  // It would take a tenth of a start, and most processes show none of them.
  const library = keepResult(readDocuments)

  app.get(
    '/docs',
    anybody(context, async (session, request, reply) => {
      const { shelves, documents } = await library()
      const search = readQuery(DocsQuery, request).q.trim().slice(0, 200)
      const found = search === '' ? null : searchDocuments(documents, search)
      return docsPage(reply, session ?? nobody, { shelves, search, found })
    }),
  )

  /**
   * Adds a page that is rendered from the description of the API. It takes longer than other pages, and is the same for
   * everybody, so its content is rendered once.
   */
  function showReference(
    url: string,
    show: typeof referencePage,
    render: (description: Record<string, unknown>) => Promise<string>,
  ): void {
    // The indentation is a tenth of the page, which may have 120 kB.
    const reference = keepResult(async () =>
      (await render(await context.describeApi())).replaceAll(/\n\s+/g, '\n'),
    )
    app.get(
      url,
      { onSend: tagPage },
      anybody(context, async (session, _request, reply) =>
        show(reply, session ?? nobody, { reference: await reference() }),
      ),
    )
  }

  showReference('/docs/api', referencePage, (description) => {
    const groups = describeOperations(description)
    const shared = listSharedParameters(groups)
    return app.view('pages/api-endpoints', {
      groups,
      shared,
      isShared: (parameter: DescribedParameter) => isShared(shared, parameter),
    })
  })
  showReference('/docs/api/types', typesPage, (description) =>
    app.view('pages/api-type-list', { types: describeResponseTypes(description) }),
  )

  app.get<{ Params: { '*': string } }>(
    '/docs/*',
    anybody(context, async (session, request, reply) => {
      const { documents } = await library()
      const document = documents.find(({ name }) => name === request.params['*'])
      if (!document) throw pageNotFound()
      const folder = documents.find(({ name }) => name === posix.dirname(document.name))
      return documentPage(reply, session ?? nobody, { document, folder })
    }),
  )
}

/** Adds an entity tag to a page, and sends 304 to a browser that has this page already. */
async function tagPage(request: FastifyRequest, reply: FastifyReply, body: unknown): Promise<unknown> {
  if (reply.statusCode !== 200 || typeof body !== 'string') return body
  const etag = tagOf(body)
  reply.headers({ 'cache-control': 'private, no-cache', etag })
  if (!hasTag(request.headers['if-none-match'], etag)) return body
  reply.code(304)
  return null
}

/**
 * Returns the name in the URL of a document. A README.md has the name of its folder. `/docs/api` is the URL of the API
 * reference, so the guide `docs/api.md` gets another name.
 */
const nameOf = (file: string) => (file === 'api.md' ? 'api-guide' : file.replace(/(?:\/README)?\.md$/, ''))

/**
 * Reads docs/. The documents have the order of docs/README.md. The pages of folders follow. They are rendered one by one,
 * because other requests must not wait for all.
 */
async function readDocuments(): Promise<{ shelves: Shelf[]; documents: Document[] }> {
  const folder = resolve(projectRoot, 'docs')
  const render = async (file: string) => renderDocsPage(file, await readFile(resolve(folder, file), 'utf8'))
  const list = readShelves(await readFile(resolve(folder, 'README.md'), 'utf8'))
  const shelves: Shelf[] = []
  for (const { title, entries } of list) {
    const documents: Shelf['documents'] = []
    for (const { file, summary } of entries) documents.push({ ...(await render(file)), summary })
    shelves.push({ title, documents })
  }
  const listed = ['README.md', ...list.flatMap(({ entries }) => entries.map(({ file }) => file))]
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.md')).sort()
  const documents: Document[] = shelves.flatMap((shelf) => shelf.documents)
  for (const file of files) if (!listed.includes(file)) documents.push(await render(file))
  return { shelves, documents }
}

/** Reads the headings of docs/README.md, and the lines `- [Title](file.md): Summary.` below them. */
function readShelves(text: string): { title: string; entries: { file: string; summary: string }[] }[] {
  return text
    .split(/^## /m)
    .slice(1)
    .map((shelf) => ({
      title: shelf.slice(0, shelf.indexOf('\n')),
      entries: [...shelf.matchAll(/^- \[.*\]\((.+)\): (.+)$/gm)].map(([, file = '', summary = '']) => ({
        file,
        summary,
      })),
    }))
}

/**
 * Renders a document. `file` is its path in docs/. Its headings get ids, and links to other documents point to their
 * pages.
 */
export function renderDocsPage(file: string, text: string): Document {
  const name = nameOf(file)
  const markdown = new MarkdownIt({ html: false, linkify: false })
  const tokens = markdown.parse(text, {})
  const known = new Set<string>()
  let section: Section = { id: '', title: '', text: '' }
  const sections: Document['sections'] = []
  let title = name
  tokens.forEach((token, i) => {
    leadToPages(token.children ?? [], posix.dirname(file))
    if (token.type === 'inline' || token.type === 'fence')
      section.text += `${textOf(token) || token.content} `
    if (token.type !== 'heading_open') return
    const words = textOf(tokens[i + 1])
    if (token.tag === 'h1') title = words
    const id = idOf(words, known)
    token.attrSet('id', id)
    if (token.tag === 'h2') {
      section = { id, title: words, text: '' }
      sections.push(section)
    }
  })
  // With `tabindex`, people without a mouse can scroll a wide table or code block.
  const html = markdown.renderer
    .render(tokens, markdown.options, {})
    .replaceAll('<pre>', '<pre tabindex="0">')
    .replaceAll('<table>', '<div class="scroll" tabindex="0"><table>')
    .replaceAll('</table>', '</table></div>')
  return { name, title, html, sections }
}

/** Finds the sections that have all words. Sections with a word in their title come first. */
export function searchDocuments(
  documents: readonly Pick<Document, 'name' | 'title' | 'sections'>[],
  search: string,
): FoundSection[] {
  const words = search.toLowerCase().split(/\s+/)
  const has = (text: string, word: string) => text.toLowerCase().includes(word)
  const found = documents.flatMap(({ name, title: documentTitle, sections }) =>
    sections
      .filter(({ title, text }) => words.every((word) => has(`${documentTitle} ${title} ${text}`, word)))
      .map(({ id, title, text }) => {
        const excerpt = excerptAround(text, words[0] ?? '')
        return { name, documentTitle, id, title, excerpt, inTitle: words.some((word) => has(title, word)) }
      }),
  )
  return found.toSorted((a, b) => Number(b.inTitle) - Number(a.inTitle)).slice(0, maxFound)
}

/** Returns the text around the first match of a word. It starts and ends with a whole word. */
function excerptAround(text: string, word: string): string {
  const start = Math.max(text.toLowerCase().indexOf(word) - excerptCharacters / 2, 0)
  const excerpt = text.slice(start, start + excerptCharacters)
  const fromWord = start === 0 ? excerpt : excerpt.replace(/^\S*\s/, '')
  return (start + excerptCharacters >= text.length ? fromWord : fromWord.replace(/\s\S*$/, '')).trim()
}

function textOf(token: Token | undefined): string {
  const text = ({ type, content }: Token) => (type === 'softbreak' || type === 'hardbreak' ? ' ' : content)
  return (token?.children ?? []).map(text).join('')
}

/** Returns the id that GitHub gives to a heading. A repeated id gets a number. */
function idOf(words: string, known: Set<string>): string {
  const base = words
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-')
  let id = base
  for (let n = 1; known.has(id); n++) id = `${base}-${n}`
  known.add(id)
  return id
}

/**
 * Changes links to other files of docs/ into the URLs of their pages. `folder` has the file with the links. A file outside of
 * docs/ has no page, so its name stays without a link.
 */
function leadToPages(tokens: readonly Token[], folder: string): void {
  for (const [i, token] of tokens.entries()) {
    if (token.type !== 'link_open') continue
    const [, path, anchor = ''] =
      /^((?:[\w.-]+\/)*[\w-]+\.md)(#.*)?$/.exec(String(token.attrGet('href'))) ?? []
    if (path === undefined) continue
    const file = posix.join(folder, path)
    if (!file.startsWith('../')) token.attrSet('href', `/docs/${nameOf(file)}${anchor}`)
    // Links do not nest, so the next end is that of this link. An empty text shows nothing.
    else
      for (const end of [token, tokens.slice(i).find(({ type }) => type === 'link_close')])
        if (end) end.type = 'text'
  }
}
