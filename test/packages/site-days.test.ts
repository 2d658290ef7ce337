import { describe, expect, it } from 'vitest'
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
import { addOldPublications, addSignInEvents } from '../support/event-rows.ts'
import { aMirroredPackage } from '../support/mirrored-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'

const t = useApp()

describe('the figures of the site by day', () => {
  it('have the sign-ins, pushes, pulls and storage of 30 days, however often they are counted', async () => {
    const repository = await aRepository(t.db)
    const { push } = await aPublisher(t, { repository })
    expect((await push('1.0.0')).statusCode).toBe(201)
    await addSignInEvents(t.db, 3)
    await addOldPublications(t.db, repository, [1, 1, 29, 31])
    await addPastDownloads(t.db, { repositoryId: repository.id, version: '1.0.0' }, [
      [0, 5],
      [29, 7],
      [30, 9],
    ])
    expect(
      (await listSiteDays(t.db)).every(({ signIns, pushes, pulls }) => signIns + pushes + pulls === 0),
    ).toBe(true)
    // Composer reports the downloads of own packages. Those of an upstream are counted when they are sent.
    await aMirroredPackage(t.db, repository, 'monolog/monolog')
    const downloader = { kind: 'anonymous', id: '0', accountId: null } as const
    for (const packageName of ['monolog/monolog', 'acme/lib'])
      await saveDownloads(t.db, [
        { repositoryId: repository.id, packageName, version: '1.0.0', downloader, count: 3 },
      ])
    for (let count = 0; count < 2; count += 1) await countSiteDays(t.db)
    const days = await listSiteDays(t.db)
    expect(days).toHaveLength(30)
    expect(days.at(-1)).toMatchObject({
      day: new Date().toISOString().slice(0, 10),
      signIns: 3,
      pushes: 1,
      pulls: 8,
    })
    const { archiveBytes } = days.at(-1) ?? {}
    expect(archiveBytes).toBeGreaterThan(0)
    expect(days.at(-2)).toMatchObject({ pushes: 2, pulls: 0, archiveBytes: null })
    expect(days[0]).toMatchObject({ pushes: 1, pulls: 7, archiveBytes: null })
  })

  it('have the pushes and pulls of the demo as soon as it is there', async () => {
    const before = (await listSiteDays(t.db)).at(-1)
    const { repository } = await makeDemo(t.db)
    await fillDemo({ config: t.config, db: t.db }, repository, openLog('silent'))
    const after = (await listSiteDays(t.db)).at(-1)
    expect((after?.pushes ?? 0) - (before?.pushes ?? 0)).toBe(6)
    expect((after?.pulls ?? 0) - (before?.pulls ?? 0)).toBe(40)
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
    const today = new Date().toISOString().slice(0, 10)
    expect(body.match(/<p class="hint">[^<]*counted since[^<]*/gi)).toEqual([
      `<p class="hint">Those of mirrored packages are counted since ${today}.`,
      `<p class="hint">Counted since ${today}.`,
    ])
  })
})
