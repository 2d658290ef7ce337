import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import { listPackageEvents } from '../../../events/registry-events.ts'
import { readQuery, text } from '../../forms.ts'
import { nobody, page } from '../../pages.ts'
import { type ShownRegistryEvent, showRegistryEvent } from '../group/activity.ts'
import { may } from '../permit.ts'
import type { MirrorPages } from './mirror-pages.ts'
import { findAnyPackage } from './mirror-view.ts'
import { type PackageRoute, type PackageView, packagePath } from './package-view.ts'

const eventsPerPage = 50

const packageActivityPage = page<
  PackageView & {
    events: ShownRegistryEvent[]
    /** Whether tokens and client IPs are shown. */
    maySeeOrigins: boolean
    isContinued: boolean
    next: string | null
  }
>('pages/package-activity')

const ActivityQuery = z.object({ after: text })

/** `…/-/activity`: what was done to a package, latest first. Only admins see tokens and client IPs. */
export async function packageActivityRoutes(
  app: FastifyInstance,
  context: AppContext & { mirrors: MirrorPages },
): Promise<void> {
  app.get<PackageRoute>(`${packagePath}/-/activity`, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    if ('mirror' in view) return context.mirrors.activity(view, request, reply)
    const { after } = readQuery(ActivityQuery, request)
    const readerId = view.session?.account.id ?? null
    const { rows: events, next } = await pageOf(
      (part) => listPackageEvents(context.db, view.repository.id, view.about.name, part, readerId),
      { after, limit: eventsPerPage },
      ({ id }) => id,
    )
    return packageActivityPage(reply, view.session ?? nobody, {
      ...view,
      events: events.map(showRegistryEvent),
      maySeeOrigins: may(view.repository, view.session, 'readSettings'),
      isContinued: after !== '',
      next,
    })
  })
}
