import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { openS3Store } from '../../src/archives/s3-store.ts'
import { readBucket } from '../../src/domain/bucket.ts'

/** What the service of two buckets responds to a request that copies an object, as Amazon S3 describes it. */
let answer: { status: number; body: string }
const requests: string[] = []
const service = createServer((request, response) => {
  const { method, url, headers } = request
  requests.push([method, url, headers['x-amz-copy-source']].filter(Boolean).join(' '))
  const { status, body } = method === 'PUT' ? answer : { status: 204, body: '' }
  response.writeHead(status).end(body)
})
const bytes = Buffer.from('an archive')
const sha256 = createHash('sha256').update(bytes).digest('hex')
const archive = { sha256, size: bytes.length }
const key = `archives/${sha256.slice(0, 2)}/${sha256}.zip`
const checksumOf = (content: Buffer | string) => createHash('sha256').update(content).digest('base64')
const result = (elements: string) => ({
  status: 200,
  body: `<CopyObjectResult><ETag>"x"</ETag>${elements}</CopyObjectResult>`,
})
let folder: string
let endpoint: string

async function aBucket(name: string, at = endpoint): Promise<ArchiveStore> {
  const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' }
  const bucket = readBucket(`s3://${name}/at?endpoint=${at}&path_style=true`, keys)
  if (typeof bucket === 'string') throw new Error(bucket)
  return openS3Store(folder, bucket, { isLinked: true })
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-copied-'))
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  endpoint = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
})
beforeEach(() => {
  requests.length = 0
})
afterAll(async () => {
  service.closeAllConnections()
  await new Promise((resolve) => service.close(resolve))
  await rm(folder, { recursive: true })
})

describe('a copy between two buckets of one service', () => {
  const copy = async () => (await aBucket('two')).copyFrom(await aBucket('one'), archive)

  it('is compared with the hash that the service returns', async () => {
    answer = result(`<ChecksumSHA256>${checksumOf(bytes)}</ChecksumSHA256>`)
    expect(await copy()).toBe('copied')
    expect(requests).toEqual([`PUT /two/at/${key} /one/at/${key}`])
  })

  it('of damaged bytes is removed again', async () => {
    answer = result(`<ChecksumSHA256>${checksumOf('other bytes')}</ChecksumSHA256>`)
    expect(await copy()).toBe('damaged')
    expect(requests.at(-1)).toBe(`DELETE /two/at/${key}`)
  })

  it('is not compared when the service returns no hash', async () => {
    answer = result('')
    expect(await copy()).toBe('unchecked')
  })

  it('fails with the error that the service sends after it has begun', async () => {
    answer = { status: 200, body: '<Error><Code>InternalError</Code></Error>' }
    await expect(copy()).rejects.toMatchObject({
      errcode: 14,
      cause: { message: expect.stringContaining('InternalError') },
    })
  })

  it('is left to this machine when the service cannot do it, or when there are two services', async () => {
    answer = { status: 501, body: '<Error><Code>NotImplemented</Code></Error>' }
    expect(await copy()).toBeNull()
    requests.length = 0
    const elsewhere = await aBucket('one', 'http://127.0.0.1:9')
    expect(await (await aBucket('two')).copyFrom(elsewhere, archive)).toBeNull()
    expect(requests).toEqual([])
  })
})
