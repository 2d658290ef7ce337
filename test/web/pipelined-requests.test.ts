import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { aGroupMember, groupOf } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'

const port = await freePort()
const t = useListeningApp(port)

/** Opens a connection that reads nothing until it is resumed. */
async function aClient(): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: svc.test\r\n\r\n`

/** The number of responses to a path that were sent so far. */
const sent = (path: string) =>
  t
    .log()
    .split('\n')
    .filter((line) => line.includes(`"path":"${path}"`) && line.includes('request completed')).length

/** Reads until the text contains so many responses. */
async function readResponses(socket: Socket, count: number): Promise<string[]> {
  const start = 'HTTP/1.1 '
  const parts: string[] = []
  let found = 0
  let end = ''
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    const part = chunk.toString('latin1')
    parts.push(part)
    // A start may be cut by the end of a part. Searching the whole text each time would take minutes.
    found += (end + part).split(start).length - 1
    end = (end + part).slice(1 - start.length)
    if (found >= count && part.endsWith('}')) break
  }
  return parts.join('').split(/(?=HTTP\/1\.1 )/)
}

describe('a connection with pipelined requests', () => {
  it('gets the responses in the order of the requests', async () => {
    const socket = await aClient()
    const paths = Array.from({ length: 300 }, (_, i) => (i % 3 === 0 ? '/api/nothing' : '/docs/nothing'))
    socket.write(paths.map(get).join('') + get('/healthz'))
    const responses = await readResponses(socket, 301)
    expect(responses).toHaveLength(301)
    for (const [i, path] of paths.entries()) {
      expect(responses[i]).toMatch(path === '/api/nothing' ? /"errcode":5/ : /<!doctype html>/)
    }
    expect(responses[300]).toMatch(/"status":"ok"/)
  })

  it('starts no request while the client has not read the response before', async () => {
    const socket = await aClient()
    const before = sent('/api/openapi.json')
    socket.write(get('/api/openapi.json').repeat(400))
    await expect.poll(() => sent('/api/openapi.json')).toBeGreaterThan(before)
    // The kernel takes some responses. The log shows the others only if they were started.
    let seen = -1
    for (let now = sent('/api/openapi.json'); now !== seen; now = sent('/api/openapi.json')) {
      seen = now
      await sleep(500)
    }
    expect(seen - before).toBeLessThan(100)
    expect(await readResponses(socket, 400)).toHaveLength(400)
  })

  it('also gets the errors for URLs that cannot be decoded in turn', async () => {
    const socket = await aClient()
    socket.write(get('/api/openapi.json').repeat(100) + get('/api/%zz').repeat(100))
    await sleep(500)
    expect(sent('/api/%zz')).toBe(0)
    const responses = await readResponses(socket, 200)
    expect(responses).toHaveLength(200)
    expect(responses[199]).toMatch(/^HTTP\/1\.1 400 /)
  })

  it('reads the body of a request that waited', async () => {
    const socket = await aClient()
    const body = 'x'.repeat(60_000)
    const post = `POST /oauth2/token HTTP/1.1\r\nHost: svc.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n`
    socket.write(get('/healthz').repeat(5) + post)
    await sleep(100)
    socket.write(body + get('/healthz'))
    const responses = await readResponses(socket, 7)
    expect(responses.map((response) => response.slice(9, 12))).toEqual([
      ...Array(5).fill('200'),
      '400',
      '200',
    ])
  })

  it.each([
    ['a lock file', (group: string) => `/api/groups/${group}/projects/shop/lock`],
    ['a file of advisories', (_group: string, path: string) => `/api/repositories/${path}/advisories/import`],
  ])('gets the next response after %s that is too large', async (_what, pathFor) => {
    const { account, repository, token } = await aCaller(t)
    const group = await groupOf(t.db, repository)
    await aGroupMember(t.db, account, group, 'admin')
    const socket = await aClient()
    const body = Buffer.alloc(17 * 1024 * 1024, 0x20)
    socket.write(
      `POST ${pathFor(group.name, repository.path)} HTTP/1.1\r\nHost: svc.test\r\n` +
        `Authorization: Bearer ${token}\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    socket.write(body)
    socket.write(get('/healthz'))
    const responses = await readResponses(socket, 2)
    expect(responses.map((response) => response.slice(9, 12))).toEqual(['413', '200'])
  })

  it('is closed when more than 500 requests wait', async () => {
    const socket = await aClient()
    socket.write(get('/api/openapi.json').repeat(1000))
    await once(socket.resume(), 'close')
    const lines = t
      .log()
      .split('\n')
      .filter((line) => line.includes('too many requests'))
    expect(lines).toHaveLength(1)
    expect(JSON.parse(lines[0] as string)).toMatchObject({ ip: '127.0.0.1' })
  })

  it('gets everything that it has sent when it reads as it sends', async () => {
    const socket = await aClient()
    const reading = readResponses(socket, 2000)
    for (let i = 0; i < 20; i += 1) {
      socket.write(get('/healthz').repeat(100))
      await sleep(20)
    }
    expect(await reading).toHaveLength(2000)
  })
})

describe('a request with two Host headers', () => {
  it('gets 400, with its connection closed', async () => {
    const socket = await aClient()
    socket.write('GET /healthz HTTP/1.1\r\nHost: svc.test\r\nhOST: other.test\r\n\r\n')
    let text = ''
    for await (const chunk of socket as AsyncIterable<Buffer>) text += chunk.toString()
    expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(text).toContain('more than one Host header')
  })
})
