import type { FastifyInstance, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { RepositoryAct } from '../../../domain/permissions.ts'
import { findFixes } from '../../../packages/affected-versions.ts'
import { readAdvisory } from '../../../packages/lifecycle/advisory-draft.ts'
import { publishAdvisory, withdrawAdvisory } from '../../../packages/lifecycle/warn.ts'
import { findPackageSummary } from '../../../packages/tables/listed-packages.ts'
import { type Advisory, listAdvisories, severities } from '../../../packages/tables/package-warnings.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { askFirst } from '../../network-turns.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, nobody, page } from '../../pages.ts'
import { signedIn, type Visit } from '../../visit.ts'
import { may, type PagesContext, permittedRepository } from '../permit.ts'
import type { MirrorPages } from './mirror-pages.ts'
import { type PackageRoute, type PackageView, packagePath, viewOf } from './package-view.ts'

const advisoriesPage = page<
  PackageView & {
    advisories: Advisory[]
    /** The releases that fix each advisory, by its id. Null when there are too many advisories to compare. */
    fixes: Map<string, string[]> | null
    mayWithdraw: boolean
  }
>('pages/advisories')
const newAdvisoryPage = page<
  PackageView & {
    severities: readonly string[]
    form: z.output<typeof AdvisoryForm>
    problem: string | null
  }
>('pages/new-advisory')

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

/** `…/-/advisories`: people who may push publish advisories at `new`, and admins withdraw them (CONTRACT 6.5). */
export async function packageAdvisoryRoutes(
  app: FastifyInstance,
  context: PagesContext & { mirrors: MirrorPages },
): Promise<void> {
  const { config, db, changes, mirrors } = context
  const url = `${packagePath}/-/advisories`

  app.get<PackageRoute>(
    url,
    askFirst(app, mirrors.findAdvised, async (view, request, reply) => {
      if ('mirror' in view) return mirrors.advisories(view, request, reply)
      const { session, repository, about } = view
      const advisories = await listAdvisories(db, about.id)
      return advisoriesPage(reply, session ?? nobody, {
        ...view,
        advisories,
        fixes: await findFixes(db, about.id, advisories),
        mayWithdraw: may(repository, session, 'withdrawAdvisory'),
      })
    }),
  )

  app.get<PackageRoute>(
    `${url}/new`,
    signedIn(context, async (visit, request, reply) => {
      const { view } = await changeFor(request, visit, 'push')
      return newAdvisoryPage(reply, visit.session, { ...view, severities, form: emptyForm, problem: null })
    }),
  )

  app.post<PackageRoute>(
    `${url}/new`,
    signedIn(
      context,
      { form: (request) => `${urlOf(request.params)}/new` },
      async (visit, request, reply) => {
        const { view, change } = await changeFor(request, visit, 'push')
        const form = readForm(AdvisoryForm, request)
        const draft = readAdvisory(form)
        if (typeof draft === 'string') {
          const refused = { ...view, severities, form, problem: draft }
          return newAdvisoryPage(reply.code(400), visit.session, refused)
        }
        const advisory = await publishAdvisory(changes, change, draft)
        leaveNotice(request, reply, config, `Advisory ${advisory.advisoryId} published.`)
        return reply.redirect(urlOf(request.params), 303)
      },
    ),
  )

  app.get<PackageRoute>(
    `${url}/withdraw`,
    signedIn(context, async (visit, request, reply) => {
      const { session } = visit
      const { view } = await changeFor(request, visit, 'withdrawAdvisory')
      const { advisory } = readQuery(WithdrawForm, request)
      const known = (await listAdvisories(db, view.about.id)).find(
        ({ advisoryId }) => advisoryId === advisory,
      )
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

  app.post<PackageRoute>(
    `${url}/withdraw`,
    signedIn(context, { form: (request) => urlOf(request.params) }, async (visit, request, reply) => {
      const { change } = await changeFor(request, visit, 'withdrawAdvisory')
      await visit.prove('withdrawAdvisory')
      const { advisory } = readForm(WithdrawForm, request)
      await withdrawAdvisory(changes, change, advisory)
      leaveNotice(request, reply, config, `Advisory ${advisory} withdrawn.`)
      return reply.redirect(urlOf(request.params), 303)
    }),
  )

  async function changeFor(
    request: FastifyRequest<PackageRoute>,
    { session, by }: Visit,
    act: RepositoryAct,
  ) {
    const repository = await permittedRepository(db, request.params, session, act)
    const { vendor, package: own } = request.params
    const about = await findPackageSummary(db, repository.id, `${vendor}/${own}`)
    if (!about) throw pageNotFound()
    const { baseUrl } = config
    const change = { repositoryId: repository.id, packageName: about.name, by, baseUrl }
    return { view: viewOf(session, repository, about), change }
  }
}

function urlOf({ group, name, vendor, package: own }: PackageRoute['Params']): string {
  return `/${group}/${name}/packages/${vendor}/${own}/-/advisories`
}
