import { structuredPatch } from 'diff'

/** Lines that differ, with some lines around them. */
export interface DiffBlock {
  /** The numbers of the first line, in the text before and after. */
  oldStart: number
  newStart: number
  /**
   * Each line begins with a sign: `-` for a removed one, `+` for an added one, and a space for one that is the same. After
   * a backslash is a remark, not a line.
   */
  lines: string[]
}

/** The differences between two texts. */
export interface TextDiff {
  blocks: DiffBlock[]
  /** How many lines were added and removed. */
  added: number
  removed: number
  /** Whether there are more blocks or lines than these. */
  isCut: boolean
}

/** How many lines around a change are included. */
const context = 3
/** Longer lines are cut. A minified file has only one line. */
const maxLineCharacters = 500
/** The maximum number of lines of a result. */
const maxLines = 3000
/**
 * The maximum number of lines that were added or removed. The work grows with its square: half a second for texts of 20,000
 * lines. A bound of time would let a busy machine show another result.
 */
const maxChanges = 2500

/**
 * Returns the differences between two files. Null stands for a file that does not exist. Returns a word instead for bytes
 * that are not UTF-8, and for texts with more than 2,500 lines added or removed.
 */
export function diffTexts(
  before: Uint8Array | null,
  after: Uint8Array | null,
): TextDiff | 'not text' | 'too different' {
  const [old, current] = [decodeText(before), decodeText(after)]
  if (old === null || current === null) return 'not text'
  const blocks = before === null || after === null ? wholeText(old, current) : compare(old, current)
  if (blocks === null) return 'too different'
  const count = (sign: string) =>
    blocks.reduce((sum, { lines }) => sum + lines.filter((line) => line.startsWith(sign)).length, 0)
  return cutDiff({ blocks, added: count('+'), removed: count('-'), isCut: false }, maxLines)
}

/** Returns a diff with at most so many lines, and so many characters. */
export function cutDiff(diff: TextDiff, lines: number, characters = Number.POSITIVE_INFINITY): TextDiff {
  const blocks: DiffBlock[] = []
  let left = { lines, characters }
  for (const block of diff.blocks) {
    const kept: string[] = []
    for (const line of block.lines) {
      left = { lines: left.lines - 1, characters: left.characters - line.length }
      if (left.lines < 0 || left.characters < 0) break
      kept.push(line)
    }
    if (kept.length > 0) blocks.push({ ...block, lines: kept })
    if (kept.length < block.lines.length) return { ...diff, blocks, isCut: true }
  }
  return { ...diff, blocks }
}

/** Returns the only block of a file that was added or removed. The other text is empty. */
function wholeText(old: string, current: string): DiffBlock[] {
  const [sign, text] = current === '' ? ['-', old] : ['+', current]
  if (text === '') return []
  const lines = text.replace(/\n$/, '').split('\n')
  return [{ oldStart: 1, newStart: 1, lines: lines.map((line) => cutLine(sign + line)) }]
}

function compare(old: string, current: string): DiffBlock[] | null {
  const options = { context, maxEditLength: maxChanges }
  const patch = structuredPatch('', '', old, current, '', '', options)
  return (
    patch?.hunks.map(({ oldStart, newStart, lines }) => ({
      oldStart,
      newStart,
      lines: lines.map(cutLine),
    })) ?? null
  )
}

function cutLine(line: string): string {
  return line.length > maxLineCharacters ? `${line.slice(0, maxLineCharacters)}…` : line
}

/** Returns bytes as text. Null when they are not UTF-8, or contain NUL. */
export function decodeText(bytes: Uint8Array | null): string | null {
  try {
    const decoded = bytes === null ? '' : new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return decoded.includes('\0') ? null : decoded
  } catch {
    return null
  }
}
