import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser } from '../../../archives/archive-files.ts'
import { chooseReadme, toReadme } from '../../../archives/archive-tree.ts'
import { isJsonObject, type Json } from '../../../composer/manifest-json.ts'
import { openReadCache } from '../../../domain/read-cache.ts'
import { Refusal } from '../../../domain/refusal.ts'
import type { RenderedReadme } from '../../../packages/tables/readmes.ts'
import {
  countRecordedVersions,
  findFirstRecordedDay,
  listRecordedDays,
} from '../../../packages/tables/recorded-downloads.ts'
import type { MirrorVersion } from '../../../upstreams/describe-mirror.ts'
import { satisfies } from '../../../upstreams/documents/satisfies.ts'
import { findMirroredArchives } from '../../../upstreams/tables/mirrored-archives.ts'
import { listForeignNames } from '../../../upstreams/tables/mirrored-packages.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { type HeavyPages, withoutTurn } from '../../network-turns.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { nobody, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type ManifestSummary, readManifest } from '../manifest.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'
import { findAnyPackage, type OfferedVersion, withFiles } from './any-package.ts'
import { chartDays, chartDownloads, chartVersions, type DownloadCharts } from './download-charts.ts'
import {
  archiveOfMirror,
  describe,
  type MirrorView,
  type ShownArchive,
  shownOf,
  wantedOf,
} from './mirror-view.ts'
import { type PackageRoute, type PackageView, packagePath } from './package-view.ts'

const versionsPerPage = 50
/** The maximum number of advisories on a page. */
const maxAdvisories = 100
/** A longer text of an advisory is not shown. */
const maxTextCharacters = 2000
/** The maximum number of names of the root in which a README is looked for. */
const maxRootNames = 1000
/** A larger file is no README. Only the first 64 KiB of one are shown. */
const maxReadmeFileBytes = 1024 * 1024
/** The size of the rendered READMEs in memory. Those of the repository's own packages are in the database. */
const maxReadmeCacheBytes = 16 * 1024 * 1024

const readmePage = page<
  MirrorView & {
    shown: MirrorVersion | null
    /** Whether it is the version that Composer chooses. */
    isLatest: boolean
    offered: OfferedVersion[]
    manifest: ManifestSummary | null
    archive: ShownArchive | null
    readme: RenderedReadme | null
    charts: DownloadCharts
    /** How many advisories the version has. */
    advisories: number
  }
>('pages/mirror')

const versionsPage = page<
  MirrorView & { versions: MirrorVersion[]; count: number; from: number; nextFrom: number | null }
>('pages/mirror-versions')

/** An advisory of an upstream. */
interface ShownAdvisory {
  id: string
  title: string
  affected: string
  cve: string | null
  severity: string | null
  link: string | null
  reportedAt: string | null
}

const advisoriesPage = page<
  MirrorView & {
    /** Null when the upstream does not respond. */
    advisories: ShownAdvisory[] | null
    left: number
  }
>('pages/mirror-advisories')

const VersionQuery = z.object({ version: text })
const VersionsQuery = z.object({ from: z.coerce.number().int().min(0).max(200_000).default(0) })
const FetchForm = z.object({
  version: text,
  tab: z.enum(['', 'files', 'compare']).default(''),
  from: text,
  to: text,
})

type Show<View = MirrorView> = (
  view: View,
  request: FastifyRequest<PackageRoute>,
  reply: FastifyReply,
) => Promise<FastifyReply>

/** A package of an upstream with what the upstream says about its security. */
export interface AdvisedMirror extends MirrorView {
  /** The advisories as JSON. Null when the upstream does not respond. */
  known: string[] | null
}

/** The pages of packages that come from upstreams. They have the URLs of the pages of own packages. */
export interface MirrorPages {
  /** Finds the package of a URL. Asks the upstream of a mirrored one for its advisories, so it may wait for 10 seconds. */
  findAdvised: (request: FastifyRequest<PackageRoute>) => Promise<PackageView | AdvisedMirror>
  readme: Show<AdvisedMirror>
  versions: Show
  advisories: Show<AdvisedMirror>
}

/**
 * Opens the pages of mirrored packages: what the upstream says about the package, and its README and files when the archive
 * is stored here. What strangers wrote is read and rendered in threads.
 */
export function openMirrorPages(
  context: PagesContext & { archives: ArchiveBrowser; heavy: HeavyPages },
): MirrorPages {
  const { db, readmes, archives, heavy, upstreamQueries } = context
  const renderedReadmes = openReadCache<RenderedReadme>({
    maxSize: maxReadmeCacheBytes,
    sizeOf: ({ content }) => content.length * 2 + 100,
    read: renderReadme,
  })

  const readme: Show<AdvisedMirror> = async (view, request, reply) => {
    const { version } = readQuery(VersionQuery, request)
    const { described, shown, archive, offered } = await open(view, version)
    const manifest = described.shown && readManifest(described.shown.metadata)
    const rendered = archive?.state === 'stored' && (await findReadme(archive.sha256))
    return readmePage(reply, view.session ?? nobody, {
      ...view,
      shown,
      isLatest: version === '',
      offered,
      manifest,
      archive,
      readme: rendered && shown ? withFiles(rendered, view, shown) : null,
      charts: await chartsOf(view, offered),
      advisories: (view.known ?? [])
        .slice(0, maxAdvisories)
        .filter((json) => shown && satisfies(shown.normalized, readAdvisory(json).affected)).length,
    })
  }

  /** What Composer reports is counted for own packages only, so these charts have the archives that were sent. */
  async function chartsOf(
    { repository, mirror }: MirrorView,
    versions: readonly MirrorVersion[],
  ): Promise<DownloadCharts> {
    const of = { repositoryId: repository.id, packageName: mirror.name }
    const newest = versions.slice(0, chartVersions)
    const paths = newest.flatMap(({ archive }) => (archive === null ? [] : [archive.versionPath]))
    const counts = await countRecordedVersions(db, of, paths)
    return chartDownloads(
      await listRecordedDays(db, of, chartDays),
      newest.map(({ version, archive }) => ({
        version,
        downloads: counts.get(archive?.versionPath ?? '') ?? 0,
      })),
      await findFirstRecordedDay(db),
    )
  }

  /** The README of an archive. Null when the archive cannot be read: strangers' archives are not checked like uploads. */
  async function findReadme(sha256: string): Promise<RenderedReadme | null> {
    try {
      return (await renderedReadmes.fetch(sha256)) ?? null
    } catch (error) {
      if (error instanceof Refusal) return null
      throw error
    }
  }

  async function renderReadme(sha256: string): Promise<RenderedReadme | undefined> {
    const root = await archives.look(sha256, '', { from: 0, limit: maxRootNames })
    if (root === 'missing') return undefined
    const files = (root?.entries ?? []).filter(({ kind }) => kind === 'file')
    const name = chooseReadme(files.map((file) => file.name))
    const found = name === null ? null : await archives.look(sha256, name)
    if (name === null || found === null || found === 'missing' || !found.file) return readmes.render(null)
    const bytes = await archives.read(sha256, found.file, maxReadmeFileBytes)
    return readmes.render(bytes && toReadme({ name }, [bytes]))
  }

  const versions: Show = async (view, request, reply) => {
    const { from } = readQuery(VersionsQuery, request)
    const { versions: listed, count } = await describe(context, view, { from, limit: versionsPerPage })
    const end = from + versionsPerPage
    return versionsPage(reply, view.session ?? nobody, {
      ...view,
      versions: listed,
      count,
      from,
      nextFrom: end < count ? end : null,
    })
  }

  const advisories: Show<AdvisedMirror> = async (view, _request, reply) => {
    const { known } = view
    return advisoriesPage(reply, view.session ?? nobody, {
      ...view,
      advisories: known?.slice(0, maxAdvisories).map(readAdvisory) ?? null,
      left: Math.max((known?.length ?? 0) - maxAdvisories, 0),
    })
  }

  /** Returns the advisories of the upstream as JSON. Null when it does not respond. */
  async function advisoriesOf({ repository, mirror }: MirrorView): Promise<string[] | null> {
    try {
      const foreign = await listForeignNames(db, repository.id, [mirror.name])
      const found = await upstreamQueries.listAdvisories(foreign)
      return (found[mirror.name] ?? []).map(({ text: json }) => json)
    } catch (error) {
      if (error instanceof Refusal) return null
      throw error
    }
  }

  async function open(view: MirrorView, version: string) {
    const described = await describe(context, view, { version, limit: versionsPerPage })
    const shown = shownOf(described, version)
    return {
      described,
      shown,
      offered: described.versions,
      archive: shown && (await archiveOfMirror(context, view, shown)),
    }
  }

  /** Lets a handler wait for a turn of the pages that take long. */
  const inTurn =
    <View>(show: Show<View>): Show<View> =>
    (view, request, reply) =>
      heavy<PackageRoute>(() => show(view, request, reply))(request, reply)

  return {
    async findAdvised(request) {
      const view = await findAnyPackage(context, request)
      return 'mirror' in view ? { ...view, known: await advisoriesOf(view) } : view
    },
    readme: inTurn(readme),
    versions: inTurn(versions),
    advisories: inTurn(advisories),
  }
}

/** `POST …/-/fetch`: fetches the archive of a version as a download would, so that its README and files can be shown. */
export async function mirrorFetchRoute(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, archiveMirror, db } = context
  const home = ({ group, name, vendor, package: own }: PackageRoute['Params']) =>
    `/${group}/${name}/packages/${vendor}/${own}`
  app.post<PackageRoute>(
    `${packagePath}/-/fetch`,
    // It waits for another server.
    withoutTurn(
      signedIn<PackageRoute>(
        context,
        { form: ({ params }) => home(params) },
        async ({ session }, request, reply) => {
          await permittedRepository(db, request.params, session, 'pull')
          const view = await findAnyPackage(context, request)
          if (!('mirror' in view)) throw pageNotFound()
          const { version, tab, from, to } = readForm(FetchForm, request)
          const shown = shownOf(await describe(context, view, { version }), version)
          if (!shown?.archive) throw pageNotFound()
          const [found = null] = await findMirroredArchives(db, [wantedOf(view, shown.archive)])
          if (!found) throw pageNotFound()
          await archiveMirror.store(found)
          leaveNotice(
            request,
            reply,
            config,
            `The archive of ${view.mirror.name} ${shown.version} is stored.`,
          )
          const query = new URLSearchParams(tab === 'compare' ? { from, to } : { version: shown.version })
          return reply.redirect(`${home(request.params)}${tab === '' ? '' : `/-/${tab}`}?${query}`, 303)
        },
      ),
    ),
  )
}

/** Reads an advisory of an upstream. Values of unexpected types are left out. */
function readAdvisory(json: string): ShownAdvisory {
  const advisory = JSON.parse(json) as Json
  const of = (key: string) => {
    const value = isJsonObject(advisory) ? advisory[key] : null
    return typeof value === 'string' && value !== '' && value.length <= maxTextCharacters ? value : null
  }
  const [link, reportedAt] = [of('link'), of('reportedAt')]
  return {
    id: of('advisoryId') ?? '',
    title: of('title') ?? of('advisoryId') ?? '',
    affected: of('affectedVersions') ?? '',
    cve: of('cve'),
    severity: of('severity'),
    link: link !== null && /^https?:\/\//i.test(link) ? link : null,
    reportedAt: reportedAt === null || reportedAt.startsWith('1970-01-01') ? null : reportedAt.slice(0, 10),
  }
}
