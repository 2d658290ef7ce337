import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { builtInMigrations, migrate, pendingMigrations, readSchema } from '../../src/database/migrate.ts'
import { planMigrations } from '../../src/database/migration-plan.ts'
import { useDatabase } from '../support/database.ts'
import { lockRows, openTransaction, touchTable } from '../support/locks.ts'

describe('SQL functions and views below migrations/functions', () => {
  const database = useDatabase('template1')
  let builtIn: string
  let operators: string

  beforeAll(async () => {
    builtIn = await mkdtemp(join(tmpdir(), 'svc-test-schema-'))
    operators = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
    await mkdir(join(builtIn, 'functions'))
  })
  afterAll(() => Promise.all([builtIn, operators].map((folder) => rm(folder, { recursive: true }))))

  const write = (name: string, sql: string) => writeFile(join(builtIn, name), sql)
  const run = () => migrate(database.db, operators, builtIn)
  const pending = async () => pendingMigrations(database.db, await readSchema(operators, builtIn))
  const ask = async (sql: string) => (await database.db.query({ text: sql, rowMode: 'array' })).rows.flat()
  const price = (factor: number) =>
    `create or replace function price(n int) returns int language sql as $$ select n * ${factor} $$;`

  it('are applied after the built-in migrations and before the operator’s, each after those it uses', async () => {
    await write('0001_item.sql', 'create table item (n int); insert into item values (7)')
    await write('functions/dear_item.sql', 'create view dear_item as select price(n) as cost from item')
    await write(
      'functions/a_first.sql',
      '-- price\ncreate view a_first as select min(cost) as cost from dear_item',
    )
    await write('functions/price.sql', price(2))
    await writeFile(join(operators, '0100_seed.sql'), 'create table seed as select cost from a_first')
    const names = [
      '0001_item.sql',
      'functions/price.sql',
      'functions/dear_item.sql',
      'functions/a_first.sql',
      '0100_seed.sql',
    ]
    expect([...(await pending())].sort()).toEqual([...names].sort())
    expect(await run()).toEqual(names)
    expect(await pending()).toEqual([])
    expect(await run()).toEqual([])
    expect(await ask('select cost from seed')).toEqual([14])
  })

  it('are replaced when their text changes, and come back after a migration dropped them', async () => {
    await write('functions/price.sql', price(3))
    await write(
      'functions/dear_item.sql',
      'create or replace view dear_item as select price(n) as cost from item',
    )
    await write(
      'functions/a_first.sql',
      'create or replace view a_first as select min(cost) as cost from dear_item',
    )
    expect(await pending()).toEqual([
      'functions/price.sql',
      'functions/dear_item.sql',
      'functions/a_first.sql',
    ])
    expect(await run()).toEqual(['functions/price.sql', 'functions/dear_item.sql', 'functions/a_first.sql'])
    expect(await ask('select cost from a_first')).toEqual([21])
    await write('0002_drop.sql', 'drop view dear_item cascade; alter table item alter n type bigint')
    await write('functions/price.sql', price(3).replaceAll('int', 'bigint'))
    expect(await run()).toEqual(['0002_drop.sql', 'functions/price.sql'])
    expect(await ask('select cost from a_first')).toEqual(['21'])
  })

  it('stay as they were when one fails, while the migrations before it are committed', async () => {
    await write('0003_more.sql', 'insert into item values (1)')
    await write('functions/zero.sql', 'create or replace view zero as select 1 / nothing as n from item')
    await expect(run()).rejects.toThrow(/functions\/zero\.sql failed: column "nothing" does not exist/)
    expect(await pending()).toEqual(['functions/zero.sql'])
    expect(await ask('select n from item order by n')).toEqual(['1', '7'])
    await rm(join(builtIn, 'functions/zero.sql'))
    expect(await run()).toEqual([])
  })

  it('are not put back to an earlier text by a process of an older release', async () => {
    await write('functions/price.sql', price(3))
    expect(await pending()).toEqual([])
    await write('functions/other.sql', 'create or replace view other as select 1 as n')
    expect(await run()).toEqual(['functions/other.sql'])
    expect(
      await ask(`select prosrc from pg_proc where proname = 'price' and pronargs = 1 order by oid`),
    ).toEqual([' select n * 3 ', ' select n * 3 '])
    await write('functions/price.sql', price(5).replaceAll('int', 'bigint'))
    expect(await run()).toEqual(['functions/price.sql'])
    await write('functions/price.sql', price(3).replaceAll('int', 'bigint'))
    await write('functions/other.sql', 'create or replace view other as select 2 as n')
    expect(await run()).toEqual(['functions/other.sql'])
    expect(await ask('select price(1::bigint)')).toEqual(['5'])
  })

  it('stay when nothing changed them, so a statement that reads a view stops no upgrade', async () => {
    const reader = await openTransaction(database.db)
    try {
      await touchTable(reader.tx, 'a_first')
      await write('functions/last.sql', 'create or replace view last as select 1 as n')
      expect(await run()).toEqual(['functions/last.sql'])
    } finally {
      await reader.rollback()
    }
  })

  it('are replaced when something that they use has changed', async () => {
    await write(
      'functions/dear_item.sql',
      'drop view dear_item cascade; create view dear_item as select 2 * price(n) as cost from item',
    )
    expect(await run()).toEqual(['functions/dear_item.sql'])
    expect(await ask('select cost from a_first')).toEqual(['10'])
  })

  it('are applied once when ten processes start together', async () => {
    await write('functions/slow.sql', 'select pg_sleep(0.2); create view slow as select 1 as n')
    const pools = Array.from({ length: 10 }, () => openDatabase({ ...database.connection, max: 1 }, () => {}))
    const applied = await Promise.all(pools.map((pool) => migrate(pool, operators, builtIn)))
    await Promise.all(pools.map((pool) => pool.end()))
    expect(applied.flat()).toEqual(['functions/slow.sql'])
    await rm(join(builtIn, 'functions/slow.sql'))
  })

  it('are applied in the transaction of the migration that creates their trigger, with what they need', async () => {
    await write(
      '0004_trigger.sql',
      `create table item_log (n int);
       create function log_item() returns trigger language plpgsql as 'begin return null; end';
       create trigger item_is_logged after insert on item for each row execute function log_item()`,
    )
    await write('0005_column.sql', 'alter table item_log add column price_then bigint')
    await write('0006_fails.sql', 'select 1 / 0')
    await write(
      'functions/log_item.sql',
      `create or replace function log_item() returns trigger language plpgsql as
       $$ begin insert into item_log (n, price_then) values (new.n, price(new.n::bigint)); return null; end $$`,
    )
    await expect(run()).rejects.toThrow('0006_fails.sql failed')
    await ask('insert into item values (20)')
    expect(await ask('select n, price_then from item_log')).toEqual([20, '100'])
    await rm(join(builtIn, '0006_fails.sql'))
    expect(await run()).toEqual([])
  })

  it('may not use each other in a circle', async () => {
    await write('functions/hen.sql', 'create view hen as select * from egg')
    await write('functions/egg.sql', 'create view egg as select * from hen')
    await expect(run()).rejects.toThrow('These SQL functions use each other: egg, hen.')
  })

  it('have files that are named like SQL objects', async () => {
    await rm(join(builtIn, 'functions/hen.sql'))
    await write('functions/Egg-2.sql', '')
    await expect(run()).rejects.toThrow('must be named after its SQL function or view')
  })
})

describe('a migration that commits by itself', () => {
  const database = useDatabase('template1')
  let builtIn: string
  beforeAll(async () => {
    builtIn = await mkdtemp(join(tmpdir(), 'svc-test-schema-'))
    await writeFile(
      join(builtIn, '0001_item.sql'),
      'create table item as select n from generate_series(1, 10) as n',
    )
    expect(await migrate(database.db, null, builtIn)).toEqual(['0001_item.sql'])
  })
  afterAll(() => rm(builtIn, { recursive: true }))
  const ask = async (sql: string) => (await database.db.query({ text: sql, rowMode: 'array' })).rows.flat()

  it('changes rows in steps, and continues after a locked row', async () => {
    await writeFile(
      join(builtIn, '0002_steps.sql'),
      `do $$ begin loop
         update item set n = -n where n = (select min(n) from item where n > 0);
         exit when not found;
         commit;
       end loop; end $$`,
    )
    const request = await openTransaction(database.db)
    await lockRows(request.tx, 'item', { n: 5 })
    const migrating = migrate(database.db, null, builtIn)
    await vi.waitUntil(async () => (await ask('select count(*)::int from item where n < 0'))[0] === 4, 60_000)
    await request.commit()
    expect(await migrating).toEqual(['0002_steps.sql'])
    expect(await ask('select max(n) from item')).toEqual([-1])
  })

  it('builds an index beside writes and other starts, and replaces the rest of an interrupted build', async () => {
    await ask('insert into item values (-1)')
    await expect(ask('create unique index concurrently item_n on item (n)')).rejects.toThrow(
      'could not create',
    )
    await ask('delete from item where ctid = (select max(ctid) from item where n = -1)')
    await writeFile(
      join(builtIn, '0003_index.sql'),
      'create unique index concurrently if not exists item_n on item (n)',
    )
    const request = await openTransaction(database.db)
    await request.tx.query('insert into item values (1000)')
    const pools = Array.from({ length: 3 }, () => openDatabase({ ...database.connection, max: 1 }, () => {}))
    const migrating = Promise.all(pools.map((pool) => migrate(pool, null, builtIn)))
    await vi.waitUntil(async () => (await ask('select 1 from pg_locks where not granted')).length > 0, 60_000)
    await ask('insert into item values (1001)')
    await request.commit()
    expect((await migrating).flat()).toEqual(['0003_index.sql'])
    expect(await ask(`select indisvalid from pg_index where indrelid = 'item'::regclass`)).toEqual([true])
    await Promise.all(pools.map((pool) => pool.end()))
  })

  it('comes before migrations that are committed together, unless it needs one of them', async () => {
    await mkdir(join(builtIn, 'functions'))
    const migrations = {
      '0004_trigger.sql': `create function note() returns trigger language plpgsql as 'begin return null; end';
        alter table item add column weight int;
        create trigger note after insert on item for each row execute function note()`,
      '0005_early.sql': `do $$ begin update item set n = n - 1 where n = 1000; commit; end $$`,
      '0006_column.sql': 'alter table item add column size int, alter column n set not null',
      '0007_index.sql': 'create index concurrently if not exists item_size on item (size)',
      '0007_rows.sql': `do $$ begin update item set n = n + 1 where n = 999; commit; end $$`,
      '0008_table.sql': 'create table noted (n int)',
      'functions/note.sql': `create or replace function note() returns trigger language plpgsql as $$
        begin insert into noted values (new.n); return null; end $$`,
    }
    for (const [name, sql] of Object.entries(migrations)) await writeFile(join(builtIn, name), sql)
    const steps = await planMigrations(database.db, null, builtIn)
    expect(steps.map(({ migrations, functions }) => [...migrations, ...functions])).toEqual([
      ['0005_early.sql'],
      [
        '0004_trigger.sql',
        '0006_column.sql',
        '0007_index.sql',
        '0007_rows.sql',
        '0008_table.sql',
        'functions/note.sql',
      ],
    ])
    expect(await migrate(database.db, null, builtIn)).toEqual(
      steps.flatMap((step) => [...step.migrations, ...step.functions]),
    )
  })
})

describe('the built-in schema', () => {
  const database = useDatabase()

  it('has every function and view once, from its file, and no file that nothing uses', async () => {
    const { functions } = await readSchema(builtInMigrations)
    const ask = async (sql: string) => (await database.db.query({ text: sql, rowMode: 'array' })).rows.flat()
    // A function of an index has no file of its own: a new text would not match the index.
    const isOurs = `not exists (select from pg_depend d where d.objid = o.oid and d.deptype = 'e')
      and not exists (select from pg_indexes i where i.indexdef ~ ('\\m' || o.name || '\\M'))`
    const names = await ask(
      `select o.name from (
         select oid, proname as name from pg_proc where pronamespace = 'public'::regnamespace
         union all
         select oid, relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'v'
       ) o where ${isOurs}`,
    )
    const nameOf = ({ name }: { name: string }) => name.slice('functions/'.length, -'.sql'.length)
    expect(names.map(String).toSorted()).toEqual(functions.map(nameOf).toSorted())
    const inDatabase = await ask(
      `select tgfoid::regproc::text from pg_trigger union select pg_get_constraintdef(oid) from pg_constraint`,
    )
    const inSource = (await readdir('src', { recursive: true }))
      .filter((path) => path.endsWith('.ts'))
      .map((path) => readFile(join('src', path), 'utf8'))
    const texts = [...inDatabase, ...(await Promise.all(inSource))]
    const unused = functions.filter((file) => {
      const others = functions.filter((one) => one !== file).map(({ sql }) => sql.replace(/--.*/g, ''))
      return ![...texts, ...others].some((text) => new RegExp(`\\b${nameOf(file)}\\b`).test(text))
    })
    // During an upgrade, the previous release may call a function that this one no longer calls. Name it here until then.
    expect(unused.map(nameOf)).toEqual([])
  })

  it('defines one object in each function file, named like the file', async () => {
    const { functions } = await readSchema(builtInMigrations)
    for (const { path, name } of functions) {
      const text = await readFile(path, 'utf8')
      const defined = [...text.matchAll(/^create or replace (?:function|view) (\w+)/gm)].map(
        ([, object]) => object,
      )
      expect(defined, name).toEqual([name.slice('functions/'.length, -'.sql'.length)])
    }
  })
})
