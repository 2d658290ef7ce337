import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { PassThrough } from 'node:stream'
import fastify from 'fastify'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { openSendingLimit } from '../../src/web/sending-limit.ts'

/** More than the kernel takes from a sender whose client reads nothing. */
const size = 32 * 1024 * 1024
const limit = openSendingLimit(2 * size)
const buffers = [1, 2, 3].map((fill) => Buffer.alloc(size, fill))
const app = fastify()
app.get<{ Params: { index: number } }>('/:index', (request, reply) => {
  const bytes = buffers[request.params.index] as Buffer
  return limit.take(reply, bytes) ? reply.send(bytes) : reply.code(503).send('')
})
/** A response that never ends. */
app.get('/silence', (_request, reply) => reply.send(new PassThrough()))
afterAll(() => app.close())
await app.listen({ host: '127.0.0.1', port: 0 })
const { port } = app.server.address() as AddressInfo

/** Sends pipelined requests and reads nothing. */
async function aSilentClient(...paths: (number | 'silence')[]) {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(paths.map((path) => `GET /${path} HTTP/1.1\r\nHost: svc.test\r\n\r\n`).join(''))
  return socket
}

async function statusOf(index: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/${index}`)
  await response.arrayBuffer()
  return response.status
}

const untilCounted = (bytes: number) => vi.waitFor(() => expect(limit.bytes).toBe(bytes), 60_000)

describe('openSendingLimit', () => {
  it('gives the bytes back when the client has read them', async () => {
    expect(await statusOf(0)).toBe(200)
    await untilCounted(0)
    expect((await app.inject('/0')).statusCode).toBe(200)
    await untilCounted(0)
  })

  it('counts a buffer once, and gives it back when its last client has disconnected', async () => {
    const clients = [await aSilentClient(0), await aSilentClient(0)]
    await untilCounted(size)
    await expect
      .poll(() => new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count))))
      .toBeGreaterThanOrEqual(2)
    clients[0]?.destroy()
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(limit.bytes).toBe(size)
    clients[1]?.destroy()
    await untilCounted(0)
  })

  it('refuses what is over the limit, and allows it after a disconnect, also of pipelined requests', async () => {
    const client = await aSilentClient(0, 1)
    await untilCounted(2 * size)
    expect([await statusOf(2), await statusOf(1)]).toEqual([503, 200])
    expect(limit.bytes).toBe(2 * size)
    client.destroy()
    await untilCounted(0)
    expect(await statusOf(2)).toBe(200)
  })

  it('gives back the bytes of a pipelined request whose turn never came', async () => {
    const client = await aSilentClient('silence', 0)
    await untilCounted(size)
    client.destroy()
    await untilCounted(0)
  })
})
