import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import { describeRule } from '../../../database/rules.ts'
import { type ReleaseRule, releaseRules, type Visibility, visibilities } from '../../../domain/permissions.ts'
import { restorableDays } from '../../../groups/deleted-repositories.ts'
import { changeRepositoryName, deleteRepository, setRepository } from '../../../groups/group-lifecycle.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { countPublished, describePublication } from '../../../packages/tables/published-content.ts'
import { readForm, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'

/** A form of a repository, and why it was rejected. */
interface RepositoryForm {
  repository: VisibleRepository
  problem: string | null
}

const settingsPage = page<RepositoryForm>('pages/repository-settings')
const renamePage = page<RepositoryForm & { name: string }>('pages/rename-repository')
const deletePage = page<RepositoryForm>('pages/delete-repository')

const SettingsForm = z.object({
  description: text.transform((description) => description.trim()),
  visibility: z.enum(visibilities),
  /** A form without it changes no rule of releases. */
  release: z.enum(releaseRules).optional(),
  two_people: z.literal('yes').optional(),
  /** What the page of the question sends, which names what becomes visible. */
  is_sure: z.literal('yes').optional(),
})
const RenameForm = z.object({ name: text.transform((name) => name.trim()) })
const DeletionForm = z.object({ path: text.transform((path) => path.trim()) })

interface Route {
  Params: { group: string; name: string }
}

/** `/<group>/<name>/-/settings`: description, visibility and releases. `rename` and `delete` below it are pages. */
export async function repositorySettingsRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const url = '/:group/:name/-/settings'

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      return settingsPage(reply, session, { repository, problem: null })
    }),
  )

  app.post<Route>(
    url,
    signedIn(
      context,
      { form: (request) => settingsUrl(request.params) },
      async ({ session, prove, by }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'manage')
        const { is_sure: isSure, two_people: twoPeople, ...others } = readForm(SettingsForm, request)
        const { release = repository.release } = others
        const isTwoPeople = others.release === undefined ? repository.twoPeople : twoPeople !== undefined
        const form = { ...others, release, twoPeople: isTwoPeople }
        if (form.visibility === 'public' && repository.visibility !== 'public') {
          if (!isSure) return askToPublish(reply, session, repository, form)
          await prove('makePublic')
        }
        const endsReviews =
          (repository.release === 'reviewed' && form.release === 'direct') ||
          (repository.twoPeople && !form.twoPeople)
        if (endsReviews) await prove('endReviews')
        try {
          const changed = await setRepository(db, by, repository.id, form)
          if (!changed) throw pageNotFound()
        } catch (error) {
          const constraint = brokenConstraint(error)
          if (constraint === null) throw error
          const problem = describeRule(constraint)
          return settingsPage(reply.code(400), session, { repository: { ...repository, ...form }, problem })
        }
        leaveNotice(request, reply, config, 'The settings were saved.')
        return reply.redirect(settingsUrl(request.params), 303)
      },
    ),
  )

  app.get<Route>(
    `${url}/rename`,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      return renamePage(reply, session, { repository, name: nameOf(repository), problem: null })
    }),
  )

  app.post<Route>(
    `${url}/rename`,
    signedIn(
      context,
      { form: (request) => `${settingsUrl(request.params)}/rename` },
      async ({ session, by }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'manage')
        const { name } = readForm(RenameForm, request)
        try {
          const isRenamed = await changeRepositoryName(db, by, repository.id, name)
          if (!isRenamed) throw pageNotFound()
        } catch (error) {
          const constraint = brokenConstraint(error)
          if (constraint === null) throw error
          const problem = `Nothing was renamed. ${describeRule(constraint)}`
          return renamePage(reply.code(400), session, { repository, name, problem })
        }
        const { group } = request.params
        leaveNotice(
          request,
          reply,
          config,
          `The repository is now ${group}/${name}. Its old URLs keep working.`,
        )
        return reply.redirect(settingsUrl({ group, name }), 303)
      },
    ),
  )

  app.get<Route>(
    `${url}/delete`,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'deleteRepository')
      return deletePage(reply, session, { repository, problem: null })
    }),
  )

  app.post<Route>(
    `${url}/delete`,
    signedIn(
      context,
      { form: (request) => `${settingsUrl(request.params)}/delete` },
      async ({ session, prove, by }, request, reply) => {
        await prove('deleteRepository')
        const repository = await permittedRepository(db, request.params, session, 'deleteRepository')
        if (readForm(DeletionForm, request).path !== repository.path) {
          const problem = `Nothing was deleted: type ${repository.path} to delete it.`
          return deletePage(reply.code(400), session, { repository, problem })
        }
        const isDeleted = await deleteRepository(db, by, repository)
        if (!isDeleted) throw pageNotFound()
        const restoring = `An admin of the group can restore it for ${restorableDays} days, on the page of the group.`
        leaveNotice(request, reply, config, `Repository ${repository.path} deleted. ${restoring}`)
        return reply.redirect('/', 303)
      },
    ),
  )

  /** Asks before a private repository becomes public, and names what everybody can see then. */
  async function askToPublish(
    reply: FastifyReply,
    session: Session,
    { id, path }: VisibleRepository,
    {
      twoPeople,
      ...form
    }: { description: string; visibility: Visibility; release: ReleaseRule; twoPeople: boolean },
  ): Promise<FastifyReply> {
    const [group = '', name = ''] = path.split('/')
    const back = settingsUrl({ group, name })
    return confirmationPage(reply, session, {
      title: `Make ${path} public?`,
      explanation: describePublication(await countPublished(db, id)),
      action: back,
      fields: { ...form, ...(twoPeople && { two_people: 'yes' }), is_sure: 'yes' },
      button: 'Make it public',
      ask: null,
      back,
    })
  }
}

function nameOf({ path }: VisibleRepository): string {
  return path.slice(path.indexOf('/') + 1)
}

function settingsUrl({ group, name }: Route['Params']): string {
  return `/${group}/${name}/-/settings`
}
