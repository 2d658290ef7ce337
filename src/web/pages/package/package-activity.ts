import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../../context.ts'
import { nobody, page } from '../../pages.ts'
import type { EventRows } from '../event-rows.ts'
import type { MirrorPages } from './mirror-pages.ts'
import { findAnyPackage } from './mirror-view.ts'
import { readPackageEvents } from './package-events.ts'
import { type PackageRoute, type PackageView, packagePath } from './package-view.ts'

const packageActivityPage = page<PackageView & EventRows>('pages/package-activity')

/** `…/-/activity`: what was done to a package, latest first. Only admins see tokens and client IPs. */
export async function packageActivityRoutes(
  app: FastifyInstance,
  context: AppContext & { mirrors: MirrorPages },
): Promise<void> {
  app.get<PackageRoute>(`${packagePath}/-/activity`, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    if ('mirror' in view) return context.mirrors.activity(view, request, reply)
    const shown = await readPackageEvents(context.db, request, view, view.about.name)
    return packageActivityPage(reply, view.session ?? nobody, { ...view, ...shown })
  })
}
