import { appendFile, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { beforeEach, describe, expect, it } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { keepArchive } from '../../src/archives/keep-archive.ts'
import { receiveArchive } from '../../src/archives/local-store.ts'
import { scrubArchives, scrubArchivesJob } from '../../src/archives/scrub-archives.ts'
import { openOwnStore } from '../../src/archives/store-owner.ts'
import { listArchivesToCheck } from '../../src/archives/tables/stored-archives.ts'
import { verifyArchives } from '../../src/archives/verify-archives.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { openLog } from '../../src/web/server/log.ts'
import { anAdministrator } from '../support/admin-actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import {
  addMissingFiles,
  ageChecks,
  forgetArchives,
  markDamaged,
  markUnused,
  misrecordSize,
  storedArchiveRows,
} from '../support/archive-rows.ts'
import { aStoredJob } from '../support/job-rows.ts'
import { markPurged } from '../support/package-rows.ts'
import { databaseUrl } from '../support/program.ts'
import { countRows } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'

const t = useApp()
let store: ArchiveStore
beforeEach(async () => {
  await rm(join(t.config.dataDir, 'archives'), { recursive: true, force: true })
  await forgetArchives(t.db)
  store = await openOwnStore(t.db, t.config)
})

const pathOf = (sha256: string) => join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
const log = openLog('silent')
const run = (signal = new AbortController().signal) => scrubArchivesJob.run({ ...t, log }, undefined, signal)

/** Publishes versions of a package. Returns the hashes of their archives. */
async function published(count: number): Promise<string[]> {
  const { push } = await aCaller(t)
  const hashes: string[] = []
  for (let i = 0; i < count; i += 1) {
    const pushed = await push(`1.${i}.0`, { manifest: { description: Math.random().toString() } })
    hashes.push((pushed.json() as { sha256: string }).sha256)
  }
  return hashes
}

/** Lets the last check of archives be so many days ago. */
const age = (days: number, hashes: readonly string[]) => ageChecks(t.db, `${days} days`, hashes)

async function problemOf(sha256: string) {
  const row = (await storedArchiveRows(t.db)).find((stored) => stored.sha256 === sha256)
  return row && { problem: row.problem, isRecent: row.isRecent }
}

describe('the job scrub-archives', () => {
  it('stores which archives are damaged, missing, or of another size, and which are intact', async () => {
    const [good = '', changed = '', gone = '', resized = ''] = await published(4)
    const bytes = await readFile(pathOf(changed))
    bytes[20] = ~(bytes[20] ?? 0)
    await writeFile(pathOf(changed), bytes)
    await rm(pathOf(gone))
    await misrecordSize(t.db, 'stored_archive', resized)
    await age(31, [good, changed, gone, resized])
    await run()
    expect(await Promise.all([good, changed, gone, resized].map(problemOf))).toEqual([
      { problem: null, isRecent: true },
      { problem: 'damaged', isRecent: true },
      { problem: 'missing', isRecent: true },
      { problem: 'wrong size', isRecent: true },
    ])
  })

  it('reads only archives that nobody has compared for ARCHIVE_CHECK_DAYS', async () => {
    const [recent = '', old = ''] = await published(2)
    await appendFile(pathOf(recent), 'x')
    await appendFile(pathOf(old), 'x')
    await age(29, [recent])
    await age(31, [old])
    await run()
    expect([(await problemOf(recent))?.problem, (await problemOf(old))?.problem]).toEqual([null, 'damaged'])
  })

  it('begins with the archive that nobody has compared for the longest time, and leaves out unused ones', async () => {
    const hashes = await published(3)
    const [recent = '', oldest = '', unused = ''] = hashes
    await age(31, [recent])
    await age(33, [oldest, unused])
    await markUnused(t.db, unused)
    const due = async (limit: number) =>
      (await listArchivesToCheck(t.db, 30, limit)).map(({ sha256 }) => sha256)
    expect([await due(1), await due(9)]).toEqual([[oldest], [oldest, recent]])
    await markDamaged(t.db)
    expect([await due(1), await due(9)]).toEqual([[oldest], [oldest, recent]])
  })

  it('reads all archives that are due, and logs each new problem once', async () => {
    await addMissingFiles(t.db, 101, 31)
    const lines: string[] = []
    const stream = new PassThrough().on('data', (chunk: Buffer) =>
      lines.push(...chunk.toString().trim().split('\n')),
    )
    const noted = openLog('info', stream)
    const signal = new AbortController().signal
    for (let times = 0; times < 2; times += 1) {
      await scrubArchivesJob.run({ ...t, log: noted }, undefined, signal)
      await ageChecks(t.db, '1 hour')
    }
    await expect
      .poll(() => lines.filter((line) => line.includes('"archives":101,"problems":101')))
      .toHaveLength(2)
    expect(lines.filter((line) => line.includes('a stored archive is damaged'))).toHaveLength(101)
    expect(await countRows(t.db, 'stored_archive', { problem: 'missing' })).toBe(101)
  })

  it('continues after a stop with the archives that it has not read', async () => {
    const hashes = await published(3)
    await age(31, hashes)
    const stop = new AbortController()
    stop.abort(new Error('stopped'))
    await expect(run(stop.signal)).rejects.toThrow('stopped')
    const [first = '', second = ''] = hashes
    // No bytes of a missing archive are read, and the job stops there too.
    await rm(pathOf(second))
    await age(32, [second])
    await expect(run(stop.signal)).rejects.toThrow('stopped')
    expect((await problemOf(second))?.isRecent).toBe(false)
    await age(1, [first])
    await run()
    const checked = await Promise.all(hashes.map(problemOf))
    expect(checked.map((row) => row?.isRecent)).toEqual([false, true, true])
  })

  it('reads no faster than its pace, and begins no archive after its time', async () => {
    const [sha256 = ''] = await published(1)
    await age(31, [sha256])
    const { size } = await stat(pathOf(sha256))
    const ended = await scrubArchives({ ...t, log }, { bytesPerSecond: 1e9, maxMilliseconds: -1 })
    expect(ended).toEqual({ archives: 0, problems: 0 })
    const start = performance.now()
    const slow = { bytesPerSecond: size * 4, maxMilliseconds: 60_000 }
    expect(await scrubArchives({ ...t, log }, slow)).toEqual({ archives: 1, problems: 0 })
    // Only the least time is certain. A timer may end a millisecond early.
    expect(performance.now() - start).toBeGreaterThan(248)
  })

  it('looks at a damaged archive again, so that a repair by hand is noticed', async () => {
    const [sha256 = ''] = await published(1)
    const bytes = await readFile(pathOf(sha256))
    await truncate(pathOf(sha256), 10)
    await age(31, [sha256])
    await run()
    await writeFile(pathOf(sha256), bytes)
    await run()
    expect((await problemOf(sha256))?.problem).toBe('damaged')
    await ageChecks(t.db, '1 hour')
    await run()
    expect((await problemOf(sha256))?.problem).toBeNull()
  })

  it('counts no archive as missing while the volume is not mounted', async () => {
    const [sha256 = ''] = await published(1)
    await age(31, [sha256])
    await rename(join(t.config.dataDir, 'archives'), join(t.config.dataDir, 'elsewhere'))
    try {
      await expect(run()).rejects.toThrow('is it still mounted?')
      expect((await problemOf(sha256))?.problem).toBeNull()
    } finally {
      await rm(join(t.config.dataDir, 'archives'), { recursive: true, force: true })
      await rename(join(t.config.dataDir, 'elsewhere'), join(t.config.dataDir, 'archives'))
    }
  })

  it('runs on the schedule of the server', async () => {
    const { jobs } = await import('../../src/web/server/jobs.ts')
    expect(jobs).toContain(scrubArchivesJob)
    expect(scrubArchivesJob.everySeconds).toBe(3600)
    await aStoredJob(t.db, 'scrub-archives', { key: '' })
    const [sha256 = ''] = await published(1)
    await age(31, [sha256])
    await runDueJobs(t, [scrubArchivesJob], log)
    expect((await problemOf(sha256))?.isRecent).toBe(true)
  })

  it('has its result in svc system and at /admin/system, until the archive is good again', async () => {
    const [sha256 = '', purged = ''] = await published(2)
    const bytes = await readFile(pathOf(sha256))
    for (const one of [sha256, purged]) await rm(pathOf(one))
    await age(31, [sha256, purged])
    await run()
    await markPurged(t.db, { sha256: purged })
    const system = () =>
      runCommand(['system'], { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir })
    expect((await system()).stdout).toContain('1 damaged or missing. Run svc verify-archives --repair')
    const { cookie } = await anAdministrator(t)
    const page = async () => (await t.app.inject({ url: '/admin/system', headers: { cookie } })).body
    expect(await page()).toContain('1 archive is damaged or missing.')
    const received = await receiveArchive(store, Readable.from([bytes]), { maxBytes: 1e6 })
    await keepArchive(t.db, store, received, async () => {})
    expect(await page()).not.toContain('damaged or missing')
    expect((await system()).stdout).not.toContain('damaged or missing')
  })
})

describe('verifyArchives', () => {
  it('stores what it finds, as the job does', async () => {
    const [good = '', changed = '', gone = ''] = await published(3)
    await age(31, [good, changed, gone])
    await appendFile(pathOf(changed), 'x')
    await rm(pathOf(gone))
    await verifyArchives(t.db, store)
    expect(await Promise.all([good, changed, gone].map(problemOf))).toEqual([
      { problem: null, isRecent: true },
      { problem: 'damaged', isRecent: true },
      { problem: 'missing', isRecent: true },
    ])
  })

  it('names an archive that the disk cannot read, and reads the others', async () => {
    const [good = '', unreadable = ''] = await published(2)
    const failing: ArchiveStore = {
      ...store,
      async read(sha256, range) {
        if (sha256 !== unreadable) return store.read(sha256, range)
        const error = Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO', syscall: 'read' })
        const bytes = new Readable({
          read() {
            this.destroy(error)
          },
        })
        return { size: 1, bytes }
      },
    }
    const { archives, problems } = await verifyArchives(t.db, failing)
    expect([archives, problems]).toMatchObject([2, [{ sha256: unreadable, problem: 'damaged' }]])
    expect((await problemOf(good))?.problem).toBeNull()
  })
})
