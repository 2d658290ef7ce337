import type { Token } from 'markdown-it'

/** The elements that a README may contain as HTML. All other tags are shown as text. */
const allowed = new Set(
  (
    'a b blockquote br center code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre ' +
    's samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var'
  ).split(' '),
)
const empty = new Set(['br', 'hr', 'img'])

/** Where these elements may be. A parser that finds them elsewhere closes elements that are open around them. */
const parents: Record<string, string[]> = {
  li: ['ul', 'ol'],
  dt: ['dl'],
  dd: ['dl'],
  thead: ['table'],
  tbody: ['table'],
  tfoot: ['table'],
  tr: ['table', 'thead', 'tbody', 'tfoot'],
  td: ['tr'],
  th: ['tr'],
  summary: ['details'],
}
/** Elements whose end tags authors leave out. */
const endsItself = new Set(['li', 'dt', 'dd', 'td', 'th', 'tr', 'thead', 'tbody'])
/** Between these and their cells there is nothing else. */
const tableParts = new Set(['table', 'thead', 'tbody', 'tfoot', 'tr'])

/** Elements that are nested deeper are left out. Browsers limit the depth of a page. */
const maxDepth = 40

/** A tag, or a comment. A comment without an end takes the rest, as in browsers, so each character is read once. */
const tag =
  /<(\/?)([a-z][a-z0-9-]*)((?:\s+[^\s"'<>=/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*)\s*\/?>|<!--[\s\S]*?(?:-->|$)/gi
const attribute = /([^\s"'<>=/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?/g

/** How the targets of links and images are written. Each returns a tag, or null to leave it out. */
export interface Targets {
  link: (href: string) => string | null
  image: (src: string, alt: string, sizes: string, isInLink: boolean) => string
}

/**
 * Returns a function that is called with the tokens of a document in turn. It replaces their HTML with allowed tags, and
 * closes the elements that the HTML leaves open. So no text of a README ends an element of the page around it.
 */
export function sanitizeHtml(targets: Targets, headingsBelow: number): (tokens: Token[]) => Token[] {
  return (tokens) => {
    const levels: string[][] = [[]]
    const settled: Token[] = []
    for (const token of tokens) {
      const level = levels.at(-1) as string[]
      if (token.type === 'html_block' || token.type === 'html_inline') {
        const depth = levels.reduce((sum, { length }) => sum + length, 0)
        token.content = clean(token.content, level, depth, targets, headingsBelow)
        settled.push(token)
        continue
      }
      // Browsers move text and elements out of a table that are not in one of its cells.
      if (token.nesting >= 0) {
        let parts = level.length
        while (tableParts.has(level[parts - 1] ?? '')) parts -= 1
        push(settled, token, closeFrom(level, parts))
      }
      if (token.nesting < 0) push(settled, token, closeFrom(levels.pop() ?? [], 0))
      if (token.nesting > 0) levels.push([])
      if (levels.length === 0) levels.push([])
      settled.push(token)
    }
    const [last] = settled.slice(-1)
    if (last) push(settled, last, closeFrom(levels[0] as string[], 0))
    return settled
  }
}

function push(settled: Token[], like: Token, html: string): void {
  if (html === '') return
  const token = new (like.constructor as new (type: string, tag: string, nesting: number) => Token)(
    'html_inline',
    '',
    0,
  )
  token.content = html
  settled.push(token)
}

/** Closes the elements from an index on. Returns their end tags. */
function closeFrom(open: string[], index: number): string {
  return open
    .splice(index)
    .reverse()
    .map((name) => `</${name}>`)
    .join('')
}

function clean(
  html: string,
  open: string[],
  outside: number,
  targets: Targets,
  headingsBelow: number,
): string {
  let result = ''
  let at = 0
  const start = open.length
  for (const match of html.matchAll(tag)) {
    result += escapeText(html.slice(at, match.index))
    at = match.index + match[0].length
    if (match[2] === undefined) continue
    const name = match[2].toLowerCase()
    if (!allowed.has(name)) result += escapeText(match[0])
    else if (match[1] === '/') result += closeTag(outName(name, headingsBelow), open)
    else if (outside - start + open.length < maxDepth)
      result += openTag(name, readAttributes(match[3] ?? ''), open, targets, headingsBelow)
  }
  return result + escapeText(html.slice(at))
}

function outName(name: string, headingsBelow: number): string {
  if (name === 'center') return 'div'
  return /^h[1-6]$/.test(name) ? `h${Math.min(6, Number(name[1]) + headingsBelow)}` : name
}

function closeTag(name: string, open: string[]): string {
  const index = open.lastIndexOf(name)
  return index < 0 ? '' : closeFrom(open, index)
}

function openTag(
  name: string,
  given: Map<string, string>,
  open: string[],
  targets: Targets,
  headingsBelow: number,
): string {
  const place = placeOf(name, open)
  if (place === null) return ''
  const closed = closeFrom(open, place)
  if (name === 'img') {
    const sizes = pick(given, { width: /^\d{1,4}%?$/, height: /^\d{1,4}$/ })
    return closed + targets.image(given.get('src') ?? '', given.get('alt') ?? '', sizes, open.includes('a'))
  }
  if (name === 'a') {
    const link = open.includes('a') ? null : targets.link(given.get('href') ?? '')
    if (link === null) return closed
    open.push('a')
    return closed + link
  }
  const out = outName(name, headingsBelow)
  if (!empty.has(name)) open.push(out)
  if (name === 'center') given.set('align', 'center')
  return `${closed}<${out}${pick(given, attributesOf(name))}>`
}

/** Returns how many open elements contain a new one. Null when the element may not be here. */
function placeOf(name: string, open: string[]): number | null {
  const wanted = parents[name]
  let length = open.length
  if (!wanted) return tableParts.has(open[length - 1] ?? '') ? null : length
  const isParent = () => wanted.includes(open[length - 1] ?? '')
  while (!isParent() && endsItself.has(open[length - 1] ?? '')) length -= 1
  return isParent() ? length : null
}

function attributesOf(name: string): Record<string, RegExp> {
  if (name === 'details') return { open: /^/ }
  if (name === 'td' || name === 'th')
    return { align: /^(left|center|right)$/i, colspan: /^\d{1,2}$/, rowspan: /^\d{1,2}$/ }
  return /^(p|div|center|h[1-6])$/.test(name) ? { align: /^(left|center|right)$/i } : {}
}

function pick(given: Map<string, string>, wanted: Record<string, RegExp>): string {
  return Object.entries(wanted)
    .map(([name, form]) => {
      const value = given.get(name)
      if (value === undefined || !form.test(value)) return ''
      return ` ${name}="${name === 'open' ? '' : value.toLowerCase()}"`
    })
    .join('')
}

function readAttributes(text: string): Map<string, string> {
  const given = new Map<string, string>()
  for (const [, name = '', double, single, bare] of text.matchAll(attribute)) {
    if (!given.has(name.toLowerCase())) given.set(name.toLowerCase(), double ?? single ?? bare ?? '')
  }
  return given
}

/** Escapes text that is HTML: it keeps references to characters, such as `&nbsp;`. */
function escapeText(html: string): string {
  return html
    .replace(/&(?!(?:[a-z][a-z0-9]{1,31}|#\d{1,7}|#x[0-9a-f]{1,6});)/gi, '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
