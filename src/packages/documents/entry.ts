import { repairMetadata } from '../../composer/manifest-fields.ts'
import type { JsonObject } from '../../composer/manifest-json.ts'

/** The source of the p2 entry of a version. */
export interface EntrySource {
  version: string
  /** The version in Composer's terms. */
  composer: string
  normalized: string
  metadata: JsonObject
  /** Lower-case hex. */
  sha256: string
  /** Lower-case hex. */
  sha1: string
  publishedAt: Date
}

/** The values that all entries of a package share. */
export interface EntryPackage {
  name: string
  /** The value of Composer's `abandoned`: true, or the name of the replacement. Null for a maintained package. */
  abandoned: true | string | null
}

/** Returns the URL of an archive. It contains the hash, so its content never changes. */
export function distUrl(registryUrl: string, name: string, version: string, sha256: string): string {
  // The name of a branch can contain a slash.
  const path = version.replaceAll('/', '%2F')
  return `${registryUrl}dist/${name}/${path}/${sha256}.zip`
}

/** Matches a `dist` of `entryOf`. The part of its URL before `dist/` depends on BASE_URL and the repository's name. */
const archiveLink =
  /("dist":\{"type":"zip","url":)"[^"]*\/-\/packages\/(dist\/[^"]+\/([0-9a-f]{64})\.zip","reference":"\3")/g

/**
 * Replaces the registry URL of the archives in the JSON of p2 entries. Stored entries keep the URL of the time at which
 * they were written, so that a new BASE_URL changes documents, but no stored entry.
 */
export function withRegistryUrl(entries: string, registryUrl: string): string {
  const origin = JSON.stringify(registryUrl).slice(0, -1)
  return entries.replace(archiveLink, (_link, key: string, path: string) => `${key}${origin}${path}`)
}

/**
 * Returns the full p2 entry of a version (COMPOSER A4). The registry's own keys come last, so they replace those of
 * composer.json. `version_normalized` saves Composer the parsing.
 */
export function entryOf(
  source: EntrySource,
  { name, abandoned }: EntryPackage,
  registryUrl: string,
): JsonObject {
  const { version, composer, normalized, metadata, sha256, sha1, publishedAt } = source
  const publishedTime = publishedAt.toISOString().replace(/\.\d+Z$/, '+00:00')
  return {
    ...repairMetadata(metadata),
    name,
    version: composer,
    version_normalized: normalized,
    ...(abandoned !== null && { abandoned }),
    dist: {
      type: 'zip',
      url: distUrl(registryUrl, name, version, sha256),
      reference: sha256,
      shasum: sha1,
    },
    time: publishedTime,
    'published-time': publishedTime,
  }
}
