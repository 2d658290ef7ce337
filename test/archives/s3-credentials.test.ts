import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { openS3Store } from '../../src/archives/s3-store.ts'
import { readBucket } from '../../src/domain/bucket.ts'

/*
 * One server plays the metadata service of a virtual machine, the agent of a container, the security token service, and a
 * bucket that only accepts the keys that were given last.
 */

const hash = 'ab'.repeat(32)
let folder: string
let origin: string
/** How long the keys of the services live, in seconds. */
let lifeSeconds = 3600
/** The status of the services, and a body instead of the usual one. */
let failure: { status: number; body?: string } | null = null
let issued = 0
let isExpiredAtStore = false
const asked: string[] = []
const seenByStore: { key: string; token: string }[] = []

const keysJson = () => ({
  Code: 'Success',
  AccessKeyId: `key-${issued}`,
  SecretAccessKey: 'secret',
  Token: `token-${issued}`,
  Expiration: new Date(Date.now() + lifeSeconds * 1000).toISOString(),
})

interface Answer {
  status: number
  headers?: Record<string, string>
  body: string
}

function respondAsService(request: IncomingMessage, body: string): Answer {
  const { method, url = '', headers } = request
  asked.push(`${method} ${url}`)
  if (failure) return { body: '', ...failure }
  const roles = '/latest/meta-data/iam/security-credentials/'
  if (method === 'PUT' && url === '/latest/api/token') {
    const isAsked = headers['x-aws-ec2-metadata-token-ttl-seconds'] !== undefined
    return { status: isAsked ? 200 : 400, body: 'session' }
  }
  if (url.startsWith(roles)) {
    // Version 1 has no such header. Machines that require version 2 refuse it.
    if (headers['x-aws-ec2-metadata-token'] !== 'session') return { status: 401, body: '' }
    if (url === roles) return { status: 200, body: 'svc-role' }
    issued += 1
    return { status: url === `${roles}svc-role` ? 200 : 404, body: JSON.stringify(keysJson()) }
  }
  if (url === '/agent') {
    issued += 1
    if (headers.authorization !== 'Bearer agent') return { status: 403, body: '' }
    return { status: 200, body: JSON.stringify(keysJson()) }
  }
  const form = new URLSearchParams(body)
  if (form.get('Action') !== 'AssumeRoleWithWebIdentity') return { status: 400, body: '' }
  if (form.get('RoleArn') !== 'arn:aws:iam::1:role/svc' || form.get('RoleSessionName') !== 'svc')
    return { status: 400, body: '<Error><Code>ValidationError</Code></Error>' }
  if (form.get('WebIdentityToken') !== 'pod &+ token')
    return { status: 400, body: '<Error><Code>InvalidIdentityToken</Code></Error>' }
  issued += 1
  const { AccessKeyId, SecretAccessKey, Token, Expiration } = keysJson()
  const elements = `<AccessKeyId>${AccessKeyId}</AccessKeyId><SecretAccessKey>${SecretAccessKey}</SecretAccessKey><SessionToken>${Token}</SessionToken><Expiration>${Expiration}</Expiration>`
  return { status: 200, body: `<R><Credentials>${elements}</Credentials></R>` }
}

function respondAsStore({ headers }: IncomingMessage): Answer {
  const [, key = ''] = /Credential=([^/]+)/.exec(headers.authorization ?? '') ?? []
  seenByStore.push({ key, token: String(headers['x-amz-security-token']) })
  const isRefused = isExpiredAtStore && key !== `key-${issued}`
  isExpiredAtStore &&= isRefused
  if (isRefused) return { status: 400, body: '<Error><Code>ExpiredToken</Code></Error>' }
  const about = { 'content-length': '10', 'last-modified': new Date(0).toUTCString() }
  return { status: 200, headers: about, body: '' }
}

const server = createServer((request, response) => {
  void text(request).then((body) => {
    const {
      status,
      headers = {},
      body: sent,
    } = request.url?.startsWith('/packages/') ? respondAsStore(request) : respondAsService(request, body)
    response.writeHead(status, headers).end(sent)
  })
})

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-keys-'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await writeFile(join(folder, 'agent-token'), 'Bearer agent\n')
  await writeFile(join(folder, 'pod-token'), 'pod &+ token\n')
})
beforeEach(() => {
  lifeSeconds = 3600
  failure = null
  isExpiredAtStore = false
  asked.length = 0
  seenByStore.length = 0
})
afterEach(() => vi.useRealTimers())
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rm(folder, { recursive: true })
})

const roles = {
  instance: () => ({ AWS_EC2_METADATA_SERVICE_ENDPOINT: origin }),
  container: () => ({
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${origin}/agent`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(folder, 'agent-token'),
  }),
  'web identity': () => ({
    AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, 'pod-token'),
    AWS_ROLE_ARN: 'arn:aws:iam::1:role/svc',
    AWS_ENDPOINT_URL_STS: origin,
  }),
} as const
type Role = keyof typeof roles
const kinds: Role[] = ['instance', 'container', 'web identity']

/** Opens the bucket with the role of a kind. */
async function aStore(role: Role): Promise<ArchiveStore> {
  const bucket = readBucket(`s3://packages?endpoint=${origin}&path_style=true`, roles[role]())
  if (typeof bucket === 'string') throw new Error(bucket)
  return openS3Store(folder, bucket, { isLinked: true })
}

/** Lets the clock of this process be so many minutes later. Only the clock is fake. */
function wait(minutes: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + minutes * 60_000 })
}

describe.each(kinds)('the keys of a role (%s)', (role) => {
  it('sign the requests to the store, and one request gets them for all', async () => {
    const store = await aStore(role)
    expect(asked).toEqual([])
    await Promise.all([store.stat(hash), store.stat(hash), store.stat(hash)])
    const requests = asked.length
    expect(seenByStore).toEqual(Array(3).fill({ key: `key-${issued}`, token: `token-${issued}` }))
    await store.stat(hash)
    expect([asked.length, asked.length]).toEqual([requests, role === 'instance' ? 3 : 1])
  })

  it('are in links too', async () => {
    const link = await (await aStore(role)).link(hash, { method: 'GET', fileName: 'x.zip' })
    expect(new URL(link).searchParams.get('X-Amz-Security-Token')).toBe(`token-${issued}`)
  })

  it('are renewed before they expire', async () => {
    const store = await aStore(role)
    await store.stat(hash)
    const first = issued
    wait(39)
    await store.stat(hash)
    expect(issued).toBe(first)
    wait(2)
    await store.stat(hash)
    expect([issued, seenByStore.at(-1)?.key]).toEqual([first + 1, `key-${first + 1}`])
  })

  it('work while the service fails, until just before they expire', async () => {
    const store = await aStore(role)
    await store.stat(hash)
    const first = issued
    failure = { status: 500 }
    wait(50)
    await store.stat(hash)
    const requests = asked.length
    await store.stat(hash)
    expect(asked.length).toBe(requests)
    expect(seenByStore.at(-1)?.key).toBe(`key-${first}`)
    wait(9.9)
    await expect(store.stat(hash)).rejects.toMatchObject({ errcode: 14, status: 503 })
    failure = null
    await store.stat(hash)
    expect(seenByStore.at(-1)?.key).toBe(`key-${issued}`)
  })

  it('are replaced when the store says that they have expired', async () => {
    const store = await aStore(role)
    await store.stat(hash)
    issued += 1
    isExpiredAtStore = true
    expect(await store.stat(hash)).not.toBeNull()
    expect(seenByStore.at(-1)?.key).toBe(`key-${issued}`)
  })

  it.each([
    ['a status other than 200', { status: 404 }, /it responds with 404/],
    ['a code', { status: 400, body: '<Error><Code>AccessDenied</Code></Error>' }, /400 AccessDenied/],
    ['no keys', { status: 200, body: '{"Code":"Failed"}' }, /gave no temporary keys|responds with/],
    ['too much', { status: 200, body: 'x'.repeat(100_000) }, /its response is too long/],
  ])('are missing with the reason when the service sends %s', async (_what, answer, reason) => {
    const store = await aStore(role)
    failure = answer
    const error = await store.stat(hash).catch((thrown: Error) => thrown)
    expect(error).toMatchObject({ errcode: 14, message: 'the archive store does not respond' })
    expect(String((error as Error).cause)).toMatch(reason)
    expect(String((error as Error).cause)).toContain(origin)
  })
})

describe('the token of a role', () => {
  it('is read again each time, because it changes', async () => {
    const path = join(folder, 'rotated')
    await writeFile(path, 'old')
    const bucket = readBucket(`s3://packages?endpoint=${origin}&path_style=true`, {
      ...roles['web identity'](),
      AWS_WEB_IDENTITY_TOKEN_FILE: path,
    })
    if (typeof bucket === 'string') throw new Error(bucket)
    const store = await openS3Store(folder, bucket, { isLinked: true })
    await expect(store.stat(hash)).rejects.toMatchObject({
      cause: { message: expect.stringContaining('InvalidIdentityToken') },
    })
    await writeFile(path, 'pod &+ token')
    expect(await store.stat(hash)).not.toBeNull()
    await rm(path)
    wait(61)
    await expect(store.stat(hash)).rejects.toMatchObject({
      cause: {
        message: expect.stringContaining(`${path} of the archive store's role cannot be read (ENOENT)`),
      },
    })
  })
})
