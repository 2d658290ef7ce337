import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import { isPackageName } from '../../../composer/package-name.ts'
import type { RepositoryAct } from '../../../domain/permissions.ts'
import type { Principal } from '../../../domain/principal.ts'
import { errcode, Refusal } from '../../../domain/refusal.ts'
import { findVisibleRepository } from '../../../groups/repositories.ts'
import { claimVendorByHand, releaseVendorByHand } from '../../../upstreams/claims.ts'
import {
  addUpstream,
  approvePackages,
  removeUpstream,
  requestPackage,
  setUpstream,
} from '../../../upstreams/configure.ts'
import { decideContest } from '../../../upstreams/contested-names.ts'
import { allowEarly } from '../../../upstreams/early-versions.ts'
import { forgetArchives } from '../../../upstreams/forget-archives.ts'
import { findUpstream, upstreamModes } from '../../../upstreams/tables/upstreams.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage } from '../../pages.ts'
import { anybody, redirectToSignIn, requireProofFor, signedIn } from '../../visit.ts'
import { managedGroup, type PagesContext, permittedRepository } from '../permit.ts'
import {
  fieldsOf,
  showNamesForm,
  showPackages,
  showUpstreamForm,
  showUpstreamList,
  showVendors,
  type UpstreamFields,
  type UpstreamsVisit,
} from './upstreams-page.ts'

const trimmed = text.transform((value) => value.trim())
const wholeNumber = z
  .string()
  .regex(/^\d{1,6}$/)
  .transform(Number)
const UpstreamsQuery = z.object({ q: trimmed, after: text })
const UpstreamForm = z.object({
  url: trimmed,
  name: trimmed,
  mode: z.enum(upstreamModes),
  allow: text,
  deny: text,
  exempt: text,
  minimum_age_hours: wholeNumber.default(0),
  keeps_source: text,
  position: wholeNumber.optional(),
})
const PageForm = z.object({ page: text })
const PartQuery = z.object({ after: text })
const NameQuery = z.object({ name: text, release: text })
const RemovalForm = z.object({ name: text, release: text })
const PackagesForm = z.object({ packages: text })
const ArchiveForm = z.object({ package: text, version: text })
const AllowanceForm = z.object({ package: text, version: text })
const DecisionForm = z.object({ package: text, upstream: text })
const PackageForm = z.object({ package: trimmed })
const VendorForm = z.object({ vendor: trimmed, exceptions: text, force: text })
const VendorQuery = z.object({ vendor: text })

/** The limit is the same in the API. */
const maxApprovals = 1000

interface Route {
  Params: { group: string; name: string }
}

/** A request of a signed-in person, after the permission check. */
interface Visit extends UpstreamsVisit {
  request: FastifyRequest<Route>
  session: Session
  /** The repository of a change, and who makes it. */
  change: { repositoryId: string; by: Principal }
  /** The URL of the page. */
  home: string
}

/**
 * `/<group>/<name>/-/upstreams`: the mirrored packages for everyone who may pull, requests and approvals of packages,
 * and for admins the upstreams and the vendors of the group.
 */
export async function upstreamPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db, upstreamClient } = context
  const url = '/:group/:name/-/upstreams'

  show('', (visit, request) => {
    const { q: search, after } = readQuery(UpstreamsQuery, request)
    return showPackages(visit, { search, after })
  })

  show('/vendors', (visit, request) => showVendors(visit, readQuery(PartQuery, request)))

  route('get', '/list', 'manage', showUpstreamList)
  route('get', '/new', 'manage', (visit) => showUpstreamForm(visit, null))
  route('get', '/request', 'pull', (visit) => showNamesForm(visit, 'request'))
  route('get', '/approve', 'manage', (visit) => showNamesForm(visit, 'approve'))

  route('get', '/set', 'manage', async (visit) => {
    const { name } = readQuery(NameQuery, visit.request)
    const upstream = await findUpstream(db, visit.repository.id, name)
    if (!upstream) throw pageNotFound()
    return showUpstreamForm(visit, name, fieldsOf(upstream), upstream)
  })

  route('get', '/claim', 'manage', async (visit) => {
    await managedGroup(db, visit.request.params.group, visit.session, 'manageGroup')
    return showNamesForm(visit, 'claim')
  })

  route('post', '/request', 'pull', async (visit) => {
    const { package: name } = readForm(PackageForm, visit.request)
    const again = (refused: UpstreamsVisit) => showNamesForm(refused, 'request', { entered: name })
    return changing(visit, again, async () =>
      (await requestPackage(db, visit.change, name))
        ? `The approval of ${name} is requested.`
        : `${name} is approved or requested already.`,
    )
  })

  route('post', '/approve', 'manage', async (visit) => {
    const { packages } = readForm(PackagesForm, visit.request)
    const names = packages.split(/[\s,]+/).filter((name) => name !== '')
    const again = (refused: UpstreamsVisit) => showNamesForm(refused, 'approve', { entered: packages })
    return changing(visit, again, async () => {
      if (names.length > maxApprovals) {
        throw new Refusal(errcode.invalidArgument, `approve at most ${maxApprovals} packages at once`)
      }
      const approved = await approvePackages(db, visit.change, names)
      return approved.length > 0 ? `Approved: ${approved.join(', ')}.` : 'Nothing was left to approve.'
    })
  })

  route('post', '/allow', 'manage', async (visit) => {
    const { package: packageName, version } = readForm(AllowanceForm, visit.request)
    return changing(visit, showPackages, async () => {
      const allowed = await allowEarly(context, visit.change, { packageName, version: version || null })
      return allowed.length === 1
        ? `${packageName} ${allowed[0]} is offered now.`
        : `${allowed.length} versions of ${packageName} are offered now.`
    })
  })

  route('post', '/forget', 'forgetArchives', async (visit) => {
    const { package: packageName, version } = readForm(ArchiveForm, visit.request)
    return changing(visit, showPackages, async () => {
      await forgetArchives({ config, db, client: upstreamClient }, visit.change, { packageName, version })
      return `The stored bytes of ${packageName} ${version} are forgotten. The next request fetches what the upstream serves.`
    })
  })

  route('post', '/decide', 'decideContest', async (visit) => {
    const { package: packageName, upstream: upstreamName } = readForm(DecisionForm, visit.request)
    return changing(visit, showPackages, async () => {
      await decideContest(db, visit.change, { packageName, upstreamName })
      return `${packageName} comes from ${upstreamName}.`
    })
  })

  route('post', '/new', 'manage', async (visit) => {
    const { fields, settings } = readUpstreamForm(visit.request)
    const { url, name } = fields
    const again = (refused: UpstreamsVisit) => showUpstreamForm(refused, null, fields)
    return changing(
      visit,
      again,
      async () => {
        const wanted = { url, ...(name !== '' && { name }), ...settings }
        const added = await addUpstream(context, upstreamClient, visit.change, wanted)
        return `The upstream ${added.name} was added.`
      },
      '/list',
    )
  })

  route('post', '/set', 'manage', async (visit) => {
    const { fields, settings } = readUpstreamForm(visit.request)
    const again = (refused: UpstreamsVisit) => showUpstreamForm(refused, fields.name, fields)
    return changing(
      visit,
      again,
      async () => {
        await setUpstream(db, visit.change, fields.name, settings)
        return `The upstream ${fields.name} was changed.`
      },
      '/list',
    )
  })

  route('get', '/remove', 'removeUpstream', async ({ request, reply, session, repository, home }) => {
    const { name, release } = readQuery(NameQuery, request)
    const upstream = await findUpstream(db, repository.id, name)
    if (!upstream) throw pageNotFound()
    return confirmationPage(reply, session, {
      title: `Remove the upstream ${name}?`,
      explanation: release
        ? 'Other upstreams may then serve packages of the same names, with other content.'
        : 'Its packages are no longer offered, and no other upstream serves these names. Stored archives still install from lock files.',
      action: `${home}/remove`,
      fields: { name, ...(release && { release }) },
      button: 'Remove',
      ask: null,
      back: `${home}/list`,
    })
  })

  route('post', '/remove', 'removeUpstream', async (visit) => {
    const { name, release } = readForm(RemovalForm, visit.request)
    return changing(
      visit,
      showUpstreamList,
      async () => {
        await removeUpstream(db, visit.change, name, { releasesNames: release !== '' })
        return `The upstream ${name} was removed.`
      },
      '/list',
    )
  })

  route('post', '/claim', 'manage', async (visit) => {
    const group = await managedGroup(db, visit.request.params.group, visit.session, 'manageGroup')
    const { vendor, exceptions, force } = readForm(VendorForm, visit.request)
    const again = (refused: UpstreamsVisit) =>
      showNamesForm(refused, 'claim', { entered: vendor, exceptions })
    return changing(
      visit,
      again,
      async () => {
        const claim = { vendor, exceptions: linesOf(exceptions), force: force !== '' }
        await claimVendorByHand(db, visit.change.by, group, claim)
        return `The vendor ${vendor} belongs to ${group.name}.`
      },
      '/vendors',
    )
  })

  route('get', '/release', 'manage', async ({ request, reply, session, home }) => {
    await managedGroup(db, request.params.group, session, 'releaseVendor')
    await requireProofFor('releaseVendor', context, request, session)
    const { vendor } = readQuery(VendorQuery, request)
    return confirmationPage(reply, session, {
      title: `Release the vendor ${vendor}?`,
      explanation: `Upstreams may then serve packages of ${vendor} in every repository of the group.`,
      action: `${home}/release`,
      fields: { vendor },
      button: 'Release',
      ask: null,
      back: `${home}/vendors`,
    })
  })

  route('post', '/release', 'manage', async (visit) => {
    const group = await managedGroup(db, visit.request.params.group, visit.session, 'releaseVendor')
    await requireProofFor('releaseVendor', context, visit.request, visit.session, visit.home)
    const { vendor } = readForm(VendorQuery, visit.request)
    return changing(
      visit,
      showVendors,
      async () => {
        await releaseVendorByHand(db, visit.change.by, group, vendor)
        return `The vendor ${vendor} no longer belongs to ${group.name}.`
      },
      '/vendors',
    )
  })

  /** Adds a route for signed-in people whose role allows the act. */
  function route(
    method: 'get' | 'post',
    path: string,
    act: RepositoryAct,
    handle: (visit: Visit) => Promise<FastifyReply>,
  ): void {
    app[method]<Route>(
      `${url}${path}`,
      signedIn(
        context,
        { form: (request) => `/${request.params.group}/${request.params.name}/-/upstreams` },
        async ({ session, prove, by }, request, reply) => {
          const home = `/${request.params.group}/${request.params.name}/-/upstreams`
          const repository = await permittedRepository(db, request.params, session, act)
          const back = method === 'post' ? home : request.url
          await prove(act, back)
          const change = { repositoryId: repository.id, by: by }
          return handle({ db, request, reply, session, repository, change, home })
        },
      ),
    )
  }

  /** Adds a page for everyone who may see the repository. */
  function show(
    path: string,
    handle: (visit: UpstreamsVisit, request: FastifyRequest<Route>) => Promise<FastifyReply>,
  ): void {
    app.get<Route>(
      `${url}${path}`,
      anybody(context, async (session, request, reply) => {
        const repository = await findVisibleRepository(db, request.params, session?.account.id ?? null)
        if (!repository) {
          if (!session) return redirectToSignIn(context, request, reply)
          throw pageNotFound()
        }
        return handle({ db, reply, session, repository }, request)
      }),
    )
  }

  /**
   * Makes a change, leaves its sentence as a notice, and returns to a tab. For an error of the registry, `again` shows the
   * page of the form with the reason.
   */
  async function changing(
    visit: Visit,
    again: (refused: UpstreamsVisit) => Promise<FastifyReply>,
    change: () => Promise<string>,
    tab = '',
  ): Promise<FastifyReply> {
    const { request, reply, home } = visit
    try {
      leaveNotice(request, reply, config, await change())
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      reply.code(error.status)
      return again({ ...visit, problem: `Nothing was changed: ${error.errmsg}.` })
    }
    return reply.redirect(pageOf(request, home + tab), 303)
  }
}

/** Returns the page to show after a change: that of a package, if the form is there. */
function pageOf(request: FastifyRequest<Route>, home: string): string {
  const { page } = readForm(PageForm, request)
  const { group, name } = request.params
  return isPackageName(page) ? `/${group}/${name}/packages/${page}` : home
}

/** Returns the form of an upstream, both as it was entered and as settings. */
function readUpstreamForm(request: FastifyRequest) {
  const entered = readForm(UpstreamForm, request)
  const { minimum_age_hours: minimumAgeHours, keeps_source: kept, position, ...form } = entered
  const keepsSource = kept !== ''
  const fields: UpstreamFields = { ...form, minimumAgeHours, keepsSource, position: position ?? '' }
  const settings = {
    mode: form.mode,
    allow: linesOf(form.allow),
    deny: linesOf(form.deny),
    exempt: linesOf(form.exempt),
    minimumAgeHours,
    keepsSource,
    ...(position !== undefined && { position }),
  }
  return { fields, settings }
}

/** The constraint of a pattern may contain spaces, so only a line end separates patterns. */
function linesOf(value: string): string[] {
  const lines = value.split(/[\r\n]+/).map((line) => line.trim())
  return lines.filter((line) => line !== '')
}
