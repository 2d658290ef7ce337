import { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import { type DestinationStream, pino } from 'pino'
import type { Config } from '../config.ts'

/**
 * Log lines are buffered. Under load, one write per line would take a fifth of the time of a pull. The buffer is
 * written every tenth of a second, at exit, and at once after a fatal line.
 */
const gatheredLines = { dest: 2, sync: false, minLength: 16_000, periodicFlush: 100 }

/**
 * Opens the log of the process: JSON lines on stderr, or on the given stream. It contains no secrets, because it takes
 * only the method, the path and the client IP of a request, never its query, headers or body.
 */
export function openLog(level: Config['logLevel'], stream?: DestinationStream): FastifyBaseLogger {
  const options = {
    level,
    base: null,
    timestamp: isoTime,
    serializers: {
      req: describeRequest,
      res: (reply: { statusCode: number }) => ({ status: reply.statusCode }),
    },
  }
  return pino(options, stream ?? pino.destination(gatheredLines))
}

let lastMillisecond = 0
let lastTime = ''

/** Returns the time as pino's own `isoTime` does. Lines of the same millisecond share the text. */
function isoTime(): string {
  const now = Date.now()
  if (now !== lastMillisecond) {
    lastMillisecond = now
    lastTime = pino.stdTimeFunctions.isoTime()
  }
  return lastTime
}

/**
 * Makes Fastify log each request once, after its response. Another line when the request arrives would cost a second
 * write and contain nothing more.
 */
export function logResponsesOnly(): LogController {
  return Object.assign(new LogController(), {
    incomingRequest() {},
    requestCompleted(error: Error | null | undefined, request: FastifyRequest, reply: FastifyReply) {
      const completed = { req: request, res: reply, milliseconds: Math.round(reply.elapsedTime * 100) / 100 }
      if (error) reply.log.error({ ...completed, err: error }, 'the response could not be sent')
      else reply.log.info(completed, 'request completed')
    },
  })
}

function describeRequest(request: FastifyRequest) {
  return { method: request.method, path: pathOf(request.url), address: request.ip }
}

/** Returns a request's path without its query, which may contain codes and states, and without an invitation's token. */
function pathOf(url: string): string {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  return path.startsWith(invitations) && path !== invitations ? `${invitations}…` : path
}

const invitations = '/invitations/'
