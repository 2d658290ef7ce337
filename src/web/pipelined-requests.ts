import type { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { PatientResponse } from './expect-continue.ts'

/**
 * How many requests of a connection may wait for those before them. A client that sends more is disconnected. Each one
 * takes a few KiB of memory.
 */
const maxWaiting = 500

/** The number of waiting requests of a connection. Most connections never have one. */
const waitingBySocket = new WeakMap<Socket, { count: number }>()

/**
 * Calls `start` when every earlier response of the connection is sent: at once, unless the client pipelines requests.
 * A response counts as sent when the kernel has taken all of its bytes. So a client that sends requests and reads no
 * responses has one running request, and its unsent bytes are those of one response. Node itself would start all
 * requests of a connection at once, and keep their responses in memory.
 * While requests wait, no more of the connection is read. `start` is never called if the client disconnects, or if it
 * has sent too many requests. `onTooMany` is called before such a connection is closed.
 */
export function startInTurn(
  { socket }: IncomingMessage,
  response: ServerResponse,
  { start, onTooMany }: { start: () => void; onTooMany: () => void },
): void {
  // The response of `app.inject` is of another class. It has its turn at once.
  if (!(response instanceof PatientResponse) || !(socket instanceof Socket) || response.isFirst) {
    start()
    return
  }
  const waiting = waitingBySocket.get(socket) ?? watch(socket)
  if (waiting.count === maxWaiting) {
    if (!socket.destroyed) onTooMany()
    socket.destroy()
    return
  }
  waiting.count += 1
  socket.pause()
  response.whenFirst(() => {
    waiting.count -= 1
    if (waiting.count === 0) resume(socket)
    start()
  })
}

function watch(socket: Socket): { count: number } {
  const waiting = { count: 0 }
  waitingBySocket.set(socket, waiting)
  // Node resumes a connection when a body is read, and when the client has read a response.
  socket.on('resume', () => {
    if (waiting.count > 0) socket.pause()
  })
  return waiting
}

/** Reads on. If Node has paused the connection too, because the client reads nothing, Node resumes it. */
function resume(socket: Socket): void {
  if ((socket as { _paused?: boolean })._paused !== true) socket.resume()
}
