import type { FastifyError } from 'fastify'
import { isLostToAnother, isOutage, isReferenceGone, isTooSlow } from '../database/errors.ts'
import { errcode, Refusal } from '../domain/refusal.ts'

/**
 * Returns the refusal of anything that was thrown while a request was handled: by the domain, by Fastify, or by the
 * database. Each protocol sends it in its own format. A bug becomes errcode 13, without a detail; its cause is for the
 * log.
 */
export function refusalOf(thrown: Error & Partial<FastifyError>): Refusal {
  if (thrown instanceof Refusal) return thrown
  if (isReferenceGone(thrown)) {
    return new Refusal(errcode.aborted, 'something that belongs to it was deleted a moment ago', {
      cause: thrown,
    })
  }
  if (isOutage(thrown)) {
    const warning = `${reasonOf(thrown)} Please try again in a few seconds.`
    return new Refusal(errcode.unavailable, 'temporarily unavailable', { warning, cause: thrown })
  }
  // PostgreSQL stores no NUL in text, so no name and no description contains one.
  if (thrown.code === '22021') return new Refusal(errcode.invalidArgument, 'a text contains a NUL')
  const { statusCode: status = 500 } = thrown
  if (status === 413) return new Refusal(errcode.resourceExhausted, 'the request is too large', { status })
  if (status === 415) {
    return new Refusal(errcode.invalidArgument, 'the content type of the request is not supported', {
      status,
    })
  }
  if (status >= 400 && status < 500) {
    return new Refusal(errcode.invalidArgument, 'the request cannot be read', { status })
  }
  return new Refusal(errcode.internal, 'internal error', { cause: thrown })
}

/** Says why the database did not do its work. A retry may help. */
function reasonOf(outage: Error): string {
  if (isLostToAnother(outage)) return 'Something else was changing the same data at the same moment.'
  if (isTooSlow(outage)) return 'The database needed too much time for this.'
  return 'The server cannot reach its database at the moment.'
}
