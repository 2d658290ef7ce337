import { describe, expect, it } from 'vitest'
import { type Queryable, transaction } from '../../../src/database/database.ts'
import { openDownloadCounter } from '../../../src/packages/download-counter.ts'
import { rollDownloads } from '../../../src/packages/tables/downloads.ts'
import { openLog } from '../../../src/web/server/log.ts'
import { aPersonalToken, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { addPastDownloads, countTotalsOfNothing, holdDay } from '../../support/download-rows.ts'
import { aPublisher, type Publisher } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'

const t = useApp()

async function aPackage(): Promise<Publisher> {
  const publisher = await aPublisher(t)
  for (const version of ['1.0.0', '1.1.0']) {
    await publisher.push(version, { manifest: { extra: { build: version } } })
  }
  return publisher
}

/** Adds downloads of past days to a version. */
function addDays(
  { repository }: Publisher,
  version: string,
  days: [ago: number, count: number][],
  db: Queryable = t.db,
) {
  return addPastDownloads(db, { repositoryId: repository.id, version }, days)
}

async function get({ account, repository }: Publisher, below: string) {
  const token = await aPersonalToken(t.db, account, { scopes: ['registry-package:r'] })
  const headers = { authorization: `Bearer ${token}` }
  return (await t.app.inject({ url: `/api/repositories/${repository.path}/${below}`, headers })).json()
}

async function rollAll(db: Queryable): Promise<number> {
  let sum = 0
  for (let rolled = -1; rolled !== 0; sum += rolled) rolled = await rollDownloads(db, 3)
  return sum
}

describe('download counts', () => {
  it('are added to the days and totals of the version and of its package, by several processes at once', async () => {
    const publisher = await aPackage()
    await holdDay(t.db)
    const report = (normalized: string) => ({
      repositoryId: publisher.repository.id,
      packageName: 'acme/lib',
      normalized,
    })
    const processes = Array.from({ length: 3 }, () => openDownloadCounter(t.db, openLog('silent')))
    for (let turn = 0; turn < 2; turn += 1) {
      for (const one of processes) {
        one.count([report('1.0.0.0'), report('1.1.0.0'), report('1.0.0.0')], '192.0.2.1')
      }
      await Promise.all(processes.map((one) => one.flush()))
    }
    const shown = await get(publisher, 'packages/acme/lib')
    expect(shown.downloads).toBe(18)
    expect(shown.versions.map((one: { downloads: number }) => one.downloads)).toEqual([6, 12])
    const one = await get(publisher, 'packages/acme/lib/1.0.0')
    expect(one.daily_downloads.map((day: { count: number }) => day.count)).toEqual([12])
    const cookie = await signIn(t.app, publisher.account)
    const url = `/${publisher.repository.path}/packages/acme/lib`
    expect((await t.app.inject({ url, headers: { cookie } })).body).toContain('in UTC: 18, at most 18"')
  })

  it('are whole numbers beyond 2^31 everywhere', async () => {
    const publisher = await aPackage()
    await addDays(publisher, '1.0.0', [[1, 3_000_000_000]])
    await addDays(publisher, '1.1.0', [[1, 1_000_000_000]])
    const found = (await publisher.ask('search.json?q=acme')).json().results[0]
    expect(found.downloads).toBe(4_000_000_000)
    const shown = await get(publisher, 'packages/acme/lib')
    expect(shown.downloads).toBe(4_000_000_000)
    expect(shown.versions.map((one: { downloads: number }) => one.downloads)).toEqual([1e9, 3e9])
    const one = await get(publisher, 'packages/acme/lib/1.0.0')
    expect(one.daily_downloads.map((day: { count: number }) => day.count)).toEqual([3e9])
    const cookie = await signIn(t.app, publisher.account)
    const url = `/${publisher.repository.path}/packages/acme/lib`
    expect((await t.app.inject({ url, headers: { cookie } })).body).toMatch(/4.?000.?000.?000/)
  })

  it('are JSON numbers that every client can represent', async () => {
    const publisher = await aPackage()
    await addDays(publisher, '1.0.0', [[1, Number.MAX_SAFE_INTEGER]])
    await addDays(publisher, '1.0.0', [[1, Number.MAX_SAFE_INTEGER]])
    const found = (await publisher.ask('search.json?q=acme')).json().results[0]
    expect(found.downloads).toBe(Number.MAX_SAFE_INTEGER)
    expect((await get(publisher, 'packages/acme/lib')).downloads).toBe(Number.MAX_SAFE_INTEGER)
  })

  it('older than 90 days become months, and the totals stay', async () => {
    const publisher = await aPackage()
    const old: [number, number][] = Array.from({ length: 200 }, (_, ago) => [ago, ago + 1])
    // For a transaction, the day stays the one in which it began.
    await transaction(t.db, async (tx) => {
      await addDays(publisher, '1.0.0', old, tx)
      await addDays(publisher, '1.1.0', [[400, 7]], tx)
      expect(await rollAll(tx)).toBe(110)
      // A count that is added later for an old day goes into its month.
      await addDays(publisher, '1.1.0', [[400, 5]], tx)
      expect(await rollAll(tx)).toBe(1)
    })
    const total = old.reduce((sum, [, count]) => sum + count, 0)
    const shown = await get(publisher, 'packages/acme/lib')
    expect(shown.downloads).toBe(total + 12)
    const one = await get(publisher, 'packages/acme/lib/1.0.0')
    expect(one.downloads).toBe(total)
    expect(one.daily_downloads).toHaveLength(91)
    const counts = [...one.daily_downloads, ...one.monthly_downloads].map(({ count }) => count)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(total)
    expect(one.monthly_downloads[0].month).toMatch(/^\d{4}-\d\d$/)
    const late = await get(publisher, 'packages/acme/lib/1.1.0')
    expect(late.monthly_downloads).toEqual([{ month: expect.any(String), count: 12 }])
    expect(late.downloads).toBe(12)
  })

  it('are deleted with their versions', async () => {
    const publisher = await aPackage()
    await addDays(publisher, '1.0.0', [[1, 1]])
    await addDays(publisher, '1.0.0', [[300, 1]])
    await rollAll(t.db)
    await dropRows(t.db, 'repository', { id: publisher.repository.id })
    expect(await countTotalsOfNothing(t.db)).toBe(0)
  })
})
