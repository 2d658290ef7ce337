import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { transaction } from '../../../src/database/database.ts'
import { aMember } from '../../support/actors.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { revokePersonalTokens } from '../../support/last-use-rows.ts'
import { useListeningApp } from '../../support/listening.ts'
import { countWaiting, lockTables } from '../../support/locks.ts'
import { aMirroredPackage } from '../../support/mirrored-rows.ts'
import { freePort } from '../../support/program.ts'
import { aPackageZip, aPublisher, basic, type Publisher } from '../../support/registry-actors.ts'
import { countRows } from '../../support/rows.ts'
import { anUpstream } from '../../support/upstream-rows.ts'

const maxBytes = 1024 * 1024
const port = await freePort()
const t = useListeningApp(port, { MAX_ARCHIVE_BYTES: String(maxBytes) })

/** Sends the head of a request. The test sends the rest. */
async function sendHead(path: string, headers: Record<string, string>): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const lines = Object.entries({ Host: 'x', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`PUT ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  return socket
}

/** Sends bytes until the server closes the connection or all are sent. Returns how many were sent. */
async function pour(socket: Socket, bytes: number): Promise<number> {
  const chunk = Buffer.alloc(64 * 1024)
  let sent = 0
  while (sent < bytes && socket.writable) {
    if (!socket.write(chunk)) {
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {})
    }
    sent += chunk.length
  }
  return sent
}

async function expectNothingKept({ ask }: Publisher): Promise<void> {
  expect((await ask('p2/acme/lib.json')).statusCode).toBe(404)
  await expect.poll(() => readdir(join(t.config.dataDir, 'tmp'))).toEqual([])
}

describe('an upload with Expect: 100-continue (COMPOSER D)', () => {
  const expectation = { Expect: '100-continue', 'Content-Length': '104857' }

  it.each([
    ['bad credentials', 'upload/acme/lib/1.0.0', { Authorization: basic('wrong') }, 401, '"errcode":16'],
    ['a bad version', 'upload/acme/lib/v1', {}, 400, '"errcode":3'],
    [
      'a body that will be too large',
      'upload/acme/lib/1.0.0',
      { 'Content-Length': '99999999' },
      413,
      '"errcode":8',
    ],
  ])('is rejected for %s before it gets 100 Continue', async (_, below, headers, status, errcode) => {
    const { path, authorization } = await aPublisher(t)
    const socket = await sendHead(path + below, { Authorization: authorization, ...expectation, ...headers })
    const response = await text(socket)
    expect(response).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(response).toMatch(/^connection: close/im)
    expect(response).toContain(errcode)
  })

  it('gets 100 Continue when the request is valid', async () => {
    const { path, authorization } = await aPublisher(t)
    const zip = aPackageZip('acme/lib')
    const head = {
      Authorization: authorization,
      Expect: '100-continue',
      'Content-Length': String(zip.length),
    }
    const socket = await sendHead(`${path}upload/acme/lib/1.0.0`, head)
    const [invitation] = (await once(socket, 'data')) as [Buffer]
    expect(invitation.toString()).toBe('HTTP/1.1 100 Continue\r\n\r\n')
    socket.write(zip)
    const [response] = (await once(socket, 'data')) as [Buffer]
    expect(response.toString()).toMatch(/^HTTP\/1.1 201 /)
    socket.destroy()
  })

  it('still lets other endpoints read their bodies', async () => {
    const socket = connect(port, '127.0.0.1')
    const lines = ['Host: x', 'Expect: 100-continue', 'Content-Length: 3', 'Connection: close']
    const type = 'Content-Type: application/x-www-form-urlencoded'
    socket.write(`POST /oauth2/token HTTP/1.1\r\n${[...lines, type].join('\r\n')}\r\n\r\n`)
    const [invitation] = (await once(socket, 'data')) as [Buffer]
    expect(invitation.toString()).toBe('HTTP/1.1 100 Continue\r\n\r\n')
    socket.write('a=b')
    expect(await text(socket)).toContain('"error":')
  })
})

describe('an upload whose body is already on its way', () => {
  it('is refused without reading it all, and the client can read why', async () => {
    const { path, authorization } = await aPublisher(t)
    const bytes = 100 * 1024 * 1024
    const head = { Authorization: authorization, 'Transfer-Encoding': 'chunked' }
    const socket = await sendHead(`${path}upload/acme/lib/v1`, head)
    const response = text(socket)
    socket.write(`${bytes.toString(16)}\r\n`)
    const taken = await pour(socket, bytes)
    expect(await response).toContain('"errmsg":"validate [Version:v1] failed"')
    expect(taken).toBeLessThan(bytes / 2)
  })

  it('is not reset before the client has read the response', async () => {
    const { path, authorization } = await aPublisher(t)
    const bytes = 300 * 1024
    const head = { Authorization: authorization, 'Content-Length': String(bytes) }
    const socket = await sendHead(`${path}upload/acme/lib/v1`, head)
    const [response] = (await once(socket, 'data')) as [Buffer]
    expect(response.toString()).toMatch(/^HTTP\/1.1 400 /)
    const ended = once(socket.resume(), 'close')
    for (let sent = 0; sent < bytes; sent += 1024) {
      await new Promise((resolve) => socket.write(Buffer.alloc(1024), resolve))
    }
    expect(await ended).toEqual([false])
  })

  it('is refused at once when it says that it is too large (errcode 8)', async () => {
    const publisher = await aPublisher(t)
    const head = { Authorization: publisher.authorization, 'Content-Length': String(100 * maxBytes) }
    const socket = await sendHead(`${publisher.path}upload/acme/lib/1.0.0`, head)
    expect(await text(socket)).toMatch(/^HTTP\/1.1 413 .*"errcode":8/s)
    await expectNothingKept(publisher)
  })

  it('is refused when it turns out to be too large (errcode 8)', async () => {
    const publisher = await aPublisher(t)
    const head = { Authorization: publisher.authorization, 'Transfer-Encoding': 'chunked' }
    const socket = await sendHead(`${publisher.path}upload/acme/lib/1.0.0`, head)
    const response = text(socket)
    socket.write(`${(50 * maxBytes).toString(16)}\r\n`)
    expect(await pour(socket, 50 * maxBytes)).toBeLessThan(40 * maxBytes)
    expect(await response).toMatch(/^HTTP\/1.1 413 .*"errcode":8/s)
    await expectNothingKept(publisher)
  })

  it('is discarded when it is cut off', async () => {
    const publisher = await aPublisher(t)
    const zip = aPackageZip('acme/lib')
    const heads = [
      { 'Content-Length': String(zip.length) },
      { 'Content-Length': '1000', 'Content-Type': 'multipart/form-data; boundary=cut' },
    ]
    for (const head of heads) {
      const socket = await sendHead(`${publisher.path}upload/acme/lib/1.0.0`, {
        Authorization: publisher.authorization,
        ...head,
      })
      if ('Content-Type' in head) {
        socket.write('--cut\r\nContent-Disposition: form-data; name="package"; filename="p.zip"\r\n\r\n')
      }
      socket.write(zip.subarray(0, 100))
      await expect.poll(() => readdir(join(t.config.dataDir, 'tmp'))).toHaveLength(1)
      socket.destroy()
      await expectNothingKept(publisher)
    }
    await expect.poll(() => t.log().match(/the client disconnected/g)).toHaveLength(2)
    expect(t.log()).not.toContain('"level":50')
  })

  it('is published, with the client IP in its event, when the client disconnects after the last byte', async () => {
    const publisher = await aPublisher(t)
    const zip = aPackageZip('acme/lib')
    const head = { Authorization: publisher.authorization, 'Content-Length': String(zip.length) }
    const socket = await sendHead(`${publisher.path}upload/acme/lib/1.0.0`, head)
    socket.write(zip.subarray(0, 100))
    await expect.poll(() => readdir(join(t.config.dataDir, 'tmp'))).toHaveLength(1)
    await transaction(t.db, async (tx) => {
      // The upload waits for this lock after its archive was checked. The late write of last uses waits for it, too.
      await lockTables(tx, 'personal_token')
      socket.write(zip.subarray(100))
      await expect.poll(() => countWaiting(tx, 'registry_access')).toBe(1)
      socket.destroy()
      await expect.poll(() => promisify(t.app.server.getConnections.bind(t.app.server))()).toBe(0)
    })
    const ips = () => eventsOf(t.db, { repositoryId: publisher.repository.id }, ['ip'])
    await expect.poll(ips).toEqual([{ ip: '127.0.0.1' }])
    expect(t.log()).not.toContain('"level":50')
  })

  it.each<[string, number, (publisher: Publisher) => Promise<unknown>]>([
    ['the token is revoked', 401, ({ account }) => revokePersonalTokens(t.db, account)],
    [
      'the role of the account becomes guest, which may still pull',
      403,
      ({ account, repository }) => aMember(t.db, account, repository, 'guest'),
    ],
    [
      'a package of its vendor comes from an upstream',
      409,
      async ({ repository }) => {
        const upstreamId = await anUpstream(t.db, repository)
        await aMirroredPackage(t.db, repository, 'acme/theirs', { upstreamId, isApproved: true })
      },
    ],
  ])('publishes nothing when, during the upload, %s', async (_, status, change) => {
    const publisher = await aPublisher(t)
    const zip = aPackageZip('acme/lib')
    const head = { Authorization: publisher.authorization, 'Content-Length': String(zip.length) }
    const socket = await sendHead(`${publisher.path}upload/acme/lib/1.0.0`, { ...head, Connection: 'close' })
    socket.write(zip.subarray(0, 100))
    await expect.poll(() => readdir(join(t.config.dataDir, 'tmp'))).toHaveLength(1)
    await change(publisher)
    socket.write(zip.subarray(100))
    expect(await text(socket)).toMatch(new RegExp(`^HTTP/1.1 ${status} .*"errcode":(16|9),`, 's'))
    expect(await countRows(t.db, 'package', { repositoryId: publisher.repository.id })).toBe(0)
  })
})

describe('curl (SPEC 4.4, 4.6)', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-curl-'))
    await writeFile(join(folder, 'package.zip'), aPackageZip('acme/lib'))
    await writeFile(join(folder, 'netrc'), '')
  })
  afterAll(() => rm(folder, { recursive: true }))

  it.each([
    ['-T', (url: string) => ['-T', 'package.zip', url]],
    ['-T to a folder', (url: string) => ['-T', 'package.zip', `${url}/`]],
    ['--data-binary', (url: string) => ['--data-binary', '@package.zip', url]],
    ['-X PUT --data-binary', (url: string) => ['-X', 'PUT', '--data-binary', '@package.zip', url]],
    ['-T from a pipe', (url: string) => ['-T', '-', url]],
    ['-F, as a form', (url: string) => ['-F', 'package=@package.zip', url]],
  ])('uploads by %s', async (_, wordsFor) => {
    const { path, token } = await aPublisher(t)
    const words = [
      '-sS',
      '-u',
      `svc:${token}`,
      ...wordsFor(`http://127.0.0.1:${port}${path}upload/acme/lib/1.0.0`),
    ]
    const running = promisify(execFile)('curl', words, { cwd: folder })
    running.child.stdin?.end(aPackageZip('acme/lib'))
    expect(JSON.parse((await running).stdout)).toMatchObject({ errcode: 0, version: '1.0.0' })
  })

  it('takes its credentials from a netrc file', async () => {
    const { path, token } = await aPublisher(t)
    await writeFile(join(folder, 'netrc'), `machine 127.0.0.1 login svc password ${token}\n`)
    const url = `http://127.0.0.1:${port}${path}upload/acme/lib/1.0.0`
    const words = ['-sS', '--netrc-file', 'netrc', '-T', 'package.zip', url]
    const { stdout } = await promisify(execFile)('curl', words, { cwd: folder })
    expect(JSON.parse(stdout)).toMatchObject({ errcode: 0, version: '1.0.0' })
  })

  it('shows a refusal of an upload that is still running', async () => {
    const { path } = await aPublisher(t)
    await writeFile(join(folder, 'large.zip'), Buffer.alloc(30 * 1024 * 1024))
    const url = `http://127.0.0.1:${port}${path}upload/acme/lib/1.0.0`
    for (const expectation of ['Expect:', 'X-As-Usual: 1']) {
      const words = ['-sS', '-H', expectation, '-u', 'svc:wrong', '-T', 'large.zip', url]
      const { stdout } = await promisify(execFile)('curl', words, { cwd: folder })
      expect(stdout).toContain('{"errcode":16,"errmsg":"not authorized"')
    }
  })
})
