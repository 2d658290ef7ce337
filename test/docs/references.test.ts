import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { projectRoot } from '../../src/config.ts'

/** The word of a reference, the page of its rules, and the form of their numbers. */
const pages = {
  SPEC: { file: 'spec.md', number: String.raw`\d+(?:\.\d+)?` },
  CONTRACT: { file: 'contract.md', number: String.raw`\d+(?:\.\d+)?` },
  OAUTH: { file: 'oauth.md', number: String.raw`\d+` },
  OPENID: { file: 'openid.md', number: String.raw`\d+` },
  COMPOSER: { file: 'composer.md', number: String.raw`[A-Z]\d*` },
  UPSTREAMS: { file: 'upstreams.md', number: String.raw`\d+` },
} as const
type Word = keyof typeof pages
const words = Object.keys(pages).join('|')

/** Folders with references. */
const places = ['src', 'test', 'bench', 'bin', 'deploy', 'migrations', 'views', 'docs']
/** Files without references: two that explain their form, and one with a licence in capitals. */
const exceptions = [
  'docs/rules/README.md',
  'test/docs/references.test.ts',
  'src/accounts/common-passwords.ts',
]
const extensions = ['.ts', '.js', '.css', '.sql', '.eta', '.md', '.yaml', '.service', '']

describe('references to docs/rules/', () => {
  const rules = new Map<Word, Set<string>>()
  let texts: { path: string; text: string }[]

  beforeAll(async () => {
    for (const [word, page] of Object.entries(pages)) rules.set(word as Word, readRules(page))
    const inFolders = await Promise.all(
      places.map(async (place) => {
        const entries = await readdir(join(projectRoot, place), { recursive: true, withFileTypes: true })
        return entries
          .filter((entry) => entry.isFile() && extensions.includes(extname(entry.name)))
          .map((entry) => join(entry.parentPath, entry.name).slice(projectRoot.length).replace(/^\//, ''))
      }),
    )
    const atRoot = (await readdir(projectRoot)).filter((name) => name.endsWith('.md'))
    const paths = [...inFolders.flat(), ...atRoot].filter((path) => !exceptions.includes(path))
    texts = paths.map((path) => ({ path, text: readText(path) }))
  })

  it('name rules that exist', () => {
    const references = texts.flatMap(({ path, text }) =>
      findReferences(text).map((reference) => ({ ...reference, path })),
    )
    expect(references.length).toBeGreaterThan(300)
    expect(new Set(references.map(({ word }) => word))).toEqual(new Set(Object.keys(pages)))
    const unknown = references.filter(({ word, number }) => !rules.get(word)?.has(number))
    expect(unknown.map(({ path, word, number }) => `${path}: ${word} ${number}`)).toEqual([])
  })

  it('have a number', () => {
    const bare = texts.flatMap(({ path, text }) =>
      [...text.matchAll(new RegExp(String.raw`\b(?:${words}|DESIGN)\b(?!-|_).{0,20}`, 'g'))]
        .filter(([found]) => findReferences(found).length === 0)
        .map(([found]) => `${path}: ${found}`),
    )
    expect(bare).toEqual([])
  })

  it('stand for one rule each: no number occurs twice', () => {
    for (const page of Object.values(pages)) {
      const numbers = listNumbers(page)
      expect([page.file, numbers.length > 3]).toEqual([page.file, true])
      expect(new Set(numbers).size, page.file).toBe(numbers.length)
    }
  })
})

/** Reads a file as one line, so that a reference may continue in the next line of a comment. */
function readText(path: string): string {
  const text = readFileSync(join(projectRoot, path), 'utf8')
  const joined = text.replace(/\s*\n\s*(?:\*(?!\*)|\/\/|--)?\s*/g, ' ')
  // The baseline cannot change.
  return path.startsWith('migrations/baseline/') ? joined.replace('(SPEC §3)', '(SPEC 3)') : joined
}

/** Finds `OAUTH 12`, and each rule of `OAUTH 12, 13` and `OAUTH 12–14`. */
function findReferences(text: string): { word: Word; number: string }[] {
  return Object.entries(pages).flatMap(([word, { number }]) => {
    const pattern = new RegExp(String.raw`\b${word} (${number}(?:(?:, |–)${number}\b)*)`, 'g')
    return [...text.matchAll(pattern)].flatMap(([, list = '']) =>
      list
        .split(', ')
        .flatMap(expandRange)
        .map((one) => ({ word: word as Word, number: one })),
    )
  })
}

function expandRange(range: string): string[] {
  const [first = '', last] = range.split('–')
  if (last === undefined) return [first]
  return Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => String(Number(first) + i))
}

/** Lists the numbers of a page: those of headings, of paragraphs that begin with one in bold, and of rows of tables. */
function listNumbers({ file, number }: (typeof pages)[Word]): string[] {
  const text = readFileSync(join(projectRoot, 'docs/rules', file), 'utf8')
  return [...text.matchAll(new RegExp(String.raw`^(?:#{2,3} |\*\*|\| )(${number})(?=[ *.])`, 'gm'))].map(
    ([, one = '']) => one,
  )
}

const readRules = (page: (typeof pages)[Word]) => new Set(listNumbers(page))
