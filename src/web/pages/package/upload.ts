import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import type { ArchiveStore, ReceivedArchive } from '../../../archives/archive-store.ts'
import { checkUpload } from '../../../archives/check-upload.ts'
import type { CheckedZip } from '../../../archives/check-zip.ts'
import { keepArchive } from '../../../archives/keep-archive.ts'
import { discardArchive, receiveArchive } from '../../../archives/local-store.ts'
import { transaction } from '../../../database/database.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { limitConcurrency } from '../../../domain/time-slices.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { publishArchive } from '../../../packages/publish.ts'
import {
  type BrowserUpload,
  deleteUpload,
  discardUpload,
  findFullUploads,
  findUpload,
  insertUpload,
  listUploads,
  lockUploads,
} from '../../../packages/tables/browser-uploads.ts'
import { isReviewed } from '../../../packages/tables/staged-versions.ts'
import { refuseMirroredVendor } from '../../../upstreams/claims.ts'
import { requireUploadRate } from '../../client-errors.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { logFailure } from '../../log-failure.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { addScope } from '../../scope.ts'
import { signedIn } from '../../visit.ts'
import { type ManifestSummary, readManifest } from '../manifest.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'
import { readingArchive } from './package-view.ts'
import { type ReceivedForm, receiveForm } from './upload-form.ts'
import {
  addProblems,
  describeFull,
  type Preview,
  previewOf,
  problemOf,
  type UploadProblem,
} from './upload-preview.ts'

/** The unpublished uploads of an account may take this many times MAX_ARCHIVE_BYTES. */
const maxArchivesOfBytes = 10
/** The maximum number of concurrent checks. Each blocks the event loop for short times, like those of the registry. */
const maxCheckedAtOnce = 2

const uploadPage = page<{
  repository: VisibleRepository
  uploads: BrowserUpload[]
  maxBytes: number
  problem: UploadProblem | null
}>('pages/upload')

const previewPage = page<{
  repository: VisibleRepository
  upload: BrowserUpload
  /** Null when composer.json has no readable name. */
  packageName: string | null
  chosenVersion: string
  manifest: ManifestSummary | null
  entryCount: number
  inflatedBytes: number
  warnings: readonly string[]
  /** Whether the same bytes are already published. */
  isRepeated: boolean
  /** Whether the version would be staged, for a developer to release it. */
  isStaged: boolean
  problem: UploadProblem | null
}>('pages/upload-preview')

const PreviewQuery = z.object({ version: text })
const DecisionForm = z.object({ version: text, act: z.enum(['publish', 'discard']) })

interface Route {
  Params: { group: string; name: string; id: string }
}

/**
 * `/<group>/<name>/-/upload`: publishing in the browser. The person uploads a zip. A page then shows what would be
 * published for the chosen version. Publishing follows the rules of the upload endpoint. Until then, the archive store
 * keeps the bytes and the database keeps the rest, so any process can continue.
 */
export async function uploadPageRoutes(
  app: FastifyInstance,
  context: PagesContext & { archives: ArchiveStore },
): Promise<void> {
  const { config, db, archives, room } = context
  const inTurn = limitConcurrency(maxCheckedAtOnce)
  const url = '/:group/:name/-/upload'
  const bytesOfAccount = maxArchivesOfBytes * config.maxArchiveBytes

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'push')
      return showForm(reply, session, repository, null)
    }),
  )

  await addScope(app, 'uploads', async (scope) => {
    scope.addContentTypeParser('multipart/form-data', (request: FastifyRequest) =>
      receiveForm(context, request),
    )
    // Delete the received file of a form that is rejected later.
    scope.addHook('onResponse', async ({ body }) => {
      const archive = (body as Partial<ReceivedForm> | undefined)?.archive
      if (archive) await discardArchive(archive)
    })
    scope.post<Route>(
      url,
      {
        // Check permissions before the body is read, so that people without them upload no archive.
        onRequest: signedIn<Route>(
          context,
          { form: (request) => uploadUrl(request.params) },
          async ({ session }, request, reply) => {
            const repository = await permittedRepository(db, request.params, session, 'push')
            await refuseFull(session, 0)
            try {
              await room.requireDatabaseRoom()
              await room.requireGroupRoom(repository.id, Number(request.headers['content-length'] ?? 0))
            } catch (error) {
              if (!(error instanceof Refusal)) throw error
              return refuse(request, reply, session, repository, error)
            }
            requireUploadRate(request.raw)
            request.setDecorator('uploader', { session, repository })
            return undefined
          },
        ),
      },
      async (request, reply) => {
        const { session, repository } = request.getDecorator<{
          session: Session
          repository: VisibleRepository
        }>('uploader')
        const { archive, fileName, problem } = request.body as ReceivedForm
        if (problem) return refuse(request, reply, session, repository, problem)
        if (!archive) {
          const refusal = { message: 'Choose a zip file.', details: [] }
          return showForm(reply.code(400), session, repository, refusal)
        }
        try {
          await inTurn(() => checkUpload(archive.path))
          // Store the bytes before the row that names them, and commit the row before the browser gets the response.
          const id = await keepArchive(db, archives, archive, () =>
            transaction(db, async (tx) => {
              const { sha256, size } = archive
              await lockUploads(tx, session.account.id)
              await refuseFull(session, size, tx)
              const upload = {
                accountId: session.account.id,
                repositoryId: repository.id,
                fileName,
                sha256,
                size,
              }
              return insertUpload(tx, upload)
            }),
          )
          return reply.redirect(`${uploadUrl(request.params)}/${id}`, 303)
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
          return refuse(request, reply, session, repository, error)
        }
      },
    )
    scope.decorateRequest('uploader', null)
  })

  app.get<Route>(
    `${url}/:id`,
    signedIn(context, async ({ session }, request, reply) => {
      const { repository, upload } = await uploadOf(request, session)
      const { version } = readQuery(PreviewQuery, request)
      return withArchive(upload, async (received, checked) => {
        const asked = { version: version.trim(), fileName: upload.fileName }
        const preview = previewOf(repository.id, checked, asked)
        return show(reply, session, repository, upload, await addProblems(db, preview, received))
      })
    }),
  )

  app.post<Route>(
    `${url}/:id`,
    signedIn(
      context,
      { form: (request) => `${uploadUrl(request.params)}/${request.params.id}` },
      async ({ session, by }, request, reply) => {
        const { repository, upload } = await uploadOf(request, session)
        const form = readForm(DecisionForm, request)
        if (form.act === 'discard') {
          await discardUpload(db, upload.id)
          leaveNotice(request, reply, config, 'The upload was discarded.')
          return reply.redirect(uploadUrl(request.params), 303)
        }
        return withArchive(upload, async (received, checked) => {
          const asked = { version: form.version.trim(), fileName: upload.fileName }
          const preview = previewOf(repository.id, checked, asked)
          const { target, manifest, problem } = preview
          if (!target || !manifest) {
            return show(reply.code(problem?.status ?? 400), session, repository, upload, preview)
          }
          try {
            await refuseMirroredVendor(db, repository.id, target.packageName)
            const published = await publishArchive(context, target, received, {
              zip: checked,
              manifest,
              by,
            })
            await deleteUpload(db, upload.id)
            const name = `${target.packageName} ${target.version.version}`
            if (published.outcome === 'staged') {
              leaveNotice(request, reply, config, `${name} is staged. It is published when it is released.`)
              return reply.redirect(`/${repository.path}/-/stages/${published.stage.id}`, 303)
            }
            const isNew = published.outcome === 'published'
            leaveNotice(
              request,
              reply,
              config,
              isNew ? `${name} is published.` : `${name} was published before.`,
            )
          } catch (error) {
            if (!(error instanceof Refusal)) throw error
            return show(reply.code(error.status), session, repository, upload, { ...preview, problem: error })
          }
          const query = new URLSearchParams({ version: target.version.version })
          return reply.redirect(`/${repository.path}/packages/${target.packageName}?${query}`, 303)
        })
      },
    ),
  )

  app.get<Route>(
    `${url}/:id/discard`,
    signedIn(context, async ({ session }, request, reply) => {
      const { upload } = await uploadOf(request, session)
      const { version } = readQuery(PreviewQuery, request)
      const own = `${uploadUrl(request.params)}/${upload.id}`
      return confirmationPage(reply, session, {
        title: `Discard ${upload.fileName || 'the upload'}?`,
        explanation: 'Nothing of it is published. To publish it later, upload it again.',
        action: own,
        fields: { act: 'discard' },
        button: 'Discard',
        ask: null,
        back: version ? `${own}?${new URLSearchParams({ version })}` : own,
      })
    }),
  )

  async function uploadOf({ params }: FastifyRequest<Route>, session: Session) {
    const repository = await permittedRepository(db, params, session, 'push')
    const owner = { accountId: session.account.id, repositoryId: repository.id }
    const upload = await findUpload(db, owner, params.id)
    if (!upload) throw pageNotFound()
    return { repository, upload }
  }

  async function refuseFull(
    session: Session,
    bytes: number,
    queryable: Parameters<typeof findFullUploads>[0] = db,
  ) {
    const full = await findFullUploads(queryable, session.account.id, { bytes, maxBytes: bytesOfAccount })
    if (full) throw new PageError(429, describeFull(full, bytesOfAccount))
  }

  /** Copies an upload from the store into a temporary file, as the upload endpoint receives it, and checks it again. */
  async function withArchive<T>(
    { sha256, size }: BrowserUpload,
    work: (received: ReceivedArchive, checked: CheckedZip) => Promise<T>,
  ): Promise<T> {
    const { received, checked } = await inTurn(() => readingArchive(() => fetchUpload(sha256, size)))
    try {
      return await work(received, checked)
    } finally {
      await discardArchive(received)
    }
  }

  async function fetchUpload(sha256: string, size: number) {
    const opened = await archives.read(sha256)
    if (!opened) throw new PageError(410, 'The uploaded file is no longer stored. Upload it again.')
    const receiving = receiveArchive(archives, opened.bytes, { maxBytes: size })
    const received = await receiving.finally(() => opened.bytes.destroy())
    try {
      if (received.sha256 !== sha256) throw new Error(`the stored upload ${sha256} is damaged`)
      return { received, checked: await checkUpload(received.path) }
    } catch (error) {
      await discardArchive(received)
      throw error
    }
  }

  /** Shows the form with the reason. Logs it when it is one of the server. */
  function refuse(
    request: FastifyRequest,
    reply: FastifyReply,
    session: Session,
    repository: VisibleRepository,
    problem: Refusal,
  ): Promise<FastifyReply> {
    logFailure(request, problem, problem, 'an upload failed')
    return showForm(reply.code(problem.status), session, repository, problemOf(problem))
  }

  async function showForm(
    reply: FastifyReply,
    session: Session,
    repository: VisibleRepository,
    problem: UploadProblem | null,
  ): Promise<FastifyReply> {
    const owner = { accountId: session.account.id, repositoryId: repository.id }
    const uploads = await listUploads(db, owner)
    return uploadPage(reply, session, { repository, uploads, maxBytes: config.maxArchiveBytes, problem })
  }

  async function show(
    reply: FastifyReply,
    session: Session,
    repository: VisibleRepository,
    upload: BrowserUpload,
    { version, packageName, checked, target, manifest, problem, isRepeated }: Preview,
  ): Promise<FastifyReply> {
    const isStaged =
      target !== null && !isRepeated && (await isReviewed(db, repository.id, target.packageName))
    return previewPage(reply, session, {
      repository,
      upload,
      packageName,
      chosenVersion: version,
      manifest: manifest && readManifest(manifest.metadata),
      entryCount: checked.entryCount,
      inflatedBytes: checked.inflatedBytes,
      warnings: manifest?.warnings ?? checked.warnings,
      isRepeated,
      isStaged,
      problem: problem && problemOf(problem),
    })
  }
}

function uploadUrl({ group, name }: { group: string; name: string }): string {
  return `/${group}/${name}/-/upload`
}
