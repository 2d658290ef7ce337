import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import {
  describeDownloader,
  type ListedDownload,
  listRecordedDownloads,
} from '../../../packages/tables/recorded-downloads.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { permittedRepository } from '../permit.ts'
import { type AnyPackage, findAnyPackage } from './any-package.ts'
import { type PackageRoute, packagePath } from './package-view.ts'

const downloadsPerPage = 50

const downloadsPage = page<
  AnyPackage & {
    downloads: (ListedDownload & { who: string })[]
    /** The version whose downloads are listed. Empty for all versions. */
    version: string
    isContinued: boolean
    /** The cursor of the next page. Null on the last one. */
    next: string | null
  }
>('pages/package-downloads')

const DownloadsQuery = z.object({ version: text, after: text })

/** `…/-/downloads`: who downloaded a package, or one version of it, by day. For admins of the repository. */
export async function packageDownloadsRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { db } = context
  app.get<PackageRoute>(
    `${packagePath}/-/downloads`,
    signedIn(context, async ({ session }, request, reply) => {
      const { id: repositoryId } = await permittedRepository(db, request.params, session, 'readSettings')
      const view = await findAnyPackage(context, request)
      const { version, after } = readQuery(DownloadsQuery, request)
      const filter = { repositoryId, packageName: view.name, version: version || null }
      const { rows, next } = await pageOf(
        (part) => listRecordedDownloads(db, { ...filter, accountId: null, since: null, until: null }, part),
        { after, limit: downloadsPerPage },
        ({ id }) => id,
      )
      const downloads = rows.map((download) => ({ ...download, who: describeDownloader(download) }))
      return downloadsPage(reply, session, { ...view, downloads, version, isContinued: after !== '', next })
    }),
  )
}
