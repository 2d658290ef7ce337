import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser, FileDiff } from '../../../archives/archive-files.ts'
import type { DiffBlock } from '../../../archives/text-diff.ts'
import type { AppContext } from '../../../context.ts'
import { type Comparison, openVersionComparer } from '../../../packages/compare-versions.ts'
import type { ReadmeRenderer } from '../../../packages/readmes/render-readme.ts'
import {
  type DescribedVersion,
  findPreviousRelease,
  type ListedVersion,
  listVersions,
} from '../../../packages/tables/listed-versions.ts'
import { readQuery, text } from '../../forms.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { pageNotFound } from '../../page-error.ts'
import { nobody, page } from '../../pages.ts'
import { may } from '../permit.ts'
import { foundIn } from './package-files.ts'
import {
  findPackageView,
  findShownVersion,
  listOfferedVersions,
  type PackageRoute,
  type PackageView,
  packagePath,
  readingArchive,
  refuseQuarantined,
  withFiles,
} from './package-view.ts'

/** The room for lines on the page of all files, and on that of one file. A page stays below 100 kB. */
const roomOfAll = { lines: 500, characters: 24 * 1024 }
const roomOfOne = { lines: 1000, characters: 48 * 1024 }
/** The maximum number of paths without their lines. */
const maxPaths = 100

/** A line with its number: after the change, or before it for a removed line. */
interface ShownLine {
  sign: string
  number: number
  text: string
}

/** A file with the lines that differ. */
interface ShownFile extends Omit<FileDiff, 'lines'> {
  kind: 'changed' | 'added' | 'removed'
  /** A word tells why there are no lines. */
  lines: string | { blocks: ShownLine[][]; added: number; removed: number; isCut: boolean }
}

/** What a page shows of a comparison. */
interface Compared extends Omit<Comparison, 'files'> {
  from: DescribedVersion
  to: DescribedVersion
  /** The number of files that differ. */
  counts: { changed: number; added: number; removed: number }
  files: ShownFile[]
  /** The paths of other files that differ, and the number of those that are not listed. */
  others: string[]
  removed: string[]
  more: number
}

const comparePage = page<
  PackageView & {
    offered: ListedVersion[]
    /** The chosen versions. `from` is the first offer when there is no older version, and null when it is the only one. */
    chosen: { from: string | null; to: string }
    /** The path of the only file that is shown; '' for all. */
    filePath: string
    /** Null when there is no version to compare with. */
    compared: Compared | null
  }
>('pages/compare')

const CompareQuery = z.object({ from: text, to: text, path: text })

/**
 * `…/-/compare?from=&to=`: the requirements, the other values of composer.json and the lines that differ between two
 * versions, beside the part of the changelog about them. With `path`, it shows the lines of one file only.
 */
export async function compareRoutes(
  app: FastifyInstance,
  context: AppContext & { archives: ArchiveBrowser; readmes: ReadmeRenderer; heavy: HeavyPages },
): Promise<void> {
  const { archives, heavy } = context
  const comparer = openVersionComparer(context)

  const show = heavy<PackageRoute>(async (request, reply) => {
    const view = await findPackageView(context, request)
    const query = readQuery(CompareQuery, request)
    const to = await findShownVersion(context, view, query.to)
    const before = query.from || (await findBefore(view, to))
    const from = before ? await findShownVersion(context, view, before) : null
    for (const version of [from, to]) if (version) refuseQuarantined(view, version)
    const offered = await listOfferedVersions(context, view)
    const other = offered.find(({ version }) => version !== to.version)?.version ?? null
    return comparePage(reply, view.session ?? nobody, {
      ...view,
      offered,
      chosen: { from: from?.version ?? other, to: to.version },
      filePath: query.path,
      compared: from && (await readingArchive(() => compare(view, from, to, query.path))),
    })
  })
  app.get<PackageRoute>(`${packagePath}/-/compare`, show)

  /** Returns the previous release, else any older version that the reader may open. */
  async function findBefore({ repository, session, about }: PackageView, to: DescribedVersion) {
    const release = await findPreviousRelease(context.db, about.id, to)
    if (release !== null) return release
    const choice = may(repository, session, 'push') ? 'undeleted' : 'installable'
    return (await listVersions(context.db, about.id, choice, { after: to.id, limit: 1 }))[0]?.version
  }

  async function compare(
    view: PackageView,
    from: DescribedVersion,
    to: DescribedVersion,
    path: string,
  ): Promise<Compared> {
    const comparison = await comparer.compare(from, to)
    if (comparison === 'missing') return missing(from, to)
    const { changed, added, removed } = comparison.files
    const kindOf = new Map<string, ShownFile['kind']>([
      ...changed.paths.map((one) => [one, 'changed'] as const),
      ...added.paths.map((one) => [one, 'added'] as const),
    ])
    const paths = path === '' ? composerFirst([...kindOf.keys()]) : [path]
    const room = path === '' ? roomOfAll : roomOfOne
    const diffs = await comparer.diff(from, to, paths, room)
    if (diffs === 'missing') return missing(from, to)
    if (path !== '' && diffs.files.length === 0) throw pageNotFound()
    const others = diffs.left.slice(0, maxPaths)
    const { changelog } = comparison
    return {
      ...comparison,
      changelog: changelog?.format === 'html' ? withFiles(changelog, view, to) : changelog,
      from,
      to,
      counts: {
        changed: changed.paths.length + changed.left,
        added: added.paths.length + added.left,
        removed: removed.paths.length + removed.left,
      },
      files: diffs.files.map(showFile),
      others,
      removed: removed.paths.slice(0, maxPaths),
      more: changed.left + added.left + diffs.left.length - others.length,
    }
  }

  /** Throws 404 that names the version without an archive. */
  async function missing(from: DescribedVersion, to: DescribedVersion): Promise<never> {
    for (const one of [from, to]) await foundIn(archives, one, '')
    throw pageNotFound()
  }
}

function composerFirst(paths: readonly string[]): string[] {
  const isFirst = (path: string) => path === 'composer.json'
  return [...paths.filter(isFirst), ...paths.filter((path) => !isFirst(path))]
}

function showFile({ lines, ...file }: FileDiff): ShownFile {
  const kind = file.oldSize === null ? 'added' : file.newSize === null ? 'removed' : 'changed'
  return {
    ...file,
    kind,
    lines: typeof lines === 'string' ? lines : { ...lines, blocks: lines.blocks.map(numberLines) },
  }
}

function numberLines({ oldStart, newStart, lines }: DiffBlock): ShownLine[] {
  let [before, after] = [oldStart, newStart]
  return lines.map((line) => {
    const sign = line.charAt(0)
    const number = sign === '-' ? before : after
    if (sign === ' ' || sign === '-') before += 1
    if (sign === ' ' || sign === '+') after += 1
    return { sign, number, text: line.slice(1) }
  })
}
