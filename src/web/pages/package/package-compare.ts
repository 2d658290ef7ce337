import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser, FileDiff } from '../../../archives/archive-files.ts'
import type { DiffBlock } from '../../../archives/text-diff.ts'
import { type Comparison, openVersionComparer } from '../../../packages/compare-versions.ts'
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
import type { ShownArchive } from './mirror-view.ts'
import { foundIn } from './package-files.ts'
import { type PackageRoute, packagePath, readingArchive } from './package-view.ts'

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

/** A version whose archive the reader may see. */
interface OpenedVersion extends AnyVersion {
  sha256: string
}

/** What a page shows of a comparison. */
interface Compared extends Omit<Comparison, 'files'> {
  from: OpenedVersion
  to: OpenedVersion
  /** The number of files that differ. */
  counts: { changed: number; added: number; removed: number }
  files: ShownFile[]
  /** The paths of other files that differ, and the number of those that are not listed. */
  others: string[]
  removed: string[]
  more: number
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
  context: PagesContext & { archives: ArchiveBrowser; heavy: HeavyPages },
): Promise<void> {
  const { archives, heavy } = context
  const comparer = openVersionComparer(context)

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
      changelog: changelog && withFiles(changelog, view, to),
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
