import type { ServerResponse } from 'node:http'
import { Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { takeWhatArrived } from '../../domain/time-slices.ts'

/** How long an idle connection stays open during a stop, so that its client can read the last response. */
const idleSeconds = 1

/** An open connection. */
interface Connection {
  /** The number of its running requests. Pipelined requests run at the same time. */
  running: number
}

/**
 * Makes `app.close()` wait until no request runs, at most the given seconds. Then it closes their connections. It closes
 * connections without a request after a second, because browsers open some in advance, and an incomplete request would
 * block the stop. Fastify itself waits on its first socket only, and `localhost` has two (127.0.0.1 and ::1). Call it
 * before the routes are registered.
 */
export function drainOnClose(app: FastifyInstance, seconds: number): void {
  // This counts requests and keeps no set of them. V8 copies a set that changes to a new table again and again. The old
  // tables keep the requests that were in them until the next full garbage collection. Connections change less often.
  const open = new Map<Socket, Connection>()
  let running = 0
  let endWait = () => {}

  function watch(socket: Socket): Connection {
    const connection = { running: 0 }
    // The socket of `app.inject` is not a real one. It never closes.
    if (!(socket instanceof Socket)) return connection
    open.set(socket, connection)
    socket.once('close', () => {
      open.delete(socket)
      // Node emits no `close` on the response of a pipelined request whose turn never came.
      end(connection, connection.running)
    })
    return connection
  }

  function end(connection: Connection, requests: number): void {
    connection.running -= requests
    running -= requests
    if (running === 0) endWait()
  }

  function closeWithoutRequest(): void {
    for (const [socket, connection] of open) if (connection.running === 0) socket.destroy()
  }

  app.server.on('connection', watch)

  app.addHook('onRequest', ({ raw: { socket } }, { raw }, done) => {
    const connection = open.get(socket) ?? watch(socket)
    connection.running += 1
    running += 1
    raw.once('close', () => {
      if (connection.running > 0) end(connection, 1)
    })
    done()
  })

  let cutIdle: NodeJS.Timeout | undefined
  let cutAll: NodeJS.Timeout | undefined
  app.addHook('preClose', async () => {
    // The close also closes idle connections. A proxy may have sent a request on one of them.
    await takeWhatArrived()
    app.server.close()
    // After a pause of the process, timers run before the requests that have arrived.
    cutIdle = setTimeout(() => void takeWhatArrived().then(closeWithoutRequest), idleSeconds * 1000)
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
  // A close resets connections that wait to be accepted, with their requests. In a busy process some do.
  await takeWhatArrived()
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
