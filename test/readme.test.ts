import { existsSync, readdirSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config.ts'
import { enforcedScopes } from '../src/domain/permissions.ts'
import { allScopes } from '../src/domain/scopes.ts'
import { findApplicationByClientId } from '../src/oauth/applications.ts'
import { useDatabase } from './support/database.ts'

const read = (path: string) => readFile(new URL(`../${path}`, import.meta.url), 'utf8')
const firstGroups = (text: string, pattern: RegExp) => Array.from(text.matchAll(pattern), ([, name]) => name)

describe('README.md', () => {
  it('is short: at most 1,100 words', async () => {
    const words = (await read('README.md')).match(/\S+/g) ?? []
    expect(words.length).toBeLessThanOrEqual(1100)
  })
})

describe('the list of settings', async () => {
  const [source, readme, example] = await Promise.all(
    ['src/config.ts', 'docs/operations.md', '.env.example'].map(read),
  )
  const settings = firstGroups(source ?? '', /^ {2}([A-Z_]+): /gm)

  it('is the same in docs/operations.md', () => {
    expect(settings.length).toBeGreaterThan(10)
    expect(firstGroups(readme ?? '', /^\| `([A-Z_]+)` \|/gm)).toEqual(settings)
  })

  it('is the same in .env.example, whose values are the defaults', () => {
    const lines = Array.from((example ?? '').matchAll(/^([A-Z_]+)=(.*)$/gm))
    expect(lines.map(([, name]) => name)).toEqual(settings)
    expect(readConfig(Object.fromEntries(lines.map(([, name, value]) => [name, value])))).toEqual(
      readConfig({}),
    )
  })

  it('has the same defaults in docs/operations.md', () => {
    const rows = Array.from((readme ?? '').matchAll(/^\| `([A-Z_]+)` \|.*\| `([^`]+)` \|$/gm))
    const given = rows.filter(([, , value]) => !/[A-Z]{2}/.test(value ?? ''))
    expect(given.length).toBeGreaterThan(7)
    expect(readConfig(Object.fromEntries(given.map(([, name, value]) => [name, value])))).toEqual(
      readConfig({}),
    )
  })
})

describe('the shell commands of the documents', async () => {
  const docs = await readdir(new URL('../docs', import.meta.url))
  const files = ['README.md', ...docs.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)]

  it.each(files)(
    'of %s can be pasted into zsh, which treats a comment after a command as arguments',
    async (file) => {
      const blocks = firstGroups(await read(file), /^```(?:sh|bash|console)\n(.*?)^```/gms)
      const lines = blocks.flatMap((block) => (block ?? '').split('\n'))
      expect(lines.filter((line) => /^[^#]*\S\s+# /.test(line))).toEqual([])
      // In a shell, an apostrophe in such a comment would begin a string.
      expect(lines.filter((line) => /^\s*#.*['"`]/.test(line))).toEqual([])
    },
  )
})

describe('the seeding migration of docs/operations.md', () => {
  const database = useDatabase()

  it('registers an application', async () => {
    const [, sql = ''] = /```sql\n(.*?)```/s.exec(await read('docs/operations.md')) ?? []
    await database.db.query(sql)
    expect(await findApplicationByClientId(database.db, 'k2ma5aoyw2c473cwlop7')).toMatchObject({
      name: 'Build Bot',
      status: 'approved',
    })
  })
})

describe('docs/oauth-applications.md', () => {
  it('names the scopes that svc enforces itself', async () => {
    const document = await read('docs/oauth-applications.md')
    const [, sentence = ''] = /^svc itself enforces (.*?)\. /ms.exec(document) ?? []
    const names = firstGroups(sentence, /`([^`]+)`/g)
    const isNamed = (scope: string) =>
      names.some((name = '') =>
        name.endsWith('*')
          ? scope.startsWith(name.slice(0, -1))
          : scope.split(':').includes(name) || scope === name,
      )
    expect(allScopes.filter(isNamed)).toEqual(allScopes.filter((scope) => enforcedScopes.includes(scope)))
  })
})

describe('the map of the source', async () => {
  const architecture = await read('docs/architecture.md')
  const paths = firstGroups(architecture, /`(?:src\/)?([a-z-]+\/[a-z/-]+\.ts)`/g)

  it('names files that exist', async () => {
    expect(paths.length).toBeGreaterThan(10)
    expect(paths.filter((path) => !existsSync(`src/${path}`))).toEqual([])
  })

  it('names every folder', () => {
    const rooms = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory())
    const map = firstGroups(architecture, /^ {2}([a-z]+)\/ {2,}/gm)
    expect(new Set(map)).toEqual(new Set(rooms.map(({ name }) => name)))
  })
})
