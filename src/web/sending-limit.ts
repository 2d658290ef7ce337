import { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

/** Counts the bytes of responses that are sent from memory. */
export interface SendingLimit {
  /** How many bytes the running responses hold together. */
  readonly bytes: number
  /**
   * Counts bytes until the response has ended or its connection is closed. Returns whether they may be sent from
   * memory. If not, nothing is counted.
   */
  take: (reply: FastifyReply, bytes: Buffer) => boolean
}

/**
 * Limits the bytes that responses hold in memory while their clients read them. A socket keeps the whole buffer of a
 * response until the client has read it, also after a cache has evicted it. A buffer that many responses send counts
 * once. Pass the whole buffer also when a response sends only a part of it, because the part keeps all of it.
 */
export function openSendingLimit(maxBytes: number): SendingLimit {
  const responses = new Map<Buffer, number>()
  let total = 0

  function take(reply: FastifyReply, bytes: Buffer): boolean {
    const running = responses.get(bytes) ?? 0
    if (running === 0 && total + bytes.length > maxBytes) return false
    const { raw } = reply
    const { socket } = reply.request.raw
    // A connection that is closed already holds nothing, and emits no further event.
    if (socket.destroyed) return true
    if (running === 0) total += bytes.length
    responses.set(bytes, running + 1)
    const end = () => {
      raw.off('finish', end)
      raw.off('close', end)
      socket.off('close', end)
      giveBack(bytes)
    }
    // Node does not emit `close` for the response of a pipelined request whose turn never came.
    raw.once('finish', end)
    raw.once('close', end)
    // Each of many pipelined requests adds a listener. The socket of `app.inject` is not a real one.
    if (socket instanceof Socket) socket.setMaxListeners(0)
    socket.once('close', end)
    return true
  }

  function giveBack(bytes: Buffer): void {
    const running = (responses.get(bytes) as number) - 1
    if (running > 0) {
      responses.set(bytes, running)
      return
    }
    responses.delete(bytes)
    total -= bytes.length
  }

  return {
    get bytes() {
      return total
    },
    take,
  }
}
