import type { PackageTree } from '../archives/archive-tree.ts'
import { isJsonObject, type JsonObject, refuseManifest, shown } from './manifest-json.ts'

/**
 * Refuses a package whose `autoload` names a missing file, or a missing classmap path. Such a package breaks every
 * update that chooses it, or fails as soon as the project loads it. Paths in psr-4 and psr-0 may be missing. `metadata`
 * comes from `readComposerJson`.
 */
export function refuseMissingAutoload(metadata: JsonObject, tree: PackageTree): void {
  const { autoload, 'target-dir': targetDir } = metadata
  const isMetapackage = metadata['type'] === 'metapackage'
  // A metapackage is not unpacked. With target-dir, Composer tries a path in two places.
  if (!isJsonObject(autoload) || targetDir !== undefined || isMetapackage) return
  for (const path of textsOf(autoload, 'files')) {
    const kind = kindAt(tree, path)
    if (kind === null || kind === 'directory') refuseMissing('files', path)
  }
  for (const path of textsOf(autoload, 'classmap')) {
    // Do not check patterns. Composer expands them.
    if (!path.includes('*') && kindAt(tree, path) === null) refuseMissing('classmap', path)
  }
}

/** Returns a list of strings in checked metadata. */
function textsOf(autoload: JsonObject, key: string): string[] {
  return (autoload[key] ?? []) as string[]
}

/** Returns the kind of entry at a path, or null if it is missing or outside the package. Links are not followed. */
function kindAt(tree: PackageTree, path: string) {
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..' && segments.pop() === undefined) return null
    if (!['', '.', '..'].includes(segment)) segments.push(segment)
    const kind = tree(segments.join('/'))
    if (kind === null || kind === 'link') return kind
  }
  return tree(segments.join('/'))
}

function refuseMissing(key: string, path: string): never {
  refuseManifest(`autoload.${key}`, `names "${shown(path)}", which the archive does not contain`)
}
