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
  const open = new Set<Socket>()
  const running = new Set<ServerResponse>()

  app.server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })

  app.addHook('onRequest', (_request, { raw }, done) => {
    running.add(raw)
    raw.once('close', () => running.delete(raw))
    done()
  })

  let cutIdle: NodeJS.Timeout | undefined
  let cutAll: NodeJS.Timeout | undefined
  app.addHook('preClose', async () => {
    app.server.close()
    cutIdle = setTimeout(() => {
      const busy = new Set(Array.from(running, ({ req }) => req.socket))
      for (const socket of open) if (!busy.has(socket)) socket.destroy()
    }, idleSeconds * 1000)
    const deadline = new Promise<void>((resolve) => {
      cutAll = setTimeout(() => {
        for (const socket of open) socket.destroy()
        resolve()
      }, seconds * 1000)
    })
    await Promise.race([Promise.all(Array.from(running, isClosed)), deadline])
  })
  app.addHook('onClose', async () => {
    clearTimeout(cutIdle)
    clearTimeout(cutAll)
  })
}

function isClosed(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.once('close', resolve))
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
