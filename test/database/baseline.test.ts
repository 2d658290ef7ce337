import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bridgeCommit, readBaseline } from '../../src/database/baseline.ts'
import {
  builtInMigrations,
  listAppliedMigrations,
  migrate,
  pendingMigrations,
  readSchema,
} from '../../src/database/migrate.ts'
import { useDatabase } from '../support/database.ts'
import { countUnchangedRows, fillOldSchema } from '../support/old-schema.ts'
import { hasCommit, unpackCommit } from '../support/previous-release.ts'
import { databaseUrl, runSvc } from '../support/program.ts'
import { dropRows } from '../support/rows.ts'
import { countEveryTable, describeSchema } from '../support/schema.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-baseline-'))
})
afterAll(() => rm(folder, { recursive: true }))

// A checkout without the history of git cannot be made complete here. The summary of a run names what it has skipped.
describe.skipIf(!(await hasCommit(bridgeCommit)))(
  'a database of the migrations that the baseline replaces (in the history of git)',
  () => {
    const database = useDatabase('template1')
    const filled = useDatabase('template1')
    const current = useDatabase()

    it('goes on from there, and then equals a new one', async () => {
      await unpackCommit(bridgeCommit, folder, 'migrations')
      const { replaced } = await readBaseline(builtInMigrations)
      const old = join(folder, 'old')
      for (const name of replaced.keys()) await cp(join(folder, 'migrations', name), join(old, name))
      expect(await migrate(database.db, null, old)).toEqual([...replaced.keys()])

      const { builtIn, functions } = await readSchema(null)
      const missing: string[] = []
      const done = await migrate(database.db, null, builtInMigrations, {
        missing: (names) => void missing.push(...names),
      })
      expect(done.toSorted()).toEqual([...builtIn, ...functions].map(({ name }) => name).toSorted())
      expect(missing).toEqual([])
      expect(await describeSchema(database.db)).toEqual(await describeSchema(current.db))
      expect(await countEveryTable(database.db)).toEqual(await countEveryTable(current.db))
      expect(await listAppliedMigrations(database.db)).toEqual(await listAppliedMigrations(current.db))
    })

    it('has all rows changed that later migrations have to change, in steps', async () => {
      await migrate(filled.db, null, join(folder, 'old'))
      await fillOldSchema(filled.db, 2500)
      await migrate(filled.db, null)
      expect(await countUnchangedRows(filled.db)).toEqual({
        passwords: 0,
        authorizations: 0,
        documents: 0,
        renderings: 0,
      })
    })
  },
)

describe('a new database', () => {
  const database = useDatabase('template1')

  it('gets the baseline in place of the first migrations, and notes these', async () => {
    const { baseline, builtIn, functions } = await readSchema(null)
    const files = [...baseline.files, ...builtIn, ...functions].map(({ name }) => name)
    expect(files).toContain('baseline/02_accounts.sql')
    expect(await pendingMigrations(database.db, await readSchema(null))).toEqual(files)
    expect(await migrate(database.db, null)).toEqual(files)
    expect(await migrate(database.db, null)).toEqual([])
    const applied = await listAppliedMigrations(database.db)
    expect([...applied.keys()]).toEqual([...baseline.replaced.keys(), ...builtIn.map(({ name }) => name)])
    for (const [name, checksum] of baseline.replaced) expect(applied.get(name)).toBe(checksum)
  })
})

describe('files beside the baseline', () => {
  const database = useDatabase('template1')
  let builtIn: string
  beforeAll(async () => {
    builtIn = join(folder, 'built-in')
    await cp(builtInMigrations, builtIn, { recursive: true })
  })

  it('are ignored when the baseline replaces them, after a release was unpacked over an older one', async () => {
    await writeFile(join(builtIn, '0001_accounts.sql'), 'create table account ()')
    expect((await readSchema(null, builtIn)).builtIn).toEqual(
      (await readSchema(null)).builtIn.map((file) => ({ ...file, path: join(builtIn, file.name) })),
    )
  })

  it('may not have the name of a replaced migration in the folder of the operator', async () => {
    const own = await mkdtemp(join(folder, 'own-'))
    await writeFile(join(own, '0001_accounts.sql'), 'select 1')
    await expect(readSchema(own)).rejects.toThrow('Two migrations are named 0001_accounts.sql')
  })

  it('cannot break a rule, even with a number of the schema in a new database', async () => {
    const application = (name: string, logo: string, scopes: string) =>
      `insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope)
       values ('seededseeded', '${name}', 'https://app.example', 'https://app.example/', '${logo}', '{${scopes}}', 'all')`
    const png = '\\x89504e470d0a1a0a'
    for (const [rule, sql] of [
      ['application_scopes_are_predefined', application('Seeded', png, 'everything')],
      ['application_logo_is_a_png_jpeg_gif_or_webp_image', application('Seeded', 'x', 'repo-code:r')],
      ['application_name_is_plain_text', application('See\u202eded', png, 'repo-code:r')],
    ] as const) {
      await writeFile(join(builtIn, '0999_application.sql'), sql)
      await expect(migrate(database.db, null, builtIn)).rejects.toThrow(`(rule: ${rule})`)
    }
    await writeFile(join(builtIn, '0999_application.sql'), application('Seeded', png, 'repo-code:r'))
    expect(await migrate(database.db, null, builtIn)).toContain('0999_application.sql')
  })
})

describe('a database that is older than the baseline', () => {
  const database = useDatabase()
  const lacking = '0061_second_step_of_links.sql'

  it.each([[['serve']], [['migrate']], [['migrate', '--plan']]])(
    'is refused by svc %s, which names the commit to start once',
    async (words) => {
      await dropRows(database.db, 'applied_migration', { name: lacking })
      const before = await listAppliedMigrations(database.db)
      const environment = {
        DATABASE_URL: databaseUrl(database.connection),
        DATA_DIR: join(folder, 'data'),
      }
      const { code, stdout, stderr } = await runSvc(words, environment)
      expect(code).toBe(1)
      expect(stdout + stderr).toContain(
        `This database was made by an older release: it lacks the migration ${lacking}. Start svc of the commit ${bridgeCommit} once with it, and then this release.`,
      )
      expect(await listAppliedMigrations(database.db)).toEqual(before)
    },
  )
})
