import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { Refusal } from '../../../domain/refusal.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { exportOsv } from '../../../packages/osv/export-osv.ts'
import { type ImportedEntry, importOsv, importOutcomes } from '../../../packages/osv/import-osv.ts'
import { maxOsvBytes } from '../../../packages/osv/read-osv.ts'
import { readForm, text } from '../../forms.ts'
import { acceptMultipart, readFile } from '../../multipart-forms.ts'
import { leaveNotice } from '../../notice.ts'
import { page } from '../../pages.ts'
import { addScope } from '../../scope.ts'
import { signedIn } from '../../visit.ts'
import { may, type PagesContext, permittedRepository } from '../permit.ts'

/** How many entries of a file the page shows. */
const maxShown = 500

/**
 * How long the text of a previewed file may be in the form that imports it, compressed and in base64url. Advisories are about a
 * tenth then, so this is a file of about 7 MiB. A larger one is chosen again.
 */
const maxKept = 1024 * 1024
/** The other fields of the form are short. */
const maxFormBytes = maxKept + 16 * 1024

const ImportForm = z.object({ act: z.enum(['preview', 'import']).default('preview'), kept: text })

const advisoriesPage = page<{
  repository: VisibleRepository
  mayPush: boolean
  /** What a file would do, and its text for the form that imports it: null for a large one. Null before one was sent. */
  preview: {
    counts: [outcome: string, count: number][]
    entries: ImportedEntry[]
    kept: string | null
  } | null
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

  await addScope(app, 'advisories', async (scope) => {
    acceptMultipart(scope, { maxFileBytes: maxOsvBytes })
    scope.post<Route>(
      url,
      {
        // A file that was previewed comes as a field of a form without files. The file itself has its own limit.
        bodyLimit: maxFormBytes,
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
        const { act, kept } = readForm(ImportForm, request)
        const file = kept === '' ? readFile(request, 'file') : await unpack(kept)
        if (file === null) return refuse('Choose a file with advisories in OSV form.')
        try {
          const wanted = {
            repositoryId: repository.id,
            by,
            baseUrl: config.baseUrl,
            mayWithdraw: may(repository, session, 'withdrawAdvisory'),
            isDryRun: act === 'preview',
          }
          // The import moves the bytes to a thread.
          const packed = act === 'preview' ? await pack(file) : null
          const entries = await importOsv(changes, wanted, file)
          const counts = countOutcomes(entries)
          if (act === 'preview') {
            const preview = { counts, entries: entries.slice(0, maxShown), kept: packed }
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

/** Compresses a file for a field of a form. Null for a file that is too large for one. */
async function pack(file: Buffer): Promise<string | null> {
  const packed = (await promisify(gzip)(file)).toString('base64url')
  return packed.length > maxKept ? null : packed
}

/** Returns the file in a field. Null for a field that is none: only a browser that changes it sends one. */
async function unpack(kept: string): Promise<Buffer | null> {
  try {
    return await promisify(gunzip)(Buffer.from(kept, 'base64url'), { maxOutputLength: maxOsvBytes })
  } catch {
    return null
  }
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
