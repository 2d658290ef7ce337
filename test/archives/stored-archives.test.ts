import { existsSync } from 'node:fs'
import { appendFile, mkdir, rm, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { collectGarbage, collectGarbageJob } from '../../src/archives/collect-garbage.ts'
import { keepArchive } from '../../src/archives/keep-archive.ts'
import { openLocalStore, receiveArchive } from '../../src/archives/local-store.ts'
import { collectionLock, listArchivesAfter, measureGroup } from '../../src/archives/tables/archives.ts'
import { verifyArchives } from '../../src/archives/verify-archives.ts'
import { transaction } from '../../src/database/database.ts'
import { FailedForGood } from '../../src/jobs/job.ts'
import { aRepository } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import {
  addReferences,
  anUnusedArchive,
  forgetArchives,
  listArchives,
  misrecordSize,
  setUnusedDays,
} from '../support/archive-rows.ts'
import { ageUnusedArchives, collectAgedGarbage } from '../support/garbage.ts'
import { canShareLock } from '../support/locks.ts'
import { aMirroredArchive, aMirroredPackage, forgetFiles, rememberFiles } from '../support/mirrored-rows.ts'
import { databaseUrl } from '../support/program.ts'
import { aPackageZip } from '../support/registry-actors.ts'
import { dropRows } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'
import { listReferringTables, viewDefinition } from '../support/schema.ts'

const t = useApp()
let volume: ArchiveStore
beforeEach(async () => {
  volume = await openLocalStore(t.config.dataDir)
  for (const name of ['archives', 'tmp']) {
    await rm(join(volume.directory, name), { recursive: true })
  }
  await openLocalStore(t.config.dataDir)
  await forgetArchives(t.db)
})

const pathOf = (sha256: string) => join(volume.directory, 'archives', sha256.slice(0, 2), `${sha256}.zip`)

async function age(path: string, hours: number): Promise<void> {
  const then = new Date(Date.now() - hours * 60 * 60 * 1000)
  await utimes(path, then, then)
}

/** A publisher with two versions of acme/lib, whose archives were last used two days ago. */
async function twoVersions() {
  const caller = await aCaller(t)
  const [kept, gone] = await Promise.all(
    ['1.0.0', '2.0.0'].map(async (version) => {
      const response = await caller.push(version, { manifest: { description: Math.random().toString() } })
      const { sha256 } = response.json() as { sha256: string }
      await age(pathOf(sha256), 48)
      return sha256
    }),
  )
  return { ...caller, kept: kept ?? '', gone: gone ?? '' }
}

/** Returns whether a publication would get its lock at once. */
function mayPublish(): Promise<boolean> {
  return transaction(t.db, (tx) => canShareLock(tx, collectionLock))
}

describe('collectGarbage', () => {
  it('removes an archive only after nothing has needed it for 14 days', async () => {
    const { call, gone } = await twoVersions()
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    const unusedFor = (days: number) => setUnusedDays(t.db, days)
    for (const days of [0, 13.9]) {
      await unusedFor(days)
      expect((await collectGarbage(t.db, volume)).archives).toBe(0)
    }
    expect(existsSync(pathOf(gone))).toBe(true)
    await unusedFor(14.1)
    expect((await collectGarbage(t.db, volume)).archives).toBe(1)
    expect(existsSync(pathOf(gone))).toBe(false)
  })

  it('begins the 14 days again when an archive was needed in between', async () => {
    const { call, push } = await aCaller(t)
    const payload = aPackageZip('acme/lib')
    const { sha256 } = (await push('1.0.0', { payload })).json() as { sha256: string }
    await call('DELETE', '/packages/acme/lib/1.0.0?purge=true')
    await ageUnusedArchives(t.db)
    const { call: callOther } = await aCaller(t).then(async (other) => {
      await other.push('1.0.0', { payload })
      return other
    })
    await callOther('DELETE', '/packages/acme/lib/1.0.0?purge=true')
    await age(pathOf(sha256), 48)
    expect((await collectGarbage(t.db, volume, { isForced: true })).archives).toBe(0)
    expect(existsSync(pathOf(sha256))).toBe(true)
  })

  it('never removes an archive that its database has not recorded', async () => {
    await twoVersions()
    const foreign = 'cd'.repeat(32)
    await mkdir(join(volume.directory, 'archives', 'cd'), { recursive: true })
    await writeFile(pathOf(foreign), 'of another database')
    await age(pathOf(foreign), 24 * 365)
    await collectAgedGarbage(t.db, volume, { isForced: true })
    expect(existsSync(pathOf(foreign))).toBe(true)
  })

  it('records an archive before it is kept, so that one of a crashed upload is removed later', async () => {
    await twoVersions()
    const received = await receiveArchive(volume, Readable.from([Buffer.from('crashed')]), { maxBytes: 100 })
    await keepArchive(t.db, volume, received, async () => {})
    await age(pathOf(received.sha256), 48)
    expect((await collectAgedGarbage(t.db, volume)).archives).toBe(1)
    expect(existsSync(pathOf(received.sha256))).toBe(false)
  })

  it('removes the archives of purged versions, and keeps those of deleted ones', async () => {
    const { call, kept, gone } = await twoVersions()
    await call('DELETE', '/packages/acme/lib/1.0.0')
    expect(await collectAgedGarbage(t.db, volume)).toEqual({ archives: 0, temporaryFiles: 0, bytes: 0 })
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    const collected = await collectAgedGarbage(t.db, volume)
    expect(collected).toMatchObject({ archives: 1, temporaryFiles: 0 })
    expect(collected.bytes).toBeGreaterThan(100)
    expect([existsSync(pathOf(kept)), existsSync(pathOf(gone))]).toEqual([true, false])
  })

  it('removes archives that a deleted group has left', async () => {
    const { repository, kept, gone } = await twoVersions()
    await dropRows(t.db, 'repository_group', { name: repository.path.split('/')[0] })
    const before = await listArchives(t.db)
    expect((await collectAgedGarbage(t.db, volume, { isForced: true })).archives).toBe(2)
    expect([existsSync(pathOf(kept)), existsSync(pathOf(gone))]).toEqual([false, false])
    expect([before.length, await listArchives(t.db)]).toEqual([2, []])
  })

  it('ends at a stop, also while it only counts', async () => {
    const { call } = await twoVersions()
    await call('DELETE')
    const signal = AbortSignal.abort()
    await expect(collectAgedGarbage(t.db, volume, { signal })).rejects.toThrow('aborted')
  })

  it('keeps publications waiting until every removal has ended, also after one has failed', async () => {
    const { call } = await twoVersions()
    await call('DELETE', '/packages/acme/lib?purge=true')
    let end: (isRemoved: boolean) => void = () => {}
    let calls = 0
    const slow: ArchiveStore = {
      ...volume,
      remove: () => {
        calls += 1
        return calls === 1
          ? Promise.reject(new Error('the bucket refuses'))
          : new Promise((resolve) => {
              end = resolve
            })
      },
    }
    const collected = collectAgedGarbage(t.db, slow, { isForced: true }).catch(
      (error: Error) => error.message,
    )
    await expect.poll(() => calls).toBe(2)
    await sleep(100)
    expect(await mayPublish()).toBe(false)
    end(true)
    expect(await collected).toBe('the bucket refuses')
    expect(await mayPublish()).toBe(true)
  })

  it('keeps an archive that another version has too', async () => {
    const { call, kept } = await twoVersions()
    const payload = aPackageZip('acme/same')
    const one = await aCaller(t)
    const two = await aCaller(t)
    const { sha256 } = (await one.push('1.0.0', { name: 'acme/same', payload })).json()
    await two.push('1.0.0', { name: 'acme/same', payload })
    await age(pathOf(sha256), 48)
    await one.call('DELETE', '/packages/acme/same?purge=true')
    await collectAgedGarbage(t.db, volume)
    expect([existsSync(pathOf(kept)), existsSync(pathOf(sha256))]).toEqual([true, true])
    await two.call('DELETE', '/packages/acme/same?purge=true')
    await call('DELETE')
    await collectAgedGarbage(t.db, volume, { isForced: true })
    expect(existsSync(pathOf(sha256))).toBe(false)
  })

  it('refuses to remove more than half of the archives, unless it is forced, and removes nothing then', async () => {
    const { call, push, kept, gone } = await twoVersions()
    await push('3.0.0', { manifest: { description: 'fresh' } })
    for (const version of ['1.0.0', '2.0.0']) await call('DELETE', `/packages/acme/lib/${version}?purge=true`)
    const temporary = join(volume.directory, 'tmp', 'crashed')
    await writeFile(temporary, 'xx')
    await age(temporary, 25)
    await expect(collectAgedGarbage(t.db, volume)).rejects.toThrow('Nothing needs 2 of the 3 archives')
    expect([pathOf(kept), pathOf(gone), temporary].map(existsSync)).toEqual([true, true, true])
    expect(await collectAgedGarbage(t.db, volume, { isDryRun: true })).toMatchObject({
      archives: 2,
      temporaryFiles: 1,
    })
    expect([pathOf(kept), pathOf(gone), temporary].map(existsSync)).toEqual([true, true, true])
    expect(await listArchives(t.db)).toHaveLength(3)
    expect(await collectAgedGarbage(t.db, volume, { isForced: true })).toMatchObject({
      archives: 2,
      temporaryFiles: 1,
    })
    expect([pathOf(kept), pathOf(gone), temporary].map(existsSync)).toEqual([false, false, false])
  })

  it('removes rows whose file no longer exists, and keeps those of purged versions', async () => {
    const { call, kept, gone } = await twoVersions()
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    await anUnusedArchive(t.db)
    await collectAgedGarbage(t.db, volume)
    expect(new Set(await listArchives(t.db))).toEqual(new Set([kept, gone]))
    expect(existsSync(pathOf(gone))).toBe(false)
  })

  it('keeps archives of mirrored packages, and removes them when the mirror has dropped them', async () => {
    const { call, repository, kept, gone } = await twoVersions()
    await aMirroredPackage(t.db, repository, 'far/away')
    await aMirroredArchive(t.db, 'far/away', { sha256: gone, isStored: true })
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    await dropRows(t.db, 'package_version', { version: '2.0.0' })
    await collectAgedGarbage(t.db, volume)
    expect([existsSync(pathOf(kept)), existsSync(pathOf(gone))]).toEqual([true, true])
    await forgetFiles(t.db)
    await collectAgedGarbage(t.db, volume)
    expect(existsSync(pathOf(gone))).toBe(false)
    await rm(pathOf(kept))
    await rememberFiles(t.db)
    const versions = [`${repository.path}: far/away 1.0.0`]
    expect((await verifyArchives(t.db, volume)).problems).toContainEqual({
      sha256: gone,
      problem: 'missing',
      versions,
    })
  })

  it('runs in the server once a day, and stops with an error when it would remove more than half', async () => {
    const { call, gone, kept } = await twoVersions()
    const run = async () => {
      await ageUnusedArchives(t.db)
      const signal = new AbortController().signal
      return collectGarbageJob.run({ config: t.config, db: t.db, log: t.app.log }, {}, signal)
    }
    expect(collectGarbageJob.everySeconds).toBe(86_400)
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    await run()
    expect([existsSync(pathOf(kept)), existsSync(pathOf(gone))]).toEqual([true, false])
    await call('DELETE', '/packages/acme/lib?purge=true')
    // The job counts as failed, so its last success stays old, and nothing retries it before the next day.
    await expect(run()).rejects.toThrow(FailedForGood)
    expect(existsSync(pathOf(kept))).toBe(true)
  })

  it('keeps archives that were touched within a day: an upload may be about to use them', async () => {
    const { call, gone } = await twoVersions()
    await call('DELETE', '/packages/acme/lib?purge=true')
    await age(pathOf(gone), 23)
    await writeFile(join(volume.directory, 'tmp', 'running'), 'x')
    await writeFile(join(volume.directory, 'tmp', 'crashed'), 'xx')
    await age(join(volume.directory, 'tmp', 'crashed'), 25)
    expect(await collectAgedGarbage(t.db, volume, { isForced: true })).toMatchObject({
      archives: 1,
      temporaryFiles: 1,
    })
    expect(existsSync(pathOf(gone))).toBe(true)
    expect(existsSync(join(volume.directory, 'tmp', 'running'))).toBe(true)
  })

  it('removes nothing that a concurrent upload uses, even if the bytes were garbage before', async () => {
    const before = await aCaller(t)
    const payload = aPackageZip('acme/again')
    for (let round = 0; round < 10; round += 1) {
      const publisher = await aCaller(t)
      const { sha256 } = (await before.push(`1.${round}.0`, { name: 'acme/again', payload })).json()
      await before.call('DELETE', '/packages/acme/again?purge=true')
      await age(pathOf(sha256), 48)
      const [pushed] = await Promise.all([
        publisher.push('1.0.0', { name: 'acme/again', payload }),
        collectAgedGarbage(t.db, volume, { isForced: true }),
        collectAgedGarbage(t.db, volume, { isForced: true }),
      ])
      const { url } = pushed.json() as { url: string }
      const pulled = await publisher.ask(url.slice(`http://svc.test${publisher.path}`.length))
      expect([pushed.statusCode, pulled.statusCode]).toEqual([201, 200])
      await publisher.call('DELETE')
    }
  })
})

describe('verifyArchives', () => {
  it('finds no problem in correct archives, purged versions and garbage', async () => {
    const { call, gone } = await twoVersions()
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    await rm(pathOf(gone))
    expect(await verifyArchives(t.db, volume)).toEqual({ archives: 1, problems: [] })
  })

  it('reports every damaged, missing or truncated archive, and the versions that use it', async () => {
    const { push, repository, kept, gone } = await twoVersions()
    const { sha256: cut } = (await push('3.0.0', { manifest: { description: 'cut' } })).json()
    const names = (version: string) => [`${repository.path}: acme/lib ${version}`]
    await appendFile(pathOf(kept), 'x')
    await rm(pathOf(gone))
    await truncate(pathOf(cut), 10)
    const { archives, problems } = await verifyArchives(t.db, volume)
    expect(archives).toBe(2)
    expect(problems).toHaveLength(3)
    expect(problems).toEqual(
      expect.arrayContaining([
        { sha256: kept, problem: 'damaged', versions: names('1.0.0') },
        { sha256: gone, problem: 'missing', versions: names('2.0.0') },
        { sha256: cut, problem: 'damaged', versions: names('3.0.0') },
      ]),
    )
    expect(existsSync(pathOf(kept))).toBe(true)
  })

  it('reports a damaged archive without a version, and a wrong size', async () => {
    const { kept } = await twoVersions()
    const stray = 'ab'.repeat(32)
    await mkdir(join(volume.directory, 'archives', 'ab'), { recursive: true })
    await writeFile(pathOf(stray), 'not these bytes')
    await misrecordSize(t.db, 'archive', kept)
    const { problems } = await verifyArchives(t.db, volume)
    expect(problems).toMatchObject([
      { sha256: kept, problem: 'wrong size' },
      { sha256: stray, problem: 'damaged', versions: [] },
    ])
  })
})

describe('an upload of the same archive again', () => {
  it.each([
    ['is missing', (path: string) => rm(path)],
    ['was truncated', (path: string) => truncate(path, 10)],
  ])('brings an archive back that %s', async (_what, damage) => {
    const { push, ask } = await aCaller(t)
    const payload = aPackageZip('acme/lib')
    const { url, sha256 } = (await push('1.0.0', { payload })).json() as { url: string; sha256: string }
    await damage(pathOf(sha256))
    expect((await verifyArchives(t.db, volume)).problems).toHaveLength(1)
    expect((await push('1.0.0', { payload })).statusCode).toBe(200)
    expect(await verifyArchives(t.db, volume)).toEqual({ archives: 1, problems: [] })
    const response = await ask(url.slice(url.indexOf('dist/')))
    expect([response.statusCode, response.rawPayload.equals(payload)]).toEqual([200, true])
  })

  it('brings no archive back when the bytes differ or the version is deleted', async () => {
    const { push, call } = await aCaller(t)
    const payload = aPackageZip('acme/lib')
    const { sha256 } = (await push('1.0.0', { payload })).json() as { sha256: string }
    await rm(pathOf(sha256))
    expect((await push('1.0.0', { manifest: { description: 'other' } })).statusCode).toBe(409)
    await call('DELETE', '/packages/acme/lib/1.0.0')
    expect((await push('1.0.0', { payload })).statusCode).toBe(409)
    expect(existsSync(pathOf(sha256))).toBe(false)
  })
})

describe('svc collect-garbage and svc verify-archives', () => {
  const svc = (...words: string[]) =>
    runCommand(words, { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir })

  it('say what they did, and exit with 1 when an archive has a problem', async () => {
    const { call, kept, repository } = await twoVersions()
    await call('DELETE', '/packages/acme/lib/2.0.0?purge=true')
    await ageUnusedArchives(t.db)
    const collected = await svc('collect-garbage', '--json')
    expect(JSON.parse(collected.stdout)).toMatchObject({ archives: 1, temporary_files: 0 })
    expect((await svc('collect-garbage', '--dry-run')).stdout).toBe(
      'Would remove 0 archives and 0 temporary files: 0 bytes.\n',
    )
    expect((await svc('collect-garbage')).stdout).toBe('Removed 0 archives and 0 temporary files: 0 bytes.\n')
    const sound = await svc('verify-archives', '--json')
    expect([sound.code, JSON.parse(sound.stdout)]).toEqual([0, { archives: 1, problems: [] }])
    await rm(pathOf(kept))
    const broken = await svc('verify-archives', '--json')
    expect(broken.code).toBe(1)
    expect(JSON.parse(broken.stdout)).toEqual({
      archives: 0,
      problems: [{ sha256: kept, problem: 'missing', versions: [`${repository.path}: acme/lib 1.0.0`] }],
    })
    const { code, stdout, stderr } = await svc('verify-archives')
    expect([code, stderr]).toEqual([1, 'svc: 1 archive has a problem.\n'])
    expect(stdout).toContain(`${kept} is missing\n  ${repository.path}: acme/lib 1.0.0`)
  })
})

it('the view archive_reference names every table with a foreign key to archive', async () => {
  const tables = await listReferringTables(t.db, 'archive')
  const view = await viewDefinition(t.db, 'archive_reference')
  for (const name of tables) expect(view).toMatch(new RegExp(`FROM ${name}\\b`))
  expect(tables.length).toBeGreaterThan(1)
})

it('measureGroup counts, and listArchivesAfter names, what the view archive_reference says is needed', async () => {
  const repository = await aRepository(t.db)
  const before = await listArchivesAfter(t.db, '')
  const needed = await addReferences(t.db, repository)
  const { stored, mirrored } = await measureGroup(t.db, repository.group.id)
  const listed = (await listArchivesAfter(t.db, '')).filter(
    ({ sha256 }) => !before.some((one) => one.sha256 === sha256),
  )
  expect([stored + mirrored, mirrored]).toEqual([needed, 16])
  expect(listed.reduce((sum, { size }) => sum + size, 0)).toBe(needed)
  expect(Object.fromEntries(listed.map(({ size, versions }) => [size, versions]))).toEqual({
    1: [`${repository.path}: referred/lib 0.0.0`],
    4: [`${repository.path}: referred/lib 0.0.0`],
    16: [`${repository.path}: mirrored/lib 4.0.0`],
    64: [`${repository.path}: staged/lib 6.0.0`],
  })
})
