import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { ArchiveStore } from '../../../archives/archive-store.ts'
import { fileNameOf } from '../../../archives/archive-url.ts'
import { readQuery, text } from '../../forms.ts'
import { withoutTurn } from '../../network-turns.ts'
import { noteDownload } from '../../note-download.ts'
import { PageError } from '../../page-error.ts'
import { endWithConnection } from '../../streamed-body.ts'
import type { PagesContext } from '../permit.ts'
import {
  findPackageView,
  findShownVersion,
  type PackageRoute,
  packagePath,
  readingArchive,
} from './package-view.ts'

const DownloadQuery = z.object({ version: text })

/** `…/-/download?version=`: the zip of a version, for people. Composer uses a URL of the registry instead. */
export async function downloadRoutes(
  app: FastifyInstance,
  context: PagesContext & { store: ArchiveStore },
): Promise<void> {
  const { store, downloads } = context
  app.route<PackageRoute>({
    method: ['GET', 'HEAD'],
    url: `${packagePath}/-/download`,
    handler: withoutTurn(download),
  })

  async function download(request: FastifyRequest<PackageRoute>, reply: FastifyReply): Promise<FastifyReply> {
    const view = await findPackageView(context, request)
    const { version, sha256, size, quarantinedAt } = await findShownVersion(
      context,
      view,
      readQuery(DownloadQuery, request).version,
    )
    if (quarantinedAt) throw new PageError(410, `Version ${version} is quarantined and cannot be downloaded.`)
    const fileName = fileNameOf(view.about.name, version)
    const note = () => {
      const { session, repository, about } = view
      const accountId = session?.account.id ?? null
      const kind = accountId === null ? 'anonymous' : 'session'
      const downloader = { kind, id: accountId ?? '0', accountId } as const
      noteDownload(downloads, request, {
        repositoryId: repository.id,
        packageName: about.name,
        version,
        downloader,
      })
    }
    if (store.isLinked) {
      const method = request.method === 'HEAD' ? 'HEAD' : 'GET'
      if (method === 'GET') note()
      return reply.redirect(await store.link(sha256, { method, fileName }), 302)
    }
    const headers = {
      'content-type': 'application/zip',
      'content-disposition': `attachment; filename="${fileName}"`,
      'content-length': size,
    }
    // A HEAD request needs no bytes of the archive.
    if (request.method === 'HEAD') return reply.headers(headers).send()
    const opened = await readingArchive(() => store.read(sha256))
    if (opened?.size === size) {
      note()
      return reply.headers(headers).send(endWithConnection(request, opened.bytes))
    }
    opened?.bytes.destroy()
    throw new PageError(404, `The archive of version ${version} is no longer stored. Choose another version.`)
  }
}
