import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isMigrated, migrate } from '../../src/database/migrate.ts'
import { useDatabase } from '../support/database.ts'

describe('a role that may not create extensions', () => {
  const database = useDatabase('template1')
  const role = `limited_${randomBytes(6).toString('hex')}`
  let limited: pg.Pool

  beforeAll(async () => {
    // Besides its schema, a role needs the parameter that functions of an earlier migration set.
    await database.db.query(
      `create role ${role} login password 'limited'; grant all on schema public to ${role};
       grant set on parameter svc.event_sweep to ${role}`,
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
