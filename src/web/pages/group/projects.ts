import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { Refusal } from '../../../domain/refusal.ts'
import type { VisibleGroup } from '../../../groups/groups.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import {
  deleteProject,
  describeSbom,
  findProject,
  listProjects,
  maxLockBytes,
  type Project,
  postLock,
} from '../../../projects/projects.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { acceptMultipart, readFile } from '../../multipart-forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { addScope } from '../../scope.ts'
import { signedIn } from '../../visit.ts'
import { managedGroup, mayInGroup, type PagesContext } from '../permit.ts'

const projectsPerPage = 50

const ListQuery = z.object({ package: text, constraint: text, affected: text, after: text })
const EnvironmentQuery = z.object({ environment: text })
const LockForm = z.object({ project: text, environment: text, commit: text })
type SentForm = z.output<typeof LockForm>

const projectsPage = page<{
  group: VisibleGroup
  projects: Project[]
  next: string | null
  filter: { package: string; constraint: string; affected: string }
  problem: string | null
  mayReport: boolean
  apiUrl: string
}>('pages/projects')

const projectPage = page<{ group: VisibleGroup; project: Project; mayReport: boolean }>('pages/project')

const newLockPage = page<{ group: VisibleGroup; form: SentForm; problem: string | null }>('pages/new-lock')

interface Route {
  Params: { group: string }
}
interface ProjectRoute {
  Params: { group: string; project: string }
}

/**
 * `/<group>/-/projects`: which projects of a group have which version of a package, and what is wrong with it. Members see it,
 * and developers send lock files below `…/new`.
 */
export async function projectPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db, upstreamQueries } = context
  const url = '/:group/-/projects'
  const urlOf = ({ name }: Pick<VisibleGroup, 'name'>, project?: string) =>
    `/${name}/-/projects${project === undefined ? '' : `/${project}`}`

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readProjects')
      const { after, ...filter } = readQuery(ListQuery, request)
      const list = async () =>
        pageOf(
          (part) =>
            listProjects(
              db,
              group.id,
              {
                package: filter.package || null,
                constraint: filter.constraint || null,
                isAffected: filter.affected !== '',
              },
              part,
            ),
          { after: after || null, limit: projectsPerPage },
          ({ name }) => name,
        )
      const { rows: projects, next, problem } = await orProblem(list, { rows: [], next: null })
      return projectsPage(problem === null ? reply : reply.code(400), session, {
        group,
        projects,
        next,
        filter,
        problem,
        mayReport: mayInGroup(group, session, 'reportLock'),
        apiUrl: `${config.baseUrl}/api/groups/${group.name}/projects`,
      })
    }),
  )

  app.get<Route>(
    `${url}/new`,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'reportLock')
      const { environment } = readQuery(EnvironmentQuery, request)
      const { project } = readQuery(z.object({ project: text }), request)
      const form = { project, environment: environment || 'production', commit: '' }
      return newLockPage(reply, session, { group, form, problem: null })
    }),
  )

  await addScope(app, 'lock files', async (scope) => {
    acceptMultipart(scope, { maxFileBytes: maxLockBytes })
    scope.post<Route>(
      `${url}/new`,
      {
        // Before the body is read: only people who may report send one.
        onRequest: signedIn<Route>(
          context,
          { form: ({ params }) => `${urlOf({ name: params.group })}/new` },
          async ({ session }, request) => {
            await managedGroup(db, request.params.group, session, 'reportLock')
          },
        ),
      },
      signedIn(
        context,
        { form: ({ params }) => `${urlOf({ name: params.group })}/new` },
        async ({ session, by }, request, reply) => {
          const group = await managedGroup(db, request.params.group, session, 'reportLock')
          const form = readForm(LockForm, request)
          const refuse = (problem: string) => newLockPage(reply.code(400), session, { group, form, problem })
          const file = readFile(request, 'lock')
          if (file === null) return refuse('Choose the composer.lock of the project.')
          const place = {
            project: form.project.trim(),
            environment: form.environment.trim() || 'production',
            commit: form.commit.trim() || null,
          }
          try {
            const { affected } = await postLock(
              { ...context, listUpstreamAdvisories: upstreamQueries.listAdvisories, log: request.log },
              { groupId: group.id, by },
              place,
              file,
            )
            leaveNotice(
              request,
              reply,
              config,
              affected.length === 0
                ? 'The lock file was stored. Nothing is wrong with its packages.'
                : 'The lock file was stored. Some of its packages need attention.',
            )
          } catch (error) {
            if (!(error instanceof Refusal) || error instanceof EndedMeanwhileError) throw error
            return refuse(error.sentence)
          }
          return reply.redirect(urlOf(group, place.project), 303)
        },
      ),
    )
  })

  app.get<ProjectRoute>(
    `${url}/:project`,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readProjects')
      const project = await findProject(db, group.id, request.params.project)
      if (!project) throw pageNotFound()
      return projectPage(reply, session, {
        group,
        project,
        mayReport: mayInGroup(group, session, 'reportLock'),
      })
    }),
  )

  app.get<ProjectRoute>(
    `${url}/:project/sbom`,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readProjects')
      const { environment } = readQuery(EnvironmentQuery, request)
      const sbom = await describeSbom(db, group, { project: request.params.project, environment })
      if (sbom === null) throw pageNotFound()
      return reply
        .type('application/vnd.cyclonedx+json; version=1.6')
        .header('content-disposition', `attachment; filename="${request.params.project}.cdx.json"`)
        .send(sbom)
    }),
  )

  app.get<ProjectRoute>(
    `${url}/:project/delete`,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'deleteProject')
      const project = await findProject(db, group.id, request.params.project)
      if (!project) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Delete the project ${project.name}?`,
        explanation: 'Its lock files and what was found in them go, too. The next lock file makes it again.',
        action: `${urlOf(group, project.name)}/delete`,
        fields: {},
        button: 'Delete',
        ask: null,
        back: urlOf(group, project.name),
      })
    }),
  )

  app.post<ProjectRoute>(
    `${url}/:project/delete`,
    signedIn(
      context,
      { form: ({ params }) => urlOf({ name: params.group }, params.project) },
      async ({ session, by, prove }, request, reply) => {
        const group = await managedGroup(db, request.params.group, session, 'deleteProject')
        await prove('deleteProject')
        if (!(await deleteProject(db, by, group.id, request.params.project))) throw pageNotFound()
        leaveNotice(request, reply, config, 'The project was deleted.')
        return reply.redirect(urlOf(group), 303)
      },
    ),
  )
}

/** Returns the result, or the fallback with the sentence of the refusal. */
async function orProblem<Result>(
  read: () => Promise<Result>,
  fallback: Result,
): Promise<Result & { problem: string | null }> {
  try {
    return { ...(await read()), problem: null }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { ...fallback, problem: error.sentence }
  }
}
