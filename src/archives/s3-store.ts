import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { BucketSettings } from '../domain/bucket.ts'
import type { ArchiveStore, CopyOutcome, ReceivedArchive, StoredArchive } from './archive-store.ts'
import { archiveName, readArchiveName, writing } from './local-store.ts'
import { openS3Client, type Patience, unavailable } from './s3-client.ts'
import { element } from './xml-element.ts'

/** How long a client may use a link to an archive. */
const linkSeconds = 15 * 60
/** An archive that was stored within this time is not stored again. A garbage collection keeps it for a day. */
const freshMilliseconds = 12 * 60 * 60 * 1000
/** A service that copies more slowly between its buckets counts as unavailable. */
const copiedBytesPerSecond = 1024 ** 2
const folder = 'archives/'
const ownerKey = `${folder}database-id`
const claimKey = `${folder}claim`

interface StoreOptions {
  /** Whether clients get links, or this process sends the archives. */
  isLinked: boolean
  /** The free space that received archives leave on the local disk. */
  reserveBytes?: number
  /** The number of objects that one request lists. */
  pageSize?: number
  /** The time without a response after which the store counts as unavailable. */
  silentMilliseconds?: number
}

/**
 * Opens the archive store in a bucket. An upload is atomic, and the store checks the bytes against the signed SHA-256.
 * `directory` is the local folder that receives uploads.
 */
export async function openS3Store(
  directory: string,
  bucket: BucketSettings,
  { isLinked, reserveBytes = 0, pageSize = 1000, silentMilliseconds }: StoreOptions,
): Promise<ArchiveStore> {
  await mkdir(join(directory, 'tmp'), { recursive: true })
  const client = openS3Client(bucket, silentMilliseconds)
  const keyOf = (sha256: string) => `${folder}${archiveName(sha256)}`

  /** All requests of an upload share its patience. */
  const patiences = new WeakMap<ReceivedArchive, Patience>()

  function patienceOf(received: ReceivedArchive): Patience {
    const patience = patiences.get(received) ?? client.startPatience()
    patiences.set(received, patience)
    return patience
  }

  async function stat(sha256: string, patience?: Patience): Promise<StoredArchive | null> {
    const wanted = { method: 'HEAD', key: keyOf(sha256) } as const
    const { statusCode, headers, body } = await client.send(wanted, [200, 404], patience)
    await body.dump()
    if (statusCode === 404) return null
    const lastModified = headers['last-modified']
    // An archive of an unknown time may have been stored just now.
    const touchedAt = lastModified === undefined ? new Date() : new Date(String(lastModified))
    return { sha256, size: Number(headers['content-length']), touchedAt }
  }

  async function read(sha256: string, range?: { start: number; end: number }) {
    const headers = range && { range: `bytes=${range.start}-${range.end}` }
    const wanted = { method: 'GET', key: keyOf(sha256), ...(headers && { headers }) } as const
    const response = await client.send(wanted, range ? [206, 404] : [200, 404])
    if (response.statusCode === 404) {
      await response.body.dump()
      return null
    }
    const [, total] = /\/(\d+)$/.exec(String(response.headers['content-range'])) ?? []
    return { size: Number(total ?? response.headers['content-length']), bytes: readBody(response.body) }
  }

  async function put(received: ReceivedArchive): Promise<void> {
    const { path, size, sha256 } = received
    const headers = { 'content-type': 'application/zip' }
    const wanted = { method: 'PUT', key: keyOf(sha256), headers, body: { path, size, sha256 } } as const
    const { body } = await client.send(wanted, [200], patienceOf(received))
    await body.dump()
  }

  async function copyFrom(
    from: ArchiveStore,
    { sha256, size }: { sha256: string; size: number },
  ): Promise<CopyOutcome | null> {
    if (from.bucket?.endpoint !== bucket.endpoint || from.bucket.region !== bucket.region) return null
    const headers = {
      'x-amz-copy-source': `/${from.bucket.name}/${from.bucket.prefix}${keyOf(sha256)}`,
      // Amazon S3 then returns the hash of the bytes. Other services may ignore it.
      'x-amz-checksum-algorithm': 'SHA256',
    }
    const patience = client.startPatience()
    // The service sends nothing while it copies.
    patience.left += Math.ceil((size / copiedBytesPerSecond) * 1000)
    const wanted = { method: 'PUT', key: keyOf(sha256), headers } as const
    const response = await client.send(wanted, [200, 404, 405, 501], patience)
    const text = await response.body.text()
    if (response.statusCode !== 200) return null
    // An error that happens while the service copies has the status 200 too.
    const code = element(text, 'Code')
    if (code !== undefined)
      throw unavailable(new Error(`The archive store failed to copy ${sha256}: ${code}.`))
    const checksum = element(text, 'ChecksumSHA256')
    if (checksum === undefined) return 'unchecked'
    if (Buffer.from(checksum, 'base64').toString('hex') === sha256) return 'copied'
    await removeObject(sha256)
    return 'damaged'
  }

  async function removeObject(sha256: string): Promise<void> {
    const { body } = await client.send({ method: 'DELETE', key: keyOf(sha256) }, [200, 204, 404])
    await body.dump()
  }

  async function readText(key: string): Promise<string | null> {
    const { statusCode, body } = await client.send({ method: 'GET', key }, [200, 404])
    const text = await body.text()
    if (statusCode === 200) return text
    if (/<Code>NoSuchBucket</.test(text))
      throw new Error(`There is no bucket ${bucket.name}: check ARCHIVE_STORE.`)
    return null
  }

  const readOwner = async () => (await readText(ownerKey))?.trim() ?? null

  return {
    directory,
    reserveBytes,
    place: `s3://${bucket.name}/${bucket.prefix}`,
    bucket,
    copyFrom,
    isLinked,
    stat,
    read,
    async keep(received) {
      const found = await stat(received.sha256, patienceOf(received))
      const isFresh = found !== null && Date.now() - found.touchedAt.getTime() < freshMilliseconds
      if (found?.size !== received.size || !isFresh) await put(received)
      if (!found) return 'new'
      return found.size === received.size ? 'known' : 'damaged'
    },
    replace: put,
    async has(received) {
      return (await stat(received.sha256, patienceOf(received)))?.size === received.size
    },
    async openFile(sha256) {
      const archive = await read(sha256)
      if (!archive) return null
      const path = join(directory, 'tmp', randomUUID())
      try {
        await writing(() => pipeline(archive.bytes, createWriteStream(path, { flags: 'wx', mode: 0o640 })))
        // The file has no name after `rm`. It disappears when its handle is closed, also after a crash.
        return { file: await open(path, 'r'), size: archive.size }
      } finally {
        await rm(path, { force: true })
      }
    },
    async *list() {
      for await (const { key, size, touchedAt } of listObjects()) {
        const sha256 = readArchiveName(key.slice(folder.length))
        if (sha256 !== null) yield { sha256, size, touchedAt }
      }
    },
    async remove(sha256, untouchedSince) {
      const found = await stat(sha256)
      if (!found) return true
      if (found.touchedAt > untouchedSince) return false
      await removeObject(sha256)
      return true
    },
    async link(sha256, { method, fileName }) {
      const query = {
        'response-content-type': 'application/zip',
        'response-content-disposition': `attachment; filename="${fileName}"`,
      }
      return client.presign({ method, key: keyOf(sha256), query }, linkSeconds)
    },
    readOwner,
    async writeOwner(databaseId) {
      const wanted = putText(ownerKey, `${databaseId}\n`)
      // 412: the file exists. 501: this store, such as Swift, does not support the condition.
      const first = await client.send({ ...wanted, headers: { 'if-none-match': '*' } }, [200, 412, 501])
      await first.body.dump()
      if (first.statusCode !== 501 || (await readOwner()) !== null) return
      const { body } = await client.send(wanted, [200])
      await body.dump()
    },
    readClaim: () => readText(claimKey),
    async writeClaim(text) {
      const { body } = await client.send(putText(claimKey, text), [200])
      await body.dump()
    },
  }

  async function* listObjects(): AsyncGenerator<{ key: string; size: number; touchedAt: Date }> {
    const prefix = `${bucket.prefix}${folder}`
    for (let token: string | undefined = ''; token !== undefined; ) {
      const query = {
        'list-type': '2',
        'max-keys': String(pageSize),
        prefix,
        ...(token !== '' && { 'continuation-token': token }),
      }
      const { body } = await client.send({ method: 'GET', query }, [200])
      const text = await body.text()
      for (const [, object = ''] of text.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const key = element(object, 'Key') ?? ''
        const touchedAt = new Date(element(object, 'LastModified') ?? '')
        yield { key: key.slice(bucket.prefix.length), size: Number(element(object, 'Size')), touchedAt }
      }
      const isTruncated = element(text, 'IsTruncated') === 'true'
      token = isTruncated ? element(text, 'NextContinuationToken') : undefined
      // The archives that follow would look like missing ones, or the first ones would come again without end.
      if (isTruncated && !token)
        throw unavailable(new Error('The list of the archive store has no continuation.'))
    }
  }
}

function putText(key: string, text: string) {
  const sha256 = createHash('sha256').update(text).digest('hex')
  return { method: 'PUT', key, body: { text, sha256 } } as const
}

/** Returns the body. An error of the body becomes the error for an unavailable store. */
function readBody(body: Readable): Readable {
  const bytes = new PassThrough({ highWaterMark: 256 * 1024 })
  body.on('error', (error) => bytes.destroy(unavailable(error)))
  bytes.on('close', () => body.destroy())
  return body.pipe(bytes)
}
