import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { openLocalStore, receiveArchive } from '../../src/archives/local-store.ts'
import { measureDisk } from '../../src/domain/disk-space.ts'
import { openStorageRoom } from '../../src/groups/storage-room.ts'
import { aGroup, aGroupMember, anAccount, aRepository, csrfTokenIn, signIn } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { setVisibility } from '../support/group-rows.ts'
import { aPackageZip, aPublisher, expand } from '../support/registry-actors.ts'
import { canMount, mountSmallDisk, remount } from '../support/small-disk.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aZip } from '../support/zip.ts'

const upstream = useUpstream()
const zipBytes = aPackageZip('acme/lib').length

/** The size of a group is measured again when the last measurement is a second old. */
const untilMeasuredAgain = () => setTimeout(1100)

/** A group with one repository, a publisher, and a page of it. */
async function aGroupWith(t: ReturnType<typeof useApp>) {
  const group = await aGroup(t.db)
  const repository = await aRepository(t.db, { group })
  const caller = await aCaller(t, { repository })
  const member = await anAccount(t.db)
  await aGroupMember(t.db, member, group, 'admin')
  const cookie = await signIn(t.app, member)
  const look = (url: string) => t.app.inject({ url, headers: { cookie } })
  async function uploadInBrowser(zip: Buffer) {
    const form = new FormData()
    form.append('csrf_token', csrfTokenIn(await look('/settings/account')))
    form.append('package', new Blob([new Uint8Array(zip)]), 'lib.zip')
    const body = new Response(form)
    const headers = { cookie, 'content-type': String(body.headers.get('content-type')) }
    const payload = Buffer.from(await body.arrayBuffer())
    return t.app.inject({ method: 'POST', url: `/${repository.path}/-/upload`, headers, payload })
  }
  return { ...caller, group, look, uploadInBrowser }
}

describe('GROUP_QUOTA_BYTES', () => {
  const quota = 4 * zipBytes + 10
  const t = useApp({ ...upstreamsHere, GROUP_QUOTA_BYTES: String(quota) })

  it('refuses archives over it with 507, also of twelve uploads at once, and no repeated upload', async () => {
    const { push, look, group, uploadInBrowser } = await aGroupWith(t)
    const pushed = await Promise.all(
      Array.from({ length: 12 }, (_, i) => push('1.0.0', { name: `acme/l${(i + 10).toString(36)}b` })),
    )
    const accepted = pushed.filter(({ statusCode }) => statusCode === 201)
    const refused = pushed.filter(({ statusCode }) => statusCode === 507)
    expect([accepted.length, refused.length]).toEqual([4, 8])
    expect(refused[0]?.json()).toEqual({
      errcode: 8,
      errmsg: 'the group has no space left for archives',
      warning: expect.stringMatching(/^The archives of the group have \d+ of at most \d+ bytes\. Purge /),
    })
    const first = pushed.findIndex(({ statusCode }) => statusCode === 201)
    const again = await push('1.0.0', { name: `acme/l${(first + 10).toString(36)}b` })
    expect(again.statusCode).toBe(200)

    await untilMeasuredAgain()
    const page = await look(`/${group.name}`)
    expect(page.body).toMatch(/<dt>Packages<\/dt><dd>[\d.]+ kB<\/dd>/)
    expect(page.body).toMatch(/<dt>Left<\/dt><dd>\d+ B of [\d.]+ kB<\/dd>/)

    const inBrowser = await uploadInBrowser(aPackageZip('acme/new'))
    expect(inBrowser.statusCode).toBe(507)
    // None of them is a failure of the server.
    expect(t.log()).not.toContain('"level":50')
    const { body: metrics } = await t.app.inject('/metrics')
    expect(metrics).toMatch(/^svc_http_request_duration_seconds_count\{.*status="507"\} 8$/m)
    expect(metrics).not.toMatch(/^svc_http_failures_total\{/m)
    expect(inBrowser.body).toContain('The group has no space left for archives.')
  })

  it('counts what is being stored, also when the checks of many uploads end at the same moment', async () => {
    const repository = await aRepository(t.db)
    // The responses to statements on one connection come together.
    const db = new pg.Pool({ ...t.connection, max: 1, pipeline: true })
    const room = openStorageRoom({ config: t.config, db })
    let running = 0
    let most = 0
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const uploads = Array.from({ length: 12 }, () =>
      room.storing(repository.id, quota / 4, async () => {
        running += 1
        most = Math.max(most, running)
        await ended
        running -= 1
        throw new Error('the connection was closed')
      }),
    )
    await expect.poll(() => running).toBe(4)
    // One too many would begin now.
    await setTimeout(50)
    end()
    await Promise.allSettled(uploads)
    await db.end()
    expect(most).toBe(4)
  })

  it('refuses no archive because another one was stored and measured, but is not done', async () => {
    const { push, group, repository } = await aGroupWith(t)
    const room = openStorageRoom({ config: t.config, db: t.db })
    await room.bytesOf(group.id)
    let finish = () => {}
    let isPushed = false
    const first = room.storing(repository.id, zipBytes, async () => {
      await push('1.0.0')
      isPushed = true
      await new Promise<void>((resolve) => {
        finish = resolve
      })
    })
    await expect.poll(() => isPushed).toBe(true)
    await untilMeasuredAgain()
    expect((await room.bytesOf(group.id)).stored).toBeGreaterThan(0)
    const second = room.storing(repository.id, 3 * zipBytes, async () => 'stored')
    finish()
    await first
    expect(await second).toBe('stored')
  })

  it('counts equal archives once, and no purged ones', async () => {
    const { push, call } = await aGroupWith(t)
    const same = aPackageZip('acme/lib')
    for (let i = 0; i < 3; i++) expect((await push(`1.0.${i}`, { payload: same })).statusCode).toBe(201)
    // Equal bytes count until the next measurement, at most.
    await untilMeasuredAgain()
    expect((await push('2.0.0', { name: 'acme/li1' })).statusCode).toBe(201)
    expect((await push('2.0.0', { name: 'acme/li2' })).statusCode).toBe(201)
    await untilMeasuredAgain()
    expect((await push('2.0.0', { name: 'acme/li3' })).statusCode).toBe(201)
    expect((await push('2.0.0', { name: 'acme/li4' })).statusCode).toBe(507)
    expect((await call('DELETE', '/packages/acme/li3/2.0.0?purge=true')).statusCode).toBeLessThan(300)
    await untilMeasuredAgain()
    expect((await push('2.0.0', { name: 'acme/li4' })).statusCode).toBe(201)
  })

  it('counts archives of upstreams, and fetches none over it', async () => {
    const { push, call, ask, path, look, group } = await aGroupWith(t)
    await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    for (let i = 0; i < 3; i++) await push('1.0.0', { name: `acme/li${i}` })
    const distOf = async (name: string) => {
      upstream.offer(name, ['1.0.0'])
      const [entry] = expand((await ask(`p2/${name}.json`)).body, name)
      const { url } = { ...(entry?.['dist'] as object) } as { url: string }
      return ask(url.slice(`${t.config.baseUrl}${path}`.length))
    }
    expect((await distOf('far/one')).statusCode).toBe(200)
    const refused = await distOf('far/two')
    expect([refused.statusCode, refused.json().errcode]).toEqual([507, 8])
    // What is stored is still served.
    expect((await distOf('far/one')).statusCode).toBe(200)
    await untilMeasuredAgain()
    expect((await push('1.0.0', { name: 'acme/li9' })).statusCode).toBe(507)
    expect((await look(`/${group.name}`)).body).toMatch(/<dt>From upstreams<\/dt><dd>\d+ B<\/dd>/)
  })

  it('is shown to members only', async () => {
    const { group, repository } = await aGroupWith(t)
    await setVisibility(t.db, repository, 'public')
    const page = await t.app.inject(`/${group.name}`)
    expect(page.statusCode).toBe(200)
    expect(page.body).not.toContain('Storage')
  })
})

describe('DISK_RESERVE_BYTES', () => {
  const t = useApp({ ...upstreamsHere, DISK_RESERVE_BYTES: String(100 * 1024 ** 4) })

  it('refuses uploads with 507 before the free space falls below it', async () => {
    const { push, uploadInBrowser } = await aGroupWith(t)
    const refused = await push('1.0.0')
    expect([refused.statusCode, refused.json().errcode]).toEqual([507, 8])
    expect(refused.json().warning).toContain('are a reserve')
    const inBrowser = await uploadInBrowser(aPackageZip('acme/lib'))
    expect(inBrowser.statusCode).toBe(507)
    expect(inBrowser.body).toContain('No space left for archives.')
    expect(await readdir(join(t.config.dataDir, 'tmp'))).toEqual([])
  })

  it('refuses archives of upstreams, too', async () => {
    const { call, ask, path } = await aGroupWith(t)
    await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    upstream.offer('far/lib', ['1.0.0'])
    const [entry] = expand((await ask('p2/far/lib.json')).body, 'far/lib')
    const { url } = { ...(entry?.['dist'] as object) } as { url: string }
    expect((await ask(url.slice(`${t.config.baseUrl}${path}`.length))).statusCode).toBe(507)
  })

  it('counts the announced size', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'svc-test-reserve-'))
    await openLocalStore(directory)
    const { freeBytes } = (await measureDisk(directory)) ?? { freeBytes: 0 }
    const volume = { directory, reserveBytes: Math.max(1, freeBytes - 4 * 1024 ** 3) }
    const receive = (size: number) =>
      receiveArchive(volume, Readable.from([Buffer.from('zip')]), { maxBytes: 1024 ** 5, size })
    await expect(receive(1024 ** 4)).rejects.toMatchObject({ status: 507 })
    expect((await receive(3)).size).toBe(3)
    await rm(directory, { recursive: true })
  })

  it.skipIf(!canMount)('ends the upload of unknown size before it reaches the reserve', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'svc-test-small-'))
    mountSmallDisk(directory, 32)
    try {
      const reserveBytes = 16 * 1024 ** 2
      const volume = await openLocalStore(directory, reserveBytes)
      let least = Number.POSITIVE_INFINITY
      async function* body() {
        for (let i = 0; i < 64; i++) {
          yield Buffer.alloc(1024 ** 2)
          least = Math.min(least, (await measureDisk(directory))?.freeBytes ?? 0)
        }
      }
      const receiving = receiveArchive(volume, Readable.from(body()), { maxBytes: 1024 ** 3 })
      await expect(receiving).rejects.toMatchObject({ errcode: 8, status: 507 })
      expect(least).toBeGreaterThanOrEqual(reserveBytes)
      expect(await readdir(join(directory, 'tmp'))).toEqual([])
    } finally {
      spawnSync('umount', [directory])
      await rm(directory, { recursive: true })
    }
  })
})

describe.skipIf(!canMount)('a volume that is read-only (needs the right to mount)', () => {
  const t = useApp({ ...upstreamsHere, DISK_RESERVE_BYTES: '0' })
  const { dataDir } = t.config

  it('responds with 503 to uploads and new archives of upstreams, and serves what is stored', async () => {
    mountSmallDisk(dataDir, 20)
    await openLocalStore(dataDir)
    try {
      const { push, ask, call, path, uploadInBrowser } = await aGroupWith(t)
      const { url } = (await push('1.0.0')).json() as { url: string }
      await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
      upstream.offer('far/new', ['1.0.0'])
      const below = (dist: string) => dist.slice(`${t.config.baseUrl}${path}`.length)
      const [entry] = expand((await ask('p2/far/new.json')).body, 'far/new')
      const mirrored = { ...(entry?.['dist'] as object) } as { url: string }
      remount(dataDir, 'ro')
      const refused = [
        await push('2.0.0'),
        await push('1.0.0', { payload: aPackageZip('acme/lib') }),
        await ask(below(mirrored.url)),
      ]
      for (const { statusCode, headers, body } of refused) {
        expect([statusCode, headers['retry-after'], JSON.parse(body)]).toEqual([
          503,
          '5',
          expect.objectContaining({ errcode: 14, errmsg: 'the archive store cannot be written' }),
        ])
      }
      const inBrowser = await uploadInBrowser(aPackageZip('acme/lib'))
      expect(inBrowser.statusCode).toBe(503)
      expect(inBrowser.body).toContain('The archive store cannot be written.')
      expect(t.log()).toContain('EROFS')
      expect((await ask(below(url))).statusCode).toBe(200)
      remount(dataDir, 'rw')
      expect((await push('2.0.0')).statusCode).toBe(201)
    } finally {
      spawnSync('umount', [dataDir])
    }
  })

  it('responds with 507 when the disk becomes full without a reserve, also in the browser', async () => {
    mountSmallDisk(dataDir, 1)
    await openLocalStore(dataDir)
    try {
      const { push, uploadInBrowser } = await aGroupWith(t)
      const text = Array.from({ length: 3 * 10 ** 5 }, () => Math.random().toString(36).slice(2, 10)).join('')
      const zip = aZip({ 'composer.json': '{"name":"acme/lib"}', 'text.txt': text })
      expect((await push('1.0.0', { payload: zip })).statusCode).toBe(507)
      const inBrowser = await uploadInBrowser(zip)
      expect(inBrowser.statusCode).toBe(507)
      expect(inBrowser.body).toContain('No space left for archives.')
      expect(await readdir(join(dataDir, 'tmp'))).toEqual([])
    } finally {
      spawnSync('umount', [dataDir])
    }
  })
})

describe('DATABASE_MAX_BYTES', () => {
  const t = useApp({ DATABASE_MAX_BYTES: '1000' })

  it('refuses uploads with 507 when the database has reached it, and pulls still work', async () => {
    const { push, ask, uploadInBrowser } = await aGroupWith(t)
    const refused = await push('1.0.0')
    expect([refused.statusCode, refused.json().errmsg]).toEqual([507, 'no space left in the database'])
    expect((await uploadInBrowser(aPackageZip('acme/lib'))).statusCode).toBe(507)
    expect((await ask('packages.json')).statusCode).toBe(200)
    // Credentials come first: nobody learns from the outside that the database is full.
    const { path } = await aPublisher(t)
    const anonymous = await t.app.inject({ method: 'PUT', url: `${path}upload/acme/lib/1.0.0`, payload: 'x' })
    expect(anonymous.statusCode).toBe(401)
  })
})
