import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/database/migrate.ts'
import { planMigrations } from '../../src/database/migration-plan.ts'
import { aGroup, aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { addPackages } from '../support/package-rows.ts'
import { databaseUrl, runSvc } from '../support/program.ts'
import { analyze } from '../support/statistics.ts'

describe('svc migrate --plan', () => {
  const database = useDatabase()
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
    await writeFile(join(folder, '1000_column.sql'), 'alter table package add column held boolean')
    await writeFile(
      join(folder, '1001_rows.sql'),
      `create table mine (account_id bigint references account);
       insert into mine select id from account join package using (id)`,
    )
    await writeFile(
      join(folder, '1002_steps.sql'),
      `do $$ begin loop update package set held = true where not held; exit when not found; commit; end loop; end $$`,
    )
    const group = await aGroup(database.db, 'large')
    const repository = await aRepository(database.db, { group, name: 'php' })
    const names = Array.from({ length: 20_000 }, (_, i) => `large/lib${i}`)
    await addPackages(database.db, repository, names)
    await analyze(database.db)
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('says what would run, what it locks and about how long, and applies nothing', async () => {
    const steps = await planMigrations(database.db, folder)
    const [column, rows, inSteps] = steps
    expect(column).toEqual({
      migrations: ['1000_column.sql'],
      functions: [],
      locks: [
        {
          table: 'package',
          mode: 'access exclusive',
          waiting: 'reads and writes',
          rows: 20_000,
          bytes: expect.any(Number),
        },
      ],
      isInSteps: false,
      seconds: 0.1,
    })
    expect(rows?.locks).toMatchObject([{ table: 'account', mode: 'share row exclusive', waiting: 'writes' }])
    // It reads the packages, although it locks no row of them.
    expect(rows?.seconds).toBeGreaterThan(0.1)
    expect(inSteps).toMatchObject({ locks: [{ table: 'package', waiting: 'none' }], isInSteps: true })
    expect(inSteps?.seconds).toBeGreaterThan(0.1)
    expect((await planMigrations(database.db, folder)).length).toBe(3)
  })

  it('says that writes wait for a new index, and counts each table once', async () => {
    const indexes = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
    const index = 'create index package_mine on package (name);'
    await writeFile(join(indexes, '1000_index.sql'), index)
    await writeFile(join(indexes, '1001_again.sql'), `${index} do $$ begin perform from package; end $$`)
    const [once, twice] = await planMigrations(database.db, indexes)
    await rm(indexes, { recursive: true })
    expect(once?.locks).toMatchObject([{ table: 'package', mode: 'share', waiting: 'writes' }])
    expect(once?.seconds).toBeGreaterThan(0.1)
    expect(twice?.seconds).toBe(once?.seconds)
  })

  it('prints it as text and as JSON', async () => {
    const environment = { DATABASE_URL: databaseUrl(database.connection), MIGRATIONS_DIR: folder }
    const { stdout } = await runSvc(['migrate', '--plan'], environment)
    expect(stdout.split('\n')).toEqual([
      'svc migrate would commit these steps, one after another:',
      '1. 1000_column.sql',
      expect.stringMatching(/^ {3}locks package \(20000 rows, \d+\.\d MiB\): reads and writes wait$/),
      '   takes about 0.1 s',
      '2. 1001_rows.sql',
      expect.stringMatching(/^ {3}locks account \(\d+ rows, 0\.\d MiB\): writes wait$/),
      expect.stringMatching(/^ {3}takes about [\d.]+ s$/),
      '3. 1002_steps.sql',
      '   locks nothing that requests wait for',
      expect.stringMatching(/^ {3}takes about [\d.]+ s, in many short transactions$/),
      '',
    ])
    const { stdout: json } = await runSvc(['migrate', '--plan', '--json'], environment)
    const { steps } = JSON.parse(json) as { steps: { migrations: string[]; in_steps: boolean }[] }
    expect(steps.map(({ migrations, in_steps }) => [migrations, in_steps])).toEqual([
      [['1000_column.sql'], false],
      [['1001_rows.sql'], false],
      [['1002_steps.sql'], true],
    ])
  })

  it('has the steps that are applied, and is empty after that', async () => {
    const steps = await planMigrations(database.db, folder)
    const planned = steps.flatMap(({ migrations, functions }) => [...migrations, ...functions])
    expect(await migrate(database.db, folder)).toEqual(planned)
    expect(await planMigrations(database.db, folder)).toEqual([])
    const environment = { DATABASE_URL: databaseUrl(database.connection), MIGRATIONS_DIR: folder }
    expect((await runSvc(['migrate', '--plan'], environment)).stdout).toBe('Nothing to apply.\n')
  })
})

describe('svc migrate --plan on an empty database', () => {
  const database = useDatabase('template1')

  it('has one step, which locks nothing', async () => {
    const steps = await planMigrations(database.db, null)
    expect(steps).toMatchObject([{ locks: [], isInSteps: false, seconds: 0.1 }])
    expect(steps[0]?.migrations).toContain('baseline/02_accounts.sql')
    expect(steps[0]?.functions).toContain('functions/role_of.sql')
    expect(await planMigrations(database.db, null)).toEqual(steps)
  })
})
