import type { FastifyInstance } from 'fastify'
import { maxLogoBytes } from '../../../oauth/application-rules.ts'
import { acceptMultipart } from '../../multipart-forms.ts'
import { pageNotFound, wrongMethod } from '../../page-error.ts'
import { pagePolicy, servePages } from '../../page-scope.ts'
import { refuseAllOthers } from '../../unmatched-requests.ts'
import { siteInvitationRoutes } from '../group/invitations.ts'
import { siteWebhookRoutes, type WebhookPagesContext } from '../group/webhooks.ts'
import { accountActRoutes } from './account-acts.ts'
import { accountEditingRoutes } from './account-editing.ts'
import { accountSessionRoutes } from './account-sessions.ts'
import { adminAccountRoutes } from './accounts.ts'
import { onlyAdministrators } from './administrator.ts'
import { applicationEditingRoutes } from './application-editing.ts'
import { adminApplicationRoutes } from './applications.ts'
import { clientDocumentRoutes } from './client-documents.ts'
import { adminEventRoutes } from './events.ts'
import { adminGroupRoutes } from './group-list.ts'
import { systemRoutes } from './system.ts'

/** `/admin`: administration in the browser, for site administrators. Everybody else gets 404. */
export async function administration(app: FastifyInstance, context: WebhookPagesContext): Promise<void> {
  await servePages(app, context.config, pagePolicy)
  acceptMultipart(app, { maxFileBytes: maxLogoBytes })
  const admin = { ...context, ...onlyAdministrators(app, context) }
  const addRoutes = async () => {
    await systemRoutes(app, admin)
    await adminAccountRoutes(app, admin)
    await accountActRoutes(app, admin)
    await accountEditingRoutes(app, admin)
    await accountSessionRoutes(app, admin)
    await siteInvitationRoutes(app, admin)
    await adminApplicationRoutes(app, admin)
    await applicationEditingRoutes(app, admin)
    await clientDocumentRoutes(app, admin)
    await adminGroupRoutes(app, admin)
    await adminEventRoutes(app, admin)
    await siteWebhookRoutes(app, context)
  }
  await refuseAllOthers(app, { wrongMethod, nothingHere: pageNotFound }, addRoutes, '/admin')
}
