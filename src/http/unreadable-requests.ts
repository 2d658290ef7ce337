import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

/** What Node tells of a request that it could not read. */
interface ReadError extends Error {
  code?: string | undefined
  /** The bytes it was reading, as a Buffer: Fastify's type tells its JSON form. */
  rawPacket?: unknown
}

/**
 * Answers bytes that make no request, or too large or slow a one. No handler sees them, so there is no dialect to
 * answer in: a status line and its reason. An address that alone is too long is a 414 (OAUTH 50).
 */
export function answerUnreadable(error: ReadError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy(error)
    return
  }
  const status = statusOf(error)
  const reason = STATUS_CODES[status] ?? ''
  const headers = ['content-type: text/plain', `content-length: ${reason.length}`, 'connection: close']
  socket.end([`HTTP/1.1 ${status} ${reason}`, ...headers, '', reason].join('\r\n'))
}

function statusOf({ code, rawPacket }: ReadError): number {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408
  if (code !== 'HPE_HEADER_OVERFLOW') return 400
  const endOfFirstLine = Buffer.isBuffer(rawPacket) ? rawPacket.indexOf('\r\n') : 0
  return endOfFirstLine < 0 || endOfFirstLine > 8192 ? 414 : 431
}
