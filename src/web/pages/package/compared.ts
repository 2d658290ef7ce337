import type { FileDiff } from '../../../archives/archive-files.ts'
import type { DiffBlock } from '../../../archives/text-diff.ts'
import type { ComparedVersion, Comparison, VersionComparer } from '../../../packages/compare-versions.ts'

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
export interface Compared extends Omit<Comparison, 'files'> {
  /** The number of files that differ. */
  counts: { changed: number; added: number; removed: number }
  files: ShownFile[]
  /** The paths of other files that differ, and the number of those that are not listed. */
  others: string[]
  removed: string[]
  more: number
}

/**
 * Compares two versions for a page, or shows the first one, if `from` is null. With a path, only the lines of this file.
 * `missing`: an archive is not stored.
 */
export async function compareShown(
  comparer: VersionComparer,
  from: ComparedVersion | null,
  to: ComparedVersion,
  path: string,
): Promise<Compared | 'missing'> {
  const comparison = await comparer.compare(from, to)
  if (comparison === 'missing') return 'missing'
  const { changed, added, removed } = comparison.files
  const paths = path === '' ? inOrder([...changed.paths, ...added.paths], comparison.running) : [path]
  const room = path === '' ? roomOfAll : roomOfOne
  const diffs = await comparer.diff(from, to, paths, room)
  if (diffs === 'missing') return 'missing'
  const others = diffs.left.slice(0, maxPaths)
  return {
    ...comparison,
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

/** Puts composer.json and the files that run without being called before the others. */
function inOrder(paths: readonly string[], running: readonly string[]): string[] {
  const first = ['composer.json', ...running].filter((path) => paths.includes(path))
  return [...new Set([...first, ...paths])]
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
