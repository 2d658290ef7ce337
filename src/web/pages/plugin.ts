import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify'
import { openArchiveBrowser } from '../../archives/archive-files.ts'
import { openArchiveStore } from '../../archives/store-owner.ts'
import { findCurrentPath } from '../../groups/repositories.ts'
import { openVersionComparer } from '../../packages/compare-versions.ts'
import { openHeavyPages } from '../network-turns.ts'
import { PageError, pageNotFound } from '../page-error.ts'
import { pagePolicy, servePages, showError } from '../page-scope.ts'
import { refuseMistaken } from '../unmatched-requests.ts'
import { docsRoutes } from './docs.ts'
import { exploreRoutes } from './explore.ts'
import { activityRoutes } from './group/activity.ts'
import { repositoryAdvisoryRoutes } from './group/advisories.ts'
import { deployTokenPageRoutes } from './group/deploy-tokens.ts'
import { groupPageRoutes } from './group/group.ts'
import { groupActivityRoutes } from './group/group-activity.ts'
import { groupSettingsRoutes } from './group/group-settings.ts'
import { groupInvitationRoutes } from './group/invitations.ts'
import { leaveGroupRoutes } from './group/leave.ts'
import { memberPageRoutes } from './group/members.ts'
import { policyPageRoutes } from './group/policies.ts'
import { projectPageRoutes } from './group/projects.ts'
import { repositoryPageRoutes } from './group/repository.ts'
import { repositorySettingsRoutes } from './group/repository-settings.ts'
import { retentionPageRoutes } from './group/retention.ts'
import { sourcePageRoutes } from './group/sources.ts'
import { trustedPublisherPageRoutes } from './group/trusted-publishers.ts'
import { upstreamPageRoutes } from './group/upstreams.ts'
import { webhookPageRoutes } from './group/webhooks.ts'
import { homeRoutes } from './home.ts'
import { newRoutes } from './new.ts'
import { mirrorFetchRoute, openMirrorPages } from './package/mirror-pages.ts'
import { packagePageRoutes } from './package/package.ts'
import { packageActivityRoutes } from './package/package-activity.ts'
import { packageAdvisoryRoutes } from './package/package-advisories.ts'
import { badgeRoutes } from './package/package-badge.ts'
import { packageChangeRoutes } from './package/package-changes.ts'
import { compareRoutes } from './package/package-compare.ts'
import { dependencyRoutes } from './package/package-dependencies.ts'
import { downloadRoutes } from './package/package-download.ts'
import { packageDownloadsRoutes } from './package/package-downloads.ts'
import { fileRoutes } from './package/package-files.ts'
import { provenancePageRoute } from './package/package-provenance.ts'
import { stagePageRoutes } from './package/stages.ts'
import { uploadPageRoutes } from './package/upload.ts'
import { usedByRoutes } from './package/used-by.ts'
import type { PagesContext } from './permit.ts'
import { searchPageRoutes } from './search.ts'
import { statusRoutes } from './status.ts'

/** The pages for people who use the registries (CONTRACT 4.4). */
export async function peoplesPages(app: FastifyInstance, context: PagesContext): Promise<void> {
  await servePages(app, context.config, pagePolicy, async (error, request, reply) => {
    const url = await findRenamed(context, error, request)
    return url === null ? showError(error, request, reply) : reply.redirect(url, 301)
  })
  const store = await openArchiveStore(context.config)
  const archives = openArchiveBrowser(store)
  const comparer = openVersionComparer({ archives, readmes: context.readmes })
  const heavy = openHeavyPages()
  const mirrors = openMirrorPages({ ...context, archives, heavy })
  app.addHook('onRequest', async (request) => {
    // PostgreSQL cannot store NUL in text, so no name contains one.
    if (request.url.includes('%00')) throw pageNotFound()
  })
  app.pageUrls.note(app)
  await homeRoutes(app, context)
  await searchPageRoutes(app, context)
  await exploreRoutes(app, context)
  await newRoutes(app, context)
  await docsRoutes(app, context)
  await statusRoutes(app, context)
  await groupPageRoutes(app, context)
  await memberPageRoutes(app, context)
  await groupInvitationRoutes(app, context)
  await groupSettingsRoutes(app, context)
  await leaveGroupRoutes(app, context)
  await deployTokenPageRoutes(app, context)
  await projectPageRoutes(app, context)
  await policyPageRoutes(app, context)
  await repositorySettingsRoutes(app, context)
  await retentionPageRoutes(app, context)
  await repositoryAdvisoryRoutes(app, context)
  await activityRoutes(app, context)
  await groupActivityRoutes(app, context)
  await trustedPublisherPageRoutes(app, context)
  await sourcePageRoutes(app, context)
  await upstreamPageRoutes(app, context)
  await webhookPageRoutes(app, context)
  await repositoryPageRoutes(app, context)
  await packagePageRoutes(app, { ...context, mirrors })
  await packageChangeRoutes(app, { ...context, mirrors })
  await packageAdvisoryRoutes(app, { ...context, mirrors })
  await dependencyRoutes(app, { ...context, heavy })
  await fileRoutes(app, { ...context, archives, heavy })
  await compareRoutes(app, { ...context, archives, comparer, heavy })
  await stagePageRoutes(app, { ...context, archives, comparer, heavy })
  await packageActivityRoutes(app, context)
  await packageDownloadsRoutes(app, context)
  await usedByRoutes(app, context)
  await mirrorFetchRoute(app, context)
  await badgeRoutes(app, context)
  await downloadRoutes(app, { ...context, store })
  await provenancePageRoute(app, context)
  await uploadPageRoutes(app, { ...context, archives: store })
  // These pages are the last to be added, so the URLs of all pages are known.
  refuseMistaken(app, app.pageUrls)
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
  const visitor = await request.server.findVisitor(request)
  const path = await findCurrentPath(context.db, { group, name: name ?? null }, visitor?.account.id ?? null)
  return path === null ? null : `/${path}${request.url.slice(oldPath.length)}`
}
