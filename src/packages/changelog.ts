import { compareNormalized, normalizeVersion } from '../composer/composer-version.ts'

/** `## [1.1.0] - 2026-01-02`, or a line with such a text above a line of `=` or `-`. */
const heading = /^ {0,3}(#{1,4})[ \t]+(.*)$/
const underline = /^ {0,3}(?:={3,}|-{3,})[ \t]*$/
const fence = /^ {0,3}(?:```|~~~)/
/** The first version in a heading, such as in `[v1.1.0](…)` or `Release 1.1.0 (2 January)`. */
const versionIn = /(?:^|[\s[(`])v?(\d{1,5}\.\d+(?:\.\d+){0,2}(?:-?[a-z][0-9a-z.-]*)?)(?=$|[\s\]),:`])/i
const definition = /^ {0,3}\[([^\]]{1,100})\]:[ \t]+\S/

/** A longer changelog is not read to its end. */
const maxLines = 20_000

/**
 * Returns the part of a changelog about the versions after `older`, up to and including `newer`, as Markdown whose highest
 * headings are those of the versions. The versions are normalized. Null when the changelog does not name them.
 */
export function changelogBetween(text: string, older: string, newer: string): string | null {
  if (older.startsWith('dev-') || newer.startsWith('dev-')) return null
  const lines = text.split(/\r\n?|\n/, maxLines)
  const part: string[] = []
  const definitions: string[] = []
  let isInPart = false
  let isInCode = false
  /** The level of the last heading of a version, and the level as which the last heading was written. */
  let [base, written] = [0, 0]
  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i] as string
    if (fence.test(line)) isInCode = !isInCode
    const found = isInCode ? null : headingAt(lines, i)
    if (!found) {
      if (isInPart) part.push(line)
      else if (definition.test(line)) definitions.push(line)
      continue
    }
    i += found.lines - 1
    const version = readVersion(found.title)
    if (version !== null) {
      base = found.level
      written = 0
      isInPart = compareNormalized(version, older) > 0 && compareNormalized(version, newer) <= 0
    } else if (found.level <= base) isInPart = false
    if (!isInPart) continue
    written = Math.min(found.level - base, written) + 1
    part.push(`${'#'.repeat(written)} ${found.title.trim()}`)
  }
  const about = part.join('\n').trim()
  if (about === '') return null
  // The links of all headings are often defined at the end.
  const used = definitions.filter((line) => about.includes(`[${definition.exec(line)?.[1]}]`))
  return used.length > 0 ? `${about}\n\n${used.join('\n')}` : about
}

/** Returns the heading that begins at a line, and of how many lines it is. Null when there is none. */
function headingAt(
  lines: readonly string[],
  i: number,
): { level: number; title: string; lines: number } | null {
  const line = lines[i] ?? ''
  const [, signs, title] = heading.exec(line) ?? []
  if (signs !== undefined && title !== undefined) return { level: signs.length, title, lines: 1 }
  const next = lines[i + 1] ?? ''
  return line.trim() !== '' && underline.test(next)
    ? { level: next.trim().startsWith('=') ? 1 : 2, title: line, lines: 2 }
    : null
}

function readVersion(title: string): string | null {
  const [, version] = versionIn.exec(title) ?? []
  return version === undefined ? null : normalizeVersion(version)
}
