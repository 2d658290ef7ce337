import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type ArchiveStore, isArchiveIntact, type ReceivedArchive } from '../../src/archives/archive-store.ts'
import {
  discardArchive,
  listTemporaryFiles,
  openLocalStore,
  receiveArchive,
} from '../../src/archives/local-store.ts'

const bytes = Buffer.from('an archive')
const sha256 = createHash('sha256').update(bytes).digest('hex')
const sha1 = createHash('sha1').update(bytes).digest('hex')
const day = 24 * 60 * 60 * 1000
const yesterday = () => new Date(Date.now() - day)

let volume: ArchiveStore
beforeEach(async () => {
  volume = await openLocalStore(join(await mkdtemp(join(tmpdir(), 'archive-volume-')), 'new'))
})
afterEach(() => rm(join(volume.directory, '..'), { recursive: true }))

const receive = (content: Buffer | string = bytes) =>
  receiveArchive(volume, Readable.from([Buffer.from(content)]), { maxBytes: 1000 })
async function keepReceived(received: ReceivedArchive) {
  const outcome = await volume.keep(received)
  await discardArchive(received)
  return outcome
}
const keep = async (content?: Buffer | string) => keepReceived(await receive(content))
const temporaryFiles = () => readdir(join(volume.directory, 'tmp'))
const pathOf = (hash: string) => join(volume.directory, 'archives', hash.slice(0, 2), `${hash}.zip`)

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = []
  for await (const item of items) collected.push(item)
  return collected
}

async function age(path: string): Promise<void> {
  const old = new Date(Date.now() - 2 * day)
  await utimes(path, old, old)
}

describe('receiveArchive', () => {
  it('writes a temporary file while it counts and hashes', async () => {
    const received = await receiveArchive(
      volume,
      Readable.from([Buffer.from('an '), Buffer.from('archive')]),
      { maxBytes: 10 },
    )
    expect(received).toEqual({ path: expect.any(String), size: 10, sha256, sha1, bytes })
    expect(await readFile(received.path)).toEqual(bytes)
    expect(await temporaryFiles()).toHaveLength(1)
    expect(await volume.stat(sha256)).toBeNull()
  })

  it.each([
    [65_536, true],
    [65_537, false],
  ])('of %i bytes returns them: %s', async (size, isSmall) => {
    const sent = randomBytes(size)
    const received = await receiveArchive(
      volume,
      Readable.from([sent.subarray(0, 40_000), sent.subarray(40_000)]),
      {
        maxBytes: size,
      },
    )
    expect(received.bytes).toEqual(isSmall ? sent : null)
    expect((await readFile(received.path)).equals(sent)).toBe(true)
  })

  it('accepts an empty body', async () => {
    const received = await receiveArchive(volume, Readable.from([]), { maxBytes: 10 })
    expect(received).toMatchObject({ size: 0, sha256: createHash('sha256').digest('hex') })
  })

  it('refuses a byte too many with 413, and leaves the socket open for the response', async () => {
    const body = new PassThrough()
    body.write('an archive, ')
    const refused = receiveArchive(volume, body, { maxBytes: 11 })
    await expect(refused).rejects.toMatchObject({
      errcode: 8,
      status: 413,
      message: 'archive too large: more than 11 bytes',
    })
    expect(body.destroyed).toBe(false)
    expect(await temporaryFiles()).toEqual([])
  })

  it('leaves nothing of a body that is aborted before it is read', async () => {
    const body = new PassThrough()
    body.write('an arch')
    const received = receiveArchive(volume, body, { maxBytes: 1000 })
    body.destroy(new Error('aborted'))
    await expect(received).rejects.toThrow('aborted')
    expect(await temporaryFiles()).toEqual([])
  })

  it('leaves nothing of a body that is aborted while it is written', async () => {
    const body = new PassThrough()
    body.write('an arch')
    const received = receiveArchive(volume, body, { maxBytes: 1000 })
    const outcome = expect(received).rejects.toThrow('aborted')
    await vi.waitFor(
      async () => expect(await collect(listTemporaryFiles(volume))).toMatchObject([{ size: 7 }]),
      60_000,
    )
    body.destroy(new Error('aborted'))
    await outcome
    expect(await temporaryFiles()).toEqual([])
  })

  it('leaves nothing of a body whose connection breaks', async () => {
    const body = new PassThrough()
    body.write('an arch')
    const received = receiveArchive(volume, body, { maxBytes: 1000 })
    setImmediate(() => body.destroy())
    await expect(received).rejects.toMatchObject({ code: 'ERR_STREAM_PREMATURE_CLOSE' })
    expect(await temporaryFiles()).toEqual([])
  })

  it('reads no faster than it writes', async () => {
    let read = 0
    let furthestAhead = 0
    const written = () => {
      const [name] = readdirSync(join(volume.directory, 'tmp'))
      return name ? statSync(join(volume.directory, 'tmp', name)).size : 0
    }
    const body = new Readable({
      highWaterMark: 1,
      read() {
        furthestAhead = Math.max(furthestAhead, read - written())
        read += 1000
        this.push(read > 100_000 ? null : Buffer.alloc(1000))
      },
    })
    expect(await receiveArchive(volume, body, { maxBytes: 100_000 })).toMatchObject({ size: 100_000 })
    expect(furthestAhead).toBeLessThanOrEqual(3000)
  })
})

describe('keep', () => {
  it('moves the archive under its hash', async () => {
    expect(await keep()).toBe('new')
    expect(await readFile(pathOf(sha256))).toEqual(bytes)
    expect(await temporaryFiles()).toEqual([])
  })

  it('keeps an existing archive, and touches it, so that garbage collection does not remove it', async () => {
    await keep()
    const { ino } = await stat(pathOf(sha256))
    await age(pathOf(sha256))
    expect(await keep()).toBe('known')
    const { touchedAt } = (await volume.stat(sha256)) ?? {}
    expect(Date.now() - Number(touchedAt)).toBeLessThan(day)
    expect((await stat(pathOf(sha256))).ino).toBe(ino)
    expect(await temporaryFiles()).toEqual([])
  })

  it('replaces an archive that has another size', async () => {
    await keep()
    await writeFile(pathOf(sha256), 'an arch')
    expect(await keep()).toBe('damaged')
    expect(await readFile(pathOf(sha256))).toEqual(bytes)
    expect(await temporaryFiles()).toEqual([])
  })

  it('keeps one archive of many uploads of the same bytes at once', async () => {
    const received = await Promise.all(Array.from({ length: 20 }, () => receive()))
    await Promise.all(received.map(keepReceived))
    expect(await readFile(pathOf(sha256))).toEqual(bytes)
    expect(await temporaryFiles()).toEqual([])
  })
})

describe('discardArchive', () => {
  it('removes the temporary file, and also succeeds when it is gone already', async () => {
    const received = await receive()
    await discardArchive(received)
    await discardArchive(received)
    expect(await temporaryFiles()).toEqual([])
  })
})

describe('read, openFile, stat and verifyArchive', () => {
  it('read a kept archive', async () => {
    await keep()
    const archive = await volume.read(sha256, { start: 3, end: 9 })
    expect(archive?.size).toBe(10)
    expect(Buffer.concat((await archive?.bytes.toArray()) ?? []).toString()).toBe('archive')
    const opened = await volume.openFile(sha256)
    expect([opened?.size, await opened?.file.readFile()]).toEqual([10, bytes])
    await opened?.file.close()
    expect(await volume.stat(sha256)).toEqual({
      sha256,
      size: 10,
      touchedAt: expect.any(Date),
    })
    expect(await isArchiveIntact(volume, sha256)).toBe(true)
  })

  it('return null for an archive that does not exist', async () => {
    expect(await volume.read(sha256)).toBeNull()
    expect(await volume.openFile(sha256)).toBeNull()
    expect(await volume.stat(sha256)).toBeNull()
    expect(await isArchiveIntact(volume, sha256)).toBeNull()
  })

  it('detect a flipped bit', async () => {
    await keep()
    await writeFile(pathOf(sha256), 'an archivf')
    expect(await isArchiveIntact(volume, sha256)).toBe(false)
  })

  it.each(['', '../../etc/passwd', sha256.toUpperCase(), `${sha256}0`, `${sha256}\n`, sha256.slice(1)])(
    'refuse %j as a hash',
    async (hash) => {
      await expect(volume.read(hash)).rejects.toThrow(RangeError)
      await expect(volume.openFile(hash)).rejects.toThrow(RangeError)
      await expect(volume.stat(hash)).rejects.toThrow(RangeError)
      await expect(volume.remove(hash, new Date())).rejects.toThrow(RangeError)
    },
  )
})

describe('list and listTemporaryFiles', () => {
  it('list the existing files, and nothing else', async () => {
    await keep()
    await keep('another')
    const { path } = await receive('a third')
    await mkdir(join(volume.directory, 'archives', 'lost+found'))
    await writeFile(join(volume.directory, 'archives', 'README'), 'x')
    await mkdir(join(volume.directory, 'archives', '00'))
    await writeFile(join(volume.directory, 'archives', '00', `${sha256}.zip`), 'misplaced')
    await writeFile(join(volume.directory, 'archives', sha256.slice(0, 2), 'x.zip'), 'x')
    const archives = await collect(volume.list())
    expect(archives.map(({ size }) => size)).toEqual(expect.arrayContaining([7, 10]))
    expect(archives).toHaveLength(2)
    expect(archives).toContainEqual(await volume.stat(sha256))
    expect(await collect(listTemporaryFiles(volume))).toEqual([
      { path, size: 7, touchedAt: expect.any(Date) },
    ])
  })
})

describe('remove', () => {
  it('removes an archive that was not touched for a day', async () => {
    await keep()
    await age(pathOf(sha256))
    expect(await volume.remove(sha256, yesterday())).toBe(true)
    expect(existsSync(pathOf(sha256))).toBe(false)
    expect(await temporaryFiles()).toEqual([])
  })

  it('keeps a younger archive', async () => {
    await keep()
    const { ctimeMs } = await stat(pathOf(sha256))
    expect(await volume.remove(sha256, yesterday())).toBe(false)
    expect(await isArchiveIntact(volume, sha256)).toBe(true)
    // The file must not be moved away and back either: a reader could find it missing.
    expect((await stat(pathOf(sha256))).ctimeMs).toBe(ctimeMs)
  })

  it('succeeds for an archive that does not exist', async () => {
    expect(await volume.remove(sha256, new Date())).toBe(true)
  })

  it('loses no archive that a publisher keeps at the same moment', async () => {
    await keep()
    for (let round = 0; round < 200; round++) {
      await age(pathOf(sha256))
      const received = await receive()
      await Promise.all([keepReceived(received), volume.remove(sha256, yesterday())])
      expect(await isArchiveIntact(volume, sha256)).toBe(true)
    }
    expect(await temporaryFiles()).toEqual([])
  })
})
