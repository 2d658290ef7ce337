import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { keepArchive } from '../../src/archives/keep-archive.ts'
import { openLocalStore, receiveArchive } from '../../src/archives/local-store.ts'
import { removePurgedArchives, removePurgedJob } from '../../src/archives/remove-purged.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { insertUpload } from '../../src/packages/tables/browser-uploads.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aCaller, type Caller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { leaveKeeper, storedArchiveRows } from '../support/archive-rows.ts'
import { countWaiting, whileLocked } from '../support/locks.ts'
import { packageIdOf } from '../support/package-rows.ts'
import { aPackageZip } from '../support/registry-actors.ts'
import { countRows, dropRows } from '../support/rows.ts'
import { discardUploads } from '../support/upload-rows.ts'

const t = useApp()
const pathOf = (sha256: string) => join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
const openStore = () => openLocalStore(t.config.dataDir)
const runJobs = () =>
  runDueJobs({ db: t.db, config: t.config }, [removePurgedJob as never], openLog('silent'))
const isWaiting = async () => (await countRows(t.db, 'job', { name: removePurgedJob.name })) > 0

const aPayload = () => aPackageZip('acme/lib', { description: Math.random().toString() })
const shaOf = async (pushed: ReturnType<Caller['push']>) => (await pushed).json<{ sha256: string }>().sha256
const purge = (caller: Caller, version: string) =>
  caller.call('DELETE', `/packages/acme/lib/${version}?purge=true`)

/** A package whose only version was purged, and whose file is still there. */
async function aPurgedVersion() {
  const caller = await aCaller(t)
  const payload = aPayload()
  const sha256 = await shaOf(caller.push('1.0.0', { payload }))
  await purge(caller, '1.0.0')
  await dropRows(t.db, 'job', { name: removePurgedJob.name })
  return { ...caller, payload, sha256, packageId: await packageIdOf(t.db, caller.repository) }
}

describe('a purge', () => {
  it('removes the file at once, and that of a whole package too', async () => {
    const caller = await aCaller(t)
    const hashes = await Promise.all(
      ['1.0.0', '1.1.0', '1.2.0'].map((version) => shaOf(caller.push(version, { payload: aPayload() }))),
    )
    const areThere = () => hashes.map((sha256) => existsSync(pathOf(sha256)))
    await purge(caller, '1.0.0')
    await runJobs()
    expect(areThere()).toEqual([false, true, true])
    await caller.call('DELETE', '/packages/acme/lib?purge=true')
    await runJobs()
    expect(areThere()).toEqual([false, false, false])
    expect(await isWaiting()).toBe(false)
    // The API still shows the hash, and garbage collection has nothing left to do.
    const stored = (await storedArchiveRows(t.db)).map(({ sha256 }) => sha256)
    expect(stored.filter((sha256) => hashes.includes(sha256))).toEqual([])
  })

  it('keeps a file that another version needs, until that is purged too', async () => {
    const [one, other] = [await aCaller(t), await aCaller(t)]
    const payload = aPayload()
    const sha256 = await shaOf(one.push('1.0.0', { payload }))
    await other.push('2.0.0', { payload })
    await purge(one, '1.0.0')
    await runJobs()
    expect(existsSync(pathOf(sha256))).toBe(true)
    await purge(other, '2.0.0')
    await runJobs()
    expect(existsSync(pathOf(sha256))).toBe(false)
  })

  it('keeps a file that waits in a browser to be published', async () => {
    const { account, repository, sha256, packageId, payload } = await aPurgedVersion()
    const upload = { accountId: account.id, repositoryId: repository.id, fileName: 'lib.zip' }
    const id = await insertUpload(t.db, { ...upload, sha256, size: payload.length })
    expect(await removePurgedArchives(t.db, await openStore(), packageId)).toBe(0)
    expect(existsSync(pathOf(sha256))).toBe(true)
    await discardUploads(t.db, { id })
    expect(await removePurgedArchives(t.db, await openStore(), packageId)).toBe(1)
    expect(existsSync(pathOf(sha256))).toBe(false)
  })

  it('keeps a file while an upload of the same bytes runs, and a day after one that crashed', async () => {
    const { sha256, packageId, payload } = await aPurgedVersion()
    const store = await openStore()
    const received = await receiveArchive(store, Readable.from([payload]), { maxBytes: 1e6 })
    await keepArchive(t.db, store, received, async () => {
      await expect(removePurgedArchives(t.db, store, packageId)).rejects.toThrow('being uploaded again')
    })
    expect(existsSync(pathOf(sha256))).toBe(true)
    // As a process that was killed leaves it.
    const age = (hours: number) => leaveKeeper(t.db, sha256, hours)
    await age(23)
    await expect(removePurgedArchives(t.db, store, packageId)).rejects.toThrow('being uploaded again')
    await age(25)
    expect(await removePurgedArchives(t.db, store, packageId)).toBe(1)
    expect(existsSync(pathOf(sha256))).toBe(false)
  })

  it('lets an upload of the same bytes wait for the removal, and then store the file again', async () => {
    const { sha256, packageId, payload } = await aPurgedVersion()
    const store = await openStore()
    let remove = () => {}
    const mayRemove = new Promise<void>((resolve) => {
      remove = resolve
    })
    let isRemoving = false
    const slow: ArchiveStore = {
      ...store,
      async remove(...given) {
        isRemoving = true
        await mayRemove
        return store.remove(...given)
      },
    }
    const removal = removePurgedArchives(t.db, slow, packageId)
    await expect.poll(() => isRemoving).toBe(true)
    const received = await receiveArchive(store, Readable.from([payload]), { maxBytes: 1e6 })
    let isKept = false
    const keeping = keepArchive(t.db, store, received, async () => {}).then(() => {
      isKept = true
    })
    await expect.poll(() => countWaiting(t.db, 'insert into stored_archive')).toBe(1)
    expect(isKept).toBe(false)
    remove()
    expect(await removal).toBe(1)
    await keeping
    expect(existsSync(pathOf(sha256))).toBe(true)
  })

  it('never removes the file of a version that is published at the same moment', async () => {
    const caller = await aCaller(t)
    const payload = aPayload()
    const sha256 = await shaOf(caller.push('0.0.1', { payload }))
    const packageId = await packageIdOf(t.db, caller.repository)
    const store = await openStore()
    for (let round = 1; round <= 10; round += 1) {
      await purge(caller, `0.0.${round}`)
      // The upload stores the file anew: it has no copy of it any more when somebody removes it.
      expect(await removePurgedArchives(t.db, store, packageId)).toBe(1)
      let isPushing = true
      const pushing = caller.push(`0.0.${round + 1}`, { payload }).finally(() => {
        isPushing = false
      })
      while (isPushing) await removePurgedArchives(t.db, store, packageId).catch(() => {})
      expect([round, (await pushing).statusCode, existsSync(pathOf(sha256))]).toEqual([round, 201, true])
    }
  })

  it('keeps its files while a backup runs, and removes them after it', async () => {
    const { sha256, packageId } = await aPurgedVersion()
    const store = await openStore()
    await whileLocked(
      t.db,
      'installation',
      async () => {
        await expect(removePurgedArchives(t.db, store, packageId)).rejects.toThrow('A backup is running')
        expect(existsSync(pathOf(sha256))).toBe(true)
      },
      'share',
    )
    expect(await removePurgedArchives(t.db, store, packageId)).toBe(1)
  })
})
