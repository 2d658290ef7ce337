import { expect, it, onTestFinished } from 'vitest'
import { openDatabase, transaction } from '../../src/database/database.ts'
import { logIdentityEvents } from '../../src/events/identity-events.ts'
import { useDatabase } from '../support/database.ts'
import { addSignInEvents } from '../support/event-rows.ts'
import { dropRows } from '../support/rows.ts'
import { readRowsByTable } from '../support/statistics.ts'

const t = useDatabase()

it('the log of new identity events reads only these, without statistics of the table', async () => {
  const db = openDatabase({ ...t.connection, max: 1 }, () => {})
  onTestFinished(() => db.end())
  const readRows = async () => (await readRowsByTable(db)).get('event') ?? 0
  await addSignInEvents(db, 20_000)
  await dropRows(db, 'unlogged_identity_event')
  await addSignInEvents(db, 3)
  const before = await readRows()
  const logged = await transaction(db, (tx) => logIdentityEvents(tx, { info: () => {} } as never, 500))
  expect(logged).toHaveLength(3)
  expect((await readRows()) - before).toBe(0)
})
