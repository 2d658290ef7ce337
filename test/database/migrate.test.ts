import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import {
  builtInMigrations,
  isMigrated,
  migrate,
  pendingMigrations,
  readMigrations,
  readSchema,
} from '../../src/database/migrate.ts'
import { anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

describe('migrate', () => {
  const database = useDatabase()
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  const write = (name: string, sql: string) => writeFile(join(folder, name), sql)

  it('applies the operator’s files after the schema’s, once, in the order of their names', async () => {
    await write('0102_fill.sql', 'insert into seed values (1)')
    await write('0101_make.sql', 'create table seed (id int)')
    expect(await pendingMigrations(database.db, await readSchema(folder))).toEqual([
      '0101_make.sql',
      '0102_fill.sql',
    ])
    expect(await migrate(database.db, folder)).toEqual(['0101_make.sql', '0102_fill.sql'])
    expect(await migrate(database.db, folder)).toEqual([])
    expect(await pendingMigrations(database.db, await readSchema(folder))).toEqual([])
    expect((await database.db.query('select * from seed')).rows).toEqual([{ id: 1 }])
  })

  it('applies each file once when ten processes start together', async () => {
    await write('0103_slow.sql', 'select pg_sleep(0.2); insert into seed values (2)')
    const pools = Array.from({ length: 10 }, () => openDatabase({ ...database.connection, max: 1 }, () => {}))
    const applied = await Promise.all(pools.map((pool) => migrate(pool, folder)))
    await Promise.all(pools.map((pool) => pool.end()))
    expect(applied.flat()).toEqual(['0103_slow.sql'])
    expect((await database.db.query('select from seed where id = 2')).rowCount).toBe(1)
  })

  it('undoes a file that fails, names it, its reason and the rule it broke, and keeps those before it', async () => {
    await write('0104_good.sql', 'insert into seed values (3)')
    await write(
      '0105_bad.sql',
      `insert into seed values (4); insert into repository_group (name) values ('Bad Name')`,
    )
    await expect(migrate(database.db, folder)).rejects.toThrow(
      /0105_bad\.sql failed: .*\(rule: group_name_is_well_formed\)/,
    )
    expect(await pendingMigrations(database.db, await readSchema(folder))).toEqual(['0105_bad.sql'])
    expect((await database.db.query('select id from seed where id > 2')).rows).toEqual([{ id: 3 }])
    await rm(join(folder, '0105_bad.sql'))
  })

  it('can be tried again after a failure, on the same pool', async () => {
    await write('0106_later.sql', 'nonsense')
    await expect(migrate(database.db, folder)).rejects.toThrow('0106_later.sql')
    await write('0106_later.sql', 'select 1')
    expect(await migrate(database.db, folder)).toEqual(['0106_later.sql'])
  })

  it('refuses a file that changed after it was applied, and names it', async () => {
    await write('0101_make.sql', 'create table seed (id bigint)')
    await expect(migrate(database.db, folder)).rejects.toThrow(/0101_make\.sql was changed/)
    await write('0101_make.sql', 'create table seed (id int)')
    expect(await migrate(database.db, folder)).toEqual([])
  })

  it('refuses when an applied file is missing, and names it', async () => {
    await rm(join(folder, '0102_fill.sql'))
    await expect(migrate(database.db, folder)).rejects.toThrow(/0102_fill\.sql .* missing/)
  })
})

describe('readMigrations', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('reads the built-in folder once when it is the operator’s too', async () => {
    expect(await readMigrations(builtInMigrations)).toHaveLength((await readMigrations(folder)).length)
  })

  it('refuses a folder that is not there', async () => {
    await expect(readMigrations(join(folder, 'none'))).rejects.toThrow('check MIGRATIONS_DIR')
  })

  it('refuses a name without a number', async () => {
    await writeFile(join(folder, 'seed.sql'), 'select 1')
    await expect(readMigrations(folder)).rejects.toThrow('must be named like')
    await rm(join(folder, 'seed.sql'))
  })

  it('refuses what is no file, and names it', async () => {
    await mkdir(join(folder, '0100_folder.sql'))
    await expect(readMigrations(folder)).rejects.toThrow('0100_folder.sql cannot be read (EISDIR)')
    await rm(join(folder, '0100_folder.sql'), { recursive: true })
  })

  it('refuses one name in both folders', async () => {
    await cp(join(builtInMigrations, '0001_accounts.sql'), join(folder, '0001_accounts.sql'))
    await expect(readMigrations(folder)).rejects.toThrow('Two migrations are named 0001_accounts.sql')
  })
})

describe('isMigrated', () => {
  const database = useDatabase()

  it('is false until a migration has been applied', async () => {
    expect(await isMigrated(database.db)).toBe(true)
    await database.db.query('drop table applied_migration')
    expect(await isMigrated(database.db)).toBe(false)
  })
})

describe('0011_plain_names.sql', () => {
  const database = useDatabase()

  it('makes blanks of the control characters that names have, and keeps a token’s name the only one', async () => {
    const { db } = database
    await db.query('drop function is_plain_text cascade')
    const account = await anAccount(db, { displayName: 'Ann\u001b\u0085Lee' })
    const { id } = await aRepository(db, { description: 'Zwölf\nlines' })
    for (const name of ['a\u0001', 'a\u0002', `\t${'ä'.repeat(99)}`, 'plain']) {
      await aPersonalToken(db, account, { name })
    }
    await db.query(await readFile(join(builtInMigrations, '0011_plain_names.sql'), 'utf8'))
    const { rows } = await db.query(
      `select display_name, description, array(select name from personal_token order by id) as tokens
         from account, repository where account.id = $1 and repository.id = $2`,
      [account.id, id],
    )
    expect(rows).toEqual([
      {
        display_name: 'Ann  Lee',
        description: 'Zwölf lines',
        tokens: [
          expect.stringMatching(/^a {2}\d+$/),
          expect.stringMatching(/^a {2}\d+$/),
          expect.stringMatching(/^ ä{78} \d+$/),
          'plain',
        ],
      },
    ])
  })
})
