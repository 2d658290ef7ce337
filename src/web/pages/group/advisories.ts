import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { Refusal } from '../../../domain/refusal.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { exportOsv } from '../../../packages/osv/export-osv.ts'
import { type ImportedEntry, importOsv, importOutcomes } from '../../../packages/osv/import-osv.ts'
import { maxOsvBytes } from '../../../packages/osv/read-osv.ts'
import { readForm } from '../../forms.ts'
import { acceptMultipart, readFile } from '../../multipart-forms.ts'
import { leaveNotice } from '../../notice.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { may, type PagesContext, permittedRepository } from '../permit.ts'

/** How many entries of a file the page shows. */
const maxShown = 500

const ImportForm = z.object({ act: z.enum(['preview', 'import']).default('preview') })

const advisoriesPage = page<{
  repository: VisibleRepository
  mayPush: boolean
  /** What a file would do. Null before one was sent. */
  preview: { counts: [outcome: string, count: number][]; entries: ImportedEntry[] } | null
  problem: string | null
}>('pages/repository-advisories')

interface Route {
  Params: { group: string; name: string }
}

/** `/<group>/<name>/-/advisories`: the advisories of a repository as a file in OSV form, and the import of such a file. */
export async function repositoryAdvisoryRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db, changes } = context
  const url = '/:group/:name/-/advisories'
  const urlOf = ({ group, name }: Route['Params']) => `/${group}/${name}/-/advisories`

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'pull')
      const mayPush = may(repository, session, 'push')
      return advisoriesPage(reply, session, { repository, mayPush, preview: null, problem: null })
    }),
  )

  app.get<Route>(
    `${url}/osv.json`,
    signedIn(context, async ({ session }, request, reply) => {
      const { id, path } = await permittedRepository(db, request.params, session, 'pull')
      return reply
        .type('application/json; charset=utf-8')
        .header('content-disposition', `attachment; filename="${path.replace('/', '-')}-advisories.json"`)
        .send(Readable.from(linesOf(exportOsv(db, { id, path, baseUrl: config.baseUrl }))))
    }),
  )

  await app.register(async (scope) => {
    acceptMultipart(scope, { maxFileBytes: maxOsvBytes })
    scope.post<Route>(
      url,
      {
        // Before the body is read: only people who may add advisories send one, and the proof of identity keeps no file.
        onRequest: signedIn<Route>(
          context,
          { form: ({ params }) => urlOf(params) },
          async ({ session, prove }, request) => {
            const repository = await permittedRepository(db, request.params, session, 'push')
            if (may(repository, session, 'withdrawAdvisory')) await prove('withdrawAdvisory')
          },
        ),
      },
      signedIn(context, { form: ({ params }) => urlOf(params) }, async ({ session, by }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'push')
        const shown = { repository, mayPush: true, preview: null }
        const refuse = (problem: string) => advisoriesPage(reply.code(400), session, { ...shown, problem })
        const { act } = readForm(ImportForm, request)
        const file = readFile(request, 'file')
        if (file === null) return refuse('Choose a file with advisories in OSV form.')
        try {
          const wanted = {
            repositoryId: repository.id,
            by,
            baseUrl: config.baseUrl,
            mayWithdraw: may(repository, session, 'withdrawAdvisory'),
            isDryRun: act === 'preview',
          }
          const entries = await importOsv(changes, wanted, file)
          const counts = countOutcomes(entries)
          if (act === 'preview') {
            const preview = { counts, entries: entries.slice(0, maxShown) }
            return advisoriesPage(reply, session, { ...shown, preview, problem: null })
          }
          const sentence = counts.map(([outcome, count]) => `${count} ${outcome}`).join(', ')
          leaveNotice(request, reply, config, `The file was imported. Advisories: ${sentence || 'none'}.`)
        } catch (error) {
          if (!(error instanceof Refusal) || error instanceof EndedMeanwhileError) throw error
          return refuse(error.sentence)
        }
        return reply.redirect(urlOf(request.params), 303)
      }),
    )
  })
}

function countOutcomes(entries: readonly ImportedEntry[]): [outcome: string, count: number][] {
  return importOutcomes
    .map((outcome): [string, number] => [outcome, entries.filter((one) => one.outcome === outcome).length])
    .filter(([, count]) => count > 0)
}

/** Writes records as a JSON array, one on each line. */
async function* linesOf(records: AsyncIterable<object>): AsyncGenerator<string> {
  let separator = '['
  for await (const record of records) {
    yield `${separator}\n${JSON.stringify(record)}`
    separator = ','
  }
  yield separator === '[' ? '[]\n' : '\n]\n'
}
