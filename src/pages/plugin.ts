import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify'
import { readSession } from '../accounts/visitor.ts'
import { openHeavyPages } from '../http/heavy-pages.ts'
import { PageError, pageNotFound, wrongMethod } from '../http/page-error.ts'
import { pagePolicy, servePages, showError } from '../http/page-scope.ts'
import { refuseOtherMethods } from '../http/unmatched-requests.ts'
import { openArchiveBrowser } from '../registry/archives/archive-files.ts'
import { openArchiveStore } from '../registry/archives/store-owner.ts'
import { findCurrentPath } from '../repositories/repositories.ts'
import { activityRoutes } from './activity.ts'
import { deployTokenPageRoutes } from './deploy-tokens.ts'
import { docsRoutes } from './docs.ts'
import { groupPageRoutes } from './group.ts'
import { homeRoutes } from './home.ts'
import { groupInvitationRoutes } from './invitations.ts'
import { memberPageRoutes } from './members.ts'
import { newRoutes } from './new.ts'
import { packagePageRoutes } from './package.ts'
import { packageActivityRoutes } from './package-activity.ts'
import { packageAdvisoryRoutes } from './package-advisories.ts'
import { badgeRoutes } from './package-badge.ts'
import { packageChangeRoutes } from './package-changes.ts'
import { compareRoutes } from './package-compare.ts'
import { dependencyRoutes } from './package-dependencies.ts'
import { downloadRoutes } from './package-download.ts'
import { fileRoutes } from './package-files.ts'
import type { PagesContext } from './permit.ts'
import { repositoryPageRoutes } from './repository.ts'
import { repositorySettingsRoutes } from './repository-settings.ts'
import { searchPageRoutes } from './search.ts'
import { uploadPageRoutes } from './upload.ts'
import { upstreamPageRoutes } from './upstreams.ts'

/** The pages for people who use the registries (CONTRACT 4.4). */
export async function peoplesPages(app: FastifyInstance, context: PagesContext): Promise<void> {
  await servePages(app, context.config, pagePolicy, async (error, request, reply) => {
    const url = await findRenamed(context, error, request)
    return url === null ? showError(error, request, reply) : reply.redirect(url, 301)
  })
  const store = await openArchiveStore(context.config)
  const archives = openArchiveBrowser(store)
  const heavy = openHeavyPages()
  app.addHook('onRequest', async (request) => {
    // PostgreSQL cannot store NUL in text, so no name contains one.
    if (request.url.includes('%00')) throw pageNotFound()
  })
  await refuseOtherMethods(app, wrongMethod, async () => {
    await homeRoutes(app, context)
    await searchPageRoutes(app, context)
    await newRoutes(app, context)
    await docsRoutes(app, context)
    await groupPageRoutes(app, context)
    await memberPageRoutes(app, context)
    await groupInvitationRoutes(app, context)
    await deployTokenPageRoutes(app, context)
    await repositorySettingsRoutes(app, context)
    await activityRoutes(app, context)
    await upstreamPageRoutes(app, context)
    await repositoryPageRoutes(app, context)
    await packagePageRoutes(app, context)
    await packageChangeRoutes(app, context)
    await packageAdvisoryRoutes(app, context)
    await dependencyRoutes(app, context)
    await fileRoutes(app, { ...context, archives, heavy })
    await compareRoutes(app, { ...context, archives, heavy })
    await packageActivityRoutes(app, context)
    await badgeRoutes(app, context)
    await downloadRoutes(app, { ...context, store })
    await uploadPageRoutes(app, { ...context, archives: store })
  })
}

/**
 * Returns the new URL of a page below the old name of a group or repository. Null when the visitor may see none with
 * this name.
 */
async function findRenamed(
  context: PagesContext,
  error: FastifyError,
  request: FastifyRequest,
): Promise<string | null> {
  const { group, name } = (request.params ?? {}) as Partial<Record<string, string>>
  const isMissing = error instanceof PageError && error.status === 404 && request.method === 'GET'
  if (!isMissing || group === undefined) return null
  const oldPath = name === undefined ? `/${group}` : `/${group}/${name}`
  if (!request.url.startsWith(oldPath) || request.url.includes('%00')) return null
  const session = await readSession(context, request)
  const path = await findCurrentPath(context.db, { group, name: name ?? null }, session?.account.id ?? null)
  return path === null ? null : `/${path}${request.url.slice(oldPath.length)}`
}
