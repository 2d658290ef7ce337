import * as z from 'zod'
import { type FoundArchive, listFoundArchives, readSha256 } from '../../packages/tables/found-archives.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { invalidArgument } from './errors.ts'
import { type ApiContext, guardToken } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const FoundVersion = z
  .object({
    repository: z.string().meta({ description: 'Group and name', example: 'acme/php' }),
    package: z.string().meta({ description: 'Vendor and package', example: 'acme/hello' }),
    version: z.string().meta({ description: 'The version', example: '1.0.0' }),
    state: z
      .enum(['listed', 'quarantined', 'deleted', 'purged', 'mirrored'])
      .meta({ description: '`mirrored`: a version from an upstream' }),
    size: z.int().meta({ description: 'The size of the archive in bytes', example: 12345 }),
    stored_at: Moment.meta({ description: 'When it was published, or fetched from the upstream' }),
  })
  .meta({ id: 'FoundVersion' })

/** `/api/archives/<sha256>`: the versions with an archive, in all repositories. */
export async function archiveRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const mayFind = guardToken('findArchives', context)

  app.get(
    '/archives/:sha256',
    endpoint(mayFind, {
      operationId: 'findArchive',
      tag: 'Versions',
      summary: 'Find the versions with an archive',
      description:
        'In all repositories that the token may pull from. Site administrators with an admin token find all versions.',
      params: z.object({
        sha256: z
          .string()
          .meta({ description: 'SHA-256 of the archive, in hexadecimal', example: 'c0ffee…' }),
      }),
      querystring: PageQuery,
      response: { 200: z.array(FoundVersion) },
    }),
    async (request, reply) => {
      const sha256 = readSha256(request.params.sha256)
      if (sha256 === null) throw invalidArgument('sha256 must have 64 hexadecimal digits')
      const principal = mayFind.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listFoundArchives(db, principal, sha256, part),
        ({ key }) => key,
        formatFound,
      )
    },
  )
}

function formatFound(found: FoundArchive): z.input<typeof FoundVersion> {
  const { repository, packageName, version, state, size, storedAt } = found
  return { repository, package: packageName, version, state, size, stored_at: storedAt.toISOString() }
}
