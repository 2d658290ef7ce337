import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import {
  builtInMigrations,
  isMigrated,
  migrate,
  numberOf,
  pendingMigrations,
  readSchema,
} from '../../src/database/migrate.ts'
import {
  findMigrationsDir,
  writeAndApplyMigration,
  writeMigration,
} from '../../src/database/operator-migrations.ts'
import { lockBudgetMilliseconds } from '../../src/database/table-locks.ts'
import { operator } from '../../src/domain/principal.ts'
import { useDatabase } from '../support/database.ts'
import {
  lockTables,
  openTransaction,
  setDeadlockTimeout,
  touchTable,
  untilTableIsAwaited,
} from '../support/locks.ts'
import { countRows, readRows, rewriteRows } from '../support/rows.ts'

describe('migrate', () => {
  const database = useDatabase()
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  const write = (name: string, sql: string) => writeFile(join(folder, name), sql)
  const waitsForLock = (table: string) => untilTableIsAwaited(database.db, table)

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
    expect(await readRows(database.db, 'seed')).toEqual([{ id: 1 }])
  })

  it('applies each file once when ten processes start together', async () => {
    await write('0103_slow.sql', 'select pg_sleep(0.2); insert into seed values (2)')
    const pools = Array.from({ length: 10 }, () => openDatabase({ ...database.connection, max: 1 }, () => {}))
    const applied = await Promise.all(pools.map((pool) => migrate(pool, folder)))
    await Promise.all(pools.map((pool) => pool.end()))
    expect(applied.flat()).toEqual(['0103_slow.sql'])
    expect(await countRows(database.db, 'seed', { id: 2 })).toBe(1)
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
    expect((await readRows(database.db, 'seed')).at(-1)).toEqual({ id: 3 })
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

  it('only reports an applied file that is missing: it may be of a newer release, or kept elsewhere', async () => {
    await rm(join(folder, '0102_fill.sql'))
    const missing: string[] = []
    const report = { missing: (names: string[]) => void missing.push(...names) }
    expect(await migrate(database.db, folder, builtInMigrations, report)).toEqual([])
    expect(missing).toEqual(['0102_fill.sql'])
  })

  it('lets other statements pass while it waits for a transaction that reads a table, such as a backup', async () => {
    await writeFile(join(folder, '0107_slow.sql'), 'alter table account add column held boolean')
    const backup = await openTransaction(database.db)
    await touchTable(backup.tx, 'account')
    let waits = 0
    let wake = () => {}
    const waiting = new Promise<void>((resolve) => {
      wake = resolve
    })
    const migrating = migrate(database.db, folder, builtInMigrations, {
      waiting() {
        waits += 1
        wake()
      },
    })
    await waiting
    // Without its pause, this statement would wait behind the migration until the backup ends.
    await touchTable(database.db, 'account')
    await backup.commit()
    expect(await migrating).toEqual(['0107_slow.sql'])
    expect(waits).toBe(1)
  })

  it('waits until PostgreSQL has cancelled an autovacuum, and requests do not wait behind it', async () => {
    await write('0108_vacuumed.sql', 'alter table account add column vacuumed boolean')
    // The migration waits in proportion to it. On a slow machine, this test takes longer than it usually waits.
    await setDeadlockTimeout(database.db, '1min')
    const vacuum = await openTransaction(database.db)
    await lockTables(vacuum.tx, 'account', 'share update exclusive')
    let waits = 0
    const migrating = migrate(database.db, folder, builtInMigrations, {
      waiting() {
        waits += 1
      },
    })
    await waitsForLock('account')
    await rewriteRows(database.db, 'account', 'display_name')
    // Longer than a migration waits for requests.
    await sleep(2 * lockBudgetMilliseconds)
    await vacuum.commit()
    expect(await migrating).toEqual(['0108_vacuumed.sql'])
    expect(waits).toBe(0)
    await setDeadlockTimeout(database.db, null)
  })

  it('gives up before PostgreSQL ends a transaction that waits for it and that it waits for', async () => {
    await write(
      '0109_two_tables.sql',
      'alter table account add column two boolean; alter table repository add column two boolean',
    )
    const request = await openTransaction(database.db)
    await touchTable(request.tx, 'repository')
    const migrating = migrate(database.db, folder)
    await waitsForLock('repository')
    // The migration has the lock of this table.
    await touchTable(request.tx, 'account')
    await request.commit()
    expect(await migrating).toEqual(['0109_two_tables.sql'])
  })

  it('begins again after a deadlock', async () => {
    await database.db.query('create sequence attempt')
    await write(
      '0110_deadlock.sql',
      `do $$ begin if nextval('attempt') < 3 then raise exception using errcode = '40P01'; end if; end $$`,
    )
    expect(await migrate(database.db, folder)).toEqual(['0110_deadlock.sql'])
    expect((await database.db.query('select last_value::int as n from attempt')).rows).toEqual([{ n: 3 }])
  })

  it('works without a folder of the operator', async () => {
    expect(await migrate(database.db, null)).toEqual([])
  })
})

describe('the operator’s migrations', () => {
  const database = useDatabase()
  let folder: string
  let builtIn: string
  beforeAll(async () => {
    folder = join(await mkdtemp(join(tmpdir(), 'svc-test-migrations-')), 'data/migrations')
    builtIn = await mkdtemp(join(tmpdir(), 'svc-test-schema-'))
    await cp(builtInMigrations, builtIn, { recursive: true })
  })
  afterAll(() =>
    Promise.all([rm(join(folder, '../..'), { recursive: true }), rm(builtIn, { recursive: true })]),
  )
  const config = () => ({ migrationsDir: folder, isMigrationsDirGiven: false })

  it('may also be in the project’s own folder, and run after the schema and its functions in one order', async () => {
    await mkdir(folder, { recursive: true })
    await writeFile(
      join(builtIn, '1001_second.sql'),
      `update seed set scopes_are_fine = are_scopes('{repo-code:r}')`,
    )
    await writeFile(join(folder, '1000_first.sql'), 'create table seed as select false as scopes_are_fine')
    await writeFile(join(folder, '1002_third.sql'), 'alter table seed add check (scopes_are_fine)')
    expect(await migrate(database.db, folder, builtIn)).toEqual([
      '1000_first.sql',
      '1001_second.sql',
      '1002_third.sql',
    ])
    await rm(folder, { recursive: true })
  })

  it('have no default folder until the first one is written, under a number above the schema’s', async () => {
    expect(await findMigrationsDir(config())).toBeNull()
    const first = await writeMigration(config(), 'one', 'select 1')
    expect(first).toBe(join(folder, '1000_one.sql'))
    expect(await findMigrationsDir(config())).toBe(folder)
    await writeFile(join(folder, '1041_by_hand.sql'), 'select 1')
    expect(await writeMigration(config(), 'two', 'select 2')).toBe(join(folder, '1042_two.sql'))
  })

  it('never get the name of one that was applied, even when its file is gone', async () => {
    const apply = (sql: string) =>
      writeAndApplyMigration(database.db, config(), operator, { what: 'gone', sql })
    const first = await apply('create table gone ()')
    await rm(first)
    const second = await apply('drop table gone')
    expect(numberOf(basename(second))).toBe(numberOf(basename(first)) + 1)
    expect(await migrate(database.db, folder)).not.toContain(basename(second))
  })

  it('have numbers in the order in which they are applied, also when many are written at once', async () => {
    const { db } = database
    await db.query('create table turn (id int generated always as identity, what text)')
    const names = ['c', 'a', 'same', 'b', 'same', 'd', 'same']
    const paths = await Promise.all(
      names.map((what) =>
        writeAndApplyMigration(db, config(), operator, {
          what,
          sql: `insert into turn (what) values ('${what}')`,
        }),
      ),
    )
    const inOrder = paths.map((path) => basename(path)).toSorted()
    expect(new Set(inOrder.map(numberOf)).size).toBe(names.length)
    const turns = await readRows(db, 'turn')
    expect(turns.map(({ what }) => what)).toEqual(inOrder.map((name) => name.replace(/^\d+_|\.sql$/g, '')))
  })

  it('leave no file when the database refuses it', async () => {
    const before = await readdir(folder)
    const bad = { what: 'bad', sql: 'nonsense' }
    await expect(writeAndApplyMigration(database.db, config(), operator, bad)).rejects.toThrow('failed')
    expect(await readdir(folder)).toEqual(before)
  })
})

describe('the built-in migrations', () => {
  it('have numbers below those of the operator’s', async () => {
    const { builtIn, operators } = await readSchema(null)
    expect(builtIn.length).toBeGreaterThan(10)
    expect(operators).toEqual([])
  })
})

describe('readSchema', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('reads the built-in folder once when it is the operator’s too', async () => {
    expect(await readSchema(builtInMigrations)).toEqual(await readSchema(folder))
  })

  it('refuses a folder that is not there', async () => {
    await expect(readSchema(join(folder, 'none'))).rejects.toThrow('check MIGRATIONS_DIR')
  })

  it('refuses a name without a number', async () => {
    await writeFile(join(folder, 'seed.sql'), 'select 1')
    await expect(readSchema(folder)).rejects.toThrow('must be named like 1042_')
    await rm(join(folder, 'seed.sql'))
  })

  it('rejects an entry that is not a file, and names it', async () => {
    await mkdir(join(folder, '0100_folder.sql'))
    await expect(readSchema(folder)).rejects.toThrow('0100_folder.sql cannot be read (EISDIR)')
    await rm(join(folder, '0100_folder.sql'), { recursive: true })
  })

  it('refuses one name in both folders', async () => {
    const name = (await readSchema(null)).builtIn[0]?.name ?? ''
    await cp(join(builtInMigrations, name), join(folder, name))
    await expect(readSchema(folder)).rejects.toThrow(`Two migrations are named ${name}`)
    await rm(join(folder, name))
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
