import MarkdownIt, { type Token } from 'markdown-it'
import { linkToFile, linkToImage } from './file-links.ts'
import { highlightCode } from './highlight.ts'
import { sanitizeHtml } from './raw-html.ts'

/** Reads HTML as separate tokens. `sanitizeHtml` makes them safe for a page. */
const markdown = new MarkdownIt({ html: true, linkify: true })
const { escapeHtml, unescapeAll } = markdown.utils

// Let a table scroll by itself when it is wider than the page, also with the keyboard.
Object.assign(markdown.renderer.rules, {
  table_open: () => '<div class="scroll" tabindex="0"><table>\n',
  table_close: () => '</table></div>\n',
  blockquote_open: (tokens: Token[], i: number) =>
    markdown.renderer.renderToken(tokens, i, markdown.options) + alertTitle(tokens[i] as Token),
  fence: (tokens: Token[], i: number, _options: unknown, { hasColours }: { hasColours: boolean }) =>
    renderCode(tokens[i] as Token, hasColours),
  code_block: (tokens: Token[], i: number) => renderCode(tokens[i] as Token, false),
})

/** Links to other sites, and mail links. */
const absolute = /^(?:https?:|mailto:)/i
/** The types of images that the server serves from an archive. */
const image = /\.(?:png|jpe?g|gif|webp|svg)$/i
/** The rel attribute of links to other sites. */
const rel = 'nofollow noopener noreferrer'

/** How many levels headings are lowered, because the page itself uses h1 and h2. */
const headingsBelow = 2

/**
 * Renders a Markdown README as HTML. The text is untrusted, so the result loads nothing from another site and runs no
 * script. Harmless HTML tags are kept. Images of other sites become links. Relative links and images refer to
 * files of the package. `resolveFiles` gives them their URLs.
 */
export function renderMarkdown(text: string, { hasColours = true } = {}): string {
  const tokens = markdown.parse(text, {})
  const anchors = readAnchors(tokens)
  const sanitize = sanitizeHtml({ link: (href) => linkTag(href, anchors), image: imageTag }, headingsBelow)
  for (const [i, token] of tokens.entries()) {
    lowerHeading(token)
    alignCell(token)
    if (token.type === 'inline') markTask(tokens, i)
    if (token.type === 'blockquote_open') markAlert(tokens, i)
    if (token.children) token.children = sanitize(settleInline(token.children, anchors))
  }
  return markdown.renderer.render(sanitize(tokens), markdown.options, { hasColours })
}

/** The headings by id. GitHub makes ids from the text in the same way. */
type Anchors = Map<string, Token>

function readAnchors(tokens: Token[]): Anchors {
  const anchors: Anchors = new Map()
  for (const [i, token] of tokens.entries()) {
    if (token.type !== 'heading_open') continue
    const words = (tokens[i + 1]?.children ?? []).map(({ type, content }) =>
      type === 'html_inline' ? '' : content,
    )
    const slug = words
      .join('')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
      .trim()
      .replaceAll(' ', '-')
    let id = slug
    for (let count = 1; anchors.has(id); count += 1) id = `${slug}-${count}`
    if (id !== '') anchors.set(id, token)
  }
  return anchors
}

/** The page's policy allows no style attributes. */
function alignCell(token: Token): void {
  const [, side] = /^text-align:(\w+)$/.exec(String(token.attrGet('style'))) ?? []
  if (side !== undefined) token.attrs = [['align', side]]
}

/** Returns the start tag of a link that is written as HTML. */
function linkTag(href: string, anchors: Anchors): string | null {
  const to = resolveLink(unescapeAll(href).trim(), anchors)
  if (to === null) return null
  return `<a href="${escapeHtml(to)}"${absolute.test(to) ? ` rel="${rel}"` : ''}>`
}

/** Returns an image that is written as HTML. */
function imageTag(src: string, alt: string, sizes: string, isInLink: boolean): string {
  const url = unescapeAll(src).trim()
  const text = escapeHtml(unescapeAll(alt))
  const path = absolute.test(url) ? null : pathOf(url)
  if (path !== null && image.test(path))
    return `<img src="${escapeHtml(linkToImage(path))}" alt="${text}"${sizes} loading="lazy">`
  if (!/^https?:/i.test(url) || !URL.canParse(url)) return text
  const label = text || escapeHtml(new URL(url).host)
  return isInLink ? label : `<a href="${escapeHtml(url)}" rel="${rel}">${label}</a>`
}

/** Returns the target of a link: of another site, a file of the package, or a heading of the README. */
function resolveLink(href: string, anchors: Anchors): string | null {
  if (absolute.test(href)) return href
  if (href.startsWith('#')) {
    const id = decoded(href.slice(1)).toLowerCase()
    // Only a heading with a link to it gets its id. The prefix keeps it apart from the ids of the page.
    anchors.get(id)?.attrSet('id', `readme-${id}`)
    return anchors.has(id) ? `#readme-${encodeURIComponent(id)}` : null
  }
  const path = pathOf(href)
  return path === null ? null : linkToFile(path)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function lowerHeading(token: Token): void {
  if (token.type !== 'heading_open' && token.type !== 'heading_close') return
  token.tag = `h${Math.min(6, Number(token.tag.slice(1)) + headingsBelow)}`
}

/** Replaces `[ ]` or `[x]` at the start of a list item with a box. */
function markTask(tokens: Token[], at: number): void {
  const [item, paragraph, inline] = [tokens[at - 2], tokens[at - 1], tokens[at]]
  const first = inline?.children?.[0]
  if (item?.type !== 'list_item_open' || paragraph?.type !== 'paragraph_open' || first?.type !== 'text')
    return
  const [mark] = /^\[[ xX]\] /.exec(first.content) ?? []
  if (mark === undefined) return
  item.attrJoin('class', 'task')
  first.content = `${mark === '[ ] ' ? '☐' : '☑'} ${first.content.slice(mark.length)}`
}

/** The alerts of GitHub. */
const alerts = new Set(['note', 'tip', 'important', 'warning', 'caution'])

/** Makes an alert of a quote whose first line is one of GitHub's marks, such as `[!NOTE]`. */
function markAlert(tokens: Token[], at: number): void {
  const [quote, paragraph, inline, end] = tokens.slice(at, at + 4)
  const [mark, lineEnd, ...rest] = inline?.children ?? []
  const [, word = ''] = /^\[!(\w+)\]\s*$/.exec(mark?.type === 'text' ? mark.content : '') ?? []
  const kind = word.toLowerCase()
  const isAlone = lineEnd === undefined || /^(?:soft|hard)break$/.test(lineEnd.type)
  if (!quote || !paragraph || !inline || !end || quote.level > 0 || !alerts.has(kind) || !isAlone) return
  const close = tokens.slice(at).find(({ type, level }) => type === 'blockquote_close' && level === 0)
  for (const token of [quote, close]) if (token) token.tag = 'div'
  quote.attrJoin('class', `alert ${kind}`)
  quote.info = `${kind.charAt(0).toUpperCase()}${kind.slice(1)}`
  inline.children = rest
  if (rest.length === 0) paragraph.hidden = end.hidden = true
}

function alertTitle({ info }: Token): string {
  return info === '' ? '' : `<p class="alert-title">${info}</p>\n`
}

function renderCode({ content, info }: Token, hasColours: boolean): string {
  const [language = ''] = info.trim().split(/\s/)
  const code = (hasColours && highlightCode(content, language)) || escapeHtml(content)
  const name = language === '' ? '' : ` class="language-${escapeHtml(language)}"`
  return `<pre tabindex="0"><code${name}>${code}</code></pre>\n`
}

function settleInline(tokens: Token[], anchors: Anchors): Token[] {
  const leads: boolean[] = []
  return tokens.flatMap((token) => {
    if (token.type === 'image') return settleImage(token, leads.includes(true), anchors)
    if (token.type === 'link_close') return leads.pop() ? [token] : []
    if (token.type !== 'link_open') return [token]
    const to = resolveLink(String(token.attrGet('href')), anchors)
    leads.push(to !== null)
    if (to === null) return []
    token.attrSet('href', to)
    if (absolute.test(to)) token.attrSet('rel', rel)
    return [token]
  })
}

/**
 * Returns an image of the package, or a link to an image of another site. Within a link, it returns only the text of
 * the image.
 */
function settleImage(token: Token, isInLink: boolean, anchors: Anchors): Token[] {
  const src = String(token.attrGet('src'))
  const path = absolute.test(src) ? null : pathOf(src)
  if (path !== null && image.test(path)) {
    token.attrSet('src', linkToImage(path))
    token.attrSet('loading', 'lazy')
    return [token]
  }
  const text = settleInline(token.children ?? [], anchors)
  if (isInLink || !/^https?:/i.test(src)) return text
  const label = escapeHtml(token.content || new URL(src).host)
  token.type = 'html_inline'
  token.content = `<a href="${escapeHtml(src)}" rel="${rel}">${label}</a>`
  return [token]
}

/**
 * Returns the path of the file that a relative URL refers to. Null for any other URL, and for a link within the page.
 */
function pathOf(href: string): string | null {
  if (/^(?:[a-z][a-z0-9+.-]*:|\/\/|#|\?)/i.test(href)) return null
  try {
    const { pathname } = new URL(href, 'http://package.test/')
    const path = decodeURIComponent(pathname).replace(/^\/+|\/+$/g, '')
    return /[\0\\]/.test(path) ? null : path
  } catch {
    return null
  }
}
