import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser } from '../../../archives/archive-files.ts'
import type { VersionComparer } from '../../../packages/compare-versions.ts'
import { readQuery, text } from '../../forms.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { pageNotFound } from '../../page-error.ts'
import { nobody, page } from '../../pages.ts'
import type { PagesContext } from '../permit.ts'
import {
  type AnyPackage,
  type AnyVersion,
  chooseVersion,
  findAnyPackage,
  findAnyVersion,
  type OfferedVersion,
  withFiles,
} from './any-package.ts'
import { type Compared, compareShown } from './compared.ts'
import type { ShownArchive } from './mirror-view.ts'
import { foundIn } from './package-files.ts'
import { type PackageRoute, packagePath, readingArchive } from './package-view.ts'

/** A version whose archive the reader may see. */
interface OpenedVersion extends AnyVersion {
  sha256: string
}

/** What a page shows of two versions of a package. */
interface ComparedVersions extends Compared {
  from: OpenedVersion
  to: OpenedVersion
}

const comparePage = page<
  AnyPackage & {
    offered: OfferedVersion[]
    /**
     * The chosen versions. `from` is the first offer when there is no older version, and null when it is the only one. Null
     * when an upstream has no version of the package.
     */
    chosen: { from: string | null; to: string } | null
    /** The chosen versions whose archives cannot be opened now. */
    closed: { version: string; archive: ShownArchive }[]
    /** The path of the only file that is shown; '' for all. */
    filePath: string
    /** Null when there is no version to compare with. */
    compared: ComparedVersions | null
  }
>('pages/compare')

const CompareQuery = z.object({ from: text, to: text, path: text })

/**
 * `…/-/compare?from=&to=`: the requirements, the other values of composer.json and the lines that differ between two
 * versions, beside the part of the changelog about them. With `path`, it shows the lines of one file only.
 */
export async function compareRoutes(
  app: FastifyInstance,
  context: PagesContext & { archives: ArchiveBrowser; comparer: VersionComparer; heavy: HeavyPages },
): Promise<void> {
  const { archives, comparer, heavy } = context

  const show = heavy<PackageRoute>(async (request, reply) => {
    const view = await findAnyPackage(context, request)
    const query = readQuery(CompareQuery, request)
    const { shown: to, offered } = await chooseVersion(context, view, query.to)
    const before = query.from || (await to?.findPrevious())
    const from = before ? await findAnyVersion(context, view, before) : null
    const other = offered.find(({ version }) => version !== to?.version)?.version ?? null
    const [opened, closed] = await openAll([from, to])
    const [first, second] = opened
    return comparePage(reply, view.session ?? nobody, {
      ...view,
      offered,
      chosen: to && { from: from?.version ?? other, to: to.version },
      closed: from ? closed : [],
      filePath: query.path,
      compared: first && second ? await readingArchive(() => compare(view, first, second, query.path)) : null,
    })
  })
  app.get<PackageRoute>(`${packagePath}/-/compare`, show)

  async function compare(
    view: AnyPackage,
    from: OpenedVersion,
    to: OpenedVersion,
    path: string,
  ): Promise<ComparedVersions> {
    const compared = await compareShown(comparer, from, to, path)
    if (compared === 'missing') return missing(from, to)
    if (path !== '' && compared.files.length === 0) throw pageNotFound()
    const { changelog } = compared
    return { ...compared, changelog: changelog && withFiles(changelog, view, to), from, to }
  }

  /** Throws 404 that names the version without an archive. */
  async function missing(from: OpenedVersion, to: OpenedVersion): Promise<never> {
    for (const one of [from, to]) await foundIn(archives, one, '')
    throw pageNotFound()
  }
}

/** Opens the archives of versions. Returns those that are stored, and the others. */
async function openAll(
  versions: readonly (AnyVersion | null)[],
): Promise<[OpenedVersion[], { version: string; archive: ShownArchive }[]]> {
  const opened: OpenedVersion[] = []
  const closed: { version: string; archive: ShownArchive }[] = []
  for (const one of versions) {
    const archive = await one?.openArchive()
    if (!one || !archive) continue
    if (archive.state === 'stored') opened.push({ ...one, sha256: archive.sha256 })
    else closed.push({ version: one.version, archive })
  }
  return [opened, closed]
}
