import { expect, it, onTestFinished } from 'vitest'
import { openDatabase, transaction } from '../../src/database/database.ts'
import { logIdentityEvents } from '../../src/events/identity-events.ts'
import { useDatabase } from '../support/database.ts'

const t = useDatabase()

it('the log of new identity events reads only these, without statistics of the table', async () => {
  const db = openDatabase({ ...t.connection, max: 1 }, () => {})
  onTestFinished(() => db.end())
  const insertEvents = (count: number) =>
    db.query(
      `select insert_events(jsonb_agg(jsonb_build_object('action', 'sign-in'))) from generate_series(1, $1::int)`,
      [count],
    )
  const readRows = async () => {
    await db.query('select pg_stat_force_next_flush()')
    const { rows } = await db.query<{ count: number }>(
      `select seq_tup_read::float8 as count from pg_stat_user_tables where relname = 'event'`,
    )
    return rows[0]?.count ?? 0
  }
  await insertEvents(20_000)
  await db.query('delete from unlogged_identity_event')
  await insertEvents(3)
  const before = await readRows()
  const logged = await transaction(db, (tx) => logIdentityEvents(tx, { info: () => {} } as never, 500))
  expect(logged).toHaveLength(3)
  expect((await readRows()) - before).toBe(0)
})
