import { describe, expect, it } from 'vitest'
import { transaction } from '../../src/database/database.ts'
import { saveDownloads } from '../../src/packages/tables/recorded-downloads.ts'
import { countSiteDays, listSiteDays } from '../../src/packages/tables/site-days.ts'
import { makeDemo } from '../../src/web/server/demo.ts'
import { fillDemo } from '../../src/web/server/demo-content.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aRepository } from '../support/actors.ts'
import { anAdministrator } from '../support/admin-actors.ts'
import { useApp } from '../support/app.ts'
import { open } from '../support/browse.ts'
import { addPastDownloads } from '../support/download-rows.ts'
import { addOldPublications, addSignInEvents, dateEvents } from '../support/event-rows.ts'
import { aMirroredPackage } from '../support/mirrored-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { startOfTransaction } from '../support/rows.ts'

const t = useApp()
/** The day (UTC) of the first downloads and counts. */
let firstDay: string

describe('the figures of the site by day', () => {
  it('have the sign-ins, pushes, pulls and storage of 30 days, however often they are counted', async () => {
    const repository = await aRepository(t.db)
    const { push } = await aPublisher(t, { repository })
    expect((await push('1.0.0')).statusCode).toBe(201)
    await aMirroredPackage(t.db, repository, 'monolog/monolog')
    expect(
      (await listSiteDays(t.db)).every(({ signIns, pushes, pulls }) => signIns + pushes + pulls === 0),
    ).toBe(true)
    // For a transaction, the day stays the one in which it began.
    await transaction(t.db, async (tx) => {
      const today = await startOfTransaction(tx)
      await dateEvents(tx, { action: 'publish' }, today)
      await addSignInEvents(tx, 3)
      await addOldPublications(tx, repository, [1, 1, 29, 31])
      await addPastDownloads(tx, { repositoryId: repository.id, version: '1.0.0' }, [
        [0, 5],
        [9, 2],
        [29, 7],
        [30, 9],
      ])
      // Composer reports the downloads of own packages. Those of an upstream are counted when they are sent.
      const downloader = { kind: 'anonymous', id: '0', accountId: null } as const
      for (const packageName of ['monolog/monolog', 'acme/lib'])
        await saveDownloads(tx, [
          { repositoryId: repository.id, packageName, version: '1.0.0', downloader, count: 3 },
        ])
      for (let count = 0; count < 2; count += 1) await countSiteDays(tx)
      const days = await listSiteDays(tx)
      expect(days).toHaveLength(30)
      firstDay = today.toISOString().slice(0, 10)
      expect(days.at(-1)).toMatchObject({ day: firstDay, signIns: 3, pushes: 1, pulls: 8 })
      const { archiveBytes } = days.at(-1) ?? {}
      expect(archiveBytes).toBeGreaterThan(0)
      expect(days.at(-2)).toMatchObject({ pushes: 2, pulls: 0, archiveBytes: null })
      expect(days[0]).toMatchObject({ pushes: 1, pulls: 7, archiveBytes: null })
    })
  })

  it('have the pushes and pulls of the demo as soon as it is there', async () => {
    // More than one day, because midnight may come meanwhile.
    const sum = async (what: 'pushes' | 'pulls') =>
      (await listSiteDays(t.db)).reduce((sum, day) => sum + (day.day < firstDay ? 0 : day[what]), 0)
    const before = [await sum('pushes'), await sum('pulls')]
    const { repository } = await makeDemo(t.db)
    await fillDemo({ config: t.config, db: t.db }, repository, openLog('silent'))
    const after = [await sum('pushes'), await sum('pulls')]
    expect(after.map((count, i) => count - Number(before[i]))).toEqual([6, 40])
  })

  it('are charts of the administration, each with a table', async () => {
    const { cookie } = await anAdministrator(t)
    await countSiteDays(t.db)
    const { body } = await open(t, '/admin', cookie)
    for (const title of ['Sign-ins', 'Pushes', 'Pulls', 'Stored archives']) {
      expect(body).toContain(`role="img" aria-label="${title}: `)
      expect(body).toContain(`Show as a table<span class="hidden">: ${title}</span>`)
    }
    expect(body.match(/<rect /g)).toHaveLength(120)
    // Of the storage, nothing keeps the past of before the first count, and of mirrored packages that of before the records.
    expect(body.match(/<p class="hint">[^<]*counted since[^<]*/gi)).toEqual([
      `<p class="hint">Those of mirrored packages are counted since ${firstDay}.`,
      `<p class="hint">Counted since ${firstDay}.`,
    ])
  })
})
