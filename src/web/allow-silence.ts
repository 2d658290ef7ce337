import { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * Keeps the connection of a request open while it waits for so long. A connection without traffic is closed after a minute,
 * also when its request still runs. Node sets the usual time again at the next request.
 */
export function allowSilence({ raw: { socket } }: FastifyRequest, milliseconds: number): void {
  // The socket of `app.inject` is not a real one.
  if (socket instanceof Socket) socket.setTimeout(milliseconds + 30_000)
}
