import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { openS3Store } from '../../src/archives/s3-store.ts'
import { readBucket } from '../../src/domain/bucket.ts'

const sha256 = 'ab'.repeat(32)
const dayAgo = new Date(Date.now() - 86_400_000)
const requests: string[] = []
let listed = ''
/** A service that leaves out what Amazon S3 always sends. */
const service = createServer(({ method }, response) => {
  requests.push(`${method}`)
  response.sendDate = false
  if (method === 'HEAD') response.writeHead(200, { 'content-length': 10 }).end()
  else if (method === 'DELETE') response.writeHead(204).end()
  else response.writeHead(200).end(`<ListBucketResult>${listed}</ListBucketResult>`)
})
let folder: string
let store: ArchiveStore

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-odd-'))
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
  const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' }
  const bucket = readBucket(`s3://one/?endpoint=${endpoint}&path_style=true`, keys)
  if (typeof bucket === 'string') throw new Error(bucket)
  store = await openS3Store(folder, bucket, { isLinked: true })
})
afterAll(async () => {
  service.closeAllConnections()
  await new Promise((resolve) => service.close(resolve))
  await rm(folder, { recursive: true })
})

describe('a bucket whose service leaves something out', () => {
  it('keeps an archive of an unknown time, which somebody may have stored just now', async () => {
    expect(await store.remove(sha256, dayAgo)).toBe(false)
    expect(requests).not.toContain('DELETE')
    // A purge removes it at any time.
    expect(await store.remove(sha256, new Date(8.64e15))).toBe(true)
    expect(requests).toContain('DELETE')
  })

  it.each(['', '<NextContinuationToken></NextContinuationToken>'])(
    'has no complete list without the place where the list goes on (%s)',
    async (token) => {
      listed = `<IsTruncated>true</IsTruncated>${token}`
      const list = async () => {
        for await (const { sha256 } of store.list()) requests.push(sha256)
      }
      requests.length = 0
      await expect(list()).rejects.toMatchObject({ errcode: 14 })
      expect(requests).toEqual(['GET'])
    },
  )
})
