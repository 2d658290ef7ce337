import { describe, expect, it } from 'vitest'
import { rollDownloads } from '../../../src/packages/tables/downloads.ts'
import { aPersonalToken, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { aPublisher, type Publisher } from '../../support/registry-actors.ts'

const t = useApp()

async function aPackage(): Promise<Publisher> {
  const publisher = await aPublisher(t)
  for (const version of ['1.0.0', '1.1.0']) {
    await publisher.push(version, { manifest: { extra: { build: version } } })
  }
  return publisher
}

/** Writes counts of past days, as earlier releases did. */
async function addDays({ repository }: Publisher, version: string, days: [ago: number, count: number][]) {
  await t.db.query(
    `insert into package_download (version_id, day, count)
     select v.id, (now() at time zone 'utc')::date - ago, count
       from package p join package_version v on v.package_id = p.id, unnest($3::int[], $4::bigint[]) as d (ago, count)
      where p.repository_id = $1 and v.version = $2
     on conflict (version_id, day) do update set count = package_download.count + excluded.count`,
    [repository.id, version, days.map(([ago]) => ago), days.map(([, count]) => count)],
  )
}

async function get({ account, repository }: Publisher, below: string) {
  const token = await aPersonalToken(t.db, account, { scopes: ['registry-package:r'] })
  const headers = { authorization: `Bearer ${token}` }
  return (await t.app.inject({ url: `/api/repositories/${repository.path}/${below}`, headers })).json()
}

async function rollAll(): Promise<number> {
  let sum = 0
  for (let rolled = -1; rolled !== 0; sum += rolled) rolled = await rollDownloads(t.db, 3)
  return sum
}

describe('download counts', () => {
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
    await addDays(publisher, '1.0.0', old)
    await addDays(publisher, '1.1.0', [[400, 7]])
    const total = old.reduce((sum, [, count]) => sum + count, 0)
    expect(await rollAll()).toBe(110)
    const shown = await get(publisher, 'packages/acme/lib')
    expect(shown.downloads).toBe(total + 7)
    const one = await get(publisher, 'packages/acme/lib/1.0.0')
    expect(one.downloads).toBe(total)
    expect(one.daily_downloads).toHaveLength(91)
    const counts = [...one.daily_downloads, ...one.monthly_downloads].map(({ count }) => count)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(total)
    expect(one.monthly_downloads[0].month).toMatch(/^\d{4}-\d\d$/)
    // A count that is added later for an old day goes into its month.
    await addDays(publisher, '1.1.0', [[400, 5]])
    expect(await rollAll()).toBe(1)
    const late = await get(publisher, 'packages/acme/lib/1.1.0')
    expect(late.monthly_downloads).toEqual([{ month: expect.any(String), count: 12 }])
    expect(late.downloads).toBe(12)
  })

  it('are deleted with their versions', async () => {
    const publisher = await aPackage()
    await addDays(publisher, '1.0.0', [[1, 1]])
    await addDays(publisher, '1.0.0', [[300, 1]])
    await rollAll()
    await t.db.query('delete from repository where id = $1', [publisher.repository.id])
    const { rows } = await t.db.query(
      `select (select count(*) from version_download_total t where not exists (select from package_version where id = t.version_id))
            + (select count(*) from package_download_total t where not exists (select from package where id = t.package_id)) as left`,
    )
    expect(rows).toEqual([{ left: '0' }])
  })
})
