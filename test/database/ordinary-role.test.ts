import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { deleteAccountRow } from '../../src/accounts/accounts.ts'
import { transaction } from '../../src/database/database.ts'
import { isMigrated, migrate } from '../../src/database/migrate.ts'
import { operator } from '../../src/domain/principal.ts'
import { countEvent } from '../../src/events/counted-events.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { sweepEvents } from '../../src/events/sweep-events.ts'
import { anAccount } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { holdHour } from '../support/event-rows.ts'
import { setMigrationChecksum } from '../support/migration-rows.ts'

describe('a role that may not create extensions', () => {
  const database = useDatabase('template1')
  const role = `limited_${randomBytes(6).toString('hex')}`
  let limited: pg.Pool

  beforeAll(async () => {
    await database.db.query(
      `create role ${role} login password 'limited'; grant all on schema public to ${role}`,
    )
    const { connection } = database
    limited = new pg.Pool({ ...connection, user: role, password: 'limited', max: 2 })
  })
  beforeEach(() => database.db.query('drop extension if exists pg_trgm'))
  afterAll(async () => {
    await limited.end()
    await database.db.query(`drop owned by ${role} cascade; drop role ${role}`)
  })

  it('is told who must create pg_trgm, and nothing is changed', async () => {
    await expect(migrate(limited, null)).rejects.toThrow(
      new RegExp(
        `0280_trigrams.sql failed: .*the role ${role} may not create it in the database ${database.connection.database}\\..*run "create extension pg_trgm"`,
      ),
    )
    expect(await isMigrated(database.db)).toBe(false)
  })

  it('is told what to do when pg_trgm is in a schema that it does not search, and migrates after that', async () => {
    await database.db.query('create schema apart; create extension pg_trgm schema apart')
    const refusal = await migrate(limited, null).catch((error: Error) => error.message)
    const [, statements = ''] = /is in the schema apart.* Run "([^"]+)"/.exec(String(refusal)) ?? []
    await database.db.query(statements)
    // A new connection has the new search path.
    const pool = new pg.Pool({ ...limited.options, password: 'limited' })
    expect(await migrate(pool, null)).toContain('0280_trigrams.sql')
    await pool.end()
    const { rows } = await database.db.query(`select to_regclass('package_by_text') is not null as exists`)
    expect(rows).toEqual([{ exists: true }])
  })
})

describe('a role that owns the database and is no superuser', () => {
  const database = useDatabase('template1')
  const role = `owner_${randomBytes(6).toString('hex')}`
  let owner: pg.Pool

  beforeAll(async () => {
    const { connection } = database
    await database.db.query(
      `create role ${role} login password 'owner'; alter database ${connection.database} owner to ${role}`,
    )
    owner = new pg.Pool({ ...connection, user: role, password: 'owner', max: 2 })
  })
  afterAll(async () => {
    await owner.end()
    await database.db.query(
      `alter database ${database.connection.database} owner to current_user;
       drop owned by ${role} cascade; drop role ${role}`,
    )
  })

  it('migrates an empty database', async () => {
    expect(await migrate(owner, null)).toContain('0186_names_of_deleted_accounts.sql')
  })

  it('goes on with a database that has a migration as it was before it was amended', async () => {
    const former = 'd82e85257a6ef3b2260c76cef75d5bff081541aa45943a2ccafcae93c19f7cef'
    await setMigrationChecksum(owner, '0186_names_of_deleted_accounts.sql', former)
    expect(await migrate(owner, null)).toEqual([])
    await setMigrationChecksum(owner, '0187_recorded_downloads.sql', former)
    await expect(migrate(owner, null)).rejects.toThrow('0187_recorded_downloads.sql was changed after')
  })

  it('sweeps, counts and erases events, and nothing else may change them', async () => {
    const account = await anAccount(owner)
    const by = { ...operator, ip: '192.0.2.1' }
    await holdHour(owner)
    for (const _ of [1, 2]) await countEvent(owner, by, { action: 'sign-in-failed', accountId: account.id })
    const counted = (await listEvents(owner, {}, { after: null, limit: 10 })).find(
      ({ action }) => action === 'sign-in-failed',
    )
    expect(counted?.details).toMatchObject({ attempts: 2 })
    await transaction(owner, (tx) => deleteAccountRow(tx, by, account.id))
    const names = (await listEvents(owner, {}, { after: null, limit: 10 })).map(
      ({ details }) => details['username'],
    )
    expect(names.filter((name) => name !== undefined)).toEqual([])
    expect(await sweepEvents(owner, { retentionDays: 0, ipDays: 0 }, 100)).toBeGreaterThan(0)
    const sweepAndDelete = transaction(owner, async (tx) => {
      await sweepEvents(tx, { retentionDays: 1, ipDays: 0 }, 100)
      await tx.query('delete from event')
    })
    await expect(sweepAndDelete).rejects.toThrow('append-only')
  })
})
