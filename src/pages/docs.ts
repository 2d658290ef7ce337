import { readdir, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { FastifyInstance } from 'fastify'
import MarkdownIt, { type Token } from 'markdown-it'
import { readSession } from '../accounts/visitor.ts'
import { projectRoot } from '../config.ts'
import { pageNotFound } from '../http/page-error.ts'
import { nobody, page } from '../http/pages.ts'
import { describeOperations, type OperationGroup } from './api-reference.ts'
import type { PagesContext } from './permit.ts'

/** A file of docs/, rendered. */
interface Document {
  /** As in its URL: `nginx` for `docs/nginx.md`. */
  name: string
  title: string
  html: string
  /** Its sections, for the table of contents. */
  sections: { id: string; title: string }[]
}

const docsPage = page<{ documents: Document[] }>('pages/docs')
const documentPage = page<{ documents: Document[]; document: Document }>('pages/document')
const referencePage = page<{ groups: OperationGroup[] }>('pages/api-reference')

/** `/docs`: the files of docs/, which ship with the program, and at `/docs/api` the description of the API. */
export async function docsRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const documents = await readDocuments()
  let reference: Promise<OperationGroup[]> | undefined

  app.get('/docs', async (request, reply) => {
    const session = await readSession(context, request)
    return docsPage(reply, session ?? nobody, { documents })
  })

  app.get('/docs/api', async (request, reply) => {
    const session = await readSession(context, request)
    reference ??= context.describeApi().then(describeOperations)
    return referencePage(reply, session ?? nobody, { groups: await reference })
  })

  app.get<{ Params: { name: string } }>('/docs/:name', async (request, reply) => {
    const session = await readSession(context, request)
    const document = documents.find(({ name }) => name === request.params.name)
    if (!document) throw pageNotFound()
    return documentPage(reply, session ?? nobody, { documents, document })
  })
}

/** `docs/api.md` is the guide beside the reference, which has the URL `/docs/api`. */
const nameOf = (file: string) => (file === 'api.md' ? 'api-guide' : file.replace(/\.md$/, ''))

async function readDocuments(): Promise<Document[]> {
  const folder = resolve(projectRoot, 'docs')
  const files = (await readdir(folder)).filter((file) => file.endsWith('.md')).sort()
  return Promise.all(
    files.map(async (file) => renderDocsPage(nameOf(file), await readFile(resolve(folder, file), 'utf8'))),
  )
}

/** Renders a document. Its headings get ids, and links to other documents lead to their pages. */
export function renderDocsPage(name: string, text: string): Document {
  const markdown = new MarkdownIt({ html: false, linkify: false })
  const tokens = markdown.parse(text, {})
  const known = new Set<string>()
  const sections: Document['sections'] = []
  let title = name
  tokens.forEach((token, i) => {
    for (const child of token.children ?? []) leadToPage(child)
    if (token.type !== 'heading_open') return
    const words = textOf(tokens[i + 1])
    if (token.tag === 'h1') title = words
    const id = idOf(words, known)
    token.attrSet('id', id)
    if (token.tag === 'h2') sections.push({ id, title: words })
  })
  // A wide table or block scrolls by itself, also for people without a mouse.
  const html = markdown.renderer
    .render(tokens, markdown.options, {})
    .replaceAll('<pre>', '<pre tabindex="0">')
    .replaceAll('<table>', '<div class="scroll" tabindex="0"><table>')
    .replaceAll('</table>', '</table></div>')
  return { name, title, html, sections }
}

function textOf(token: Token | undefined): string {
  return (token?.children ?? []).map(({ content }) => content).join('')
}

/** The id that GitHub gives to a heading, with a number for a repeated one. */
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

function leadToPage(token: Token): void {
  if (token.type !== 'link_open') return
  const [, file, anchor = ''] = /^([\w-]+\.md)(#.*)?$/.exec(String(token.attrGet('href'))) ?? []
  if (file !== undefined) token.attrSet('href', `/docs/${nameOf(file)}${anchor}`)
}
