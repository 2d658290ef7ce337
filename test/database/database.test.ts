import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { beforeAll, describe, expect, it } from 'vitest'
import { openDatabase, type Queryable, together, transaction } from '../../src/database/database.ts'
import { brokenConstraint, isOutage } from '../../src/database/errors.ts'
import { aGroup } from '../support/actors.ts'
import {
  divideByZero,
  endConnection,
  endOwnConnection,
  ping,
  pingWithin,
  planCacheModeOf,
  processOf,
  resetSettings,
  timeLimitsOf,
} from '../support/connections.ts'
import { useDatabase } from '../support/database.ts'
import { countWaiting, lockRows, openTransaction } from '../support/locks.ts'
import { countRows } from '../support/rows.ts'

describe('transaction', () => {
  const database = useDatabase()
  const count = (name: string) => countRows(database.db, 'repository_group', { name })

  it('commits its work, and returns the result', async () => {
    const result = await transaction(database.db, async (tx) => {
      await aGroup(tx, 'kept')
      return 'result'
    })
    expect([result, await count('kept')]).toEqual(['result', 1])
  })

  it('rolls back when its work throws, and throws the same', async () => {
    const failure = new Error('no')
    const work = transaction(database.db, async (tx) => {
      await aGroup(tx, 'undone')
      throw failure
    })
    await expect(work).rejects.toBe(failure)
    expect(await count('undone')).toBe(0)
  })

  it('gives its connection back, whatever happens', async () => {
    const pool = openDatabase({ ...database.connection, max: 1 }, () => {})
    const fail = () => transaction(pool, divideByZero)
    await expect(fail()).rejects.toThrow('division by zero')
    await expect(fail()).rejects.toThrow('division by zero')
    await pool.end()
  })

  it('drops a connection that broke inside it', async () => {
    const pool = openDatabase({ ...database.connection, max: 1 }, () => {})
    const work = transaction(pool, endOwnConnection)
    await expect(work).rejects.toThrow()
    expect(await ping(pool)).toBe(1)
    await pool.end()
  })
})

describe('statements of a transaction together', () => {
  const database = useDatabase()

  it('are sent without waiting for results, and run in their order', async () => {
    const db = openDatabase(database.connection, () => {})
    const lock = `select set_config('svc.test', 'first', true), pg_advisory_xact_lock(1)`
    let work: Promise<unknown> = Promise.resolve()
    await transaction(db, async (holder) => {
      await holder.query(lock)
      const sent = new Promise<void>((resolve, reject) => {
        work = transaction(db, async (tx) => {
          const { stream } = (tx as unknown as { connection: { stream: Socket } }).connection
          const sentBytes = () => stream.bytesWritten - stream.writableLength
          const first = tx.query(lock)
          const ofFirst = sentBytes()
          const second = tx.query(`select current_setting('svc.test') as word`)
          const both = expect.poll(sentBytes).toBeGreaterThan(ofFirst)
          both.then(() => resolve(), reject)
          const [, { rows }] = await together([first, second])
          return rows
        })
        work.catch(reject)
      })
      // The first statement still waits for the lock.
      await sent
    })
    expect(await work).toEqual([{ word: 'first' }])
    await db.end()
  })

  it.each<[string, (tx: pg.PoolClient) => Promise<unknown>[]]>([
    ['before others', (tx) => [divideByZero(tx), ping(tx)]],
    ['while other work continues', (tx) => [ping(tx).then(() => ping(tx)), divideByZero(tx)]],
  ])('throw the error of the one that failed, %s', async (_case, start) => {
    const work = transaction(database.db, (tx) => together(start(tx)))
    await expect(work).rejects.toThrow('division by zero')
  })

  it('all end before the rollback', async () => {
    const work = transaction(database.db, (tx) =>
      together([divideByZero(tx), sleep(50).then(() => aGroup(tx, 'late'))]),
    )
    await expect(work).rejects.toThrow('division by zero')
    await sleep(100)
    expect(await countRows(database.db, 'repository_group', { name: 'late' })).toBe(0)
  })
})

describe('a pool that plans its statements once', () => {
  const database = useDatabase()
  const modes = async (plansOnce: boolean) => {
    const pool = openDatabase({ ...database.connection, max: 2, plansOnce }, () => {})
    const both = await Promise.all([planCacheModeOf(pool), planCacheModeOf(pool)])
    await pool.end()
    return both
  }

  it('sets the mode on each of its connections, and others do not', async () => {
    expect(await modes(true)).toEqual(['force_generic_plan', 'force_generic_plan'])
    expect(await modes(false)).toEqual(['auto', 'auto'])
  })
})

describe('the limits that PostgreSQL enforces', () => {
  const database = useDatabase()
  const rename = `update repository_group set name = 'renamed' where name = 'limited'`
  const failure = (work: Promise<unknown>) => work.then(() => null).catch((error: Error) => error)

  beforeAll(async () => void (await aGroup(database.db, 'limited')))

  it('end a statement before its caller gives up, so that it is never committed later', async () => {
    const { db } = database
    const pool = openDatabase({ ...database.connection, max: 1, statement_timeout: 200 }, () => {})
    const holder = await openTransaction(db)
    await lockRows(holder.tx, 'repository_group', { name: 'limited' })
    const error = await failure(pool.query(rename))
    expect(error).toMatchObject({ code: '57014' })
    expect(error && isOutage(error)).toBe(true)
    expect(await countWaiting(db)).toBe(0)
    await holder.commit()
    expect(await countRows(db, 'repository_group', { name: 'limited' })).toBe(1)
    await pool.end()
  })

  it('end a transaction that waits more than 5 seconds for a lock', async () => {
    const pool = openDatabase(database.connection, () => {})
    const holder = await openTransaction(database.db)
    await lockRows(holder.tx, 'repository_group', { name: 'limited' })
    const error = await failure(transaction(pool, (tx) => tx.query(rename)))
    expect(error).toMatchObject({ code: '55P03' })
    expect(error && isOutage(error)).toBe(true)
    await holder.commit()
    await pool.end()
  })

  it('end one of two transactions that wait for each other, and a retry may help', async () => {
    const { db } = database
    for (const name of ['first', 'second']) await aGroup(db, name)
    const lock = (tx: Queryable, name: string) => lockRows(tx, 'repository_group', { name })
    let locked = 0
    let release = () => {}
    const bothLocked = new Promise<void>((resolve) => {
      release = resolve
    })
    const lockBoth = (one: string, other: string) =>
      transaction(db, async (tx) => {
        await lock(tx, one)
        locked += 1
        if (locked === 2) release()
        await bothLocked
        await lock(tx, other)
      })
    const errors = await Promise.all([
      failure(lockBoth('first', 'second')),
      failure(lockBoth('second', 'first')),
    ])
    const [error, ...others] = errors.filter((one) => one !== null)
    expect(others).toEqual([])
    expect(error).toMatchObject({ code: '40P01' })
    expect(error && isOutage(error)).toBe(true)
  })

  it('hold on every connection and, behind a pooler too, in every transaction', async () => {
    const pool = openDatabase({ ...database.connection, max: 1 }, () => {})
    expect(await timeLimitsOf(pool)).toEqual(['25s', '30s', '0'])
    expect(await transaction(pool, timeLimitsOf)).toEqual(['25s', '30s', '5s'])
    // The same happens when PgBouncer has lent the connection to another client before.
    await resetSettings(pool)
    expect(await transaction(pool, timeLimitsOf)).toEqual(['25s', '30s', '5s'])
    await pool.end()
  })
})

describe('a database whose connections are cut silently', () => {
  const database = useDatabase()

  it('fails a query after the time limit of a statement, and gets the next one over a new connection', async () => {
    let isSilent = false
    const proxy = createServer((socket) => {
      const { host = '', port = 0 } = database.connection
      const upstream = connect(`${host}/.s.PGSQL.${port}`)
      socket.on('data', (bytes) => isSilent || upstream.write(bytes))
      upstream.on('data', (bytes) => isSilent || socket.write(bytes))
      for (const end of [socket, upstream]) end.on('error', () => {})
      socket.on('close', () => upstream.destroy())
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const { port } = proxy.address() as AddressInfo
    const pool = openDatabase({ ...database.connection, host: '127.0.0.1', port, max: 1 }, () => {})
    expect(pool.options.query_timeout).toBe(30_000)

    await ping(pool)
    isSilent = true
    // Only this statement has a shorter limit: a slow machine would reach it with the others, too.
    const failure = await pingWithin(pool, 300).catch((error: Error) => error)
    expect(failure instanceof Error && isOutage(failure)).toBe(true)
    isSilent = false
    expect(await ping(pool)).toBe(1)
    await pool.end()
    proxy.close()
  })
})

describe('an idle connection that breaks', () => {
  const database = useDatabase()
  const anIdleConnection = async () => {
    const errors: Error[] = []
    const pool = openDatabase({ ...database.connection, max: 1 }, (error) => errors.push(error))
    return { pool, errors, pid: await processOf(pool) }
  }
  const terminate = (pid: number) => endConnection(database.db, pid)

  it('is reported without the connection itself, and replaced', async () => {
    const { pool, errors, pid } = await anIdleConnection()
    await terminate(pid)
    await expect.poll(() => errors.length).toBe(1)
    expect(errors[0]).toMatchObject({ code: '57P01' })
    expect(errors[0]).not.toHaveProperty('client')
    expect(await ping(pool)).toBe(1)
    await pool.end()
  })

  it('is not reported once the pool has ended', async () => {
    const { pool, errors, pid } = await anIdleConnection()
    const removed = new Promise((resolve) => pool.once('remove', resolve))
    // The client receives both messages at once, and must report the termination.
    process.kill(pid, 'SIGSTOP')
    await pool.end()
    const terminated = terminate(pid)
    await sleep(200)
    process.kill(pid, 'SIGCONT')
    await Promise.all([terminated, removed])
    expect(errors).toEqual([])
  })
})

describe('brokenConstraint', () => {
  const database = useDatabase()

  it('names the rule that a statement broke', async () => {
    const failure = await aGroup(database.db, '-').catch((error: unknown) => error)
    expect(brokenConstraint(failure)).toMatch(/^group_name_/)
  })

  it('is null for any other error', async () => {
    const failure = await divideByZero(database.db).catch((error: unknown) => error)
    expect(brokenConstraint(failure)).toBeNull()
    expect(brokenConstraint(new Error('other'))).toBeNull()
  })
})
