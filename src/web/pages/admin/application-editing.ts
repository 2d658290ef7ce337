import { readFile as readWholeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { keepsMigrations } from '../../../database/operator-migrations.ts'
import {
  changeApplication,
  deleteApplication,
  registerApplication,
  UnacceptableChange,
} from '../../../oauth/application-changes.ts'
import { maxRequestCharacters, readRequest } from '../../../oauth/application-request.ts'
import { listMistakes, maxLogoBytes } from '../../../oauth/application-rules.ts'
import type { Application } from '../../../oauth/applications.ts'
import { readForm, text } from '../../forms.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import {
  type ApplicationForm,
  emptyApplicationForm,
  findChanges,
  formOfApplication,
  readApplicationForm,
  resourceScopeWords,
} from '../application-form.ts'
import { applicationScopeChoices, type ScopeChoices } from '../scope-choices.ts'
import { type AdminContext, goOn, orProblem } from './administrator.ts'
import { applicationUrl, theApplication } from './applications.ts'

const RequestForm = z.object({ request: text })
const DeletionForm = z.object({ confirmed: text.transform((name) => name.trim()) })

interface EditorContent extends ScopeChoices {
  /** Null for a new application. */
  application: Application | null
  form: ApplicationForm
  resourceScopes: typeof resourceScopeWords
  maxLogoBytes: number
  /** The pasted text of a developer. */
  request: string
  maxRequestCharacters: number
  /** Whether a change is also written as a migration. */
  keepsMigrations: boolean
  problem: string | null
}

const editorPage = page<EditorContent>('admin/application-editor')
const secretPage = page<{
  name: string
  clientId: string
  clientSecret: string
  /** The username of who gets the secret. Null when it is not known. */
  developer: string | null
  /** The file name of the migration that adds the application. Null after a rotation of the secret. */
  migration: string | null
  overlap: string | null
}>('admin/client-secret')

interface Route {
  Params: { clientId: string }
}

/**
 * `/admin/applications/new` registers an application. The text of a developer fills its form.
 * `/admin/applications/<client_id>/edit` changes one as `svc application set` does, and `…/delete` deletes one. Where the
 * operator keeps migrations, each writes one, which can be downloaded.
 */
export async function applicationEditingRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { config, db, byOf, sessionOf } = context

  app.get('/admin/applications/new', async (_request, reply) =>
    showEditor(context, reply, { application: null, form: emptyApplicationForm, problem: null }),
  )

  app.post('/admin/applications/new', async (request, reply) => {
    const form = readApplicationForm(request)
    const registered = await orProblem(async () => {
      const { logo } = form
      if (!logo) throw new UnacceptableChange('The application cannot be registered: the logo is missing.')
      const registration = { ...form, logo, description: form.description || null }
      return registerApplication(db, config, byOf(request), registration)
    })
    if (typeof registered === 'string') {
      return showEditor(context, reply.code(400), {
        application: null,
        form,
        problem: form.logo ? `${registered} Choose the logo again.` : registered,
      })
    }
    const { clientId, clientSecret, migration } = registered
    if (clientSecret === null) {
      const notice = `${form.name} is registered. It is a public client, so it has no secret: give its developer the client ID.`
      return goOn(context, reply, applicationUrl(clientId, migration), notice)
    }
    return secretPage(reply, sessionOf(request), {
      name: form.name,
      clientId,
      clientSecret,
      developer: form.developer,
      migration: migration === null ? null : basename(migration),
      overlap: null,
    })
  })

  app.post('/admin/applications/new/request', async (request, reply) => {
    const { request: sent } = readForm(RequestForm, request)
    const requested = readRequest(sent)
    if (requested === null) {
      const problem = 'This is no text of the page “Get an application”. Copy all its lines, from “Name:” on.'
      const content = { application: null, form: emptyApplicationForm, problem, request: sent }
      return showEditor(context, reply.code(400), content)
    }
    const form = { ...emptyApplicationForm, ...requested }
    const mistakes = listMistakes({ ...form, description: form.description || null }, config)
    const problem = mistakes.length > 0 ? `The text breaks rules: ${mistakes.join('; ')}.` : null
    return showEditor(context, reply, { application: null, form, problem, request: sent })
  })

  app.get<Route>('/admin/applications/:clientId/edit', async (request, reply) => {
    const application = await theApplication(context, request.params.clientId)
    return showEditor(context, reply, { application, form: formOfApplication(application), problem: null })
  })

  app.post<Route>('/admin/applications/:clientId/edit', async (request, reply) => {
    const application = await theApplication(context, request.params.clientId)
    const form = readApplicationForm(request)
    const changes = findChanges(application, form)
    const changed = await orProblem(async () => {
      if (Object.keys(changes).length === 0) throw new UnacceptableChange('There is nothing to change.')
      return changeApplication(db, config, byOf(request), application.clientId, changes)
    })
    if (changed === null) throw pageNotFound()
    if (typeof changed === 'string') {
      return showEditor(context, reply.code(400), { application, form, problem: changed })
    }
    const url = applicationUrl(application.clientId, changed.migration)
    return goOn(context, reply, url, 'The application was changed. Tokens keep what was granted to them.')
  })

  app.post<Route>('/admin/applications/:clientId/delete', async (request, reply) => {
    const { clientId, name } = await theApplication(context, request.params.clientId)
    const { confirmed } = readForm(DeletionForm, request)
    if (confirmed !== name) throw new PageError(400, `Nothing was deleted: type ${name} to delete it.`)
    const by = byOf(request)
    const deleted = await orProblem(() => deleteApplication(db, config, by, clientId))
    if (deleted === null) throw pageNotFound()
    if (typeof deleted === 'string') throw new PageError(409, deleted)
    return goOn(context, reply, '/admin/applications', `The application ${name} is deleted.`)
  })

  app.get<{ Params: { file: string } }>('/admin/applications/migrations/:file', async (request, reply) => {
    const { file } = request.params
    if (!/^\d{4}_[a-z0-9_]{1,120}\.sql$/.test(file)) throw pageNotFound()
    const sql = await readWholeFile(join(config.migrationsDir, file)).catch(() => null)
    if (!sql) throw pageNotFound()
    return reply
      .header('content-disposition', `attachment; filename="${file}"`)
      .type('application/sql')
      .send(sql)
  })
}

async function showEditor(
  { config, sessionOf }: AdminContext,
  reply: FastifyReply,
  content: Pick<EditorContent, 'application' | 'form' | 'problem'> & { request?: string },
): Promise<FastifyReply> {
  return editorPage(reply, sessionOf(reply.request), {
    request: '',
    ...content,
    ...applicationScopeChoices(),
    resourceScopes: resourceScopeWords,
    maxLogoBytes,
    maxRequestCharacters,
    keepsMigrations: await keepsMigrations(config),
  })
}
