import MarkdownIt, { type Token } from 'markdown-it'
import { linkToFile, linkToImage } from './file-links.ts'
import { highlightCode } from './highlight.ts'

/** Escapes HTML in the text, so that the result is safe for a page. */
const markdown = new MarkdownIt({ html: false, linkify: true })
const { escapeHtml } = markdown.utils

// Let a table scroll by itself when it is wider than the page, also with the keyboard.
Object.assign(markdown.renderer.rules, {
  table_open: () => '<div class="scroll" tabindex="0"><table>\n',
  table_close: () => '</table></div>\n',
  fence: (tokens: Token[], i: number, _options: unknown, { hasColours }: { hasColours: boolean }) =>
    renderCode(tokens[i] as Token, hasColours),
  code_block: (tokens: Token[], i: number) => renderCode(tokens[i] as Token, false),
})

/** Links to other sites, and mail links. */
const absolute = /^(?:https?:|mailto:)/i
/** The types of images that the server serves from an archive. */
const image = /\.(?:png|jpe?g|gif|webp|svg)$/i

/** How many levels headings are lowered, because the page itself uses h1 and h2. */
const headingsBelow = 2

/**
 * Renders a Markdown README as HTML. The text is untrusted, so the result loads nothing from another site and runs no
 * script. HTML is escaped, and images of other sites become links. Relative links and images refer to files of the
 * package. `resolveFiles` gives them their URLs.
 */
export function renderMarkdown(text: string, { hasColours = true } = {}): string {
  const tokens = markdown.parse(text, {})
  for (const [i, token] of tokens.entries()) {
    lowerHeading(token)
    if (token.type === 'inline') markTask(tokens, i)
    if (token.children) token.children = settleInline(token.children)
  }
  return markdown.renderer.render(tokens, markdown.options, { hasColours })
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

function renderCode({ content, info }: Token, hasColours: boolean): string {
  const [language = ''] = info.trim().split(/\s/)
  const code = (hasColours && highlightCode(content, language)) || escapeHtml(content)
  const name = language === '' ? '' : ` class="language-${escapeHtml(language)}"`
  return `<pre tabindex="0"><code${name}>${code}</code></pre>\n`
}

function settleInline(tokens: Token[]): Token[] {
  const leads: boolean[] = []
  return tokens.flatMap((token) => {
    if (token.type === 'image') return settleImage(token, leads.includes(true))
    if (token.type === 'link_close') return leads.pop() ? [token] : []
    if (token.type !== 'link_open') return [token]
    const href = String(token.attrGet('href'))
    const path = absolute.test(href) ? null : pathOf(href)
    leads.push(absolute.test(href) || path !== null)
    if (path === null) token.attrSet('rel', 'nofollow noopener noreferrer')
    else token.attrSet('href', linkToFile(path))
    return leads.at(-1) ? [token] : []
  })
}

/**
 * Returns an image of the package, or a link to an image of another site. Within a link, it returns only the text of
 * the image.
 */
function settleImage(token: Token, isInLink: boolean): Token[] {
  const src = String(token.attrGet('src'))
  const path = absolute.test(src) ? null : pathOf(src)
  if (path !== null && image.test(path)) {
    token.attrSet('src', linkToImage(path))
    token.attrSet('loading', 'lazy')
    return [token]
  }
  const text = settleInline(token.children ?? [])
  if (isInLink || !/^https?:/i.test(src)) return text
  const label = escapeHtml(token.content || new URL(src).host)
  token.type = 'html_inline'
  token.content = `<a href="${escapeHtml(src)}" rel="nofollow noopener noreferrer">${label}</a>`
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
