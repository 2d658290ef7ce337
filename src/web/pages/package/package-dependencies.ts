import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import {
  type Dependent,
  type FoundRequirement,
  listDependents,
  listRequirementPlaces,
} from '../../../packages/tables/dependencies.ts'
import type { DescribedVersion, ListedVersion } from '../../../packages/tables/listed-versions.ts'
import { readQuery, text } from '../../forms.ts'
import { nobody, page } from '../../pages.ts'
import { type ManifestSummary, readManifest } from '../manifest.ts'
import type { MirrorPages } from './mirror-pages.ts'
import { findAnyPackage } from './mirror-view.ts'
import {
  findPackageView,
  findShownVersion,
  listOfferedVersions,
  type PackageRoute,
  type PackageView,
  packagePath,
} from './package-view.ts'

const dependentsPerPage = 50
/** The maximum number of links of one kind on a page. */
const maxLinks = 300

const dependenciesPage = page<
  PackageView & {
    shown: DescribedVersion
    offered: ListedVersion[]
    links: (ManifestSummary['links'][number] & { left: number })[]
    places: Map<string, FoundRequirement>
  }
>('pages/dependencies')

const dependentsPage = page<
  PackageView & { dependents: Dependent[]; isContinued: boolean; next: string | null }
>('pages/dependents')

const VersionQuery = z.object({ version: text })
const PartQuery = z.object({ after: text })

/** `…/-/dependencies` and `…/-/dependents`: what a version requires, and which packages require this one. */
export async function dependencyRoutes(
  app: FastifyInstance,
  context: AppContext & { mirrors: MirrorPages },
): Promise<void> {
  const { db, mirrors } = context

  app.get<PackageRoute>(`${packagePath}/-/dependencies`, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    if ('mirror' in view) return mirrors.dependencies(view, request, reply)
    const shown = await findShownVersion(context, view, readQuery(VersionQuery, request).version)
    const links = readManifest(shown.metadata).links.map(({ title, entries }) => ({
      title,
      entries: entries.slice(0, maxLinks),
      left: Math.max(entries.length - maxLinks, 0),
    }))
    const names = links.flatMap(({ entries }) => entries.map(([name]) => name))
    const reader = { accountId: view.session?.account.id ?? null, repositoryId: view.repository.id }
    const places = await listRequirementPlaces(db, reader, names)
    return dependenciesPage(reply, view.session ?? nobody, {
      ...view,
      shown,
      offered: await listOfferedVersions(context, view),
      links,
      places: new Map(places.map((place) => [place.name, place])),
    })
  })

  app.get<PackageRoute>(`${packagePath}/-/dependents`, async (request, reply) => {
    const view = await findPackageView(context, request)
    const { after } = readQuery(PartQuery, request)
    const reader = { accountId: view.session?.account.id ?? null, target: view.about.name }
    const { rows: dependents, next } = await pageOf(
      (part) => listDependents(db, reader, part),
      { after, limit: dependentsPerPage },
      ({ id }) => id,
    )
    return dependentsPage(reply, view.session ?? nobody, {
      ...view,
      dependents,
      isContinued: after !== '',
      next,
    })
  })
}
