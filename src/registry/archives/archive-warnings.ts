import type { ArchiveEntry } from './archive-entry.ts'
import { entryRefusal, quoted } from './archive-refusal.ts'
import { clashes, sortTree } from './archive-tree.ts'
import { makePause } from './time-slices.ts'
import { isUnmarked } from './zip-entry.ts'

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
