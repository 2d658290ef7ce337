import type { FastifyInstance, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import { listPackageEvents } from '../../../events/registry-events.ts'
import { readQuery, text } from '../../forms.ts'
import { nobody, page } from '../../pages.ts'
import { type EventRows, showEvent } from '../event-rows.ts'
import { may } from '../permit.ts'
import { type AnyPackage, findAnyPackage } from './any-package.ts'
import { type PackageRoute, packagePath } from './package-view.ts'

const eventsPerPage = 50

const activityPage = page<AnyPackage & EventRows>('pages/package-activity')

const ActivityQuery = z.object({ after: text })

/** `…/-/activity`: what was done to a package, latest first. Only admins see tokens and client IPs. */
export async function packageActivityRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get<PackageRoute>(`${packagePath}/-/activity`, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    return activityPage(reply, view.session ?? nobody, { ...view, ...(await readEvents(request, view)) })
  })

  /** Reads the requested part of the events of a package. */
  async function readEvents(
    request: FastifyRequest,
    { repository, session, name }: AnyPackage,
  ): Promise<EventRows> {
    const { after } = readQuery(ActivityQuery, request)
    const { rows, next } = await pageOf(
      (part) => listPackageEvents(context.db, repository.id, name, part, session?.account.id ?? null),
      { after, limit: eventsPerPage },
      ({ id }) => id,
    )
    const events = rows.map(({ repositoryPath: _path, packageName: _name, ...event }) => showEvent(event))
    const maySeeOrigins = may(repository, session, 'readSettings')
    return {
      events: maySeeOrigins ? events : events.map((event) => ({ ...event, means: '', ip: null })),
      isContinued: after !== '',
      isFiltered: false,
      next: next && `?${new URLSearchParams({ after: next })}`,
    }
  }
}
