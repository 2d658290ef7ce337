import type { JsonObject } from '../manifest/manifest-json.ts'

/** A stored version, as far as its p2 entry needs it. */
export interface EntrySource {
  version: string
  /** What Composer knows the version by. */
  composer: string
  normalized: string
  metadata: JsonObject
  /** Lower-case hex. */
  sha256: string
  /** Lower-case hex. */
  sha1: string
  publishedAt: Date
}

/** A package, as far as the entries of its versions need it. */
export interface EntryPackage {
  name: string
  /** Composer's `abandoned`: true, or the name of the replacement; null while it is kept up. */
  abandoned: true | string | null
}

/** The address of an archive: it holds the hash, so what it answers can never change. */
export function distUrl(registryUrl: string, name: string, version: string, sha256: string): string {
  return `${registryUrl}dist/${name}/${version}/${sha256}.zip`
}

/**
 * The full p2 entry of a version (COMPOSER A4). The keys that are the registry's to say come after those of
 * composer.json, and so outrank them. `version_normalized` saves Composer the parsing.
 */
export function entryOf(
  source: EntrySource,
  { name, abandoned }: EntryPackage,
  registryUrl: string,
): JsonObject {
  const { version, composer, normalized, metadata, sha256, sha1, publishedAt } = source
  const publishedTime = publishedAt.toISOString().replace(/\.\d+Z$/, '+00:00')
  return {
    ...metadata,
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
