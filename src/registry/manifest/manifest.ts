import { readDescription } from './manifest-description.ts'
import type { Warn } from './manifest-fields.ts'
import { checkPlugin, readInstallation } from './manifest-installation.ts'
import { type JsonObject, parseManifest } from './manifest-json.ts'
import { readLinks } from './manifest-links.ts'
import { refuseLargeManifest, refuseManifest, shown } from './manifest-refusal.ts'
import { toLowerAscii } from './package-name.ts'
import { isSameVersion, type PublishedVersion } from './version.ts'

/** Larger metadata is refused: it stands in a document that every user of the package fetches. */
export const maxMetadataBytes = 256 * 1024

/** What a composer.json says about a version. */
export interface Manifest {
  /**
   * Its part of the p2 entry, safe to publish: known keys only, and without `name`, `version`, `dist`, `source` and
   * whatever else is the registry's to say.
   */
  metadata: JsonObject
  /** What was accepted but will not do what its author means. */
  warnings: string[]
}

/**
 * Reads the composer.json of an upload to `name` (lower case) and `version`, as the URL gives them. Throws errcode 3
 * naming the field when publishing it would break those who use the package, or when it belongs to another one.
 */
export function readManifest(bytes: Uint8Array, name: string, version: PublishedVersion): Manifest {
  const manifest = parseManifest(bytes)
  const warnings: string[] = []
  const warn: Warn = (warning) => warnings.push(warning)

  checkName(manifest, name)
  checkVersion(manifest, version, warn)
  const metadata = withoutMinifierMarks({
    ...readDescription(manifest, warn),
    ...readInstallation(manifest, warn),
    ...readLinks(manifest, name, warn),
  })
  checkPlugin(metadata)
  if (Buffer.byteLength(JSON.stringify(metadata)) > maxMetadataBytes) {
    refuseLargeManifest(`has more than ${maxMetadataBytes} bytes to publish`)
  }
  return { metadata, warnings }
}

function checkName(manifest: JsonObject, expected: string): void {
  const { name } = manifest
  if (typeof name !== 'string') refuseManifest('name', `must be "${expected}"`)
  if (toLowerAscii(name) !== expected) refuseManifest('name', `must be "${expected}", not "${shown(name)}"`)
}

function checkVersion(manifest: JsonObject, expected: PublishedVersion, warn: Warn): void {
  const version = manifest['version'] ?? undefined
  if (version === undefined) return
  if (typeof version !== 'string' && typeof version !== 'number')
    refuseManifest('version', 'must be a string')
  if (!isSameVersion(`${version}`, expected)) {
    refuseManifest('version', `must be "${expected.version}" or absent, not "${shown(`${version}`)}"`)
  }
  warn('version is better left out: the URL of the upload says it')
}

/** In a minified p2 document the text `__unset` takes a key away: as a value it would change its neighbours. */
function withoutMinifierMarks(metadata: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== '__unset'))
}
