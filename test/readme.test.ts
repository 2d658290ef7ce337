import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config.ts'
import { findApplicationByClientId } from '../src/oauth/applications.ts'
import { useDatabase } from './support/database.ts'

const read = (path: string) => readFile(new URL(`../${path}`, import.meta.url), 'utf8')
const firstGroups = (text: string, pattern: RegExp) => Array.from(text.matchAll(pattern), ([, name]) => name)

describe('the list of settings', async () => {
  const [source, readme, example] = await Promise.all(
    ['src/config.ts', 'README.md', '.env.example'].map(read),
  )
  const settings = firstGroups(source ?? '', /^ {2}([A-Z_]+): /gm)

  it('is the same in the README', () => {
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

  it('has the same defaults in the README', () => {
    const rows = Array.from((readme ?? '').matchAll(/^\| `([A-Z_]+)` \|.*\| `([^`]+)` \|$/gm))
    const given = rows.filter(([, , value]) => !/[A-Z]{2}/.test(value ?? ''))
    expect(given.length).toBeGreaterThan(7)
    expect(readConfig(Object.fromEntries(given.map(([, name, value]) => [name, value])))).toEqual(
      readConfig({}),
    )
  })
})

describe('the seeding migration of the README', () => {
  const database = useDatabase()

  it('registers an application', async () => {
    const [, sql = ''] = /```sql\n(.*?)```/s.exec(await read('README.md')) ?? []
    await database.db.query(sql)
    expect(await findApplicationByClientId(database.db, 'k2ma5aoyw2c473cwlop7')).toMatchObject({
      name: 'Build Bot',
      status: 'approved',
    })
  })
})

describe('the files that the README’s map names', () => {
  it.each([
    ...['main.ts', 'serve.ts', 'cli.ts', 'demo.ts', 'demo-walk.ts', 'app.ts', 'permissions.ts', 'scopes.ts'],
    ...[
      'oauth/authorize.ts',
      'oauth/redirect-uri.ts',
      'oauth/consent.ts',
      'oauth/token.ts',
      'oauth/codes.ts',
    ],
    ...['oauth/seal.ts', 'accounts/login.ts', 'registry/upload.ts', 'registry/archives/archive-volume.ts'],
    ...[
      'registry/archives/archive.ts',
      'registry/manifest/manifest.ts',
      'registry/publish.ts',
      'registry/lifecycle/change.ts',
    ],
  ])('src/%s is there', async (path) => {
    expect((await read('README.md')).includes(path.replace('registry/', ''))).toBe(true)
    expect(await read(`src/${path}`)).not.toBe('')
  })
})
