import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { type PublisherRightName, publisherRightNames } from '../../../domain/publisher.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { rowId } from '../../../domain/row-id.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { publisherProviders } from '../../../publishers/providers.ts'
import {
  addPublisher,
  findPublisher,
  listPublishers,
  type NewPublisher,
  removePublisher,
  type TrustedPublisher,
} from '../../../publishers/trusted-publishers.ts'
import {
  installWorkflow,
  publishWorkflow,
  type Workflow,
  type WorkflowProvider,
} from '../../../publishers/workflows.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'

const publishersPerPage = 50

/** The tabs of the page, with their names. */
const workflowTabs: Record<WorkflowProvider, string> = {
  github: 'GitHub Actions',
  gitlab: 'GitLab CI',
  forgejo: 'Forgejo Actions',
}

const ListQuery = z.object({
  after: text,
  ci: z.enum(['github', 'gitlab', 'forgejo']).optional().catch(undefined),
})
const RemoveForm = z.object({ id: rowId })
const PublisherForm = z.object({
  provider: z.enum(publisherProviders).default('github'),
  issuer: text,
  project: text,
  workflow: text,
  environment: text,
  workflow_project: text,
  claims: text,
  packages: text,
  right: z.enum(publisherRightNames).default('publish'),
})
type SentForm = z.output<typeof PublisherForm>
const emptyForm: SentForm = {
  provider: 'github',
  issuer: '',
  project: '',
  workflow: '',
  environment: '',
  workflow_project: '',
  claims: '',
  packages: '',
  right: 'publish',
}

const publishersPage = page<{
  repository: VisibleRepository
  publishers: TrustedPublisher[]
  /** The cursor of the next page: an id. Null on the last page. */
  next: string | null
  tabs: Record<WorkflowProvider, string>
  ci: WorkflowProvider
  /** Whether a name in the workflow is an example. */
  isExample: boolean
  publishing: Workflow
  /** The one that also attests where the archive comes from. Null where that is not possible. */
  attesting: Workflow | null
  installing: Workflow
}>('pages/trusted-publishers')

const newPublisherPage = page<{
  repository: VisibleRepository
  form: SentForm
  problem: string | null
}>('pages/new-trusted-publisher')

interface Route {
  Params: { group: string; name: string }
}

/**
 * `/<group>/<name>/-/trusted-publishers`: the CI jobs that get a token without a secret, the result of their last exchange,
 * and workflows to copy. Below `…/new` is the form that adds one.
 */
export async function trustedPublisherPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const url = '/:group/:name/-/trusted-publishers'
  const urlOf = ({ path }: Pick<VisibleRepository, 'path'>) => `/${path}/-/trusted-publishers`

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      const { after, ci } = readQuery(ListQuery, request)
      const { rows: publishers, next } = await pageOf(
        (part) => listPublishers(db, repository.id, part),
        { after, limit: publishersPerPage },
        ({ id }) => id,
      )
      return publishersPage(reply, session, {
        repository,
        publishers,
        next,
        tabs: workflowTabs,
        ...workflowsFor(repository, publishers, ci),
      })
    }),
  )

  app.get<Route>(
    `${url}/new`,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'trustPublisher')
      return newPublisherPage(reply, session, { repository, form: emptyForm, problem: null })
    }),
  )

  app.post<Route>(
    `${url}/new`,
    signedIn(
      context,
      { form: ({ params }) => `/${params.group}/${params.name}/-/trusted-publishers/new` },
      async ({ session, by, prove }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'trustPublisher')
        const form = readForm(PublisherForm, request)
        await prove('trustPublisher')
        const wanted = readPublisher(form)
        const refuse = (problem: string) =>
          newPublisherPage(reply.code(400), session, { repository, form, problem })
        if (typeof wanted === 'string') return refuse(wanted)
        try {
          await addPublisher(context, { repositoryId: repository.id, by }, wanted)
        } catch (error) {
          if (!(error instanceof Refusal) || error instanceof EndedMeanwhileError) throw error
          return refuse(error.sentence)
        }
        leaveNotice(
          request,
          reply,
          config,
          'The trusted publisher was added. Copy the workflow below into its project.',
        )
        const tab = form.provider === 'claims' ? '' : `?ci=${form.provider}`
        return reply.redirect(`${urlOf(repository)}${tab}`, 303)
      },
    ),
  )

  app.get<Route>(
    `${url}/remove`,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      const { id } = readQuery(RemoveForm, request)
      const publisher = await findPublisher(db, repository.id, id)
      if (!publisher) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Remove the trusted publisher ${publisher.project ?? publisher.issuer}?`,
        explanation: 'Its tokens stop working at once, and its jobs get no new ones.',
        action: `${urlOf(repository)}/remove`,
        fields: { id },
        button: 'Remove',
        ask: null,
        back: urlOf(repository),
      })
    }),
  )

  app.post<Route>(
    `${url}/remove`,
    signedIn(
      context,
      { form: ({ params }) => `/${params.group}/${params.name}/-/trusted-publishers` },
      async ({ session, by }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'manage')
        const { id } = readForm(RemoveForm, request)
        if (!(await removePublisher(db, by, { id, repositoryId: repository.id }))) throw pageNotFound()
        leaveNotice(request, reply, config, 'The trusted publisher was removed, and its tokens have ended.')
        return reply.redirect(urlOf(repository), 303)
      },
    ),
  )

  /** Returns the workflows of a tab. The latest publisher of the provider gives the values that they have. */
  function workflowsFor(
    repository: VisibleRepository,
    publishers: readonly TrustedPublisher[],
    wanted: WorkflowProvider | undefined,
  ) {
    const known = publishers.flatMap((one) => (one.provider === 'claims' ? [] : [one.provider]))
    const ci = wanted ?? known.at(-1) ?? 'github'
    const writing = publishers.filter(({ provider, right }) => provider === ci && right !== 'read').at(-1)
    const packageName = writing?.packages.find((pattern) => !pattern.includes('*'))
    const target = {
      provider: ci,
      workflow: writing?.workflow ?? null,
      environment: writing?.environment ?? null,
      packageName: packageName ?? 'vendor/package',
      right: writing?.right === 'stage' ? ('stage' as const) : ('publish' as const),
      authUrl: config.authUrl,
      registryUrl: `${config.baseUrl}/${repository.path}/-/packages/`,
    }
    return {
      ci,
      isExample: packageName === undefined,
      publishing: publishWorkflow(target),
      attesting:
        ci === 'github' && config.trustedRootFile !== null
          ? publishWorkflow({ ...target, attests: true })
          : null,
      installing: installWorkflow(target),
    }
  }
}

/** Reads the form. Returns a sentence when a condition has the wrong format. */
function readPublisher(form: SentForm): NewPublisher | string {
  const claims = form.claims
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map((line) => ({
      name: line.slice(0, Math.max(line.indexOf('='), 0)),
      value: line.slice(line.indexOf('=') + 1),
    }))
  if (claims.some(({ name }) => name === ''))
    return 'Write each condition as name=value on a line of its own.'
  const packages = form.packages.split(/[\s,]+/).filter((pattern) => pattern !== '')
  return {
    provider: form.provider,
    right: form.right satisfies PublisherRightName,
    issuer: orNull(form.issuer),
    project: orNull(form.project),
    workflow: orNull(form.workflow),
    environment: orNull(form.environment),
    workflowProject: orNull(form.workflow_project),
    claims,
    ...(packages.length > 0 && { packages }),
  }
}

function orNull(value: string): string | null {
  return value.trim() === '' ? null : value.trim()
}
