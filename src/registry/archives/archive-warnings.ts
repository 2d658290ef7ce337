import type { ArchiveEntry } from './archive-entry.ts'
import { entryRefusal, quoted } from './archive-refusal.ts'
import { clashes, sortTree } from './archive-tree.ts'
import { isUnmarked } from './zip-headers.ts'

/** What an archive may hold, but hardly on purpose. A test sees the path within the package, in lower case. */
const SUSPICIONS: [test: RegExp, warning: string][] = [
  [/(^|\/)\.env(\.(?!example$|dist$|sample$|template$)[^/]+)?$/, 'may hold secrets'],
  [/(^|\/)(auth\.json|\.netrc|\.npmrc|id_(rsa|dsa|ecdsa|ed25519))$/, 'may hold secrets'],
  [/^vendor\//, 'is a dependency packed with the package; exclude vendor/'],
  [/(^|\/)node_modules\//, 'is a dependency packed with the package; exclude node_modules/'],
  [/(^|\/)\.(git|svn|hg)\//, 'is history, not source; exclude it'],
  [/\.zip$/, 'is an archive within the archive; an earlier build?'],
  [/(^|\/)__macosx\//, 'is a leftover of macOS'],
  [
    /[<>:"|?*]|[. ](\/|$)|(^|\/)(con|prn|aux|nul|com\d|lpt\d)(\.[^/]*)?(\/|$)/,
    'cannot be unpacked on Windows',
  ],
]

/** Refuses credentials where Composer itself keeps them: auth.json at the package's root. */
export function refuseCredentials(entries: ArchiveEntry[], root: string): void {
  const auth = entries.find(({ name }) => name.toLowerCase() === `${root.toLowerCase()}auth.json`)
  if (auth) {
    throw entryRefusal(auth.name, "holds a user's credentials", [
      'Exclude auth.json from the archive, and revoke what it holds if the archive was given away before.',
    ])
  }
}

/** Warnings for the publisher: one a kind, naming the first entry of the kind and how many more there are. */
export function listWarnings(entries: ArchiveEntry[], root: string): string[] {
  const warnings = SUSPICIONS.map(([test, warning]) => {
    const found = entries.filter(({ name, kind }) => {
      const inPackage = name.startsWith(root) ? name.slice(root.length) : name
      return test.test(kind === 'directory' ? `${inPackage}/`.toLowerCase() : inPackage.toLowerCase())
    })
    return summary(found, warning)
  })
  const unmarked = entries.filter(({ header }) => isUnmarked(header))
  warnings.push(summary(unmarked, 'is not marked as UTF-8, and may be unpacked under another name'))
  warnings.push(
    summary(
      listCaseClashes(entries),
      'differs from another name by case only, and clashes on macOS and Windows',
    ),
  )
  return warnings.filter((warning) => warning !== null)
}

function listCaseClashes(entries: ArchiveEntry[]): ArchiveEntry[] {
  const sorted = sortTree(entries, (name) => name.normalize('NFC').toLowerCase())
  return sorted
    .filter((below, i) => i > 0 && clashes(sorted[i - 1] as typeof below, below))
    .map(({ entry }) => entry)
}

function summary([first, ...others]: ArchiveEntry[], warning: string): string | null {
  if (!first) return null
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return `${quoted(first.name)} ${warning}${more}`
}
