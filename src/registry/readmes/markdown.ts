import MarkdownIt, { type Token } from 'markdown-it'

/** HTML in the text is escaped. This makes the result safe for a page. */
const markdown = new MarkdownIt({ html: false, linkify: true })

/** The allowed links. A URL relative to a README's source repository does not work on these pages. */
const absolute = /^(?:https?:|mailto:)/i

/** The page itself uses h1 and h2. */
const headingsBelow = 2

/**
 * Renders a Markdown README as HTML. The text is untrusted, so nothing is loaded and no script runs: images become their
 * alternative text, HTML is escaped, and relative links become plain text.
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
