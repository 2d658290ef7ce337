import type { FastifyReply, FastifyRequest } from 'fastify'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { challengeOf, toRefusal } from '../api/errors.ts'
import { logFailure } from '../log-failure.ts'

export const scimType = 'application/scim+json; charset=utf-8'

/** A word that says what is wrong (RFC 7644 §3.12). */
type Reason = 'invalidFilter' | 'invalidPath' | 'invalidSyntax' | 'invalidValue' | 'mutability' | 'noTarget'

/** A refusal of a request that SCIM has a word for. */
export class ScimRefusal extends Refusal {
  readonly reason: Reason

  constructor(reason: Reason, errmsg: string) {
    super(errcode.invalidArgument, errmsg)
    this.reason = reason
  }
}

/** Sends any thrown error in the format of SCIM (RFC 7644 §3.12). A bug is logged, and sent without detail. */
export function sendScimError(thrown: Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = toRefusal(thrown)
  const { status, errmsg, retryAfterSeconds } = refusal
  logFailure(request, refusal, thrown, 'a request of a directory failed')
  const challenge = challengeOf(request, refusal)
  if (challenge !== null) reply.header('www-authenticate', challenge)
  if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds)
  const reason =
    refusal instanceof ScimRefusal
      ? refusal.reason
      : refusal.errcode === errcode.alreadyExists
        ? 'uniqueness'
        : refusal.errcode === errcode.invalidArgument && status === 400
          ? 'invalidValue'
          : undefined
  return reply
    .code(status)
    .type(scimType)
    .send({
      schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
      status: `${status}`,
      ...(reason && { scimType: reason }),
      detail: errmsg,
    })
}
