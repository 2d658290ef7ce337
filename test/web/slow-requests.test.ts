import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { aZip } from '../support/zip.ts'

const port = await freePort()

describe.concurrent('a body that arrives slowly', () => {
  const t = useListeningApp(port)

  /** Sends a request's head, and then one byte of its body every five seconds until the server closes. */
  function drip(head: string): Socket {
    const socket = connect(port, '127.0.0.1')
    const dripping = setInterval(() => socket.write('x'), 5_000)
    socket.on('error', () => {})
    socket.on('close', () => clearInterval(dripping))
    socket.write(`${head}\r\nhost: svc.test\r\ncontent-length: 60000\r\n\r\n`)
    return socket
  }

  it('ends its connection, whether or not anybody reads the body', async ({ expect }) => {
    const { path, authorization } = await aPublisher(t)
    const form = 'content-type: application/x-www-form-urlencoded'
    const heads = [
      `POST /login HTTP/1.1\r\n${form}`,
      `POST /oauth2/token HTTP/1.1\r\n${form}`,
      'PATCH /api/user HTTP/1.1\r\ncontent-type: application/json',
      `POST ${path}downloads HTTP/1.1`,
      'GET / HTTP/1.1',
      'POST /nothing HTTP/1.1',
      `PUT ${path}upload/acme/lib/1.0.0 HTTP/1.1`,
      `PUT ${path}upload/acme/lib/1.0.0 HTTP/1.1\r\nauthorization: ${authorization}`,
    ]
    const sockets = Array.from({ length: 304 }, (_, n) => drip(heads[n % heads.length] as string))
    const [, , , , , , , upload] = sockets
    const responses = Promise.all([sockets[0], upload].map((socket) => text(socket as Socket)))
    for (const socket of sockets.slice(8)) socket.resume()
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
    for (const response of await responses) expect(response).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
    const countConnections = () =>
      new Promise((resolve) => t.app.server.getConnections((_, count) => resolve(count)))
    // The slow upload of another test may still run.
    await expect.poll(countConnections).toBeLessThanOrEqual(1)
  })

  it('may be an upload that takes longer than other bodies', async () => {
    const { path, authorization } = await aPublisher(t)
    const noise = randomBytes(90_000)
    const zip = aZip({ 'composer.json': '{"name":"acme/lib"}', 'noise.bin': noise })
    const sending = request({
      port,
      host: '127.0.0.1',
      method: 'PUT',
      path: `${path}upload/acme/lib/1.0.0`,
      headers: { authorization, 'content-length': zip.length },
    })
    const responded = once(sending, 'response')
    for (let start = 0; start < zip.length; start += 2048) {
      sending.write(zip.subarray(start, start + 2048))
      await sleep(1_000)
    }
    sending.end()
    const [response] = await responded
    expect(response.statusCode).toBe(201)
  })
})
