import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { drainOnClose, letConnectionsEnd } from '../../../src/web/server/drain.ts'

describe('app.close()', () => {
  let app: FastifyInstance
  let release: () => void
  let entered: number
  afterEach(() => app.close())

  /** Starts a server whose requests to `/wait` run until `release` is called. It drains for longer than a test may run. */
  async function start(): Promise<number> {
    app = Fastify({ return503OnClosing: false })
    drainOnClose(app, 600)
    entered = 0
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    app.get('/wait', async () => {
      entered += 1
      await released
      return 'done'
    })
    await app.listen({ host: '127.0.0.1', port: 0 })
    return (app.server.address() as AddressInfo).port
  }

  const request = 'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'
  const allEntered = async (count: number) => {
    while (entered < count) await new Promise((resolve) => setImmediate(resolve))
  }

  it('does not wait for pipelined requests whose client disconnected', async () => {
    const socket = connect(await start(), '127.0.0.1')
    const [[accepted]] = await Promise.all([once(app.server, 'connection'), once(socket, 'connect')])
    socket.write(request + request + request)
    await allEntered(3)
    socket.destroy()
    await once(accepted, 'close')
    release()
    await app.close()
  })

  it('waits for the requests of an open connection', async () => {
    const socket = connect(await start(), '127.0.0.1')
    let response = ''
    socket.setEncoding('latin1').on('data', (text: string) => {
      response += text
    })
    socket.write(request + request)
    await allEntered(2)
    const closed = app.close()
    let isClosed = false
    void closed.then(() => {
      isClosed = true
    })
    // Longer than idle connections stay open during a stop.
    await new Promise((resolve) => setTimeout(resolve, 1300))
    expect(isClosed).toBe(false)
    release()
    await Promise.all([closed, once(socket, 'close')])
    expect(response).toMatch(/^HTTP\/1\.1 200 OK/)
    expect(response).toMatch(/done$/)
  })

  it('reads a request that arrived on a new connection while the process was paused', async () => {
    const app = Fastify({ return503OnClosing: false })
    drainOnClose(app, 600)
    app.get('/', async () => 'done')
    await app.listen({ host: '127.0.0.1', port: 0 })
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    await Promise.all([once(socket, 'connect'), once(app.server, 'connection')])
    const closed = app.close()
    await expect.poll(() => app.server.listening, { interval: 5 }).toBe(false)
    // What runs next are the timers.
    await new Promise<void>((resolve) => setImmediate(resolve))
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    // Longer than connections without a request stay open.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1300)
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*done$/)
    await closed
  })

  it('waits for an injected request', async () => {
    await start()
    const order: string[] = []
    const injected = app.inject('/wait').then(({ body }) => order.push(body))
    await allEntered(1)
    const stopped = once(app.server, 'close')
    const closed = app.close().then(() => order.push('closed'))
    await stopped
    // Without the wait, the app would close in this time.
    await new Promise((resolve) => setTimeout(resolve, 300))
    release()
    await Promise.all([injected, closed])
    expect(order).toEqual(['done', 'closed'])
  })
})

describe('letConnectionsEnd', () => {
  it('lets a request end that has arrived on an idle connection, and that the busy process has not read', async () => {
    const app = Fastify({ return503OnClosing: false })
    const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    let socket: Socket | undefined
    // The event loop has no round between the arrival of the request and the close.
    app.addHook('preClose', async () => void socket?.write(request))
    drainOnClose(app, 600)
    app.get('/', async () => 'done')
    await app.listen({ host: '127.0.0.1', port: 0 })
    socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    socket.write(request)
    await once(socket, 'data')
    const stopped = letConnectionsEnd(app).then(() => app.close())
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*connection: close[\s\S]*done$/i)
    await stopped
  })

  it('lets a connection end that the kernel has accepted, and the busy process has not', async () => {
    const app = Fastify({ return503OnClosing: false })
    drainOnClose(app, 600)
    app.get('/', async () => 'done')
    await app.listen({ host: '127.0.0.1', port: 0 })
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    // Node connects in the next tick. The event loop has no round before the stop.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    const stopped = letConnectionsEnd(app).then(() => app.close())
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*connection: close[\s\S]*done$/i)
    await stopped
  })
})
