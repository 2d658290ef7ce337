import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { finishUpgradeJob } from '../../src/packages/finish-upgrade.ts'
import { quarantineVersion } from '../../src/packages/lifecycle/warn.ts'
import { listDependenciesJob } from '../../src/packages/tables/dependencies.ts'
import { listVendorClaims } from '../../src/upstreams/tables/vendor-claims.ts'
import { aRepository, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { addPastDownloads, addToVersionDays } from '../support/download-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'

describe('the job after an upgrade', () => {
  const t = useApp()

  /** Runs the job with the day of yesterday. */
  async function finish(): Promise<void> {
    const { db, config, app } = t
    const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
    await finishUpgradeJob.run({ db, config, log: app.log }, { day }, new AbortController().signal)
    await runDueJobs({ db, config }, [listDependenciesJob], app.log)
  }

  it('claims the vendors of new packages, and gives the packages their places in the list by downloads', async () => {
    const repository = await aRepository(t.db)
    const { account, push } = await aPublisher(t, { repository })
    for (const name of ['first/lib', 'first/log', 'second/lib']) await push('1.0.0', { name })
    const cookie = await signIn(t.app, account)
    const list = async () => {
      const { body } = await t.app.inject({ url: `/${repository.path}?sort=downloads`, headers: { cookie } })
      return [...body.matchAll(/packages\/([\w/]+)"/g)].map(([, name = '']) => name).toSorted()
    }
    const vendors = async () =>
      (await listVendorClaims(t.db, repository.group.id)).map(({ vendor }) => vendor)
    const before = [await list(), await vendors()]
    expect(before).toEqual([
      ['first/lib', 'first/log', 'second/lib'],
      ['first', 'second'],
    ])
    await t.db.query('delete from package_rank; delete from vendor_claim')
    expect([await list(), await vendors()]).toEqual([[], []])
    for (let turn = 0; turn < 2; turn += 1) await finish()
    expect([await list(), await vendors()]).toEqual(before)
  })

  it('lists new documents among the changes', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const changes = async () =>
      (await ask('metadata/changes.json?since=0'))
        .json()
        .actions.map((one: { package: string }) => one.package)
    expect(await changes()).toContain('acme/lib')
    await t.db.query(
      `update package_document set repository_id = null, last_modified = last_modified - interval '1 hour'`,
    )
    expect(await changes()).not.toContain('acme/lib')
    const since = (Date.now() - 60_000) * 10
    await finish()
    const late = (await ask(`metadata/changes.json?since=${since}`)).json().actions
    expect(late.map((one: { package: string }) => one.package)).toEqual(['acme/lib', 'acme/lib~dev'])
  })

  it('renders filter.json', async () => {
    const { repository, push, ask } = await aPublisher(t)
    await push('1.0.0')
    const change = {
      repositoryId: repository.id,
      packageName: 'acme/lib',
      version: '1.0.0',
      by: operator,
      baseUrl: t.config.baseUrl,
    }
    await quarantineVersion(t.db, change, 'stolen')
    const filter = async () => (await ask('filter.json')).json().filter.malware
    expect(await filter()).toEqual({ 'acme/lib': '==1.0.0' })
    await t.db.query('update package_version set quarantined_at = null, quarantine_reason = null')
    expect(await filter()).toEqual({ 'acme/lib': '==1.0.0' })
    await finish()
    expect(await filter()).toEqual({})
    await t.db.query('update package_version set quarantined_at = now()')
    await t.db.query('delete from filter_document')
    await finish()
    expect(await filter()).toEqual({ 'acme/lib': '==1.0.0' })
  })

  it('lists the dependents of required packages', async () => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0', { name: 'needed/lib' })
    await push('1.0.0', { name: 'needs/lib', manifest: { require: { 'needed/lib': '^1' } } })
    const cookie = await signIn(t.app, account)
    const url = `/${repository.path}/packages/needed/lib/-/dependents`
    const look = async () => (await t.app.inject({ url, headers: { cookie } })).body
    await t.db.query('delete from package_dependency')
    expect(await look()).not.toContain('needs/lib')
    await finish()
    expect(await look()).toContain('needs/lib')
  })

  it('adds the downloads that the previous release has counted to days and totals, once', async () => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0')
    await push('1.1.0')
    const version = { repositoryId: repository.id, version: '1.0.0' }
    await addPastDownloads(t.db, version, [
      [0, 1],
      [40, 1000],
    ])
    await addPastDownloads(t.db, { ...version, version: '1.1.0' }, [[3, 20]])
    const cookie = await signIn(t.app, account)
    const look = async () =>
      (await t.app.inject({ url: `/${repository.path}/packages/acme/lib`, headers: { cookie } })).body
    await addToVersionDays(t.db, version, [
      [0, 3],
      [1, 4],
    ])
    expect(await look()).toContain('Last 30 days, in UTC: 21, at most 20"')
    for (let turn = 0; turn < 2; turn += 1) await finish()
    const page = await look()
    expect(page).toContain('Last 30 days, in UTC: 28, at most 20"')
    expect(page).toContain('Newest 2 versions: 1,028, at most 1,008"')
  })
})
