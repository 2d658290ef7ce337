import type { ServerResponse } from 'node:http'
import { Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

/** How long an idle connection stays open during a stop, so that its client can read the last response. */
const idleSeconds = 1

/**
 * Makes `app.close()` wait for running requests, at most the given seconds. Then it closes their connections. It closes
 * connections without a request after a second, because browsers open some in advance, and an incomplete request would
 * block the stop. Fastify itself waits on its first socket only, and `localhost` has two (127.0.0.1 and ::1). Call it
 * before the routes are registered.
 */
export function drainOnClose(app: FastifyInstance, seconds: number): void {
  // Counters, and no set of running requests. After each few hundred changes, V8 copies a set to a new table. The old
  // tables keep the requests that were in them until the next full garbage collection.
  const open = new Map<Socket, number>()
  let running = 0
  let endWait = () => {}

  app.server.on('connection', (socket: Socket) => {
    open.set(socket, 0)
    socket.once('close', () => open.delete(socket))
  })

  function count(socket: Socket, change: 1 | -1): void {
    running += change
    const ofSocket = open.get(socket)
    if (ofSocket !== undefined) open.set(socket, ofSocket + change)
    if (running === 0) endWait()
  }

  app.addHook('onRequest', ({ raw: { socket } }, { raw }, done) => {
    count(socket, 1)
    raw.once('close', () => count(socket, -1))
    done()
  })

  let cutIdle: NodeJS.Timeout | undefined
  let cutAll: NodeJS.Timeout | undefined
  app.addHook('preClose', async () => {
    app.server.close()
    cutIdle = setTimeout(() => {
      for (const [socket, ofSocket] of open) if (ofSocket === 0) socket.destroy()
    }, idleSeconds * 1000)
    await new Promise<void>((resolve) => {
      cutAll = setTimeout(() => {
        for (const socket of open.keys()) socket.destroy()
        resolve()
      }, seconds * 1000)
      endWait = resolve
      if (running === 0) resolve()
    })
  })
  app.addHook('onClose', async () => {
    clearTimeout(cutIdle)
    clearTimeout(cutAll)
  })
}

/**
 * Stops accepting connections. Open connections stay usable, and every response says `Connection: close`. Resolves when
 * no connection is left, after a second at the latest. Then call `app.close()`. Reason: a proxy keeps connections open
 * between requests. If the server closed them at once, a request sent at that moment would be lost, and a proxy must
 * not repeat a POST.
 */
export async function letConnectionsEnd({ server }: FastifyInstance): Promise<void> {
  server.prependListener('request', (_request: unknown, response: ServerResponse) => {
    response.setHeader('connection', 'close')
  })
  // `close` of an HTTP server would also close idle connections at once.
  Server.prototype.close.call(server)
  const deadline = Date.now() + idleSeconds * 1000
  while (Date.now() < deadline && (await countConnections(server)) > 0) await sleep(20)
}

function countConnections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
  })
}
