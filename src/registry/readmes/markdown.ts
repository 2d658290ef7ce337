import MarkdownIt, { type Token } from 'markdown-it'

/** Markup in the text is shown as text; that is what makes the result safe to put into a page. */
const markdown = new MarkdownIt({ html: false, linkify: true })

/** Only what leads out of here: an address relative to a README's repository leads nowhere on these pages. */
const absolute = /^(?:https?:|mailto:)/i

/** A page's own headings are h1 and h2. */
const headingsBelow = 2

/**
 * Renders a README in Markdown as HTML. Of a stranger's text nothing is loaded and nothing runs: images are their
 * alternative texts, raw HTML is text, and links that are not absolute are only their words.
 */
export function renderMarkdown(text: string): string {
  const tokens = markdown.parse(text, {})
  for (const token of tokens) {
    lowerHeading(token)
    if (token.children) token.children = settleInline(token.children)
  }
  return markdown.renderer.render(tokens, markdown.options, {})
}

function lowerHeading(token: Token): void {
  if (token.type !== 'heading_open' && token.type !== 'heading_close') return
  token.tag = `h${Math.min(6, Number(token.tag.slice(1)) + headingsBelow)}`
}

function settleInline(tokens: Token[]): Token[] {
  const leads: boolean[] = []
  return tokens.flatMap((token) => {
    if (token.type === 'image') return settleInline(token.children ?? [])
    if (token.type === 'link_close') return leads.pop() ? [token] : []
    if (token.type !== 'link_open') return [token]
    leads.push(absolute.test(String(token.attrGet('href'))))
    token.attrSet('rel', 'nofollow noopener noreferrer')
    return leads.at(-1) ? [token] : []
  })
}
