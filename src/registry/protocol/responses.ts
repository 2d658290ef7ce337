import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { isOutage } from '../../database/database.ts'
import { sendEarly } from '../../http/early-response.ts'
import { errcode, RegistryError } from '../errors.ts'

/** Composer prints the text of a response only with exactly this type, without a charset (COMPOSER A5). */
export const jsonType = 'application/json'

/** Sends JSON in the registry's content type. */
export function sendRegistryJson(reply: FastifyReply, status: number, body: object): FastifyReply {
  return reply.code(status).header('content-type', jsonType).send(encodeJson(body))
}

/** Returns a Buffer: for strings Fastify appends a charset to the content type. */
function encodeJson(body: object): Buffer {
  return Buffer.from(JSON.stringify(body))
}

/** Sends what a handler of the registry threw, in the format of SPEC §7. A bug is logged once and sent without details. */
export function sendRegistryError(
  thrown: Error & Partial<FastifyError>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply | undefined {
  if (request.raw.destroyed && !request.raw.complete) {
    request.log.info({ req: request }, 'the client disconnected before its request was complete')
    return reply.hijack()
  }
  const error = toRegistryError(thrown)
  if (error.status >= 500) request.log.error({ err: thrown, req: request }, 'a registry request failed')
  if (error.status === 401) reply.header('www-authenticate', 'Basic realm="svc", charset="UTF-8"')
  if (error.allow !== undefined) reply.header('allow', error.allow)
  if (error.status === 503) reply.header('retry-after', '5')
  reply.code(error.status).header('content-type', jsonType).header('cache-control', 'no-store')
  return sendEarly(request, reply, encodeJson(error.body))
}

/** Returns the error for everything that does not exist: errcode 5. */
export function registryNotFound(errmsg = 'not found'): RegistryError {
  return new RegistryError(errcode.notFound, errmsg)
}

/** Returns the error for a method that the endpoint does not have; `allow` lists those it has. */
export function methodNotAllowed(allow: string): RegistryError {
  return new RegistryError(errcode.unimplemented, 'method not allowed', { status: 405, allow })
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
