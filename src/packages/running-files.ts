import { posix } from 'node:path'
import { isJsonObject, type Json, type JsonObject } from '../composer/manifest-json.ts'

const maxFiles = 50

/**
 * Returns the paths of files that run without being called by other code, by a composer.json: binaries, the classes of scripts,
 * files that are always loaded, and plugins of Composer. At most 50, in this order. They may not exist.
 */
export function listRunningFiles(manifest: JsonObject): string[] {
  const { scripts, autoload, extra, bin } = manifest
  const classes = isJsonObject(autoload) ? autoload['psr-4'] : undefined
  const callbacks = textsIn(isJsonObject(scripts) ? Object.values(scripts) : [])
  const plugins = textsIn(isJsonObject(extra) ? extra['class'] : undefined)
  const paths = [
    ...textsIn(bin),
    ...callbacks.flatMap((callback) => fileOfClass(callback.split('::')[0] ?? '', classes)),
    ...textsIn(isJsonObject(autoload) ? autoload['files'] : undefined),
    ...plugins.flatMap((name) => fileOfClass(name, classes)),
  ]
  return [...new Set(paths.map((path) => posix.normalize(path)))].slice(0, maxFiles)
}

/** Returns the texts of a value that is a text, or a list of such values. */
function textsIn(value: Json | undefined): string[] {
  if (typeof value === 'string') return [value]
  return Array.isArray(value) ? value.flatMap(textsIn) : []
}

/** Returns where a class can be, by the prefixes of PSR-4. */
function fileOfClass(name: string, prefixes: Json | undefined): string[] {
  if (!/^\\?\w+(?:\\\w+)*$/.test(name) || !isJsonObject(prefixes)) return []
  const full = name.replace(/^\\/, '')
  return Object.entries(prefixes).flatMap(([prefix, folders]) =>
    full.startsWith(prefix)
      ? textsIn(folders).map((folder) => `${folder}/${full.slice(prefix.length).replaceAll('\\', '/')}.php`)
      : [],
  )
}
