import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { projectRoot } from '../../src/config.ts'

const folder = join(projectRoot, 'views')
const views = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
  (path) => path.endsWith('.eta') && path !== 'mail/text.eta',
)

describe('the views', () => {
  it.each(views)('%s: what is inside an element or a condition is indented', (path) => {
    expect(findMisplaced(readFileSync(join(folder, path), 'utf8'))).toEqual([])
  })

  it('are told apart: a line that is not indented, and the text of a `pre`', () => {
    expect(findMisplaced('<ul>\n<li>a</li>\n</ul>')).toEqual([2])
    expect(findMisplaced('  <ul>\n    <li>a</li>\n</ul>')).toEqual([3])
    expect(findMisplaced('<% if (it.a) { %>\n  <p>a</p>\n<% } else { %>\n<p>b</p>\n<% } %>')).toEqual([4])
    expect(findMisplaced('<div>\n  <pre>a\nb</pre>\n  <p>c</p>\n</div>')).toEqual([])
  })
})

/** Returns the numbers of lines that are not deeper than the line that begins the element or block around them. */
function findMisplaced(text: string): number[] {
  const blank = (part: string) => part.replaceAll(/[^\n]+/g, '')
  const keep = (part: string) => blank(part).replaceAll('\n', '\n\0')
  const visible = text
    .replace(/(?<=<(pre|textarea)\b(?:[^<>]|<%(?:(?!%>)[\s\S])*%>)*>)[\s\S]*?(?=<\/\1>)/g, keep)
    .replace(/<%[=~][\s\S]*?%>|(?<=<%\s*)\/\*[\s\S]*?\*\//g, blank)
  const blocks = findPairs(visible, /<%\s*(\}?)(?:(?!%>)[\s\S])*?(\{?)\s*%>/g, ([, ends, begins]) => ({
    ends: ends !== '',
    begins: begins !== '',
  }))
  const markup = visible.replace(/<%[\s\S]*?%>/g, blank)
  const elements = findPairs(markup, /<(\/?)([a-z]\w*)(?:"[^"]*"|[^>"])*>/g, ([tag, end, name = '']) => ({
    ends: end !== '',
    begins: end === '' && !tag?.endsWith('/>') && !/^(?:br|hr|img|input|link|meta|wbr)$/.test(name),
  }))
  const original = text.split('\n')
  const lines = visible.split('\n')
  const indentOf = (i: number) => /^ */.exec(original[i] ?? '')?.[0].length ?? 0
  const isShown = (i: number) => lines[i]?.trim() && !lines[i]?.startsWith('\0')
  const misplaced = [...blocks, ...elements].flatMap(([first, last]) => {
    const inside = Array.from({ length: last - first - 1 }, (_, i) => first + 1 + i)
    const tooFarLeft = inside.filter((i) => isShown(i) && indentOf(i) <= indentOf(first))
    return isShown(last) && indentOf(last) < indentOf(first) ? [...tooFarLeft, last] : tooFarLeft
  })
  return [...new Set(misplaced)].map((i) => i + 1)
}

/** Returns the first and the last line of everything that begins and ends in different lines. */
function findPairs(
  text: string,
  pattern: RegExp,
  read: (match: RegExpMatchArray) => { ends: boolean; begins: boolean },
): [number, number][] {
  const open: number[] = []
  const pairs: [number, number][] = []
  for (const match of text.matchAll(pattern)) {
    const line = text.slice(0, match.index).split('\n').length - 1
    const { ends, begins } = read(match)
    const first = ends ? open.pop() : undefined
    if (first !== undefined && first < line) pairs.push([first, line])
    if (begins) open.push(line)
  }
  return pairs
}
