import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { isOutage } from '../../database/database.ts'
import { sendEarly } from '../../http/early-answer.ts'
import { errcode, RegistryError } from '../errors.ts'

/** Composer shows the text of an answer only under exactly this type, without a charset (COMPOSER A5). */
export const jsonType = 'application/json'

/** Answers JSON in the registry's own content type. */
export function sendJson(reply: FastifyReply, status: number, body: object): FastifyReply {
  return reply.code(status).header('content-type', jsonType).send(encodeJson(body))
}

/** As bytes, for to the type of a text Fastify adds a charset. */
function encodeJson(body: object): Buffer {
  return Buffer.from(JSON.stringify(body))
}

/** Answers what a handler of the registry threw, in the dialect of SPEC §7. A bug is logged once and told without detail. */
export function answerError(
  thrown: Error & Partial<FastifyError>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply | undefined {
  if (request.raw.destroyed && !request.raw.complete) {
    request.log.info({ req: request }, 'the client went away before its request was complete')
    return reply.hijack()
  }
  const error = toRegistryError(thrown)
  if (error.status >= 500) request.log.error({ err: thrown, req: request }, 'a registry request failed')
  if (error.status === 401) reply.header('www-authenticate', 'Basic realm="svc", charset="UTF-8"')
  if (error.status === 503) reply.header('retry-after', '5')
  reply.code(error.status).header('content-type', jsonType).header('cache-control', 'no-store')
  return sendEarly(request, reply, encodeJson(error.body))
}

/** The answer for everything that is not there. */
export function notFound(errmsg = 'not found'): RegistryError {
  return new RegistryError(errcode.notFound, errmsg)
}

function toRegistryError(thrown: Error & Partial<FastifyError>): RegistryError {
  if (thrown instanceof RegistryError) return thrown
  if (thrown.statusCode === 413) {
    return new RegistryError(errcode.resourceExhausted, 'request too large', { status: 413 })
  }
  if (thrown.statusCode !== undefined && thrown.statusCode >= 400 && thrown.statusCode < 500) {
    return new RegistryError(errcode.invalidArgument, 'invalid request')
  }
  if (thrown.code === 'ENOSPC' || thrown.code === 'EDQUOT') {
    return new RegistryError(errcode.resourceExhausted, 'no space left for archives', {
      status: 507,
      cause: thrown,
    })
  }
  if (isOutage(thrown)) {
    return new RegistryError(errcode.unavailable, 'temporarily unavailable', { cause: thrown })
  }
  return new RegistryError(errcode.internal, 'internal error', { cause: thrown })
}
