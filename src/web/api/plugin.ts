import type { FastifyInstance } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { apiResource } from '../../domain/resources.ts'
import { nameResource } from '../bearer-challenge.ts'
import { handleInTurn } from '../network-turns.ts'
import { addScope } from '../scope.ts'
import { refuseAllOthers } from '../unmatched-requests.ts'
import { accountCredentialEndpoints } from './account-credentials.ts'
import { accountSessionEndpoints } from './account-sessions.ts'
import { accountEndpoints } from './accounts.ts'
import { advisoryRoutes } from './advisories.ts'
import { applicationEndpoints } from './applications.ts'
import { archiveRoutes } from './archives.ts'
import { clientDocumentEndpoints } from './client-documents.ts'
import { deployTokenRoutes } from './deploy-tokens.ts'
import { describeApi } from './description.ts'
import type { ApiScope } from './endpoint.ts'
import { notFound, sendApiError } from './errors.ts'
import { eventRoutes } from './events.ts'
import { groupSettingsEndpoints } from './group-settings.ts'
import { groupRoutes } from './groups.ts'
import type { ApiContext } from './guards.ts'
import { invitationEndpoints } from './invitations.ts'
import { memberRoutes } from './members.ts'
import { notificationEndpoints } from './notifications.ts'
import { osvRoutes } from './osv.ts'
import { packageRoutes } from './packages.ts'
import { policyRoutes } from './policies.ts'
import { projectRoutes } from './projects.ts'
import { repositoryRoutes } from './repositories.ts'
import { retentionRoutes } from './retention.ts'
import { sourceRoutes } from './sources.ts'
import { stageRoutes } from './stages.ts'
import { trustedPublisherRoutes } from './trusted-publishers.ts'
import { upstreamRoutes } from './upstreams.ts'
import { userRoutes } from './user.ts'
import { versionRoutes } from './versions.ts'
import { webhookRoutes } from './webhooks.ts'

const everyRoute = [
  userRoutes,
  accountEndpoints,
  accountCredentialEndpoints,
  accountSessionEndpoints,
  notificationEndpoints,
  applicationEndpoints,
  clientDocumentEndpoints,
  groupRoutes,
  groupSettingsEndpoints,
  deployTokenRoutes,
  invitationEndpoints,
  repositoryRoutes,
  retentionRoutes,
  memberRoutes,
  eventRoutes,
  packageRoutes,
  advisoryRoutes,
  osvRoutes,
  versionRoutes,
  stageRoutes,
  archiveRoutes,
  upstreamRoutes,
  trustedPublisherRoutes,
  sourceRoutes,
  webhookRoutes,
  projectRoutes,
  policyRoutes,
]

/** The API for tokens (CONTRACT 6.1): JSON, errors with errcode and errmsg, RFC 6750 in the headers. */
export async function api(app: FastifyInstance, context: ApiContext): Promise<void> {
  await addScope(
    app,
    'api',
    async (scope) => {
      handleInTurn(scope)
      scope.setErrorHandler(sendApiError)
      nameResource(scope, context.config.baseUrl, () => apiResource)
      scope.setValidatorCompiler(validatorCompiler)
      scope.setSerializerCompiler(serializerCompiler)
      acceptEmptyBodies(scope)
      scope.addHook('onRequest', (request, reply, done) => {
        // A response to a token is only for its holder (RFC 6750 §5.3).
        reply.header('cache-control', 'private, no-store')
        // PostgreSQL cannot store NUL in text, so no name contains one.
        done(request.url.includes('%00') ? notFound('not found') : undefined)
      })
      // A missing body counts as an empty object. The error then names the required member.
      scope.addHook('preValidation', (request, _reply, done) => {
        if (request.routeOptions.schema?.body && request.body === undefined) request.body = {}
        done()
      })
      const refusals = { wrongMethod: methodNotAllowed, nothingHere: noSuchApiEndpoint }
      await refuseAllOthers(scope, refusals, async () => {
        describeApi(scope, context.config)
        for (const routes of everyRoute) await routes(scope as ApiScope, context)
      })
    },
    '/api',
  )
}

/** Many clients send a content type without a body. An endpoint that needs a body reports that it is missing. */
function acceptEmptyBodies(scope: FastifyInstance): void {
  const parseJson = scope.getDefaultJsonParser('error', 'error')
  scope.addContentTypeParser<string>(
    'application/json',
    { parseAs: 'string' },
    (request, body, done) => void (body === '' ? done(null, undefined) : parseJson(request, body, done)),
  )
}

function methodNotAllowed(allow: string): Refusal {
  return new Refusal(errcode.unimplemented, `the method must be one of ${allow}`, { status: 405 })
}

/** Returns the error for every URL under /api without a route. */
export function noSuchApiEndpoint(): Refusal {
  return notFound('there is no such endpoint')
}
