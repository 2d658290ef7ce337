import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { openArchiveStore } from '../../../archives/store-owner.ts'
import type { AppContext } from '../../../context.ts'
import { type AffectedVersion, findAffectedVersions } from '../../../packages/affected-versions.ts'
import { loadReadme, type ReadmeRenderer } from '../../../packages/readmes/render-readme.ts'
import { type FoundRequirement, listRequirementPlaces } from '../../../packages/tables/dependencies.ts'
import { listPackageDays } from '../../../packages/tables/downloads.ts'
import type { DescribedVersion, ListedVersion } from '../../../packages/tables/listed-versions.ts'
import { listAdvisories } from '../../../packages/tables/package-warnings.ts'
import type { RenderedReadme } from '../../../packages/tables/readmes.ts'
import { readQuery, text } from '../../forms.ts'
import { askFirst } from '../../network-turns.ts'
import { linkToFeed, nobody, page } from '../../pages.ts'
import { type ManifestSummary, readManifest } from '../manifest.ts'
import { withFiles } from './any-package.ts'
import { chartDays, chartDownloads, type DownloadCharts } from './download-charts.ts'
import type { AdvisedMirror, MirrorPages } from './mirror-pages.ts'
import {
  findShownVersion,
  listOfferedVersions,
  listWaiting,
  type PackageRoute,
  type PackageStages,
  type PackageView,
  packagePath,
} from './package-view.ts'

/** The number of requirements beside the README. The page of the dependencies has all. */
const shownRequires = 10

const packagePage = page<
  PackageView & {
    shown: DescribedVersion
    offered: ListedVersion[]
    manifest: ManifestSummary
    /** The advisories that affect the version. Null when it has none. */
    affected: AffectedVersion | null
    /** The number of advisories of the package when there are too many to say which affect the version, otherwise 0. */
    uncheckedAdvisories: number
    /** The requirements that are shown, and how many more there are. */
    requires: ManifestSummary['requires']
    moreRequires: number
    /** The packages that the reader may see, among the requirements and the replacement of an abandoned package. */
    places: Map<string, FoundRequirement>
    readme: RenderedReadme
    charts: DownloadCharts
    waiting: PackageStages
    /** The URL of this page, for badges on other sites. Null for a private repository. */
    badgeUrl: string | null
  }
>('pages/package')

const PackageQuery = z.object({ version: text })

/** `GET /<group>/<name>/packages/<vendor>/<package>`: the README of a version and how to install it (CONTRACT 4.4). */
export async function packagePageRoutes(
  app: FastifyInstance,
  context: AppContext & { readmes: ReadmeRenderer; mirrors: MirrorPages },
): Promise<void> {
  const { config, db, readmes, mirrors } = context
  const archives = await openArchiveStore(config)

  const show = askFirst<PackageRoute, PackageView | AdvisedMirror>(
    app,
    mirrors.findAdvised,
    async (view, request, reply) => {
      if ('mirror' in view) return mirrors.readme(view, request, reply)
      const shown = await findShownVersion(context, view, readQuery(PackageQuery, request).version)
      const offered = await listOfferedVersions(context, view)
      const days = await listPackageDays(db, view.about.id, chartDays)
      const readme = await loadReadme({ db, archives, readmes }, shown)
      const manifest = readManifest(shown.metadata)
      const requires = manifest.requires.slice(0, shownRequires)
      const advisories = await listAdvisories(db, view.about.id)
      const affected = await findAffectedVersions(db, view.about.id, [shown], advisories)
      linkToFeed(reply, `/${view.repository.path}/packages/${view.about.name}/-/feed.atom`)
      return packagePage(reply, view.session ?? nobody, {
        ...view,
        shown,
        offered,
        charts: chartDownloads(days, offered),
        waiting: await listWaiting(context, view),
        badgeUrl: view.repository.visibility === 'public' ? urlOf(view) : null,
        manifest,
        requires,
        moreRequires: manifest.requires.length - requires.length,
        affected: affected?.get(shown.id) ?? null,
        uncheckedAdvisories: affected === null ? advisories.length : 0,
        places: await findPlaces(view, [...requires.map(([name]) => name), view.about.replacement]),
        readme: withFiles(readme, view, shown),
      })
    },
  )
  app.get<PackageRoute>(packagePath, show)

  function urlOf({ repository, about }: PackageView): string {
    return `${config.baseUrl}/${repository.path}/packages/${about.name}`
  }

  async function findPlaces(
    { session, repository }: PackageView,
    names: (string | null)[],
  ): Promise<Map<string, FoundRequirement>> {
    const reader = { accountId: session?.account.id ?? null, repositoryId: repository.id }
    const wanted = names.filter((name) => name !== null)
    const places = wanted.length > 0 ? await listRequirementPlaces(db, reader, wanted) : []
    return new Map(places.map((place) => [place.name, place]))
  }
}
