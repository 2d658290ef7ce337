import {
  isIntegerKey,
  readCleanText,
  readObject,
  readText,
  readTexts,
  type Warn,
  withoutEmpty,
} from './manifest-fields.ts'
import type { Json, JsonObject } from './manifest-json.ts'
import { refuseManifest, shown } from './manifest-refusal.ts'
import { cleanObject } from './manifest-text.ts'

/**
 * How a package is installed and loaded: type, autoload, bin and their like. Where Composer would stop, so do we;
 * nothing of this is corrected, since a package that is loaded otherwise than its author meant is a broken one.
 */
export function readInstallation(manifest: JsonObject, warn: Warn): JsonObject {
  const autoload = readAutoload(manifest, warn)
  const targetDir = readText(manifest, 'target-dir')
  if (targetDir !== undefined && hasParentSegment(targetDir))
    refuseManifest('target-dir', 'must not contain ".."')
  if (targetDir !== undefined && autoload?.['psr-4'] !== undefined) {
    refuseManifest('target-dir', 'can not be used together with autoload.psr-4')
  }
  const phpExtension = readObject(manifest, 'php-ext')
  return withoutEmpty({
    type: readType(manifest, warn),
    'target-dir': targetDir,
    bin: readBinaries(manifest),
    autoload,
    'include-path': readTexts(manifest, 'include-path'),
    'php-ext': phpExtension && cleanObject(phpExtension),
  })
}

/** Refuses a Composer plugin that would end every installation with an error. */
export function checkPlugin({ type, require, extra }: JsonObject): void {
  const lowerType = typeof type === 'string' ? type.toLowerCase() : ''
  if (lowerType !== 'composer-plugin' && lowerType !== 'composer-installer') return
  const { class: pluginClass = '' } = (extra ?? {}) as JsonObject
  const classes = Array.isArray(pluginClass) ? pluginClass : [pluginClass]
  if (classes.length === 0 || !classes.every((name) => typeof name === 'string' && name !== '')) {
    refuseManifest('extra.class', `must name the class of a ${lowerType}`)
  }
  const required = Object.keys((require ?? {}) as JsonObject).map((target) => target.toLowerCase())
  if (lowerType === 'composer-plugin' && !required.includes('composer-plugin-api')) {
    refuseManifest('require.composer-plugin-api', 'must be there for a composer-plugin')
  }
}

function readType(manifest: JsonObject, warn: Warn): string | undefined {
  const type = readText(manifest, 'type')
  if (type !== undefined && !/^[a-z0-9-]+$/i.test(type))
    warn(`type "${shown(type)}" should be of letters, digits and -`)
  return type
}

function readBinaries(manifest: JsonObject): string[] | undefined {
  const { bin } = manifest
  const binaries = typeof bin === 'string' ? [readCleanText(bin, 'bin')] : readTexts(manifest, 'bin')
  for (const path of binaries ?? []) {
    if (hasParentSegment(path)) refuseManifest('bin', `must not contain "..", as "${shown(path)}" does`)
  }
  return binaries?.filter((path) => path !== '')
}

function readAutoload(manifest: JsonObject, warn: Warn): JsonObject | undefined {
  const autoload = readObject(manifest, 'autoload')
  if (autoload === undefined) return undefined
  for (const key of Object.keys(autoload).filter((key) => !autoloadKeys.has(key))) {
    warn(`autoload.${shown(key)} is left out: Composer does not know it`)
  }
  return withoutEmpty({
    'psr-4': readNamespaces(autoload, 'psr-4'),
    'psr-0': readNamespaces(autoload, 'psr-0'),
    classmap: readTexts(autoload, 'classmap', 'autoload.classmap'),
    files: readTexts(autoload, 'files', 'autoload.files'),
    'exclude-from-classmap': readTexts(autoload, 'exclude-from-classmap', 'autoload.exclude-from-classmap'),
  })
}

const autoloadKeys = new Set(['psr-4', 'psr-0', 'classmap', 'files', 'exclude-from-classmap'])

function readNamespaces(autoload: JsonObject, standard: 'psr-4' | 'psr-0'): JsonObject | undefined {
  const namespaces = readObject(autoload, standard, `autoload.${standard}`)
  for (const [namespace, paths] of Object.entries(namespaces ?? {})) {
    const field = `autoload.${standard}.${namespace}`
    readCleanText(namespace, field)
    if (isIntegerKey(namespace)) refuseManifest(field, 'must be a namespace')
    if (standard === 'psr-4' && namespace !== '' && !namespace.endsWith('\\')) {
      refuseManifest(field, 'must end with a backslash')
    }
    for (const path of Array.isArray(paths) ? paths : [paths]) readCleanText(path as Json, field)
  }
  return namespaces
}

function hasParentSegment(path: string): boolean {
  return path.split(/[/\\]/).includes('..')
}
