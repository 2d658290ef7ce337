import { Readable } from 'node:stream'
import * as z from 'zod'
import { decideAccess } from '../../domain/permissions.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { openTurns } from '../../domain/turns.ts'
import { describeAll } from '../../packages/osv/export-osv.ts'
import { importOsv, importOutcomes } from '../../packages/osv/import-osv.ts'
import { maxOsvBytes } from '../../packages/osv/read-osv.ts'
import { listExported } from '../../packages/tables/imported-advisories.ts'
import { withoutTurn } from '../network-turns.ts'
import { addScope } from '../scope.ts'
import { openBodyMemory } from '../streamed-body.ts'
import { type ApiScope, endpoint } from './endpoint.ts'
import { type ApiContext, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

/** Files are in memory while they arrive, wait and are imported. */
const fileMemory = { bytes: 4 * maxOsvBytes, bytesOfOwner: 2 * maxOsvBytes }
/** How many files are imported at once in a process, and into a repository. */
const fileTurns = { atOnce: 2, atOnceOfOwner: 1, waiting: 20, waitingOfOwner: 5, waitingSeconds: 20 }

const OsvRecord = z
  .looseObject({
    schema_version: z.string().meta({ description: 'Version of the OSV schema', example: '1.7.5' }),
    id: z.string().meta({ description: 'Id of the record', example: 'x_SVC-7kq2-m4tz-x3dp' }),
  })
  .meta({ id: 'OsvRecord', description: 'A record in OSV form, with all members of its schema' })

const ImportedEntry = z
  .object({
    id: z.string().meta({ description: 'Id of the record', example: 'GHSA-7kq2-m4tz-x3dp' }),
    package: z.string().nullable().meta({
      description: 'Name of the package; null when the record names none of Composer',
      example: 'acme/hello',
    }),
    outcome: z.enum(importOutcomes).meta({ description: 'What became of it, or would become of it' }),
    advisory: z.string().nullable().meta({
      description: 'ID of the advisory; null when there is none',
      example: 'SVC-7kq2-m4tz-x3dp',
    }),
    reason: z.string().nullable().meta({
      description: 'Why it was skipped',
      example: 'the repository publishes no such package',
    }),
  })
  .meta({ id: 'ImportedAdvisory' })

const ImportQuery = z.object({
  dry_run: z
    .stringbool()
    .default(false)
    .meta({ description: 'Whether nothing is changed, to see what would be', example: 'true' }),
})

/** Advisories in OSV form: `/api/repositories/<group>/<name>/advisories`. */
export async function osvRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, changes, config } = context
  const url = '/repositories/:group/:name/advisories'
  const mayPull = guardRepository('pull', context)
  const mayPush = guardRepository('push', context)
  const refuse = () =>
    new Refusal(errcode.unavailable, 'too many files arrive at once: send it again in a minute')
  const useBody = openBodyMemory(fileMemory, refuse)
  const inTurn = openTurns(fileTurns, refuse)

  app.get(
    `${url}/osv`,
    endpoint(mayPull, {
      operationId: 'exportAdvisories',
      tag: 'Security',
      summary:
        'List the advisories of a repository in OSV form, also those that were withdrawn, oldest first',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(OsvRecord) },
    }),
    async (request, reply) => {
      const { repositoryId: id, path, baseUrl } = mayPull.granted(request)
      const part = await readPage(
        { request, reply, config },
        (wanted) => listExported(db, id, wanted),
        (advisory) => advisory.id,
        (advisory) => advisory,
      )
      return describeAll(db, { id, path, baseUrl }, part)
    },
  )

  await addScope(app, 'osv', async (scope) => {
    // `curl --data-binary` names a form as the type of everything.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (_request: unknown, body: unknown) => body)
    scope.post(
      `${url}/import`,
      endpoint(mayPush, {
        operationId: 'importAdvisories',
        tag: 'Security',
        summary: 'Import advisories in OSV form',
        description:
          'The body is a record, an array of records, or a record on each line, at most 16 MiB, with any content type. The same file again changes nothing. To change or withdraw advisories, it needs a personal access token of an admin with `registry-manage:rw` too.',
        params: RepositoryPath,
        querystring: ImportQuery,
        response: { 200: z.array(ImportedEntry) },
      }),
      // It waits for its client. Its turn is that of its repository.
      withoutTurn(async (request) => {
        const { repositoryId, access, grant, by, baseUrl } = mayPush.granted(request)
        const verdict = decideAccess(grant, { ...access, id: repositoryId }, 'withdrawAdvisory')
        const mayWithdraw = verdict === 'allowed'
        const isDryRun = request.query.dry_run
        const body = request.body instanceof Readable ? request.body : Readable.from([])
        return useBody({ owner: repositoryId, body, maxBytes: maxOsvBytes }, async (bytes) => {
          if (bytes === null)
            throw new Refusal(errcode.resourceExhausted, 'a file of advisories can have at most 16 MiB', {
              status: 413,
            })
          const wanted = { repositoryId, by, baseUrl, mayWithdraw, isDryRun }
          return inTurn(repositoryId, () => importOsv(changes, wanted, bytes))
        })
      }),
    )
  })
}
