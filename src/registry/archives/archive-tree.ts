import type { ArchiveEntry } from './archive-entry.ts'
import { archiveRefusal, entryRefusal, quoted } from './archive-refusal.ts'

/** An entry under the key by which entries sort into a tree. */
export interface Sorted {
  key: string
  entry: ArchiveEntry
}

/**
 * The entries so ordered that what lies beneath a path follows it at once: the slash sorts before everything a
 * name may hold. A clash is then always one between neighbours.
 */
export function sortTree(entries: ArchiveEntry[], fold = (name: string) => name): Sorted[] {
  return entries
    .map((entry) => ({ key: fold(entry.name).replaceAll('/', '\0'), entry }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
}

/** Whether two neighbours cannot both be unpacked: the same path twice, or one beneath what is no directory. */
export function clashes(above: Sorted, below: Sorted): boolean {
  return (
    above.key === below.key || (above.entry.kind !== 'directory' && below.key.startsWith(`${above.key}\0`))
  )
}

/** Refuses two entries for one path, and one beneath a file or a link: parsers disagree on which of them wins. */
export function refuseClashes(entries: ArchiveEntry[]): void {
  const sorted = sortTree(entries)
  for (const [i, below] of sorted.entries()) {
    const above = sorted[i - 1]
    if (!above || !clashes(above, below)) continue
    if (above.key !== below.key) {
      throw entryRefusal(
        below.entry.name,
        `lies beneath ${quoted(above.entry.name)}, which is a ${above.entry.kind}`,
      )
    }
    const [one, other] = [above.entry.kind, below.entry.kind]
    throw entryRefusal(
      below.entry.name,
      one === other ? 'is there twice' : `is there as ${one} and as ${other}`,
    )
  }
}

/**
 * The package's root in the archive, '' or 'folder/', as Composer's ArchiveDownloader finds it: the top level is
 * stripped when it is one directory, and of other things there it overlooks `.DS_Store` alone.
 */
export function findPackageRoot(entries: ArchiveEntry[]): string {
  const top = topLevel(entries)
  const [folder, another] = [...top.keys()].filter((name) => name !== '.DS_Store')
  return folder !== undefined && another === undefined && top.get(folder) ? `${folder}/` : ''
}

/** The manifest: composer.json at the package's root. Refuses an archive in which Composer would not see one. */
export function findManifest(entries: ArchiveEntry[], root: string): ArchiveEntry {
  const manifest = entries.find(({ name }) => name === `${root}composer.json`)
  if (manifest?.kind === 'file') return manifest
  if (manifest) throw entryRefusal(manifest.name, `must be a file, and is a ${manifest.kind}`)

  const candidates = entries
    .filter(({ name, kind }) => kind === 'file' && /(^|\/)composer\.json$/i.test(name))
    .sort((a, b) => depth(a) - depth(b))
  const [nearest, second] = candidates
  const expected = `Composer looks for composer.json at the top, or in the only folder there. The top level has ${listNames(topLevel(entries).keys())}.`
  if (!nearest) throw archiveRefusal('composer.json is missing', [expected])
  if (second && depth(second) === depth(nearest)) {
    const names = `${quoted(nearest.name)} and ${quoted(second.name)}`
    throw archiveRefusal(`several composer.json, none where Composer looks: ${names}`, [expected])
  }
  throw entryRefusal(nearest.name, 'is not where Composer looks for composer.json', [expected])
}

/** What lies at each path of a package, directories without an entry of their own too; '' is its root. */
export type PackageTree = ReadonlyMap<string, ArchiveEntry['kind']>

/** The package beneath its root in the archive. */
export function treeOf(entries: ArchiveEntry[], root: string): PackageTree {
  const tree = new Map<string, ArchiveEntry['kind']>([['', 'directory']])
  for (const { name, kind } of entries) {
    if (!name.startsWith(root)) continue
    const path = name.slice(root.length)
    tree.set(path, kind)
    for (let slash = path.lastIndexOf('/'); slash > 0; slash = path.lastIndexOf('/', slash - 1)) {
      tree.set(path.slice(0, slash), 'directory')
    }
  }
  return tree
}

/** The names at the top level, and whether each is a directory. */
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
