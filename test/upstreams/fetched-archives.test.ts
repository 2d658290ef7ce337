import { expect, it } from 'vitest'
import { collectionLock } from '../../src/archives/tables/archives.ts'
import { transaction } from '../../src/database/database.ts'
import { saveFetchedArchives } from '../../src/upstreams/tables/mirrored-archives.ts'
import { aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { countWaiting, takeAdvisoryLock } from '../support/locks.ts'
import {
  aMirroredArchive,
  aMirroredPackage,
  announceShasum,
  mirroredArchives,
  moveArchive,
  noteUse,
} from '../support/mirrored-rows.ts'
import { anUpstream } from '../support/upstream-rows.ts'

const t = useDatabase()

/** Inserts an archive that a document of an upstream has named. Returns its id. */
async function anArchive(): Promise<string> {
  const repository = await aRepository(t.db)
  const upstreamId = await anUpstream(t.db, repository)
  await aMirroredPackage(t.db, repository, 'acme/lib', { upstreamId, isSeen: true })
  return aMirroredArchive(t.db, 'acme/lib')
}

const fetched = { sha256: 'ab'.repeat(32), sha1: 'cd'.repeat(20), size: 1, isDownload: true }

it('a fetched archive is saved although its row changes while the save waits for a collection', async () => {
  const id = await anArchive()
  let saving: Promise<boolean[]> | undefined
  await transaction(t.db, async (tx) => {
    await takeAdvisoryLock(tx, collectionLock)
    saving = saveFetchedArchives(t.db, [{ ...fetched, id }])
    await expect.poll(() => countWaiting(t.db)).toBe(1)
    await moveArchive(t.db, id, 'https://packages.example.com/1.zip')
  })
  expect(await saving).toEqual([true])
})

it('of two fetches with different bytes at the same time only the first is saved', async () => {
  const id = await anArchive()
  const saves = await Promise.all(
    ['01', '02', '03', '04'].map((byte) =>
      saveFetchedArchives(t.db, [{ ...fetched, id, sha256: byte.repeat(32) }]),
    ),
  )
  expect(saves.flat().filter((isSaved) => isSaved)).toEqual([true])
})

it('the results have the order of the archives', async () => {
  const ids = [await anArchive(), await anArchive(), await anArchive()].toReversed()
  const archives = ids.map((id) => ({ ...fetched, id }))
  expect(await saveFetchedArchives(t.db, archives)).toEqual([true, true, true])
  const changed = archives.map((archive, i) => (i === 1 ? { ...archive, sha256: 'ef'.repeat(32) } : archive))
  expect(await saveFetchedArchives(t.db, changed)).toEqual([true, false, true])
})

it('the first fetch is not saved when the upstream has announced another shasum meanwhile', async () => {
  const id = await anArchive()
  const announce = (shasum: string) => announceShasum(t.db, { id }, shasum)
  await announce('01'.repeat(20))
  expect(await saveFetchedArchives(t.db, [{ ...fetched, id }])).toEqual([false])
  await announce(fetched.sha1)
  expect(await saveFetchedArchives(t.db, [{ ...fetched, id }])).toEqual([true])
  await announce('01'.repeat(20))
  expect(await saveFetchedArchives(t.db, [{ ...fetched, id }])).toEqual([true])
})

it('an archive that was fetched before any download counts as downloaded at its first one, also on the same day', async () => {
  const id = await anArchive()
  const wasDownloaded = async () =>
    (await mirroredArchives(t.db)).find((archive) => archive.id === id)?.wasDownloaded
  await saveFetchedArchives(t.db, [{ ...fetched, id, isDownload: false }])
  expect(await wasDownloaded()).toBe(false)
  await noteUse(t.db, id)
  expect(await wasDownloaded()).toBe(true)
})
