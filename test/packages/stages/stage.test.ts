import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../../src/accounts/account-lifecycle.ts'
import { endSessions } from '../../../src/accounts/sessions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { removeRepositoryMember } from '../../../src/groups/members.ts'
import { setReleaseRule as setPackageRelease } from '../../../src/packages/lifecycle/release-rule.ts'
import { rejectStage, releaseStage } from '../../../src/packages/stages/release.ts'
import { findStage, listStages, lockNumbers } from '../../../src/packages/tables/staged-versions.ts'
import { aDeployToken, aMember, anAccount, groupOf } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { lockTables, openTransaction, untilWaiting } from '../../support/locks.ts'
import { growMetadata } from '../../support/package-rows.ts'
import { aPublisher, basic, expand } from '../../support/registry-actors.ts'
import { setProofAges } from '../../support/session-rows.ts'
import {
  atBrowser,
  endStageTime,
  runExpiry,
  setReleaseRule,
  storedStateOf,
} from '../../support/stage-rows.ts'

const t = useApp()
const baseUrl = 'http://svc.test'

async function stageWith(id: string) {
  const stage = await findStage(t.db, id)
  if (!stage) throw new Error(`no stage ${id}`)
  return stage
}

async function release(id: string, by = operator) {
  return releaseStage(t.db, { stage: await stageWith(id), by, baseUrl })
}

async function actionsIn({ id }: { id: string }): Promise<string[]> {
  return (await eventsOf(t.db, { repositoryId: id }, ['action'])).map(({ action }) => action)
}

async function reject(id: string, by = operator) {
  return rejectStage(t.db, { stage: await stageWith(id), by, reason: '' })
}

/** A publisher with a staged version 1.0.0. */
async function aStage(about: Parameters<typeof aPublisher>[1] = {}) {
  const publisher = await aPublisher(t, about)
  const response = await publisher.stage('1.0.0')
  return { ...publisher, response, id: response.json().id as string }
}

describe('PUT stage/<vendor>/<package>/<version>', () => {
  it('stages the version, and returns 202 with the pages of the stage', async () => {
    const { response, repository, path, id } = await aStage()
    expect(response.statusCode).toBe(202)
    expect(response.json()).toEqual({
      id: expect.stringMatching(/^\d+$/),
      status: 'staged',
      name: 'acme/lib',
      version: '1.0.0',
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      review_url: `http://svc.test/${repository.path}/-/stages/${id}`,
      repository_url: `http://svc.test${path}stages/${id}/`,
      expires_at: expect.stringMatching(/^\d{4}-/),
    })
    const days = (Date.parse(response.json().expires_at) - Date.now()) / 86_400_000
    expect(Math.round(days)).toBe(14)
  })

  it('publishes nothing, and claims no name', async () => {
    const { ask, repository } = await aStage()
    expect((await ask('packages.json')).json()['available-packages']).toBeUndefined()
    expect((await ask('p2/acme/lib.json')).statusCode).toBe(404)
    expect(await actionsIn(repository)).toEqual(['stage'])
  })

  it('returns the same stage for the same bytes, also at upload/', async () => {
    const { stage, push, id } = await aStage()
    for (const again of [await stage('1.0.0'), await push('1.0.0')]) {
      expect([again.statusCode, again.json().id]).toEqual([202, id])
    }
    const racing = await aPublisher(t)
    const responses = await Promise.all(Array.from({ length: 10 }, () => racing.stage('1.0.0')))
    expect(new Set(responses.map((response) => response.json().id)).size).toBe(1)
  })

  it('reserves the normalized number: other bytes and another spelling get 409', async () => {
    const { stage, push } = await aStage()
    const manifest = { description: 'other bytes' }
    for (const send of [stage, push]) {
      expect((await send('1.0.0', { manifest })).json()).toMatchObject({
        errcode: 6,
        errmsg: 'version 1.0.0 is staged with other content',
      })
      expect((await send('1.0.0+build.1')).statusCode).toBe(409)
    }
  })

  it('gets 409 for a published number with other bytes, and 200 for the same', async () => {
    const { push, stage } = await aPublisher(t)
    await push('1.0.0')
    expect((await stage('1.0.0', { manifest: { description: 'other' } })).statusCode).toBe(409)
    expect((await stage('1.0.0')).statusCode).toBe(200)
  })

  it('lets one number be either staged or published, however uploads race', async () => {
    const { push, stage } = await aPublisher(t)
    const one = { manifest: { description: 'one' } }
    const other = { manifest: { description: 'other' } }
    const responses = await Promise.all(
      Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? push('1.0.0', one) : stage('1.0.0', other))),
    )
    const taken = responses.filter(({ statusCode }) => statusCode < 300)
    expect(new Set(taken.map((response) => response.json().sha256)).size).toBe(1)
    expect(responses.filter(({ statusCode }) => statusCode === 409)).toHaveLength(5)
  })

  it('is judged like an upload', async () => {
    const { stage, push, repository } = await aPublisher(t)
    expect((await stage('1.0.0', { payload: 'no zip' })).statusCode).toBe(400)
    expect((await stage('one')).statusCode).toBe(400)
    expect((await stage('1.0.0', { manifest: { version: '2.0.0' } })).statusCode).toBe(400)
    await push('1.0.0')
    await push('0.9.0')
    await growMetadata(t.db, repository, '0.9.0', 17 * 1024 * 1024)
    expect((await stage('1.1.0')).statusCode).toBe(413)
  })

  it('is allowed to everybody who may push, and to nobody else', async () => {
    const { repository, path } = await aPublisher(t, { visibility: 'public' })
    const group = await groupOf(t.db, repository)
    for (const [right, status] of [
      ['publish', 400],
      ['read', 403],
    ] as const) {
      const authorization = basic(await aDeployToken(t.db, group, { right }))
      const response = await t.app.inject({
        method: 'PUT',
        url: `${path}stage/acme/lib/1.0.0`,
        headers: { authorization },
        payload: 'no zip',
      })
      expect(response.statusCode).toBe(status)
    }
    const guest = await aPublisher(t, { repository, role: 'guest' })
    expect((await guest.stage('1.0.0')).statusCode).toBe(403)
  })
})

describe('a repository or package with reviewed releases', () => {
  it('stages what upload/ gets of this package, and publishes other ones', async () => {
    const { repository, push } = await aPublisher(t)
    await push('1.0.0')
    const change = { repositoryId: repository.id, packageName: 'acme/lib', by: operator, baseUrl }
    await setPackageRelease(t.db, change, 'reviewed')
    const response = await push('1.1.0')
    expect([response.statusCode, response.json().status]).toEqual([202, 'staged'])
    expect((await push('1.0.0', { name: 'acme/other' })).statusCode).toBe(201)
  })

  it('stages what upload/ gets', async () => {
    const { repository, push, ask } = await aPublisher(t)
    await push('1.0.0')
    await setReleaseRule(t, repository)
    const response = await push('1.1.0')
    expect([response.statusCode, response.json().status]).toEqual([202, 'staged'])
    expect(expand((await ask('p2/acme/lib.json')).body)).toMatchObject([{ version: '1.0.0' }])
  })
})

describe('a release', () => {
  it('publishes the version as its stager, at the time of the release', async () => {
    const { id, ask, repository, account } = await aStage()
    const before = Date.now()
    expect(await release(id)).toBe('released')
    const [entry] = expand((await ask('p2/acme/lib.json')).body)
    expect(entry).toMatchObject({
      version: '1.0.0',
      dist: { url: expect.stringContaining('/dist/acme/lib/') },
    })
    expect(Date.parse(entry?.['published-time'] as string)).toBeGreaterThan(before - 2000)
    expect((await ask('packages.json')).json()['available-packages']).toEqual(['acme/lib'])
    expect(await actionsIn(repository)).toEqual(['stage', 'publish', 'release-stage'])
    const { rows } = await t.db.query(
      'select uploader_id from package_version v join package p on p.id = v.package_id where p.repository_id = $1',
      [repository.id],
    )
    expect(rows).toEqual([{ uploader_id: account.id }])
  })

  it('happens once, however many releases, rejections and the expiry race', async () => {
    for (let round = 0; round < 3; round += 1) {
      const { id, ask, repository } = await aStage()
      const decisions = await Promise.allSettled([
        ...Array.from({ length: 20 }, () => release(id)),
        ...(round > 0 ? [reject(id), endStageTime(t.db, id).then(() => runExpiry(t.db))] : []),
      ])
      const state = await storedStateOf(t.db, id)
      const released = decisions.filter((one) => one.status === 'fulfilled' && one.value === 'released')
      expect(released).toHaveLength(state === 'released' ? 1 : 0)
      expect((await ask('p2/acme/lib.json')).statusCode).toBe(state === 'released' ? 200 : 404)
      const actions = await actionsIn(repository)
      expect(actions.filter((action) => ['release-stage', 'reject', 'expire'].includes(action))).toHaveLength(
        1,
      )
    }
  })

  it('is refused for a stage that was rejected or expired, whose number is free again', async () => {
    const { id, stage, push } = await aStage()
    await reject(id)
    await expect(release(id)).rejects.toMatchObject({
      status: 409,
      errmsg: 'version 1.0.0 is rejected already',
    })
    const second = (await stage('1.0.0')).json().id as string
    expect(second).not.toBe(id)
    await endStageTime(t.db, second)
    await expect(release(second)).rejects.toMatchObject({ errmsg: 'version 1.0.0 is expired already' })
    // Nobody waits for the job.
    const third = (await stage('1.0.0', { manifest: { description: 'third' } })).json().id as string
    expect(await storedStateOf(t.db, second)).toBe('expired')
    await endStageTime(t.db, third)
    expect((await push('1.0.0')).statusCode).toBe(201)
    expect(await runExpiry(t.db)).toBeGreaterThan(0)
    expect(await storedStateOf(t.db, third)).toBe('expired')
  })

  it('needs another developer than the stager where the repository asks for two people', async () => {
    const { id, account, repository } = await aStage()
    await setReleaseRule(t, repository, { twoPeople: true })
    const other = await anAccount(t.db)
    await aMember(t.db, other, repository, 'developer')
    await expect(release(id, await atBrowser(t, account))).rejects.toMatchObject({ status: 409 })
    expect(await release(id, await atBrowser(t, other))).toBe('released')
  })

  it('needs two developers for what no account has staged', async () => {
    const { repository, path } = await aPublisher(t)
    await setReleaseRule(t, repository, { twoPeople: true })
    const authorization = basic(await aDeployToken(t.db, await groupOf(t.db, repository)))
    const { stage } = await aPublisher(t, { repository })
    const id = (await stage('1.0.0', { headers: { authorization } })).json().id as string
    expect(path).toBeDefined()
    const [first, second] = [await anAccount(t.db), await anAccount(t.db)]
    for (const one of [first, second]) await aMember(t.db, one, repository, 'developer')
    expect(await release(id, await atBrowser(t, first))).toBe('approved')
    await expect(release(id, await atBrowser(t, first))).rejects.toMatchObject({ status: 409 })
    expect(await release(id, await atBrowser(t, second))).toBe('released')
    const actions = await actionsIn(repository)
    expect(actions).toEqual(['stage', 'approve-release', 'publish', 'release-stage'])
  })

  it.each<[string, (account: { id: string }, repository: { id: string }) => Promise<unknown>]>([
    ['whose account was disabled since', ({ id }) => disableAccount(t.db, operator, id)],
    ['whose role is too weak since', (account, repository) => aMember(t.db, account, repository, 'guest')],
    ['who is no member any more', ({ id }, repository) => removeRepositoryMember(t.db, repository.id, id)],
  ])('does not count the approval of somebody %s', async (_name, end) => {
    const { repository } = await aPublisher(t)
    await setReleaseRule(t, repository, { twoPeople: true })
    const authorization = basic(await aDeployToken(t.db, await groupOf(t.db, repository)))
    const { stage } = await aPublisher(t, { repository })
    const id = (await stage('1.0.0', { headers: { authorization } })).json().id as string
    const [first, second, third] = [await anAccount(t.db), await anAccount(t.db), await anAccount(t.db)]
    for (const one of [first, second, third]) await aMember(t.db, one, repository, 'developer')
    expect(await release(id, await atBrowser(t, first))).toBe('approved')
    await end(first, repository)
    expect(await release(id, await atBrowser(t, second))).toBe('approved')
    expect(await release(id, await atBrowser(t, third))).toBe('released')
  })

  it.each<[string, (account: { id: string }, repository: { id: string }) => Promise<unknown>, string]>([
    [
      'the role of the person is too weak',
      (account, repository) => aMember(t.db, account, repository, 'guest'),
      'your role no longer allows this',
    ],
    ['the account is disabled', ({ id }) => disableAccount(t.db, operator, id), 'your session has ended'],
    ['the session has ended', ({ id }) => endSessions(t.db, operator, id, 'all'), 'your session has ended'],
    ['the second factor is too old', () => setProofAges(t.db, '6 minutes'), 'more than five minutes ago'],
  ])('and a rejection that have waited are refused when %s then', async (_name, end, reason) => {
    for (const decide of [release, reject]) {
      const { id, repository, account } = await aStage()
      const by = await atBrowser(t, account)
      const { tx, rollback } = await openTransaction(t.db)
      await lockNumbers(tx, repository.id, 'acme/lib')
      const decision = decide(id, by).catch((error: Error) => error)
      await untilWaiting(t.db)
      await end(account, repository)
      await rollback()
      expect(await decision).toMatchObject({ status: 403, message: expect.stringContaining(reason) })
      expect(await storedStateOf(t.db, id)).toBe('staged')
      expect(await actionsIn(repository)).toEqual(['stage'])
    }
  })

  it('makes a change of the role wait that comes later', async () => {
    const { id, repository, account } = await aStage()
    const by = await atBrowser(t, account)
    const { tx, rollback } = await openTransaction(t.db)
    await lockTables(tx, 'package_document', 'exclusive')
    const decision = release(id, by)
    await untilWaiting(t.db)
    const demotion = aMember(t.db, account, repository, 'guest')
    await untilWaiting(t.db, 2)
    await rollback()
    await Promise.all([decision, demotion])
    expect(await storedStateOf(t.db, id)).toBe('released')
  })

  it('is refused without a session, whatever the token of the account may do', async () => {
    const { id, account } = await aStage()
    const token = { kind: 'personal', tokenId: '1', authorizationId: null } as const
    for (const by of [{ session: null }, { session: null, token }])
      await expect(
        release(id, { ...operator, via: 'api', accountId: account.id, ...by }),
      ).rejects.toMatchObject({ status: 403 })
  })
})

it('a list of stages does not read their metadata, which can be large', async () => {
  const { repository, id } = await aStage()
  const [listed] = await listStages(t.db, repository.id, { after: null, limit: 9 })
  expect(listed).toMatchObject({ id, version: '1.0.0' })
  expect(listed).not.toHaveProperty('metadata')
})
