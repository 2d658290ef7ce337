import { describe, expect, it } from 'vitest'
import { cleanLine, cleanText, isPlainText, revealText, shortenText } from '../../src/domain/plain-text.ts'
import { useDatabase } from '../support/database.ts'
import { isPlainTextInSql } from '../support/sql-rules.ts'

const unsafe = ['\u0001', '\t', '\n', '\u007f', '\u009b', '\u061c', '\u200e', '\u200f', '\u2028', '\u2029']
const bidirectional = [
  '\u202a',
  '\u202b',
  '\u202c',
  '\u202d',
  '\u202e',
  '\u2066',
  '\u2067',
  '\u2068',
  '\u2069',
]
const safe = ['', 'Größe 大きさ 👩‍👩‍👧', 'a\u00a0b', '\u200bא\u200dب', '\u202f']

describe('isPlainText', () => {
  const database = useDatabase()

  it.each([...unsafe, ...bidirectional])('is false for %j, in the schema too', async (character) => {
    expect(isPlainText(`a${character}b`)).toBe(false)
    expect(await isPlainTextInSql(database.db, `a${character}b`)).toBe(false)
  })

  it.each(['\u0000', '\ud800', 'a\udc00'])('is false for %j, which PostgreSQL cannot store', (text) => {
    expect(isPlainText(text)).toBe(false)
  })

  it.each(safe)('is true for %j, in the schema too', async (text) => {
    expect(isPlainText(text)).toBe(true)
    expect(await isPlainTextInSql(database.db, text)).toBe(true)
  })
})

describe('cleanText and cleanLine', () => {
  it('remove unsafe characters, and a terminal’s escape sequences as a whole', () => {
    const text = ' \u001b[31mred\u001b[0m\r\n\tand\u0000 \u009bblue\u202e\ud800\u2028line '
    expect(cleanText(text)).toBe(' red\n\tand blueline ')
    expect(cleanLine(text)).toBe('red and blue line')
  })
})

describe('shortenText', () => {
  it.each([
    ['short', 'short'],
    ['a'.repeat(40), 'a'.repeat(40)],
    ['😀'.repeat(40), '😀'.repeat(40)],
    ['a'.repeat(41), `${'a'.repeat(40)}…`],
    ['😀'.repeat(90), `${'😀'.repeat(40)}…`],
    ['It keeps the words of a sentence, if there are any', 'It keeps the words of a sentence, if…'],
  ])('shortens %j to 40 characters: %j', (text, shortened) => {
    expect(shortenText(text, 40)).toBe(shortened)
  })
})

describe('revealText', () => {
  it.each([
    ['zero\u200bwidth', 'zero[U+200B]width'],
    ['\u202egnp.exe', '[U+202E]gnp.exe'],
    ['a\u2066b\u2069', 'a[U+2066]b[U+2069]'],
    ['soft\u00adhyphen', 'soft[U+00AD]hyphen'],
    ['x\u200dy', 'x[U+200D]y'],
    ['fill\u3164er', 'fill[U+3164]er'],
    ['👩\u200d💻 at work', '👩\u200d💻 at work'],
    ['plain 日本語 é', 'plain 日本語 é'],
  ])('shows %j as %j', (text, revealed) => {
    expect(revealText(text)).toBe(revealed)
  })
})
