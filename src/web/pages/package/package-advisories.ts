import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import type { RepositoryAct } from '../../../domain/permissions.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { findFixes } from '../../../packages/affected-versions.ts'
import { readAdvisory } from '../../../packages/lifecycle/advisory-draft.ts'
import { publishAdvisory, withdrawAdvisory } from '../../../packages/lifecycle/warn.ts'
import { findPackageSummary, type PackageSummary } from '../../../packages/tables/listed-packages.ts'
import { type Advisory, listAdvisories, severities } from '../../../packages/tables/package-warnings.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, nobody, page } from '../../pages.ts'
import { signedIn, type Visit } from '../../visit.ts'
import type { PagesContext } from '../permit.ts'
import { changing, may, permittedRepository } from '../permit.ts'
import type { MirrorPages } from './mirror-pages.ts'
import { findAnyPackage } from './mirror-view.ts'

const advisoriesPage = page<{
  session: Session | null
  repository: VisibleRepository
  about: PackageSummary
  advisories: Advisory[]
  /** The releases that fix each advisory, by its id. Null when there are too many advisories to compare. */
  fixes: Map<string, string[]> | null
  severities: readonly string[]
  mayAdvise: boolean
  mayWithdraw: boolean
  form: z.output<typeof AdvisoryForm>
  problem: string | null
}>('pages/advisories')

const trimmed = text.transform((value) => value.trim())
const AdvisoryForm = z.object({
  title: trimmed,
  affected_versions: trimmed,
  cve: trimmed,
  link: trimmed,
  severity: z.enum(['', ...severities]).default(''),
})
const WithdrawForm = z.object({ advisory: text })

const emptyForm = { title: '', affected_versions: '', cve: '', link: '', severity: '' as const }

interface Route {
  Params: { group: string; name: string; vendor: string; package: string }
}

/** `…/-/advisories`: people who may push publish advisories, and admins withdraw them (CONTRACT 6.5). */
export async function packageAdvisoryRoutes(
  app: FastifyInstance,
  context: PagesContext & { mirrors: MirrorPages },
): Promise<void> {
  const { config, db, changes, mirrors } = context
  const url = '/:group/:name/packages/:vendor/:package/-/advisories'

  app.get<Route>(url, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    if ('mirror' in view) return mirrors.advisories(view, request, reply)
    const { session, repository, about } = view
    return show(reply, session, repository, about, { form: emptyForm, problem: null })
  })

  app.post<Route>(
    url,
    signedIn(context, { form: (request) => urlOf(request.params) }, async (visit, request, reply) => {
      const { session } = visit
      const { repository, about, change } = await changeFor(request, visit, 'push')
      const form = readForm(AdvisoryForm, request)
      const draft = readAdvisory(form)
      if (typeof draft === 'string') {
        return show(reply.code(400), session, repository, about, { form, problem: draft })
      }
      const advisory = await changing(() => publishAdvisory(changes, change, draft))
      leaveNotice(request, reply, config, `Advisory ${advisory.advisoryId} published.`)
      return reply.redirect(urlOf(request.params), 303)
    }),
  )

  app.get<Route>(
    `${url}/withdraw`,
    signedIn(context, async (visit, request, reply) => {
      const { session } = visit
      const { about } = await changeFor(request, visit, 'withdrawAdvisory')
      const { advisory } = readQuery(WithdrawForm, request)
      const known = (await listAdvisories(db, about.id)).find(({ advisoryId }) => advisoryId === advisory)
      if (!known) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Withdraw ${advisory}?`,
        explanation: `Composer no longer warns about “${known.title}”.`,
        action: `${urlOf(request.params)}/withdraw`,
        fields: { advisory },
        button: 'Withdraw',
        ask: null,
        back: urlOf(request.params),
      })
    }),
  )

  app.post<Route>(
    `${url}/withdraw`,
    signedIn(context, { form: (request) => urlOf(request.params) }, async (visit, request, reply) => {
      const { change } = await changeFor(request, visit, 'withdrawAdvisory')
      await visit.prove('withdrawAdvisory')
      const { advisory } = readForm(WithdrawForm, request)
      await changing(() => withdrawAdvisory(changes, change, advisory))
      leaveNotice(request, reply, config, `Advisory ${advisory} withdrawn.`)
      return reply.redirect(urlOf(request.params), 303)
    }),
  )

  async function aboutOf({ params }: FastifyRequest<Route>, repository: VisibleRepository) {
    const about = await findPackageSummary(db, repository.id, `${params.vendor}/${params.package}`)
    if (!about) throw pageNotFound()
    return about
  }

  async function changeFor(request: FastifyRequest<Route>, { session, by }: Visit, act: RepositoryAct) {
    const repository = await permittedRepository(db, request.params, session, act)
    const about = await aboutOf(request, repository)
    const { baseUrl } = config
    const change = { repositoryId: repository.id, packageName: about.name, by, baseUrl }
    return { repository, about, change }
  }

  async function show(
    reply: FastifyReply,
    session: Session | null,
    repository: VisibleRepository,
    about: PackageSummary,
    shown: { form: z.output<typeof AdvisoryForm>; problem: string | null },
  ): Promise<FastifyReply> {
    const advisories = await listAdvisories(db, about.id)
    return advisoriesPage(reply, session ?? nobody, {
      ...shown,
      session,
      repository,
      about,
      advisories,
      fixes: await findFixes(db, about.id, advisories),
      severities,
      mayAdvise: may(repository, session, 'push'),
      mayWithdraw: may(repository, session, 'withdrawAdvisory'),
    })
  }
}

function urlOf({ group, name, vendor, package: own }: Route['Params']): string {
  return `/${group}/${name}/packages/${vendor}/${own}/-/advisories`
}
