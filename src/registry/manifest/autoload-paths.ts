import type { PackageTree } from '../archives/archive-tree.ts'
import { isJsonObject, type JsonObject, refuseManifest, shown } from './manifest-json.ts'

/**
 * Refuses a package whose `autoload` names a file to load, or a place to scan for classes, that its archive does not
 * hold: every update that chooses it would end in an error, or the project at its first line. Places that psr-4 and
 * psr-0 name may be missing. `metadata` is that of `readComposerJson`.
 */
export function refuseMissingAutoload(metadata: JsonObject, tree: PackageTree): void {
  const { autoload, 'target-dir': targetDir } = metadata
  const isMetapackage = metadata['type'] === 'metapackage'
  // A metapackage is not unpacked, and with target-dir Composer tries a path in two places.
  if (!isJsonObject(autoload) || targetDir !== undefined || isMetapackage) return
  for (const path of textsOf(autoload, 'files')) {
    const kind = kindAt(tree, path)
    if (kind === null || kind === 'directory') refuseMissing('files', path)
  }
  for (const path of textsOf(autoload, 'classmap')) {
    // Which directories a pattern stands for is left to Composer.
    if (!path.includes('*') && kindAt(tree, path) === null) refuseMissing('classmap', path)
  }
}

/** A list of texts in checked metadata. */
function textsOf(autoload: JsonObject, key: string): string[] {
  return (autoload[key] ?? []) as string[]
}

/** What a path leads to; null for nothing, and for what lies outside. Where a link leads on, it is believed. */
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
  refuseManifest(`autoload.${key}`, `names "${shown(path)}", which the archive does not hold`)
}
