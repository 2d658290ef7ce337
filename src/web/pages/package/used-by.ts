import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { findVisibleGroup } from '../../../groups/groups.ts'
import {
  describeDownloader,
  type Installer,
  listInstallers,
} from '../../../packages/tables/recorded-downloads.ts'
import { listProjects, type Project } from '../../../projects/projects.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { may, mayInGroup, type PagesContext } from '../permit.ts'
import { type AnyPackage, findAnyPackage } from './any-package.ts'
import { type PackageRoute, packagePath } from './package-view.ts'

const rowsPerPage = 50

const usedByPage = page<
  AnyPackage & {
    /** Null for a visitor who is no member of the group. */
    projects: Project[] | null
    nextProject: string | null
    /** Null for a visitor who may not see who downloads. */
    installers: (Installer & { who: string })[] | null
    nextInstaller: string | null
  }
>('pages/used-by')

const UsedByQuery = z.object({ after: text, installer: text })

/**
 * `…/-/used-by`: which projects of the group have which version of a package, for members of the group; and which tokens
 * downloaded which version, for admins of the repository.
 */
export async function usedByRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { db } = context
  app.get<PackageRoute>(
    `${packagePath}/-/used-by`,
    signedIn(context, async ({ session }, request, reply) => {
      const view = await findAnyPackage(context, request)
      const { after, installer } = readQuery(UsedByQuery, request)
      const group = await findVisibleGroup(db, request.params.group, session.account.id)
      const projects =
        group !== null && mayInGroup(group, session, 'readProjects')
          ? await pageOf(
              (part) => listProjects(db, group.id, { package: view.name }, part),
              { after: after || null, limit: rowsPerPage },
              ({ name }) => name,
            )
          : null
      const installers = may(view.repository, session, 'readSettings')
        ? await pageOf(
            (part) => listInstallers(db, { repositoryId: view.repository.id, packageName: view.name }, part),
            { after: installer || null, limit: rowsPerPage },
            ({ key }) => key,
          )
        : null
      return usedByPage(reply, session, {
        ...view,
        projects: projects?.rows ?? null,
        nextProject: projects?.next ?? null,
        installers: installers?.rows.map((one) => ({ ...one, who: describeDownloader(one) })) ?? null,
        nextInstaller: installers?.next ?? null,
      })
    }),
  )
}
