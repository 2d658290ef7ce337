import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import {
  type Dependent,
  type FoundRequirement,
  listDependents,
  listRequirementPlaces,
} from '../../../packages/tables/dependencies.ts'
import { readQuery, text } from '../../forms.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { nobody, page } from '../../pages.ts'
import { type ManifestSummary, readManifest } from '../manifest.ts'
import type { PagesContext } from '../permit.ts'
import {
  type AnyPackage,
  type AnyVersion,
  chooseVersion,
  findAnyPackage,
  type OfferedVersion,
  pageOfAny,
} from './any-package.ts'
import { type PackageRoute, packagePath } from './package-view.ts'

const dependentsPerPage = 50
/** The maximum number of links of one kind on a page. */
const maxLinks = 300

const dependenciesPage = page<
  AnyPackage & {
    shown: AnyVersion | null
    offered: OfferedVersion[]
    links: (ManifestSummary['links'][number] & { left: number })[]
    places: Map<string, FoundRequirement>
  }
>('pages/dependencies')

const dependentsPage = page<
  AnyPackage & { dependents: Dependent[]; isContinued: boolean; next: string | null }
>('pages/dependents')

const VersionQuery = z.object({ version: text })
const PartQuery = z.object({ after: text })

/** `…/-/dependencies` and `…/-/dependents`: what a version requires, and which packages require this one. */
export async function dependencyRoutes(
  app: FastifyInstance,
  context: PagesContext & { heavy: HeavyPages },
): Promise<void> {
  const { db } = context

  const showDependencies = pageOfAny(context, async (view, request, reply) => {
    const { version } = readQuery(VersionQuery, request)
    const { shown, offered } = await chooseVersion(context, view, version)
    const links = readManifest(shown?.metadata ?? {}).links.map(({ title, entries }) => ({
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
      offered,
      links,
      places: new Map(places.map((place) => [place.name, place])),
    })
  })
  app.get<PackageRoute>(`${packagePath}/-/dependencies`, showDependencies)

  app.get<PackageRoute>(`${packagePath}/-/dependents`, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    const { after } = readQuery(PartQuery, request)
    const reader = { accountId: view.session?.account.id ?? null, target: view.name }
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
