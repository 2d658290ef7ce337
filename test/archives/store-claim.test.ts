import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { collectGarbageJob } from '../../src/archives/collect-garbage.ts'
import { openLocalStore } from '../../src/archives/local-store.ts'
import { type ClaimKeeper, claimArchives, keepClaim } from '../../src/archives/store-claim.ts'
import { openOwnStore } from '../../src/archives/store-owner.ts'
import { copyIn, copyOut, openSnapshot, prepareLoad } from '../../src/database/table-copy.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import {
  ageStoreClaim,
  freeStoreClaim,
  markUnused,
  setStoreClaim,
  storeClaim,
} from '../support/archive-rows.ts'
import { dropDatabase, onServer, template } from '../support/database.ts'
import { collectAgedGarbage } from '../support/garbage.ts'
import { untilWaiting } from '../support/locks.ts'
import { markPurged } from '../support/package-rows.ts'
import { databaseUrl } from '../support/program.ts'
import { runCommand } from '../support/run-command.ts'

const t = useApp()
const claimPath = join(t.config.dataDir, 'archives', 'claim')
const pathOf = (sha256: string) => join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
let store: ArchiveStore
let keepers: ClaimKeeper[] = []
const copies: { db: pg.Pool; connection: pg.PoolConfig }[] = []

beforeEach(async () => {
  store = await openLocalStore(t.config.dataDir)
  await rm(claimPath, { force: true })
  await freeStoreClaim(t.db)
})
afterEach(async () => {
  await Promise.all(keepers.map(({ stop }) => stop()))
  keepers = []
})
afterAll(async () => {
  for (const { db, connection } of copies) {
    await db.end()
    await dropDatabase(connection)
  }
})

/** A process that keeps the claim, after its first step. */
async function aKeeper(db = t.db): Promise<ClaimKeeper> {
  const keeper = keepClaim(db, store, t.app.log)
  keepers.push(keeper)
  await keeper.step()
  return keeper
}

/** A copy of the database as it is now: with the same id, claim and queue. */
async function aCopy(): Promise<{ db: pg.Pool; connection: pg.PoolConfig }> {
  const database = `${t.connection.database}_copy${copies.length}`
  await onServer(t.connection, `create database ${database} template ${template}`)
  const connection = { ...t.connection, database }
  const copy = { db: new pg.Pool(connection), connection }
  copies.push(copy)
  const [from, to] = [new pg.Client(t.connection), new pg.Client(connection)]
  await Promise.all([from.connect(), to.connect()])
  const tables = await openSnapshot(from)
  await to.query('begin')
  const finish = await prepareLoad(to, tables)
  for (const table of tables) await pipeline(copyOut(from, table), copyIn(to, table))
  await finish()
  await to.query('commit')
  await Promise.all([from.end(), to.end()])
  return copy
}

/** Lets the time pass after which a silent process does not keep the claim any more. */
const age = (db: pg.Pool) => ageStoreClaim(db, 91)

/** An archive that a purged version has left in a database. Its 14 days are over. */
async function aPurgedArchive() {
  const { push, call } = await aCaller(t)
  await push('1.0.0', { manifest: { description: Math.random().toString() } })
  const pushed = await push('2.0.0', { manifest: { description: Math.random().toString() } })
  const { sha256 } = pushed.json() as { sha256: string }
  const then = new Date(Date.now() - 48 * 3_600_000)
  await utimes(pathOf(sha256), then, then)
  return { sha256, purge: () => call('DELETE', '/packages/acme/lib/2.0.0?purge=true') }
}

describe('the claim on an archive store', () => {
  it('belongs to the first database of a new store, at its first step', async () => {
    const keeper = await aKeeper()
    expect(keeper.hasClaim()).toBe(true)
    const incarnation = (await storeClaim(t.db))?.incarnation
    expect(incarnation).toEqual(expect.any(String))
    expect(JSON.parse(await readFile(claimPath, 'utf8'))).toMatchObject({ incarnation })
  })

  it('is kept by one of several processes, and known to all of them', async () => {
    const one = await aKeeper()
    const other = await aKeeper()
    // The other process does not know yet whether the step in the database was made here, or in an original.
    expect([one.hasClaim(), other.hasClaim()]).toEqual([true, false])
    await one.step()
    await other.step()
    expect([one.hasClaim(), other.hasClaim()]).toEqual([true, true])
    await one.stop()
    await other.step()
    await other.step()
    expect(other.hasClaim()).toBe(true)
  })

  it('goes to the next process at once when its process stops, and after 90 seconds when that was killed', async () => {
    const first = await aKeeper()
    await first.stop()
    const second = await aKeeper()
    expect(second.hasClaim()).toBe(true)
    // It is killed: it makes no step any more, and releases nothing.
    const third = await aKeeper()
    expect(third.hasClaim()).toBe(false)
    await age(t.db)
    await third.step()
    expect(third.hasClaim()).toBe(true)
  })

  it('is not shared by a copy of the database beside the living original', async () => {
    const original = await aKeeper()
    const copy = await aCopy()
    const keeper = await aKeeper(copy.db)
    expect(keeper.hasClaim()).toBe(false)
    for (let steps = 0; steps < 3; steps += 1) await original.step()
    await age(copy.db)
    await keeper.step()
    await original.step()
    expect([original.hasClaim(), keeper.hasClaim()]).toEqual([true, false])
    expect(t.log()).toContain('This database has no claim on the archives')
  })

  it('stays with exactly one of two copies that go on from the same step', async () => {
    await (await aKeeper()).stop()
    const copy = await aCopy()
    const [one, other] = await Promise.all([aKeeper(), aKeeper(copy.db)])
    for (let steps = 0; steps < 3; steps += 1) {
      await one.step()
      await other.step()
    }
    expect([one.hasClaim(), other.hasClaim()].filter(Boolean)).toHaveLength(1)
  })

  it('is lost by the one of two copies whose step the other one has overwritten at the same moment', async () => {
    const keeper = await aKeeper()
    const written = JSON.parse(await readFile(claimPath, 'utf8'))
    await writeFile(claimPath, JSON.stringify({ ...written, nonce: randomUUID() }))
    await keeper.step()
    expect(keeper.hasClaim()).toBe(false)
  })

  it('is lost by a database that was recovered to an earlier time, whose overdue collection then removes nothing', async () => {
    const { sha256, purge } = await aPurgedArchive()
    await purge()
    const before = await storeClaim(t.db)
    const former = await aKeeper()
    for (let steps = 0; steps < 3; steps += 1) await former.step()
    await former.stop()
    await setStoreClaim(t.db, before, before.keptAt)
    await expect(collectAgedGarbage(t.db, store, { isForced: true })).rejects.toThrow(
      'no claim on the archives',
    )
    const run = collectGarbageJob.run(
      { config: t.config, db: t.db, log: t.app.log },
      {},
      new AbortController().signal,
    )
    await expect(run).rejects.toThrow('run svc archives claim')
    expect((await aKeeper()).hasClaim()).toBe(false)
    expect(existsSync(pathOf(sha256))).toBe(true)
  })

  it('that is lost while a collection runs ends the collection before its next removal', async () => {
    await (await aKeeper()).step()
    const { sha256, purge } = await aPurgedArchive()
    await purge()
    const readClaim = store.readClaim.bind(store)
    const other = { incarnation: randomUUID(), counter: 1, nonce: randomUUID(), at: new Date().toISOString() }
    const reading = vi.spyOn(store, 'readClaim')
    reading.mockImplementationOnce(readClaim).mockResolvedValue(JSON.stringify(other))
    await expect(collectAgedGarbage(t.db, store, { isForced: true })).rejects.toThrow(
      'another database has claimed them',
    )
    reading.mockRestore()
    expect(existsSync(pathOf(sha256))).toBe(true)
  })

  it('stays with a promoted standby that lost the last seconds of its primary', async () => {
    const keeper = await aKeeper()
    await keeper.step()
    const standby = await storeClaim(t.db)
    await keeper.step()
    await setStoreClaim(t.db, standby)
    await keeper.step()
    await keeper.step()
    expect(keeper.hasClaim()).toBe(true)
  })

  it('is kept while the store does not respond', async () => {
    const keeper = await aKeeper()
    const silent = vi
      .spyOn(store, 'readClaim')
      .mockRejectedValue(new Error('the archive store does not respond'))
    await keeper.step()
    expect(keeper.hasClaim()).toBe(true)
    silent.mockRestore()
    await keeper.step()
    expect(keeper.hasClaim()).toBe(true)
  })

  it('is taken by one command, also beside another one and the step of a running server', async () => {
    const former = await aKeeper()
    await former.stop()
    const at = new Date(0).toISOString()
    const foreign = { incarnation: randomUUID(), counter: 1, nonce: randomUUID(), at }
    await writeFile(claimPath, JSON.stringify(foreign))
    const server = await aKeeper()
    expect(server.hasClaim()).toBe(false)
    // The server looks, and the other command comes, after the database has the new claim and before the store has it.
    const others: Promise<unknown>[] = []
    const slow = {
      ...store,
      async writeClaim(text: string) {
        others.push(claimArchives(t.db, store, { isForced: false }), server.step())
        await Promise.race([Promise.all(others), untilWaiting(t.db)])
        await store.writeClaim(text)
      },
    }
    expect(await claimArchives(t.db, slow, { isForced: false })).toBe(true)
    expect((await Promise.all(others))[0]).toBe(false)
    await server.step()
    expect(server.hasClaim()).toBe(true)
  })

  it('in a damaged file belongs to nobody', async () => {
    await writeFile(claimPath, '{')
    expect((await aKeeper()).hasClaim()).toBe(false)
  })
})

describe('a copy of the database', () => {
  const svc = (connection: pg.PoolConfig, ...words: string[]) =>
    runCommand(words, { DATABASE_URL: databaseUrl(connection), DATA_DIR: t.config.dataDir })

  it('removes no archive of the original, until svc archives claim takes the store from it', async () => {
    await openOwnStore(t.db, t.config)
    const { sha256, purge } = await aPurgedArchive()
    const original = await aKeeper()
    await original.step()
    const copy = await aCopy()
    for (let steps = 0; steps < 3; steps += 1) await original.step()
    // Somebody purges in the copy. The original still needs the archive.
    await markPurged(copy.db, { version: '2.0.0' })
    await markUnused(copy.db, sha256, 15)
    const refused = await svc(copy.connection, 'collect-garbage', '--force')
    expect([refused.code, existsSync(pathOf(sha256))]).toEqual([1, true])
    expect(refused.stderr).toContain('which is a copy, or was restored to an earlier time')

    const alive = await svc(copy.connection, 'archives', 'claim')
    expect([alive.code, alive.stderr]).toEqual([
      1,
      expect.stringContaining('A server of another database used'),
    ])
    await original.stop()
    const claimed = await svc(copy.connection, 'archives', 'claim', '--force', '--json')
    expect(JSON.parse(claimed.stdout)).toEqual({ place: t.config.dataDir, new: true })
    expect(JSON.parse((await svc(copy.connection, 'archives', 'claim', '--json')).stdout)).toMatchObject({
      new: false,
    })
    expect((await aKeeper(copy.db)).hasClaim()).toBe(true)
    const former = await aKeeper()
    expect(former.hasClaim()).toBe(false)
    const { stdout } = await svc(t.connection, 'system')
    expect(stdout).toContain('no claim on them: another database has claimed them. Run svc archives claim')
    await purge()
    await expect(collectAgedGarbage(t.db, store)).rejects.toThrow('another database has claimed them')
    expect((await svc(copy.connection, 'collect-garbage', '--force')).code).toBe(0)
    expect(existsSync(pathOf(sha256))).toBe(false)
  })
})
