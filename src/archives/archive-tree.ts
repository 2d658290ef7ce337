import type { PackageTree } from '../composer/composer-json.ts'
import { makePause } from '../domain/time-slices.ts'
import { type ArchiveEntry, archiveRefusal, entryRefusal, quoted } from './archive-entry.ts'
import { isUnmarked } from './zip-entry.ts'

/** An entry with its sort key. Sorted by these keys, the entries form a tree. */
export interface Sorted {
  key: string
  entry: ArchiveEntry
}

/** The number of entries that are sorted without a pause. This takes 5 ms when their names share 900 bytes. */
const runLength = 2048

/**
 * Sorts the entries so that a directory is directly followed by its contents: the slash sorts before every other
 * character of a name. Then two clashing entries are always neighbours. This is a merge sort, because `Array.sort`
 * cannot pause.
 */
export async function sortTree(entries: ArchiveEntry[], fold = (name: string) => name): Promise<Sorted[]> {
  const pause = makePause()
  let runs: Sorted[][] = []
  for (let start = 0; start < entries.length; start += runLength) {
    const run = entries
      .slice(start, start + runLength)
      .map((entry) => ({ key: sortKey(fold(entry.name)), entry }))
    runs.push(run.sort(compareKeys))
    await pause()
  }
  while (runs.length > 1) {
    const merged: Sorted[][] = []
    for (let i = 0; i < runs.length; i += 2) {
      merged.push(await merge(runs[i] ?? [], runs[i + 1] ?? [], pause))
    }
    runs = merged
  }
  return runs[0] ?? []
}

async function merge(
  left: Sorted[],
  right: Sorted[],
  pause: ReturnType<typeof makePause>,
): Promise<Sorted[]> {
  const merged: Sorted[] = []
  let i = 0
  let j = 0
  while (i < left.length || j < right.length) {
    const [a, b] = [left[i], right[j]]
    const takesLeft = a !== undefined && (b === undefined || compareKeys(a, b) <= 0)
    merged.push((takesLeft ? a : b) as Sorted)
    if (takesLeft) i += 1
    else j += 1
    if (merged.length % 256 === 0) await pause()
  }
  return merged
}

function sortKey(path: string): string {
  return path.replaceAll('/', '\0')
}

function compareKeys(a: Pick<Sorted, 'key'>, b: Pick<Sorted, 'key'>): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0
}

/** Returns whether two neighbours clash: they have the same path, or the second is inside a file or link. */
function clashes(above: Sorted, below: Sorted): boolean {
  return (
    above.key === below.key || (above.entry.kind !== 'directory' && below.key.startsWith(`${above.key}\0`))
  )
}

/**
 * Refuses two entries with the same path, and an entry inside a file or link, because parsers disagree on which entry
 * wins.
 */
export function refuseClashes(sorted: readonly Sorted[]): void {
  for (const [i, below] of sorted.entries()) {
    const above = sorted[i - 1]
    if (!above || !clashes(above, below)) continue
    if (above.key !== below.key) {
      throw entryRefusal(
        below.entry.name,
        `is inside ${quoted(above.entry.name)}, which is a ${above.entry.kind}`,
      )
    }
    const [one, other] = [above.entry.kind, below.entry.kind]
    throw entryRefusal(below.entry.name, one === other ? 'occurs twice' : `occurs as ${one} and as ${other}`)
  }
}

/**
 * Returns the package's root in the archive, '' or 'folder/', like Composer's ArchiveDownloader. Composer removes the
 * top level when it is one directory. Beside that directory, it ignores only `.DS_Store`.
 */
export function findPackageRoot(entries: ArchiveEntry[]): string {
  const top = topLevel(entries)
  const [folder, another] = [...top.keys()].filter((name) => name !== '.DS_Store')
  return folder !== undefined && another === undefined && top.get(folder) ? `${folder}/` : ''
}

const missingHint =
  'The usual reason is a line such as "/composer.json export-ignore" in .gitattributes, which git archive obeys.'

/** Returns composer.json at the package's root. Throws when Composer would not find one. */
export function findManifest(entries: ArchiveEntry[], root: string): ArchiveEntry {
  const manifest = entries.find(({ name }) => name === `${root}composer.json`)
  if (manifest?.kind === 'file') return manifest
  if (manifest) throw entryRefusal(manifest.name, `must be a file, but is a ${manifest.kind}`)

  const candidates = entries
    .filter(({ name, kind }) => kind === 'file' && `/${name}`.slice(-14).toLowerCase() === '/composer.json')
    .sort((a, b) => depth(a) - depth(b))
  const [nearest, second] = candidates
  const expected = `Composer looks for composer.json at the top, or in the only folder there. The top level has ${listNames(topLevel(entries).keys())}.`
  if (!nearest) throw archiveRefusal('composer.json is missing', [expected, missingHint])
  if (second && depth(second) === depth(nearest)) {
    const names = `${quoted(nearest.name)} and ${quoted(second.name)}`
    throw archiveRefusal(`there are several composer.json files, but none where Composer looks: ${names}`, [
      expected,
    ])
  }
  throw entryRefusal(nearest.name, 'is not where Composer looks for composer.json', [expected])
}

/** A longer README is cut at this size. */
export const maxReadmeBytes = 64 * 1024

const markdownName = /\.(?:md|markdown)$/i

/** The text of a README. `isMarkdown` depends on the file name. */
export interface Readme {
  text: string
  isMarkdown: boolean
}

/** Returns the name of the README among the names of a package's root, preferably a Markdown file. Null without one. */
export function chooseReadme(names: readonly string[]): string | null {
  const found = names.filter((name) => /^readme(?:\.\w{1,20})?$/i.test(name))
  return found.find((name) => markdownName.test(name)) ?? found[0] ?? null
}

/** Returns the README at the package's root ('' or 'folder/'), preferably a Markdown file. Null when there is none. */
export function findReadme(entries: readonly ArchiveEntry[], root: string): ArchiveEntry | null {
  const files = entries.filter(({ name, kind }) => kind === 'file' && name.startsWith(root))
  const chosen = chooseReadme(files.map(({ name }) => name.slice(root.length)))
  return files.find(({ name }) => name === root + chosen) ?? null
}

/** Returns the README from the first bytes of its entry. */
export function toReadme({ name }: Pick<ArchiveEntry, 'name'>, chunks: readonly Buffer[]): Readme {
  const text = Buffer.concat(chunks).subarray(0, maxReadmeBytes).toString('utf8')
  return { text, isMarkdown: markdownName.test(name) }
}

/** The entries of an archive as two texts, which a thread can send in no time. No name contains a newline. */
export interface PackedTree {
  /** The sort keys of the entries, one a line. */
  keys: string
  /** The first letters of their kinds. */
  kinds: string
  /** The package's root in the archive. */
  root: string
}

const kindOf: Record<string, ArchiveEntry['kind']> = { f: 'file', d: 'directory', l: 'link' }

/** Packs sorted entries. */
export function packTree(sorted: readonly Sorted[], root: string): PackedTree {
  const keys = sorted.map(({ key }) => key).join('\n')
  return { keys, kinds: sorted.map(({ entry }) => entry.kind.charAt(0)).join(''), root }
}

/**
 * Returns the tree of a package below its root in the archive. It searches the sorted entries, because a map of all
 * directories would have millions of keys for a small archive with deep paths.
 */
export function treeOf({ keys, kinds, root }: PackedTree): PackageTree {
  let sorted: string[] | undefined
  return (path) => {
    sorted ??= keys.split('\n')
    const key = sortKey(path === '' ? root.slice(0, -1) : root + path)
    const place = findFirst(sorted, key)
    const found = sorted[place]
    if (key === '') return 'directory'
    if (found === key) return kindOf[kinds.charAt(place)] ?? null
    return found?.startsWith(`${key}\0`) ? 'directory' : null
  }
}

/** Lists the directories of an archive that have nothing in them. */
export function listEmptyFolders({ keys, kinds }: Pick<PackedTree, 'keys' | 'kinds'>): string[] {
  const sorted = keys.split('\n')
  return sorted
    .filter((key, i) => kinds.charAt(i) === 'd' && sorted[i + 1]?.startsWith(`${key}\0`) !== true)
    .map((key) => key.replaceAll('\0', '/'))
}

/** Returns the index of the first key that is equal to or greater than `key`. */
function findFirst(sorted: readonly string[], key: string): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] as string) < key) low = middle + 1
    else high = middle
  }
  return low
}

/** Returns the names at the top level, and whether each is a directory. */
function topLevel(entries: ArchiveEntry[]): Map<string, boolean> {
  const names = new Map<string, boolean>()
  for (const { name, kind } of entries) {
    const slash = name.indexOf('/')
    names.set(slash < 0 ? name : name.slice(0, slash), slash >= 0 || kind === 'directory')
  }
  return names
}

function depth({ name }: ArchiveEntry): number {
  return name.split('/').length
}

function listNames(names: Iterable<string>): string {
  const all = [...names]
  const shown = all.slice(0, 5).map(quoted).join(', ')
  return all.length > 5 ? `${shown} and ${all.length - 5} more` : shown
}

/**
 * Files that are allowed, but were probably packed by mistake. Each pattern is tested with the lower-case path in the
 * package.
 */
const SUSPICIONS: [test: RegExp, warning: string][] = [
  [/(^|\/)\.env(\.(?!example$|dist$|sample$|template$)[^/]+)?$/, 'may contain secrets'],
  [/(^|\/)(auth\.json|\.netrc|\.npmrc|id_(rsa|dsa|ecdsa|ed25519))$/, 'may contain secrets'],
  [/^vendor\//, 'is a dependency packed with the package; exclude vendor/'],
  [/(^|\/)node_modules\//, 'is a dependency packed with the package; exclude node_modules/'],
  [/(^|\/)\.(git|svn|hg)\//, 'belongs to version control; exclude it'],
  [/\.zip$/, 'is an archive within the archive, perhaps an earlier build'],
  [/(^|\/)__macosx\//, 'is a leftover of macOS'],
  [
    /[<>:"|?*]|[. ](\/|$)|(^|\/)(con|prn|aux|nul|com\d|lpt\d)(\.[^/]*)?(\/|$)/,
    'cannot be unpacked on Windows',
  ],
]

/** Refuses auth.json at the package's root, because Composer stores credentials there. */
export function refuseCredentials(entries: ArchiveEntry[], root: string): void {
  const path = `${root.toLowerCase()}auth.json`
  const auth = entries.find(({ name }) => name.length === path.length && name.toLowerCase() === path)
  if (auth) {
    throw entryRefusal(auth.name, 'contains credentials', [
      'Exclude auth.json from the archive. If you shared the archive before, revoke the credentials in it.',
    ])
  }
}

/** Returns warnings for the publisher, one for each kind. A warning names the first entry and counts the others. */
export async function listWarnings(entries: ArchiveEntry[], root: string): Promise<string[]> {
  const pause = makePause()
  const findings = SUSPICIONS.map(([test, warning]) => ({ test, warning, found: [] as ArchiveEntry[] }))
  const unmarked: ArchiveEntry[] = []
  for (const entry of entries) {
    const inPackage = entry.name.startsWith(root) ? entry.name.slice(root.length) : entry.name
    const path = (entry.kind === 'directory' ? `${inPackage}/` : inPackage).toLowerCase()
    for (const { test, found } of findings) if (test.test(path)) found.push(entry)
    if (isUnmarked(entry.header)) unmarked.push(entry)
    await pause()
  }
  const notUtf8 = 'is not marked as UTF-8, and may be unpacked under another name'
  const otherCase = 'differs from another name by case only, and clashes on macOS and Windows'
  return [
    ...findings.flatMap(({ found, warning }) => summary(found, warning)),
    ...summary(unmarked, notUtf8),
    ...summary(await listCaseClashes(entries), otherCase),
  ]
}

async function listCaseClashes(entries: ArchiveEntry[]): Promise<ArchiveEntry[]> {
  const sorted = await sortTree(entries, (name) => name.normalize('NFC').toLowerCase())
  return sorted
    .filter((below, i) => i > 0 && clashes(sorted[i - 1] as typeof below, below))
    .map(({ entry }) => entry)
}

/** Returns one warning for all entries of a kind, or none when there are no entries. */
function summary(found: ArchiveEntry[], warning: string): string[] {
  const [first] = found
  if (!first) return []
  const more = found.length > 1 ? ` (and ${found.length - 1} more)` : ''
  return [`${quoted(first.name)} ${warning}${more}`]
}
