import { isBranchVersion, isSameVersion, type PublishedVersion, readBranch } from './composer-version.ts'
import { losesCharacters, saysSomething, withoutEmpty } from './manifest-fields.ts'
import {
  isJsonObject,
  type JsonObject,
  linkTypes,
  mistakeIn,
  parseManifest,
  refuseLargeManifest,
  refuseManifest,
  shown,
} from './manifest-json.ts'
import { toLowerAscii } from './package-name.ts'
import { descriptionKeys, isWithoutEffect, PublishedFields, publishedKeys } from './published-fields.ts'

/** The maximum size of the metadata in bytes. It is part of a document that every user of the package fetches. */
export const maxMetadataBytes = 64 * 1024
/** A larger manifest is refused before its fields are read, because 128 KiB of links take 50 ms. */
const maxUnreadBytes = 2 * maxMetadataBytes

/** The content of a composer.json. */
export interface Manifest {
  /**
   * The part of the p2 entry that comes from composer.json, safe to publish. It has known keys only. It has no keys
   * that the registry sets, such as `name`, `version`, `dist` and `source`.
   */
  metadata: JsonObject
  /** Warnings about fields that are accepted but will not work as their author expects. */
  warnings: string[]
}

/**
 * Reads the composer.json of an upload. `name` (lower case) and `version` come from the URL. Throws errcode 3 if the
 * manifest belongs to another package, or would break projects that use it. The message names the field. Throws errcode
 * 8 if it is too large. The message names the largest key.
 */
export function readComposerJson(bytes: Uint8Array, name: string, version: PublishedVersion): Manifest {
  const { manifest, repeatedKeys } = parseManifest(bytes)
  checkName(manifest, name)
  checkVersion(manifest, version)
  refuseLarge(pick(manifest, publishedKeys), maxUnreadBytes)
  const published = publish(manifest)
  if (isBranchVersion(version))
    published['extra'] = { ...(published['extra'] as JsonObject | undefined), ...branchAliases(manifest) }
  const metadata = withoutOwnLinks(withoutEmpty(published), name)
  refuseLarge(metadata, maxMetadataBytes)
  return {
    metadata,
    warnings: [...repeatedKeys.map(warnOfRepeatedKey), ...listWarnings(manifest, metadata, name)],
  }
}

function checkName({ name }: JsonObject, expected: string): void {
  if (typeof name !== 'string') refuseManifest('name', `must be "${expected}"`)
  if (toLowerAscii(name) !== expected) refuseManifest('name', `must be "${expected}", not "${shown(name)}"`)
}

function checkVersion({ version = null }: JsonObject, expected: PublishedVersion): void {
  // To Composer, a branch is its name, whatever the file says.
  if (version === null || isBranchVersion(expected)) return
  if (typeof version !== 'string' && typeof version !== 'number')
    refuseManifest('version', 'must be a string')
  if (!isSameVersion(`${version}`, expected)) {
    refuseManifest('version', `must be "${expected.version}" or absent, not "${shown(`${version}`)}"`)
  }
}

/** Returns the fields that are published. Throws errcode 3 with the first mistake. `details` has the other mistakes. */
function publish(manifest: JsonObject): Record<string, unknown> {
  const read = PublishedFields.safeParse(manifest)
  if (read.success) {
    // In a minified p2 document, the text `__unset` removes a key. As a value it would change other versions.
    return Object.fromEntries(Object.entries(read.data).filter(([, value]) => value !== '__unset'))
  }
  const [first, ...others] = read.error.issues.map(({ path, message }) => ({
    field: path.join('.'),
    message,
  }))
  const details = others.slice(0, 10).map(({ field, message }) => mistakeIn(field, message))
  refuseManifest(first?.field ?? '', first?.message ?? 'cannot be read', details)
}

/** Returns the aliases of branches in composer.json, without those that Composer cannot read. Only branches have a use for them. */
function branchAliases({ extra }: JsonObject): JsonObject {
  const given = isJsonObject(extra) ? extra['branch-alias'] : null
  const aliases = Object.entries(isJsonObject(given) ? given : {}).filter(
    ([branch, alias]) =>
      /^[\w./+-]{1,200}$/.test(branch) &&
      typeof alias === 'string' &&
      alias.endsWith('-dev') &&
      readBranch(alias.slice(0, -4))?.normalized.startsWith('dev-') === false,
  )
  return aliases.length === 0 ? {} : { 'branch-alias': Object.fromEntries(aliases) }
}

/** Removes links to the package itself. */
function withoutOwnLinks(metadata: JsonObject, name: string): JsonObject {
  return withoutEmpty({
    ...metadata,
    ...Object.fromEntries(
      linkTypes.map((type) => {
        const { [name]: _, ...others } = (metadata[type] ?? {}) as JsonObject
        return [type, others]
      }),
    ),
  })
}

/** Throws errcode 8 when the JSON of the fields is larger than `maxBytes`. The message names the largest field. */
function refuseLarge(fields: JsonObject, maxBytes: number): void {
  const sizes = Object.entries(fields).map(([key, value]) => {
    return { key, bytes: Buffer.byteLength(JSON.stringify({ [key]: value })) - 1 }
  })
  // Add a comma or a brace for each key, and the last brace.
  if (sizes.reduce((sum, { bytes }) => sum + bytes, 1) <= maxBytes) return
  const [largest] = sizes.sort((a, b) => b.bytes - a.bytes)
  refuseLargeManifest(
    `has more than ${maxMetadataBytes} bytes to publish; the largest key is ${largest?.key}, with ${largest?.bytes}`,
  )
}

function pick(manifest: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(manifest).filter(([key]) => keys.includes(key)))
}

function warnOfRepeatedKey(key: string): string {
  return `${shown(key)} is repeated in the same object: only its last value is used`
}

/** Returns warnings about fields that are published differently, and about fields that Composer ignores. */
function listWarnings(manifest: JsonObject, metadata: JsonObject, name: string): string[] {
  return [
    ...(saysSomething(manifest['version']) ? ['version can be left out: the upload or the tag says it'] : []),
    ...listLosses(manifest, metadata),
    ...unknownAutoload(manifest).map(
      (key) => `autoload.${shown(key)} is left out: Composer does not know it`,
    ),
    ...oddType(metadata),
    ...listLinkWarnings(manifest, metadata, name),
  ]
}

function listLosses(manifest: JsonObject, metadata: JsonObject): string[] {
  const lost = descriptionKeys.filter((key) => {
    const given = manifest[key]
    const isAliasOnly = key === 'extra' && isJsonObject(given) && Object.keys(given).join() === 'branch-alias'
    return saysSomething(given) && !(key in metadata) && !isAliasOnly
  })
  const cleaned = [...descriptionKeys, 'suggest', 'php-ext'].filter(
    (key) => key in metadata && losesCharacters(manifest[key]),
  )
  return [
    ...lost.map((key) => `${key} is left out: it has no value that can be shown`),
    ...cleaned.map((key) => `${key} is published without its control characters`),
  ]
}

function unknownAutoload({ autoload }: JsonObject): string[] {
  const known = ['psr-4', 'psr-0', 'classmap', 'files', 'exclude-from-classmap']
  return Object.keys(autoload ?? {})
    .filter((key) => !known.includes(key))
    .slice(0, 10)
}

function oddType({ type }: JsonObject): string[] {
  if (typeof type !== 'string' || /^[a-z0-9-]*$/.test(type)) return []
  return [`type "${shown(type)}" should contain only lower-case letters, digits and -`]
}

function listLinkWarnings(manifest: JsonObject, { conflict, replace }: JsonObject, name: string): string[] {
  const ownLinks = linkTypes.filter((type) =>
    Object.keys(manifest[type] ?? {}).some((target) => toLowerAscii(target) === name),
  )
  const replacedToo = Object.keys(conflict ?? {}).filter(
    (target) => target in ((replace ?? {}) as JsonObject),
  )
  const withoutEffect = linkTypes.flatMap((type) =>
    Object.keys(manifest[type] ?? {})
      .filter((target) => isWithoutEffect(type, target))
      .map((target) => `${type}.${shown(target)}`),
  )
  return [
    ...withoutEffect
      .slice(0, 10)
      .map((link) => `${link} is left out: the name of a package is vendor/package`),
    ...ownLinks.map((type) => `${type}.${name} is left out: a package cannot depend on itself`),
    ...replacedToo
      .slice(0, 10)
      .map((target) => `conflict.${target} is not needed, because replace already excludes it`),
  ]
}

/**
 * Returns the kind of entry at a path of a package, or null. It also finds directories without an entry. '' is the
 * root.
 */
export type PackageTree = (path: string) => 'file' | 'directory' | 'link' | null

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
