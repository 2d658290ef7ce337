import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { type DestinationStream, pino } from 'pino'
import type { Config } from './config.ts'

/**
 * The process's log: JSON lines on stderr, or on the stream given. It holds no secret by construction: of a
 * request it takes the method, the path and the peer, never its query, headers or body.
 */
export function openLog(level: Config['logLevel'], stream?: DestinationStream): FastifyBaseLogger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: {
      req: describeRequest,
      res: (reply: { statusCode: number }) => ({ status: reply.statusCode }),
    },
  }
  return pino(options, stream ?? pino.destination(2))
}

function describeRequest(request: FastifyRequest) {
  return { method: request.method, path: pathOf(request.url), address: request.ip }
}

/** A request's path without its query, where codes and states travel. */
function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? ''
}
