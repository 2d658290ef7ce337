import { describe, expect, it } from 'vitest'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { applyRetentionJob } from '../../src/packages/lifecycle/retention.ts'
import { jobs } from '../../src/web/server/jobs.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { makeJobsDue } from '../support/job-rows.ts'
import { openTransaction, untilWaiting, whileLocked } from '../support/locks.ts'
import { lockPackage } from '../support/package-rows.ts'
import { databaseUrl, startServer } from '../support/program.ts'
import { expand } from '../support/registry-actors.ts'
import { ageDeletions, goneVersions, makeRetentionDue } from '../support/retention-rows.ts'

const t = useApp()

/** Starts the program on the database of the test, gives it the job, and kills it when it is where `reached` says. */
async function killed(
  reached: () => Promise<unknown>,
  held: <T>(work: () => Promise<T>) => Promise<T> = (work) => work(),
): Promise<void> {
  const svc = await startServer({
    DATABASE_URL: databaseUrl(t.connection),
    DATA_DIR: t.config.dataDir,
    BASE_URL: t.config.baseUrl,
    LOG_LEVEL: 'silent',
  })
  try {
    await held(async () => {
      await makeJobsDue(t.db)
      await enqueue(t.db, applyRetentionJob, null)
      await reached()
      svc.process.kill('SIGKILL')
      await svc.outcome
    })
  } finally {
    svc.process.kill('SIGKILL')
  }
}

/** Kills it in a transaction that has changed versions and waits to write their events. */
const killedBeforeItsEvents = () =>
  killed(
    () => untilWaiting(t.db, 1, 'insert_events'),
    (work) => whileLocked(t.db, 'event', work, 'exclusive'),
  )

describe('a process that is killed while it applies retention rules', () => {
  it('leaves whole versions, and the next one deletes and purges the others, each once', async () => {
    const { push, ask, call, repository } = await aCaller(t)
    // More than one transaction deletes.
    const builds = Array.from({ length: 25 }, (_, build) => `1.0.0-build.${build}`)
    for (const version of builds) await push(version)
    for (const version of ['2.0.0-build.1', '2.0.0-build.2']) await push(version, { name: 'acme/other' })
    await push('1.0.0')

    const due = async (rules: object) => {
      expect((await call('PUT', '/retention', rules)).statusCode).toBe(200)
      await makeRetentionDue(t.db, repository)
    }
    /** Another process takes the job when the lease of the killed one has ended. */
    const goOn = async () => {
      await makeJobsDue(t.db)
      await runDueJobs({ config: t.config, db: t.db }, jobs, t.app.log)
    }
    const gone = () => goneVersions(t.db, repository)
    const served = async (name: string) => {
      const versions = expand((await ask(`p2/${name}~dev.json`)).body, name).map(({ version }) =>
        String(version),
      )
      return versions.map((version) => version.replace('dev-', '')).toSorted()
    }
    const entries = expand((await ask('p2/acme/lib~dev.json')).body) as { dist: { url: string } }[]
    const archives = entries.map(({ dist }) => new URL(dist.url).pathname.split('/').slice(5).join('/'))
    /** How many archives of builds can be downloaded. */
    const stored = async () => {
      const responses = await Promise.all(archives.map((archive) => ask(archive)))
      return responses.filter(({ statusCode }) => statusCode === 200).length
    }
    const eventsFor = async (action: 'delete' | 'purge') =>
      (await eventsOf(t.db, { repositoryId: repository.id, action }, ['version'])).map(
        ({ version }) => version,
      )

    // In the transaction that deletes, after the versions and before their events.
    await due({ keep_development: 1, deleted_archives_days: 1 })
    await killedBeforeItsEvents()
    expect(await gone()).toEqual({})
    expect(await served('acme/lib')).toHaveLength(25)

    // Between two packages.
    const holder = await openTransaction(t.db)
    await lockPackage(holder.tx, 'acme/other')
    await killed(() => untilWaiting(t.db, 1, 'for no key update'))
    await holder.rollback()
    expect(Object.keys(await gone())).toEqual(builds.slice(0, -1))
    expect(await served('acme/lib')).toEqual(builds.slice(-1))
    expect(await served('acme/other')).toHaveLength(2)
    expect(await eventsFor('delete')).toHaveLength(24)

    // What is published meanwhile stays.
    await push('2.0.0-build.3', { name: 'acme/other' })
    await goOn()
    expect(await served('acme/other')).toEqual(['2.0.0-build.3'])
    const deleted = [...builds.slice(0, -1), '2.0.0-build.1', '2.0.0-build.2']
    expect(new Set(await eventsFor('delete'))).toEqual(new Set(deleted))
    expect(await eventsFor('delete')).toHaveLength(deleted.length)
    expect(await gone()).toEqual(Object.fromEntries(deleted.map((version) => [version, 'deleted'])))

    // In the transaction that purges.
    await ageDeletions(t.db, repository, 2)
    await due({ keep_development: 1, deleted_archives_days: 1 })
    await killedBeforeItsEvents()
    expect(new Set(Object.values(await gone()))).toEqual(new Set(['deleted']))
    expect(await stored()).toBe(25)
    await goOn()
    expect(await gone()).toEqual(Object.fromEntries(deleted.map((version) => [version, 'purged'])))
    expect(new Set(await eventsFor('purge'))).toEqual(new Set(deleted))
    expect(await eventsFor('purge')).toHaveLength(deleted.length)
    expect(await stored()).toBe(1)
  })
})
