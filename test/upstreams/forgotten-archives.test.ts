import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { beforeAll, describe, expect, it } from 'vitest'
import { listArchivesAfter } from '../../src/archives/tables/archives.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { changeRepositoryName } from '../../src/groups/group-lifecycle.ts'
import { replaceArchives } from '../../src/upstreams/forget-archives.ts'
import { saveFetchedArchives } from '../../src/upstreams/tables/mirrored-archives.ts'
import { aName } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { countWaiting } from '../support/locks.ts'
import {
  ageFirstSights,
  aMirroredArchive,
  changeBytes,
  forgetFiles,
  lockMirroredDocuments,
  mirroredArchives,
  mirroredDocuments,
  takeFetch,
} from '../support/mirrored-rows.ts'
import { anAccessToken, anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { aPackageZip, expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { endRetryDelays, markStale } from '../support/upstream-rows.ts'

const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test' })
const upstream = useUpstream()
const below = '/mirrored-packages/forget'
const hash = (algorithm: string, bytes: Buffer) => createHash(algorithm).update(bytes).digest('hex')
const oldBytes = (name: string) => aPackageZip(name)
const newBytes = (name: string) => aPackageZip(name, { description: 'was tagged again' })
let port = 0
beforeAll(() => {
  port = Number(new URL(upstream.url).port)
})

/** Publishes 1.0.0 of a package with these bytes, and with their shasum if it is announced. */
function publish(name: string, bytes: Buffer, announced: Buffer | null = bytes, reference = 'abcdef12') {
  const source = `/archives/${name}/1.0.0.zip`
  upstream.put(source, bytes)
  const dist = {
    type: 'zip',
    url: `http://127.0.0.1:${port}${source}`,
    reference,
    shasum: announced === null ? '' : hash('sha1', announced),
  }
  upstream.offer(name, [{ version: '1.0.0', dist }])
}

/** A package whose archive svc has fetched. */
async function aFetchedPackage(name: string, { hasShasum = true } = {}) {
  publish(name, oldBytes(name), hasShasum ? undefined : null)
  const caller = await aCaller(t)
  const { call, ask, path } = caller
  await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  const entry = async () => expand((await ask(`p2/${name}.json`)).body, name)[0]?.['dist']
  const { url } = (await entry()) as { url: string }
  const dist = () => ask(url.slice(`http://svc.test${path}`.length))
  expect((await dist()).statusCode).toBe(200)
  const shasum = async () => ((await entry()) as { shasum: string }).shasum
  const collect = () => forgetFiles(t.db, name)
  const check = () => markStale(t.db, name)
  const row = async () => (await mirroredArchives(t.db, name))[0]
  const forget = (version = '1.0.0') => call('POST', below, { package: name, version })
  const events = async (action: string) =>
    (await call('GET', '/events')).json().filter((event: { action: string }) => event.action === action)
  const alarms = async () => (await call('GET', '/mirrored-packages')).json()[0].alarms
  return { ...caller, name, dist, shasum, collect, check, row, forget, events, alarms }
}

/** A package whose archive was collected, has changed at the upstream, and was refused. */
async function aChangedPackage(name: string, about: { hasShasum?: boolean } = { hasShasum: false }) {
  const changed = await aFetchedPackage(name, about)
  await changed.collect()
  publish(name, newBytes(name), about.hasShasum ? undefined : null)
  expect((await changed.dist()).statusCode).toBe(502)
  return changed
}

describe('changed bytes of an archive', () => {
  it('are served after an admin has forgotten the stored ones, and are fixed then', async () => {
    const name = 'acc/changed'
    const { dist, forget, alarms, events, account, collect, row } = await aChangedPackage(name)
    const refused = await dist()
    expect([refused.statusCode, refused.json().warning]).toEqual([
      502,
      expect.stringContaining('After the stored bytes are forgotten'),
    ])
    const [{ version, reason }] = await alarms()
    const sha256 = hash('sha256', oldBytes(name))
    expect([version, reason]).toEqual([
      '1.0.0',
      `its bytes differ from those of the first fetch (SHA-256 ${sha256})`,
    ])
    const forgotten = await forget()
    expect([forgotten.statusCode, forgotten.json()]).toEqual([
      200,
      { forgotten: [{ version: '1.0.0', sha256, alarm: reason }] },
    ])
    expect(await alarms()).toEqual([])
    expect(await events('forget-archive')).toMatchObject([
      {
        package: name,
        version: '1.0.0',
        account: account.username,
        details: { upstream: 'public', sha256, alarm: reason },
      },
    ])

    for (const _ of ['first', 'again']) {
      expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
    }
    expect(await row()).toMatchObject({ sha256: hash('sha256', newBytes(name)), alarm: null })
    expect(await events('archive-alarm')).toHaveLength(1)
    // The next change needs another decision.
    await collect()
    publish(name, aPackageZip(name, { description: 'once more' }), null)
    expect((await dist()).statusCode).toBe(502)
    expect(await alarms()).toHaveLength(1)
  })

  it('are served after the stored ones, which were served until then, are forgotten', async () => {
    const name = 'acc/announced'
    const { dist, forget, alarms, events, shasum, check } = await aFetchedPackage(name)
    publish(name, newBytes(name))
    await check()
    await expect.poll(async () => (await shasum()) && (await alarms()).length).toBe(1)
    expect(await shasum()).toBe(hash('sha1', oldBytes(name)))
    expect((await dist()).rawPayload.equals(oldBytes(name))).toBe(true)
    const former = hash('sha256', oldBytes(name))
    const isNeeded = async () => (await listArchivesAfter(t.db, '')).some(({ sha256 }) => sha256 === former)
    expect(await isNeeded()).toBe(true)
    expect((await forget()).statusCode).toBe(200)
    // Garbage collection may remove them now.
    expect(await isNeeded()).toBe(false)
    expect(await shasum()).toBe(hash('sha1', newBytes(name)))
    expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
    expect([await shasum(), await alarms()]).toEqual([hash('sha1', newBytes(name)), []])
    expect(await events('archive-alarm')).toHaveLength(1)
  })

  it.each(['with another reference', 'no more'])(
    'do not let the stored ones be forgotten when the upstream offers the version %s: lock files may need them',
    async (how) => {
      const name = `acc/${how.replaceAll(' ', '-')}`
      const { dist, forget, alarms, shasum, check } = await aFetchedPackage(name)
      publish(name, newBytes(name))
      await check()
      await expect.poll(async () => (await shasum()) && (await alarms()).length).toBe(1)
      if (how === 'no more') upstream.fail(`/p2/${name}.json`, (_, response) => response.writeHead(404).end())
      else publish(name, newBytes(name), newBytes(name), 'abcdef13')
      const refused = await forget()
      expect([refused.statusCode, refused.json()]).toMatchObject([
        400,
        { errcode: 9, errmsg: expect.stringContaining('no longer offers') },
      ])
      expect((await dist()).rawPayload.equals(oldBytes(name))).toBe(true)
    },
  )

  it('are served when nothing was stored any more, also from an archive that the upstream no longer offers', async () => {
    const name = 'acc/collected'
    const { dist, forget } = await aChangedPackage(name)
    publish(name, newBytes(name), null, 'abcdef13')
    expect((await forget()).statusCode).toBe(200)
    expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
  })

  it('are checked against the shasum of now, although no client has requested the document since', async () => {
    const name = 'acc/locked'
    const { dist, forget, events } = await aChangedPackage(name, { hasShasum: true })
    expect((await forget()).statusCode).toBe(200)
    expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
    expect(await events('archive-alarm')).toHaveLength(1)
  })

  it('are refused again when they are not those that the upstream announces', async () => {
    const name = 'acc/wrong'
    const { dist, forget, alarms, row } = await aFetchedPackage(name).then(async (fetched) => {
      await fetched.collect()
      publish(name, newBytes(name), oldBytes(name))
      expect((await fetched.dist()).statusCode).toBe(502)
      return fetched
    })
    expect((await forget()).statusCode).toBe(200)
    expect((await dist()).statusCode).toBe(502)
    expect(await alarms()).toMatchObject([{ reason: expect.stringContaining('its SHA-1 is') }])
    expect(await row()).toMatchObject({ sha256: null, isStored: false })
    const again = await forget()
    expect([again.statusCode, again.json()]).toMatchObject([
      400,
      { errcode: 9, errmsg: expect.stringContaining('no bytes') },
    ])
    publish(name, oldBytes(name))
    expect((await dist()).statusCode).toBe(200)
    expect(await alarms()).toEqual([])
  })

  it('are fetched at once although a process that was killed still has the turn', async () => {
    const name = 'acc/turn'
    const { dist, forget, row } = await aChangedPackage(name)
    await takeFetch(t.db, 60, (await row())?.id)
    expect((await forget()).statusCode).toBe(200)
    expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
  })

  it('keep the time at which the archive was first seen, for the minimum age', async () => {
    const name = 'acc/age'
    const { forget } = await aChangedPackage(name)
    const seen = async () => {
      const archives = await mirroredArchives(t.db, name)
      return archives.map(({ firstSeenAt, usedOn, wasDownloaded, upstreamId }) => {
        return { firstSeenAt, usedOn, wasDownloaded, upstreamId }
      })
    }
    await ageFirstSights(t.db, 9 * 24)
    const before = await seen()
    expect((await forget()).statusCode).toBe(200)
    expect(await seen()).toEqual(before)
  })

  it('leave the former bytes to another repository that has them', async () => {
    const name = 'acc/shared'
    const { forget } = await aChangedPackage(name)
    publish(name, oldBytes(name), null)
    const other = await aCaller(t)
    await other.call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    const [entry] = expand((await other.ask(`p2/${name}.json`)).body, name)
    const { url } = { ...(entry?.['dist'] as object) } as { url: string }
    const get = () => other.ask(url.slice(`http://svc.test${other.path}`.length))
    expect((await get()).statusCode).toBe(200)
    expect((await forget()).statusCode).toBe(200)
    const requests = upstream.requests.length
    expect((await get()).rawPayload.equals(oldBytes(name))).toBe(true)
    expect(upstream.requests.slice(requests).filter((request) => request.includes('.zip'))).toEqual([])
  })
})

describe('POST …/mirrored-packages/forget', () => {
  it('is 404 for an unknown package or version, and does not request the upstream', async () => {
    const { call, forget, name, row } = await aFetchedPackage('acc/unknown')
    const before = upstream.requests.length
    const answers = [
      await call('POST', below, { package: 'acc/nothing', version: '1.0.0' }),
      await forget('9.9.9'),
    ]
    expect(answers.map((answer) => [answer.statusCode, answer.json().errcode, answer.json().errmsg])).toEqual(
      [
        [404, 5, 'no upstream has offered an archive of acc/nothing 1.0.0'],
        [404, 5, 'no upstream has offered an archive of acc/unknown 9.9.9'],
      ],
    )
    expect((await row())?.isStored).toBe(true)
    expect(upstream.requests.slice(before)).toEqual([])
    expect((await call('POST', below, { package: name })).statusCode).toBe(400)
  })

  it('forgets an archive without an alarm, which svc would not request again', async () => {
    const name = 'acc/corrected'
    const { dist, forget, events, row } = await aFetchedPackage(name, { hasShasum: false })
    publish(name, newBytes(name), null)
    expect((await dist()).rawPayload.equals(oldBytes(name))).toBe(true)
    const sha256 = hash('sha256', oldBytes(name))
    expect((await forget()).json()).toEqual({ forgotten: [{ version: '1.0.0', sha256, alarm: null }] })
    const [event] = await events('forget-archive')
    expect(event.details).toEqual({ upstream: 'public', sha256, url: expect.any(String) })
    const again = await forget()
    expect([again.statusCode, again.json().errcode, again.json().errmsg]).toEqual([
      400,
      9,
      `svc has no bytes of ${name} 1.0.0 to forget: the next request fetches what the upstream serves`,
    ])
    expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
    expect(await row()).toMatchObject({ isStored: true, alarm: null })
    expect(await events('archive-alarm')).toEqual([])
  })

  it('changes nothing when svc could not fetch the new bytes', async () => {
    const { call, forget, check, alarms, shasum, dist, name } = await aFetchedPackage('acc/unavailable')
    publish(name, newBytes(name))
    await check()
    await expect.poll(async () => (await shasum()) && (await alarms()).length).toBe(1)
    upstream.fail(`/p2/${name}.json`, 500)
    const failed = await forget()
    expect([failed.statusCode, failed.json().errcode]).toEqual([503, 14])
    expect((await dist()).rawPayload.equals(oldBytes(name))).toBe(true)
    upstream.fail(`/p2/${name}.json`, null)
    await endRetryDelays(t.db)
    for (const change of [{ mode: 'off' }, { mode: 'automatic', deny: ['acc/*'] }]) {
      await call('PATCH', '/upstreams/public', change)
      const refused = await forget()
      expect([refused.statusCode, refused.json().errmsg]).toEqual([400, `no upstream may offer ${name} now`])
    }
    await call('PATCH', '/upstreams/public', { deny: [] })
    expect((await forget()).statusCode).toBe(200)
  })

  it('is for personal access tokens of admins with registry-manage:rw only', async () => {
    const { repository, account, forget, row, name } = await aChangedPackage('acc/tokens')
    const scopes = ['registry-manage:rw', 'registry-package:rw']
    const payload = { package: name, version: '1.0.0' }
    const developer = await aCaller(t, { repository, role: 'developer', scopes })
    const reader = await aCaller(t, { repository, scopes: ['registry-manage:r', 'registry-package:rw'] })
    for (const { call } of [developer, reader]) {
      expect((await call('POST', below, payload)).statusCode).toBe(403)
    }
    const application = await anApplication(t.db, { scopes })
    const access = await anAccessToken(t.db, await anAuthorization(t.db, account, application))
    const url = `/api/repositories/${repository.path}${below}`
    // The application may manage the repository for this admin.
    const approval = { packages: ['acc/approved'] }
    const approved = await callApi(t, access, 'POST', url.replace('/forget', '/approve'), approval)
    expect(approved.statusCode).toBe(200)
    expect((await callApi(t, access, 'POST', url, payload)).statusCode).toBe(403)
    expect((await row())?.alarm).not.toBeNull()
    expect((await forget()).statusCode).toBe(200)
  })

  it('keeps the hash of an archive that the upstream no longer offers, of a version with several', async () => {
    const name = 'acc/several'
    const { forget } = await aChangedPackage(name)
    const { sha256 = '' } = { ...(await mirroredArchives(t.db, name))[0] }
    await aMirroredArchive(t.db, name, { reference: 'fedcba98', sha256: sha256 ?? '' })
    expect((await forget()).json().forgotten).toHaveLength(1)
    const archives = await mirroredArchives(t.db, name)
    expect(archives.map(({ reference, sha256 }) => [reference, sha256 === null])).toEqual([
      ['abcdef12', true],
      ['fedcba98', false],
    ])
  })
})

describe('forgetting at the same moment as', () => {
  it('others succeeds once, with one event', async () => {
    const { forget, events } = await aChangedPackage('acc/twice')
    const answers = await Promise.all([forget(), forget(), forget(), forget()])
    expect(answers.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)).toEqual([
      200, 400, 400, 400,
    ])
    expect(await events('forget-archive')).toHaveLength(1)
  })

  it.each(['the old', 'other'])(
    'a fetch of %s bytes: the fetch fixes nothing and raises no alarm',
    async (kind) => {
      const name = `acc/fetch-${kind.replace('the ', '')}`
      const { forget, dist, alarms, events, row } = await aChangedPackage(name)
      const source = `/archives/${name}/1.0.0.zip`
      const held = new Promise<ServerResponse>((resolve) => {
        upstream.fail(source, (_, response) => resolve(response))
      })
      const asked = dist()
      const response = await held
      expect((await forget()).statusCode).toBe(200)
      upstream.fail(source, null)
      response.end(kind === 'other' ? aPackageZip(name, { description: 'of nobody' }) : oldBytes(name))
      expect((await asked).statusCode).toBe(503)
      expect([await alarms(), await row()]).toMatchObject([
        [],
        { sha256: null, alarm: null, isStored: false },
      ])
      expect((await dist()).rawPayload.equals(newBytes(name))).toBe(true)
      expect([await alarms(), (await events('archive-alarm')).length]).toEqual([[], 1])
    },
  )

  it('the end of a fetch of the right bytes: the bytes are forgotten, whichever is first', async () => {
    const name = 'acc/end'
    const { row } = await aChangedPackage(name)
    const bytes = oldBytes(name)
    const digest = { sha256: hash('sha256', bytes), sha1: hash('sha1', bytes), size: bytes.length }
    for (let round = 0; round < 20; round += 1) {
      const { id = '' } = (await row()) ?? {}
      await changeBytes(t.db, id, digest.sha256)
      const save = () => saveFetchedArchives(t.db, [{ ...digest, id, isDownload: true }])
      const replace = () => transaction(t.db, (tx) => replaceArchives(tx, [id]))
      const [first, second] = round % 2 === 0 ? [save(), replace()] : [replace(), save()]
      const results = await Promise.all([first, second])
      const [, replaced] = (round % 2 === 0 ? results : results.toReversed()) as [boolean[], unknown[]]
      expect(replaced).toHaveLength(1)
      expect(await row()).toMatchObject({ sha256: null, isStored: false, alarm: null })
    }
  })

  it('a rename leaves no document with the old URLs', async () => {
    const name = 'acc/renamed'
    const { forget, repository } = await aChangedPackage(name)
    // The document is unchanged, so the transaction that forgets is the first that waits.
    upstream.fail(`/p2/${name}.json`, 304)
    const waiting = () => countWaiting(t.db)
    const renamed = aName('renamed')
    let forgotten: Promise<{ statusCode: number }> | undefined
    let rename: Promise<unknown> | undefined
    await transaction(t.db, async (tx) => {
      // The rename waits for this document.
      await lockMirroredDocuments(tx, repository)
      rename = changeRepositoryName(t.db, operator, repository.id, renamed)
      await expect.poll(waiting).toBe(1)
      forgotten = forget()
      await expect.poll(waiting).toBe(2)
    })
    await rename
    expect((await forgotten)?.statusCode).toBe(200)
    const documents = await mirroredDocuments(t.db, repository)
    expect(documents.map(({ text }) => text.includes(`/${renamed}/-/packages/`))).toEqual([true])
  })
})

it('the list of alarms has the 20 latest of a package', async () => {
  const name = 'again/many'
  const { alarms } = await aFetchedPackage(name)
  for (let i = 10; i < 40; i += 1)
    await aMirroredArchive(t.db, name, {
      version: String(i),
      reference: 'abcdef12',
      alarm: 'it changed',
      alarmedHoursAgo: 100 - i,
    })
  const latest = Array.from({ length: 20 }, (_, i) => String(39 - i))
  expect((await alarms()).map(({ version }: { version: string }) => version)).toEqual(latest)
})
