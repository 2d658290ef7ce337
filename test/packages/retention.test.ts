import { describe, expect, it } from 'vitest'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { applyRetentionJob } from '../../src/packages/lifecycle/retention.ts'
import { jobs } from '../../src/web/server/jobs.ts'
import { aGroup, aGroupMember } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { openTransaction, untilWaiting } from '../support/locks.ts'
import { lockPackage, markQuarantined } from '../support/package-rows.ts'
import { ageLockedPackages } from '../support/project-rows.ts'
import { expand } from '../support/registry-actors.ts'
import { ageDeletions, goneVersions, makeRetentionDue } from '../support/retention-rows.ts'
import { aSource } from '../support/source-actors.ts'

const t = useApp(sourcesHere)
const svc = useCommands(t)
const server = useGitServer()

/** Runs the job as the server does, and what it has queued. */
async function applyRules(): Promise<void> {
  await enqueue(t.db, applyRetentionJob, null)
  await runDueJobs({ config: t.config, db: t.db }, jobs, t.app.log)
}

/** An admin of a repository with builds 1.0.0-build.1, 1.0.0-build.2 and so on. */
async function aPlace(builds: number) {
  const caller = await aCaller(t)
  for (let build = 1; build <= builds; build += 1) await caller.push(`1.0.0-build.${build}`)
  const { repository, call } = caller
  const set = (keep_development: number | null, deleted_archives_days: number | null = null) =>
    call('PUT', '/retention', { keep_development, deleted_archives_days })
  return {
    ...caller,
    set,
    setAndApply: async (...rules: Parameters<typeof set>) => {
      expect((await set(...rules)).statusCode).toBe(200)
      await makeRetentionDue(t.db, repository)
      await applyRules()
      return goneVersions(t.db, repository)
    },
    /** What the rules do, by version. */
    preview: async (query = '') => {
      const response = await call('GET', `/retention/preview${query}`)
      const list = response.json<{ version: string; act: string; reason: string }[]>()
      return Object.fromEntries(list.map(({ version, act, reason }) => [version, [act, reason]]))
    },
    /** Sends a lock file of another group with these development versions. */
    lock: async (...versions: string[]) => {
      const group = await aGroup(t.db)
      await aGroupMember(t.db, caller.account, group, 'developer')
      const packages = versions.map((version) => ({ name: 'acme/lib', version }))
      const url = `/api/groups/${group.name}/projects/shop/lock`
      return (payload: object[] = packages) =>
        t.app.inject({
          method: 'POST',
          url,
          headers: { authorization: `Bearer ${caller.token}` },
          payload: { packages: payload },
        })
    },
  }
}

describe('the rule about development versions', () => {
  it('deletes all but the newest ones of each package, and no release, with events', async () => {
    const { push, ask, repository, setAndApply } = await aPlace(3)
    // Composer cannot read the second one. It is a release for those who made it.
    for (const version of ['1.0.0', '20240501.0.0', '1.1.0-beta.1']) await push(version)
    await push('2.0.0-build.1', { name: 'acme/other' })
    expect(await setAndApply(1)).toEqual({ '1.0.0-build.1': 'deleted', '1.0.0-build.2': 'deleted' })
    const entries = expand((await ask('p2/acme/lib~dev.json')).body)
    expect(entries.map(({ version }) => String(version)).sort()).toEqual([
      'dev-1.0.0-build.3',
      'dev-20240501.0.0',
    ])
    const about = { repositoryId: repository.id, action: 'delete' } as const
    expect(await eventsOf(t.db, about, ['version', 'via', 'actorId', 'details'])).toEqual(
      ['1.0.0-build.1', '1.0.0-build.2'].map((version) => ({
        version,
        via: null,
        actorId: null,
        details: { reason: 'retention rule: keeps 1 development version' },
      })),
    )
  })

  it('waits a day after it was set or made stricter, and not when it was made weaker', async () => {
    const { set, repository, setAndApply } = await aPlace(3)
    const hours = async (...rules: Parameters<typeof set>) => {
      const { due_at } = (await set(...rules)).json()
      return Math.round(Math.abs(Date.parse(due_at) - Date.now()) / 3_600_000)
    }
    expect(await hours(2)).toBe(24)
    await applyRules()
    expect(await goneVersions(t.db, repository)).toEqual({})
    await makeRetentionDue(t.db, repository)
    expect([await hours(3), await hours(3), await hours(2)]).toEqual([0, 0, 24])
    await makeRetentionDue(t.db, repository)
    expect([await hours(2, 30), await hours(2, 31)]).toEqual([24, 24])
    expect((await set(null)).json()).toEqual({
      keep_development: null,
      deleted_archives_days: null,
      due_at: null,
    })
    await applyRules()
    expect(await goneVersions(t.db, repository)).toEqual({})
    expect(await setAndApply(2)).toEqual({ '1.0.0-build.1': 'deleted' })
    const events = await eventsOf(t.db, { repositoryId: repository.id, action: 'set-retention' }, ['details'])
    expect(events.map(({ details }) => details).slice(0, 2)).toEqual([
      { keepDevelopment: 2, from: { keepDevelopment: null } },
      { keepDevelopment: 3, from: { keepDevelopment: 2 } },
    ])
  })

  it('keeps what a lock file of any project names, what is in quarantine, and what somebody restored', async () => {
    const { lock, repository, call, setAndApply, preview } = await aPlace(5)
    const send = await lock('dev-1.0.0-build.1')
    expect((await send()).statusCode).toBe(201)
    await markQuarantined(t.db, repository, 'stolen token', { version: '1.0.0-build.2' })
    expect(await setAndApply(1)).toEqual({ '1.0.0-build.3': 'deleted', '1.0.0-build.4': 'deleted' })
    expect((await call('POST', '/packages/acme/lib/1.0.0-build.3/restore')).statusCode).toBeLessThan(300)
    await makeRetentionDue(t.db, repository)
    await applyRules()
    expect(await goneVersions(t.db, repository)).toEqual({ '1.0.0-build.4': 'deleted' })
    expect(await preview('?act=keep')).toMatchObject({
      '1.0.0-build.1': ['keep', 'the lock file of a project names it, or has named it this week'],
      '1.0.0-build.2': ['keep', 'it is in quarantine'],
      '1.0.0-build.3': ['keep', 'somebody restored it after a retention rule had deleted it'],
      '1.0.0-build.5': ['keep', 'it is one of the newest development versions'],
    })
    // The next lock file no longer names it. A week later it goes.
    await send([])
    await makeRetentionDue(t.db, repository)
    await applyRules()
    expect(await goneVersions(t.db, repository)).not.toHaveProperty(['1.0.0-build.1'])
    await ageLockedPackages(t.db, 9)
    expect(await preview()).toEqual({
      '1.0.0-build.1': ['delete', '3 development versions changed later'],
    })
  })

  it('keeps lasting branches, and a branch that it deleted comes back with the next commit', async () => {
    const git = server.repository('lasting')
    git.commit(packageFiles('acme/lib'))
    for (const branch of ['1.x', 'develop', 'prod', 'feature/a', 'feature/b'])
      git.commit({ 'README.md': branch }, { branch })
    git.git('--git-dir', git.path, 'symbolic-ref', 'HEAD', 'refs/heads/prod')
    const source = await aSource(t, { url: git.url })
    await source.read()
    const { repository } = source
    const { call } = await aCaller(t, { repository })
    await call('PUT', '/retention', { keep_development: 1, deleted_archives_days: null })
    const apply = async () => {
      await makeRetentionDue(t.db, repository)
      await applyRules()
      return Object.keys(await goneVersions(t.db, repository))
    }
    expect(await apply()).toEqual(['dev-feature/a'])
    await source.readAgain()
    expect(Object.keys(await goneVersions(t.db, repository))).toEqual(['dev-feature/a'])
    git.git('checkout', '--quiet', 'feature/a')
    git.commit({ 'src/New.php': '<?php\n' })
    await source.readAgain()
    expect(await goneVersions(t.db, repository)).toEqual({})
    const branches = await source.entries('acme/lib', { isDev: true })
    expect(branches.map(({ version }) => version)).toContain('dev-feature/a')
    // It is the newest one now.
    expect(await apply()).toEqual(['dev-feature/b'])
    // A version that a person deleted stays deleted.
    await call('DELETE', `/packages/acme/lib/${encodeURIComponent('dev-feature/a')}`)
    git.commit({ 'src/Newer.php': '<?php\n' })
    await source.readAgain()
    expect(Object.keys(await goneVersions(t.db, repository))).toEqual(['dev-feature/a', 'dev-feature/b'])
  })

  it('decides under the lock of the package: a version that was published or locked meanwhile counts', async () => {
    const { push, lock, repository, set } = await aPlace(3)
    const send = await lock('dev-1.0.0-build.2')
    await set(1)
    await makeRetentionDue(t.db, repository)
    const { tx, commit } = await openTransaction(t.db)
    await lockPackage(tx, 'acme/lib')
    const applying = applyRules()
    await untilWaiting(t.db, 1, 'for no key update')
    await send()
    await commit()
    await applying
    expect(await goneVersions(t.db, repository)).toEqual({ '1.0.0-build.1': 'deleted' })
    await push('1.0.0-build.4')
    await makeRetentionDue(t.db, repository)
    // A process that ends has decided nothing: the rules stay due.
    const context = { config: t.config, db: t.db, log: t.app.log }
    await expect(applyRetentionJob.run(context, null, AbortSignal.abort())).rejects.toThrow()
    await Promise.all([applyRules(), applyRules()])
    expect(await goneVersions(t.db, repository)).toEqual({
      '1.0.0-build.1': 'deleted',
      '1.0.0-build.3': 'deleted',
    })
  })
})

describe('the rule about deleted versions', () => {
  it('purges them after their days, except those that a lock file of a project names', async () => {
    const { push, call, authorization, lock, repository, setAndApply, preview } = await aPlace(0)
    const urls: string[] = []
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
      const { url } = (await push(version, { manifest: { description: version } })).json()
      urls.push(new URL(url).pathname)
      await call('DELETE', `/packages/acme/lib/${version}`)
    }
    await (await lock('1.1.0'))()
    await ageDeletions(t.db, repository, 30)
    await push('1.3.0')
    await call('DELETE', '/packages/acme/lib/1.3.0')
    expect(await preview('?deleted_archives_days=31')).toEqual({})
    expect(await preview('?deleted_archives_days=30')).toEqual({
      '1.0.0': ['purge', 'it was deleted long enough ago'],
      '1.2.0': ['purge', 'it was deleted long enough ago'],
    })
    expect(await setAndApply(null, 30)).toEqual({
      '1.0.0': 'purged',
      '1.1.0': 'deleted',
      '1.2.0': 'purged',
      '1.3.0': 'deleted',
    })
    const statuses = urls.map(
      async (url) => (await t.app.inject({ url, headers: { authorization } })).statusCode,
    )
    expect(await Promise.all(statuses)).toEqual([404, 200, 404])
    const about = { repositoryId: repository.id, action: 'purge' } as const
    expect(await eventsOf(t.db, about, ['version', 'details'])).toEqual(
      ['1.0.0', '1.2.0'].map((version) => ({
        version,
        details: { reason: 'retention rule: 30 days after the deletion' },
      })),
    )
  })
})

describe('the retention rules of a repository', () => {
  it('are set by admins with a token that may delete, and refused when they are wrong', async () => {
    const { call, set, repository, preview } = await aPlace(2)
    for (const rules of [[0], [1001], [1, 0], [null, 3651]] as const)
      expect((await set(...(rules as [number]))).statusCode).toBe(400)
    expect((await call('GET', '/retention')).json()).toMatchObject({ keep_development: null, due_at: null })
    const weak = await aCaller(t, { repository, scopes: ['registry-manage:rw'] })
    const rules = { keep_development: 1, deleted_archives_days: null }
    expect((await weak.call('PUT', '/retention', rules)).statusCode).toBe(403)
    expect(
      (await callApi(t, weak.token, 'GET', `/api/repositories/${repository.path}/retention`)).statusCode,
    ).toBe(200)
    // A rule that is not set can be tried.
    expect(await preview('?keep_development=1')).toEqual({
      '1.0.0-build.1': ['delete', '1 development version changed later'],
    })
    expect((await call('GET', '/retention/preview?keep_development=0')).statusCode).toBe(400)
  })

  it('are shown, set and previewed by command', async () => {
    const {
      repository: { path },
    } = await aPlace(3)
    expect((await svc.run('retention', 'show', path)).stdout).toBe(`${path} has no retention rules.\n`)
    expect(await svc.json('retention', 'preview', path, '--keep-development', '2')).toEqual({
      items: [expect.objectContaining({ package: 'acme/lib', version: '1.0.0-build.1', act: 'delete' })],
      next: null,
    })
    expect(await svc.json('retention', 'set', path, '--keep-development', '2')).toMatchObject({
      path,
      keep_development: 2,
      deleted_archives_days: null,
    })
    const { stdout } = await svc.run('retention', 'set', path, '--deleted-archives-days', '30')
    expect(stdout).toMatch(
      /stay: 2\nArchives of deleted versions are purged after 30 days\.\nApplied next: 2/,
    )
    const part = await svc.json('retention', 'preview', path, '--kept', '--limit', '1')
    expect(part).toMatchObject({
      items: [{ version: '1.0.0-build.3', act: 'keep' }],
      next: expect.any(String),
    })
    for (const [words, reason] of [
      [['set', path], 'Nothing to change'],
      [['set', path, '--keep-development', '0'], 'from 1 to 1000, or off'],
      [['show', 'no/where'], 'There is no repository'],
    ] as const) {
      const { code, stderr } = await svc.run('retention', ...words)
      expect([code, stderr]).toEqual([1, expect.stringContaining(reason)])
    }
  })
})
