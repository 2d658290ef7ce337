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

/** The memory that bodies may take: those of all owners together, and those of each one. */
interface BodyMemory {
  bytes: number
  bytesOfOwner: number
}

/**
 * Reads a body into memory, and keeps it there while `use` runs. It gets null for a body with more than `maxBytes`: the rest is
 * not kept. Throws the error of `refuse` when there is no memory left.
 */
export type UseBody = <T>(
  about: { owner: string; body: Readable; maxBytes: number },
  use: (bytes: Buffer | null) => Promise<T>,
) => Promise<T>

/** Opens the memory for bodies. One that arrives slowly takes only what has arrived, so it keeps nobody else waiting. */
export function openBodyMemory({ bytes, bytesOfOwner }: BodyMemory, refuse: () => Error): UseBody {
  const taken = new Map<string, number>()
  let all = 0

  function take(owner: string, count: number): void {
    const ofOwner = (taken.get(owner) ?? 0) + count
    if (all + count > bytes || ofOwner > bytesOfOwner) throw refuse()
    all += count
    taken.set(owner, ofOwner)
  }

  function giveBack(owner: string, count: number): void {
    all -= count
    const left = (taken.get(owner) ?? 0) - count
    if (left > 0) taken.set(owner, left)
    else taken.delete(owner)
  }

  return async ({ owner, body, maxBytes }, use) => {
    const chunks: Buffer[] = []
    let size = 0
    try {
      for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        if (size + chunk.byteLength > maxBytes) return await use(null)
        take(owner, chunk.byteLength)
        size += chunk.byteLength
        chunks.push(chunk)
      }
      return await use(Buffer.concat(chunks))
    } finally {
      giveBack(owner, size)
      // The rest is read and dropped. Node does so only with bodies that nobody has begun to read, and without it the next
      // request of the connection never comes.
      body.resume()
    }
  }
}
