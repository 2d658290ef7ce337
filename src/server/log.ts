import { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import { type DestinationStream, pino } from 'pino'
import type { Config } from '../config.ts'

/**
 * Lines are written some at a time, for under load a write for each would be a fifth of a pull's cost: within a tenth
 * of a second, at exit, and with a fatal line at once.
 */
const gatheredLines = { dest: 2, sync: false, minLength: 4096, periodicFlush: 100 }

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
  return pino(options, stream ?? pino.destination(gatheredLines))
}

/**
 * Makes Fastify log each request once, when it is answered, instead of also when it comes: one line costs a write to
 * the disk or to a pipe, and tells it all.
 */
export function logAnswersOnly(): LogController {
  return Object.assign(new LogController(), {
    incomingRequest() {},
    requestCompleted(error: Error | null | undefined, request: FastifyRequest, reply: FastifyReply) {
      const answered = { req: request, res: reply, milliseconds: Math.round(reply.elapsedTime * 100) / 100 }
      if (error) reply.log.error({ ...answered, err: error }, 'the answer could not be sent')
      else reply.log.info(answered, 'answered')
    },
  })
}

function describeRequest(request: FastifyRequest) {
  return { method: request.method, path: pathOf(request.url), address: request.ip }
}

/** A request's path without its query, where codes and states travel. */
function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? ''
}
