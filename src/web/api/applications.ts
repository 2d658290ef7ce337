import * as z from 'zod'
import { UnwritableMigration } from '../../database/operator-migrations.ts'
import { applicationActions } from '../../events/actions.ts'
import { describeIdentityEvent } from '../../events/event.ts'
import { listEvents } from '../../events/event-list.ts'
import {
  changeApplication,
  changeApplicationStatus,
  deleteApplication,
  renewClientSecret,
  UnacceptableChange,
} from '../../oauth/application-changes.ts'
import type { ApplicationChanges } from '../../oauth/application-seed.ts'
import {
  type Application,
  describeApplication,
  findApplicationByClientId,
  findApplicationUse,
  listApplications,
} from '../../oauth/applications.ts'
import { isClientId } from '../../oauth/client-id.ts'
import {
  ApplicationBody,
  ApplicationEvent,
  ApplicationPath,
  ApplicationsQuery,
  ApplicationUpdate,
  ChangedApplicationBody,
  NewSecret,
  Review,
  Rotation,
  UsedApplicationBody,
} from './application-schemas.ts'
import { type ApiScope, endpoint, NoContent } from './endpoint.ts'
import { conflict, invalidArgument, keepingRules, notFound } from './errors.ts'
import { type ApiContext, guardAdministrator } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const reviews = [
  ['approve', 'approved', 'Approve an application: people can authorize it'],
  ['suspend', 'suspended', 'Suspend an application: its tokens stop working'],
  ['decline', 'declined', 'Decline an application that waits for review, or withdraw its approval'],
] as const

/**
 * The review of applications, for site administrators: `/api/applications`. The endpoints
 * do the same as `/admin/applications` and `svc application`. Registering needs a logo file, so only the browser and the
 * command can do it.
 */
export async function applicationEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/applications/:client_id'
  const mayRead = guardAdministrator('readSite', context)
  const mayManage = guardAdministrator('manageApplications', context)
  const tag = 'Applications'
  const params = ApplicationPath

  app.get(
    '/applications',
    endpoint(mayRead, {
      operationId: 'listApplications',
      tag,
      summary: 'List the applications, the oldest first',
      querystring: ApplicationsQuery,
      response: { 200: z.array(ApplicationBody) },
    }),
    async (request, reply) => {
      return readPage(
        { request, reply, config },
        (part) => listApplications(db, part, request.query.state),
        ({ clientId }) => clientId,
        describeApplication,
      )
    },
  )

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'getApplication',
      tag,
      summary: 'Get an application, with the number of accounts that use it and the time of the last use',
      params,
      response: { 200: UsedApplicationBody },
    }),
    async (request) => {
      const application = await theApplication(request.params.client_id)
      const { accounts, lastUsedAt } = await findApplicationUse(db, application.id)
      return {
        ...describeApplication(application),
        accounts,
        last_used_at: lastUsedAt?.toISOString() ?? null,
      }
    },
  )

  app.get(
    `${url}/history`,
    endpoint(mayRead, {
      operationId: 'listApplicationHistory',
      tag,
      summary: 'List who registered, reviewed and changed an application, the latest first',
      params,
      querystring: PageQuery,
      response: { 200: z.array(ApplicationEvent) },
    }),
    async (request, reply) => {
      const { id: applicationId } = await theApplication(request.params.client_id)
      return readPage(
        { request, reply, config },
        (part) => listEvents(db, { applicationId, actions: applicationActions }, part),
        ({ key }) => key,
        describeIdentityEvent,
      )
    },
  )

  app.patch(
    url,
    endpoint(mayManage, {
      operationId: 'updateApplication',
      tag,
      summary: 'Change an application',
      description:
        'Tokens keep what was granted to them. Where the operator keeps migrations, one is written too.',
      params,
      body: ApplicationUpdate,
      response: { 200: ChangedApplicationBody },
    }),
    async (request) => {
      const {
        redirect_uri,
        exact_redirect,
        resource_scope,
        public: isPublic,
        device,
        id_token_alg,
        post_logout_redirect_uri,
        backchannel_logout_uri,
        resource_server,
        description,
        ...rest
      } = request.body
      const changes = {
        ...rest,
        ...(description !== undefined && { description: description || null }),
        ...(redirect_uri !== undefined && { redirectUri: redirect_uri }),
        ...(exact_redirect !== undefined && { exactRedirect: exact_redirect }),
        ...(resource_scope !== undefined && { resourceScope: resource_scope }),
        ...(isPublic !== undefined && { isPublic }),
        ...(device !== undefined && { isDevice: device }),
        ...(id_token_alg !== undefined && { idTokenAlg: id_token_alg }),
        ...(post_logout_redirect_uri !== undefined && {
          postLogoutRedirectUri: post_logout_redirect_uri || null,
        }),
        ...(backchannel_logout_uri !== undefined && {
          backchannelLogoutUri: backchannel_logout_uri || null,
        }),
        ...(resource_server !== undefined && { isResourceServer: resource_server }),
      } as ApplicationChanges
      if (Object.keys(changes).length === 0) throw invalidArgument('there is nothing to change')
      const { clientId } = await theApplication(request.params.client_id)
      const changed = await explained(() =>
        changeApplication(db, config, mayManage.granted(request).by, clientId, changes),
      )
      return { ...describeApplication(changed.application), migration: changed.migration }
    },
  )

  app.delete(
    url,
    endpoint(mayManage, {
      operationId: 'deleteApplication',
      tag,
      summary: 'Delete an application with its authorizations and tokens',
      params,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { clientId } = await theApplication(request.params.client_id)
      await explained(() => deleteApplication(db, config, mayManage.granted(request).by, clientId))
      return reply.code(204).send()
    },
  )

  for (const [verb, status, summary] of reviews) {
    app.post(
      `${url}/${verb}`,
      endpoint(mayManage, {
        operationId: `${verb}Application`,
        tag,
        summary,
        params,
        body: Review,
        response: { 200: ChangedApplicationBody },
      }),
      async (request) => {
        const { clientId } = await theApplication(request.params.client_id)
        const { reason, migration: isMigration = true } = request.body
        const why = verb === 'approve' ? '' : (reason?.trim() ?? '')
        if (verb === 'decline' && why === '') throw invalidArgument('reason: is required for declining')
        const change = { verb, status, reason: why || null, isMigration }
        const changed = await explained(() =>
          changeApplicationStatus(db, config, mayManage.granted(request).by, clientId, change),
        )
        return { ...describeApplication(changed.application), migration: changed.migration }
      },
    )
  }

  app.post(
    `${url}/secret`,
    endpoint(mayManage, {
      operationId: 'rotateClientSecret',
      tag,
      summary: 'Generate a new client secret. The old one works until the overlap ends',
      params,
      body: Rotation,
      response: { 201: NewSecret },
    }),
    async (request, reply) => {
      const { clientId } = await theApplication(request.params.client_id)
      const { overlap_seconds: overlap = 86_400 } = request.body
      const renewed = await explained(() =>
        renewClientSecret(db, mayManage.granted(request).by, clientId, overlap),
      )
      return reply.code(201).send({ client_secret: renewed.secret, overlap_seconds: overlap })
    },
  )

  async function theApplication(clientId: string): Promise<Application> {
    const application = isClientId(clientId) ? await findApplicationByClientId(db, clientId) : null
    if (!application) throw notFound('application not found')
    return application
  }
}

/** Runs a change of an application. If it is rejected, nothing changes, and it throws an error of the API. */
export async function explained<Changed>(
  change: () => Promise<Changed | null>,
  nothing = 'application not found',
): Promise<Changed> {
  try {
    const changed = await keepingRules(change)
    if (changed === null) throw notFound(nothing)
    return changed
  } catch (error) {
    if (error instanceof UnacceptableChange) throw invalidArgument(error.message)
    if (error instanceof UnwritableMigration) throw conflict(error.message)
    throw error
  }
}
