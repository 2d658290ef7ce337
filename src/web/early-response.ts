import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { PatientResponse } from './expect-continue.ts'

/** Limits for reading the rest of the body, while the client notices the response. */
const lingerMilliseconds = 2_000
const lingerBytes = 1024 * 1024
const quietMilliseconds = 400

/**
 * Sends a response while the request's body may still be arriving, and then closes the connection without reading all
 * of it. Closing a connection with unread bytes resets it, and a reset can overtake the response. So for a moment the
 * body is read and dropped, until the client disconnects or stops sending.
 */
export function sendEarly(request: FastifyRequest, reply: FastifyReply, body: Buffer): FastifyReply {
  if (request.raw.complete || request.raw.readableEnded) return reply.send(body)
  reply.header('connection', 'close').header('content-length', body.length)
  // A client that still waits for 100 Continue has sent nothing of its body.
  if (reply.raw instanceof PatientResponse && reply.raw.isAsked) return reply.send(body)
  return reply.send(Readable.from(linger(request.raw, body), { objectMode: false }))
}

async function* linger(incoming: IncomingMessage, body: Buffer): AsyncGenerator<Buffer, void, void> {
  yield body
  let dropped = 0
  let hasEnded = false
  const ended = Promise.race([once(incoming, 'end'), once(incoming, 'close')]).catch(() => {})
  const noted = ended.then(() => {
    hasEnded = true
  })
  incoming.on('data', (chunk: Buffer) => {
    dropped += chunk.length
    if (dropped > lingerBytes) incoming.pause()
  })
  incoming.resume()
  const deadline = Date.now() + lingerMilliseconds
  for (let before = -1; !hasEnded && before < dropped && Date.now() < deadline; ) {
    before = dropped
    await Promise.race([noted, sleep(quietMilliseconds)])
  }
}
