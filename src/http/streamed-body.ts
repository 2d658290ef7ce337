import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'

/**
 * Destroys the stream of a response's body when the connection closes, and returns it. Use it for streams that hold a
 * file or a connection. Fastify destroys the stream only when the response emits `close`. Node does not emit that for a
 * pipelined request whose turn never came, so its file would stay open until a garbage collection.
 */
export function endWithConnection<Body extends Readable>(
  { raw: { socket } }: FastifyRequest,
  body: Body,
): Body {
  // The socket of `app.inject` is not a real one.
  if (!(socket instanceof Socket)) return body
  const end = () => body.destroy()
  if (socket.destroyed) {
    end()
    return body
  }
  // Each of many pipelined requests adds a listener.
  socket.setMaxListeners(0)
  socket.once('close', end)
  body.once('close', () => socket.off('close', end))
  return body
}
