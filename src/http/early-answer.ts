import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** How long a client may take to notice the answer, and how much it may send on meanwhile. */
const lingerMilliseconds = 2_000
const lingerBytes = 1024 * 1024

/**
 * Sends an answer though the request's body may still be on its way, and then closes the connection without reading
 * it all. A connection closed with bytes unread is reset, and a reset can overtake the answer: so for a moment what
 * comes is read and dropped, until the client has understood and hangs up.
 */
export function sendEarly(request: FastifyRequest, reply: FastifyReply, body: Buffer): FastifyReply {
  if (request.raw.complete || request.raw.readableEnded) return reply.send(body)
  reply.header('connection', 'close').header('content-length', body.length)
  return reply.send(Readable.from(linger(request.raw, body), { objectMode: false }))
}

async function* linger(incoming: IncomingMessage, body: Buffer): AsyncGenerator<Buffer, void, void> {
  yield body
  let dropped = 0
  incoming.on('data', (chunk: Buffer) => {
    dropped += chunk.length
    if (dropped > lingerBytes) incoming.pause()
  })
  incoming.resume()
  const signal = AbortSignal.timeout(lingerMilliseconds)
  await Promise.race([once(incoming, 'end', { signal }), once(incoming, 'close', { signal })]).catch(() => {})
}
