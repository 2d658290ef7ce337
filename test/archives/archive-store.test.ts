import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type ArchiveStore, isArchiveIntact } from '../../src/archives/archive-store.ts'
import { openLocalStore, receiveArchive } from '../../src/archives/local-store.ts'
import { openS3Store } from '../../src/archives/s3-store.ts'
import { has } from '../support/requires.ts'
import {
  credentials,
  type FaultyStore,
  type Swift,
  slowMilliseconds,
  startFaultyStore,
  startSwift,
} from '../support/swift.ts'

const sha256Of = (content: string) => createHash('sha256').update(content).digest('hex')
const past = new Date(0)
const future = () => new Date(Date.now() + 60_000)

let folder: string
let swift: Swift | undefined
let faulty: FaultyStore | undefined
let buckets = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-store-'))
})
afterAll(async () => {
  await faulty?.stop()
  await swift?.stop()
  await rm(folder, { recursive: true })
})

/** Longer than a busy machine takes. */
const patience = 60_000

/** Opens a new bucket. Returns a function that opens it again, with another patience in milliseconds. */
async function aBucket(prefix: string): Promise<(silentMilliseconds?: number) => Promise<ArchiveStore>> {
  swift ??= await startSwift()
  faulty ??= await startFaultyStore(swift.endpoint)
  faulty.fail('none')
  buckets += 1
  const name = `bucket-${buckets}`
  await swift.makeBucket(name)
  const location = { name, prefix, endpoint: faulty.endpoint, region: 'us-east-1', isPathStyle: true }
  const directory = await mkdtemp(join(folder, 'data-'))
  const keys = { ...credentials, sessionToken: null }
  return (silentMilliseconds = patience) =>
    openS3Store(
      directory,
      { ...location, credentials: { kind: 'keys', keys } },
      { isLinked: true, pageSize: 5, silentMilliseconds },
    )
}

const kinds: [string, boolean, () => Promise<ArchiveStore>][] = [
  ['a folder', true, async () => openLocalStore(await mkdtemp(join(folder, 'data-')))],
  ['a bucket', has('swift-proxy-server'), async () => (await aBucket(''))()],
  ['a prefix of a bucket', has('swift-proxy-server'), async () => (await aBucket('some/where/'))()],
]

describe.each(kinds)('a store in %s', (_kind, isAvailable, open) => {
  let store: ArchiveStore
  beforeEach(async () => {
    if (isAvailable) store = await open()
  })

  const run = isAvailable ? it : it.skip
  const receive = (content: string) =>
    receiveArchive(store, Readable.from([Buffer.from(content)]), { maxBytes: 10_000_000 })
  const keep = async (content: string) => store.keep(await receive(content))
  const textOf = async (sha256: string, range?: { start: number; end: number }) => {
    const archive = await store.read(sha256, range)
    return archive && { size: archive.size, text: Buffer.concat(await archive.bytes.toArray()).toString() }
  }

  run('keeps an archive once, and reads it whole or in part', async () => {
    const sha256 = sha256Of('an archive')
    expect(await keep('an archive')).toBe('new')
    expect(await keep('an archive')).toBe('known')
    expect(await textOf(sha256)).toEqual({ size: 10, text: 'an archive' })
    expect(await textOf(sha256, { start: 3, end: 6 })).toEqual({ size: 10, text: 'arch' })
    expect(await textOf(sha256, { start: 9, end: 9 })).toEqual({ size: 10, text: 'e' })
    expect(await store.stat(sha256)).toMatchObject({ sha256, size: 10, touchedAt: expect.any(Date) })
    expect(Math.abs(Number((await store.stat(sha256))?.touchedAt) - Date.now())).toBeLessThan(60_000)
    expect(await isArchiveIntact(store, sha256)).toBe(true)
    const opened = await store.openFile(sha256)
    expect([opened?.size, (await opened?.file.readFile())?.toString()]).toEqual([10, 'an archive'])
    await opened?.file.close()
  })

  run('returns null for what is missing', async () => {
    const sha256 = sha256Of('missing')
    expect(await store.stat(sha256)).toBeNull()
    expect(await store.read(sha256)).toBeNull()
    expect(await store.read(sha256, { start: 0, end: 1 })).toBeNull()
    expect(await store.openFile(sha256)).toBeNull()
    expect(await isArchiveIntact(store, sha256)).toBeNull()
    expect(await store.remove(sha256, future())).toBe(true)
  })

  run(
    'keeps an archive of several megabytes byte by byte, and leaves no temporary file after reading it',
    async () => {
      const content = 'x'.repeat(3_000_000)
      await keep(content)
      const opened = await store.openFile(sha256Of(content))
      expect(opened?.size).toBe(3_000_000)
      await opened?.file.close()
      expect((await textOf(sha256Of(content)))?.text).toBe(content)
    },
  )

  run('lists what is there, in any number of pages', async () => {
    const contents = Array.from({ length: 12 }, (_, i) => `archive ${i}`)
    await Promise.all(contents.map(keep))
    await store.writeOwner('11111111-1111-4111-8111-111111111111')
    const listed: string[] = []
    for await (const { sha256, size } of store.list()) listed.push(`${sha256} ${size}`)
    const expected = contents.map((content) => `${sha256Of(content)} ${content.length}`)
    expect(listed.sort()).toEqual(expected.sort())
  })

  run('removes what nobody touched since a moment', async () => {
    const sha256 = sha256Of('garbage')
    await keep('garbage')
    expect(await store.remove(sha256, past)).toBe(false)
    expect(await isArchiveIntact(store, sha256)).toBe(true)
    expect(await store.remove(sha256, future())).toBe(true)
    expect(await store.stat(sha256)).toBeNull()
  })

  run('carries the id of one database', async () => {
    expect(await store.readOwner()).toBeNull()
    await store.writeOwner('11111111-1111-4111-8111-111111111111')
    await store.writeOwner('22222222-2222-4222-8222-222222222222')
    expect(await store.readOwner()).toBe('11111111-1111-4111-8111-111111111111')
  })

  run('takes no other name than a hash', async () => {
    for (const name of ['', '../x', sha256Of('x').toUpperCase(), `${sha256Of('x')}0`]) {
      await expect(store.stat(name)).rejects.toThrow(RangeError)
      await expect(store.read(name)).rejects.toThrow(RangeError)
      await expect(store.remove(name, future())).rejects.toThrow(RangeError)
    }
  })
})

describe.runIf(has('swift-proxy-server'))('a bucket whose store fails', () => {
  let store: ArchiveStore
  let open: Awaited<ReturnType<typeof aBucket>>
  beforeEach(async () => {
    open = await aBucket('')
    store = await open()
  })
  const received = () => receiveArchive(store, Readable.from([Buffer.from('an archive')]), { maxBytes: 100 })
  const sha256 = sha256Of('an archive')
  const fail: FaultyStore['fail'] = (...given) => faulty?.fail(...given)

  it.each(['down', 'silent', '500', '503'] as const)(
    '(%s) is tried as long as it may be silent, at most three times, and then unavailable',
    async (fault) => {
      const [first, second, third] = [await received(), await received(), await received()]
      // Nothing but the time ends the wait for a silent store. The others have time for all attempts.
      const failing = fault === 'silent' ? await open(1000) : store
      fail(fault)
      await expect(failing.stat(sha256)).rejects.toMatchObject({ errcode: 14, status: 503 })
      expect(faulty?.count()).toBe(fault === 'silent' ? 1 : 3)
      await expect(failing.keep(first)).rejects.toMatchObject({ errcode: 14, status: 503 })
      fail(fault, 'PUT')
      await expect(failing.keep(second)).rejects.toMatchObject({ errcode: 14, status: 503 })
      fail('none')
      expect(await store.stat(sha256)).toBeNull()
      expect(await store.keep(third)).toBe('new')
    },
  )

  it('(slow) is unavailable when all requests of an upload together wait too long', async () => {
    const archive = await received()
    // Each request alone has time for a busy machine, too. Twenty together have not.
    const hasty = await open(15 * slowMilliseconds)
    fail('slow')
    expect(await hasty.stat(sha256)).toBeNull()
    const askAll = async () => {
      for (let count = 0; count < 20; count += 1) await hasty.has(archive)
    }
    await expect(askAll()).rejects.toMatchObject({ errcode: 14, status: 503 })
    await expect(hasty.keep(archive)).rejects.toMatchObject({ errcode: 14, status: 503 })
    fail('none')
    expect(['new', 'known']).toContain(await store.keep(await received()))
  })

  it('keeps an archive after an attempt that failed', async () => {
    const archive = await received()
    fail('503', 'PUT')
    const kept = store.keep(archive)
    const isRefused = () => faulty?.heads().some((head) => head.startsWith('PUT '))
    await expect.poll(isRefused, { interval: 5 }).toBe(true)
    fail('none')
    expect(await kept).toBe('new')
    expect(await isArchiveIntact(store, sha256)).toBe(true)
  })

  it('(full) is recognized, and not tried again', async () => {
    const archive = await received()
    fail('full', 'PUT')
    await expect(store.keep(archive)).rejects.toMatchObject({ errcode: 8, status: 507 })
    fail('none')
    expect(await store.stat(sha256)).toBeNull()
  })

  it('(connection lost in mid-body) ends the bytes with an error, never early', async () => {
    const content = 'x'.repeat(500_000)
    await store.keep(
      await receiveArchive(store, Readable.from([Buffer.from(content)]), { maxBytes: 1_000_000 }),
    )
    fail('cut', 'GET')
    const archive = await store.read(sha256Of(content))
    expect(archive?.size).toBe(500_000)
    await expect(archive?.bytes.toArray()).rejects.toMatchObject({ errcode: 14, status: 503 })
    await expect(store.openFile(sha256Of(content))).rejects.toMatchObject({ errcode: 14 })
    expect((await readdir(join(store.directory, 'tmp'))).length).toBeLessThanOrEqual(1)
  })

  it('refuses bytes that do not match the hash in their name', async () => {
    const archive = await received()
    await expect(store.keep({ ...archive, sha256: sha256Of('other') })).rejects.toThrow()
    expect(await store.stat(sha256Of('other'))).toBeNull()
  })

  it('gives links that work for GET, HEAD and ranges, with the file name, and for nothing else', async () => {
    await store.keep(await received())
    const url = await store.link(sha256, { method: 'GET', fileName: 'acme-lib-1.0.0.zip' })
    const whole = await fetch(url)
    expect([whole.status, await whole.text()]).toEqual([200, 'an archive'])
    expect(whole.headers.get('content-type')).toBe('application/zip')
    expect(whole.headers.get('content-disposition')).toBe('attachment; filename="acme-lib-1.0.0.zip"')
    const part = await fetch(url, { headers: { range: 'bytes=3-6' } })
    expect([part.status, await part.text()]).toEqual([206, 'arch'])
    const head = await fetch(await store.link(sha256, { method: 'HEAD', fileName: 'x.zip' }), {
      method: 'HEAD',
    })
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '10'])
    expect(new URL(url).searchParams.get('X-Amz-Expires')).toBe('900')
    const put = await fetch(url, { method: 'PUT', body: 'changed' })
    expect(put.status).toBe(403)
    const other = url.replace(sha256, sha256Of('other'))
    expect((await fetch(other)).status).toBe(403)
    expect(await isArchiveIntact(store, sha256)).toBe(true)
  })
})
