import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { runBaseline } from '../../src/database/baseline.ts'
import { builtInMigrations, readSchema } from '../../src/database/migrate.ts'
import { inOneTransaction, lockModes, readEffects } from '../../src/database/migration-effects.ts'
import { findTableLocks } from '../../src/database/table-locks.ts'
import { useDatabase } from '../support/database.ts'

/** The locks that the running transaction has on tables, as PostgreSQL reports them. Weaker ones stop nobody. */
const heldLocks = `
  select c.relname as "table", l.mode
    from pg_locks l join pg_class c on c.oid = l.relation
   where l.pid = pg_backend_pid() and c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
     and l.mode not in ('AccessShareLock', 'RowShareLock')`

const rankOf = (mode: string) =>
  lockModes.findIndex((one) => one.replaceAll(' ', '') === mode.replace(/Lock$/, '').toLowerCase())

describe('the locks of the built-in migrations', () => {
  const database = useDatabase('template1')

  it('are all taken before the first change', async () => {
    const schema = await readSchema(builtInMigrations)
    const client = new pg.Client(database.connection)
    await client.connect()
    const tooWeak: string[] = []
    await client.query(
      'create table applied_migration (name text primary key, checksum text, applied_at timestamptz)',
    )
    await runBaseline(client, schema.baseline, schema.functions)
    for (const migration of schema.builtIn) {
      const { rows: before } = await client.query<{ name: string }>(
        `select relname as name from pg_class where relkind = 'r'`,
      )
      const existing = new Set(before.map(({ name }) => name))
      await client.query('begin')
      const sql = inOneTransaction(migration.sql)
      const planned = await findTableLocks(client, [readEffects({ sql })])
      await client.query(sql)
      const { rows: held } = await client.query<{ table: string; mode: string }>(heldLocks)
      await client.query('commit')
      for (const { table, mode } of held) {
        const taken = planned.find((one) => one.table === table)
        const isEnough = taken !== undefined && lockModes.indexOf(taken.mode) >= rankOf(mode)
        if (existing.has(table) && !isEnough)
          tooWeak.push(`${migration.name}: ${table} ${mode}, taken: ${taken?.mode}`)
      }
    }
    await client.end()
    expect(tooWeak).toEqual([])
  })
})
