import { type FastifyReply, type FastifyRequest, LogController } from 'fastify'

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
