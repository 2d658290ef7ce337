import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

/**
 * The time limit for a request to arrive, including its body. An idle timeout is not enough, because a client can send
 * one byte at a time. Uploads have a minimum rate instead.
 */
export const requestTimeoutMilliseconds = 30_000

/** The interval of checks of an upload, and the bytes that must arrive in it: 1 KiB per second. */
const rateCheckMilliseconds = 30_000
const minBytesPerCheck = 30 * 1024

/** How long a client may read the response before its connection is closed. */
const lingerMilliseconds = 1_000

/** Node's error for a request that it could not read. */
interface ReadError extends Error {
  code?: string | undefined
  /** The unreadable bytes: a Buffer, although Fastify's type is the JSON form of a Buffer. */
  rawPacket?: unknown
}

/** The connections on which an upload is arriving. */
const uploading = new WeakSet<Socket>()

/**
 * Responds to a request that cannot be read, is too large or arrives too slowly. No handler sees such a request, so the
 * response has only a status, and no scope's error format. A URL that is too long gets 414 (OAUTH 50).
 */
export function handleClientError(error: ReadError, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && uploading.has(socket)) return
  if (error.code === 'ECONNRESET' || !socket.writable || hasResponse(socket)) {
    socket.destroy(error)
    return
  }
  sendStatus(socket, statusOf(error))
}

/** Closes the connection of an upload that arrives slower than 1 KiB a second. Call it before the body is read. */
export function requireUploadRate(request: IncomingMessage): void {
  const { socket } = request
  // The client has disconnected before this. The request emits nothing any more.
  if (request.destroyed) return
  let seenBytes = socket.bytesRead
  uploading.add(socket)
  const timer = setInterval(() => {
    const arrivedBytes = socket.bytesRead - seenBytes
    seenBytes = socket.bytesRead
    // Bytes that wait to be read show that the disk is slow, not the client.
    if (request.complete || request.readableLength > 0 || arrivedBytes >= minBytesPerCheck) return
    sendStatus(socket, 408)
  }, rateCheckMilliseconds).unref()
  function stop(): void {
    clearInterval(timer)
    uploading.delete(socket)
  }
  request.once('end', stop)
  request.once('close', stop)
}

/** Sends a status with its text, and closes the connection even if the client continues to send. */
function sendStatus(socket: Socket, status: number): void {
  const reason = STATUS_CODES[status] ?? ''
  const headers = ['content-type: text/plain', `content-length: ${reason.length}`, 'connection: close']
  socket.end([`HTTP/1.1 ${status} ${reason}`, ...headers, '', reason].join('\r\n'))
  setTimeout(() => socket.destroy(), lingerMilliseconds).unref()
}

/** Returns whether a handler's response is being sent on the connection. Then nothing else may be written. */
function hasResponse(socket: Socket): boolean {
  // Node's own handler of these errors reads the same property.
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true
}

function statusOf({ code, rawPacket }: ReadError): number {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408
  if (code !== 'HPE_HEADER_OVERFLOW') return 400
  const endOfFirstLine = Buffer.isBuffer(rawPacket) ? rawPacket.indexOf('\r\n') : 0
  return endOfFirstLine < 0 || endOfFirstLine > 8192 ? 414 : 431
}
