import { describe, expect, it } from 'vitest'
import { brokenConstraint, openDatabase, transaction } from '../src/database.ts'
import { useDatabase } from './support/database.ts'

describe('transaction', () => {
  const database = useDatabase()
  const insert = `insert into repository_group (name) values ($1)`
  const count = async (name: string) => {
    const { rowCount } = await database.db.query('select from repository_group where name = $1', [name])
    return rowCount
  }

  it('commits what its work did, and answers what it answered', async () => {
    const answer = await transaction(database.db, async (tx) => {
      await tx.query(insert, ['kept'])
      return 'answer'
    })
    expect([answer, await count('kept')]).toEqual(['answer', 1])
  })

  it('rolls back when its work throws, and throws the same', async () => {
    const failure = new Error('no')
    const work = transaction(database.db, async (tx) => {
      await tx.query(insert, ['undone'])
      throw failure
    })
    await expect(work).rejects.toBe(failure)
    expect(await count('undone')).toBe(0)
  })

  it('gives its connection back, whatever happens', async () => {
    const pool = openDatabase({ ...database.connection, max: 1 }, () => {})
    const fail = () => transaction(pool, (tx) => tx.query('select 1/0'))
    await expect(fail()).rejects.toThrow('division by zero')
    await expect(fail()).rejects.toThrow('division by zero')
    await pool.end()
  })

  it('drops a connection that broke inside it', async () => {
    const pool = openDatabase({ ...database.connection, max: 1 }, () => {})
    const work = transaction(pool, (tx) => tx.query('select pg_terminate_backend(pg_backend_pid())'))
    await expect(work).rejects.toThrow()
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    await pool.end()
  })
})

describe('brokenConstraint', () => {
  const database = useDatabase()

  it('names the rule that a statement broke', async () => {
    const failure = await database.db
      .query(`insert into repository_group (name) values ('-')`)
      .catch((error: unknown) => error)
    expect(brokenConstraint(failure)).toMatch(/^group_name_/)
  })

  it('is null for any other error', async () => {
    const failure = await database.db.query('select 1/0').catch((error: unknown) => error)
    expect(brokenConstraint(failure)).toBeNull()
    expect(brokenConstraint(new Error('other'))).toBeNull()
  })
})
