import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'

/**
 * Destroys the stream of a response's body when the connection closes, and returns it. Use it for streams that hold a
 * file or a connection. The client may have disconnected before the stream was open: then nothing else destroys it
 * before a garbage collection.
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
  // The requests of a connection follow each other before their streams have emitted `close`.
  socket.setMaxListeners(0)
  socket.once('close', end)
  body.once('close', () => socket.off('close', end))
  return body
}

/** Reads a body into memory. Null when it has more than `maxBytes`: the rest is not read. */
export async function readBody(body: Readable, maxBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
