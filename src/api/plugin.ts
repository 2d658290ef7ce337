import type { FastifyInstance } from 'fastify'
import type { Parts } from '../app.ts'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { refuseOtherPaths } from '../http/other-paths.ts'
import type { LastUse } from '../last-use.ts'
import { ApiError, errcodes, sendApiError } from './errors.ts'
import { userRoutes } from './user.ts'

/** The interfaces for tokens (DESIGN §6): JSON, errors with errcode and errmsg, RFC 6750 in the headers. */
export async function api(app: FastifyInstance, parts: Parts & { lastUse: LastUse }): Promise<void> {
  await app.register(
    async (scope) => {
      scope.setErrorHandler(sendApiError)
      // What a token is shown is nobody else's (RFC 6750 §5.3).
      scope.addHook('onRequest', async (_request, reply) => {
        reply.header('cache-control', 'private, no-store')
      })
      await userRoutes(scope, parts)
      refuseOtherMethods(scope, '/user', ['GET', 'HEAD', 'PATCH'], methodNotAllowed)
      refuseOtherMethods(scope, '/user/emails', ['GET', 'HEAD'], methodNotAllowed)
      refuseOtherPaths(scope, noSuchInterface)
    },
    { prefix: '/api' },
  )
}

function methodNotAllowed(allow: string): ApiError {
  return new ApiError(405, errcodes.unimplemented, `the method must be one of ${allow}`, { allow })
}

function noSuchInterface(): ApiError {
  return new ApiError(404, errcodes.notFound, 'there is no such interface')
}
