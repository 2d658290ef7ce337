import { versionSortKey } from '../composer/composer-version.ts'
import type { JsonObject } from '../composer/manifest-json.ts'
import { isPackageName, toLowerAscii } from '../composer/package-name.ts'
import type { FetchedDocument, UpstreamRequests } from './client/fetch.ts'
import { ClosedClientError, UpstreamError } from './client/upstream-error.ts'
import { type InlinePackages, metadataUrlOf, type UpstreamRoot } from './client/upstream-root.ts'
import { inlineDocument } from './documents/document-tasks.ts'
import { parseObject } from './documents/parse-object.ts'
import { matchesVersion } from './documents/patterns.ts'
import { readDocument, type UpstreamVersion } from './documents/read-document.ts'
import { readRoot } from './fresh-root.ts'

/** Bounds for a list of packages in parts. svc sends 10,000 names a part. Packagist has about 500,000 names. */
const maxListParts = 1000
const maxNames = 1_000_000

/** Another Composer registry, from which packages are imported. */
export interface OtherRegistry {
  client: UpstreamRequests
  root: UpstreamRoot
  /** The packages in packages.json and its includes. */
  packages: InlinePackages
}

/** A package of another registry. */
export interface ReadPackage {
  /** Its valid versions, the oldest first. */
  versions: UpstreamVersion[]
  /** The reasons for versions that are left out. The version is null for a whole document, or the package. */
  refused: { version: string | null; reason: string }[]
  /** Whether a document of the package cannot be read. */
  isUnread: boolean
  /** Whether the registry did not respond to any request. */
  isUnreachable: boolean
}

/** Reads packages.json of another registry. Throws `UpstreamError` when it cannot be used. */
export async function openRegistry(client: UpstreamRequests, url: string): Promise<OtherRegistry> {
  const read = await readRoot(client, { url, owner: url })
  if (read === 'unchanged') throw new UpstreamError('packages.json of the registry has no content')
  return { client, root: read.root, packages: read.packages }
}

/**
 * Returns the names to import: the listed names of the registry that match the patterns, or all of them without
 * patterns. If no pattern contains `*`, it returns the names in the patterns.
 */
export async function namesOf(
  { client, root, packages }: OtherRegistry,
  patterns: readonly string[],
): Promise<string[]> {
  const exact = patterns.map((pattern) => pattern.split(':')[0] ?? '').filter((name) => !name.includes('*'))
  const needsList = patterns.length === 0 || patterns.some((pattern) => pattern.split(':')[0]?.includes('*'))
  const inline = [...packages.keys()]
  const listed = root.names ?? (root.metadataUrl === null && inline.length > 0 ? inline : null)
  if (!needsList) return [...new Set(exact)]
  if (listed === null && root.listUrl === null) {
    throw new UpstreamError('the registry does not list its packages: give their names')
  }
  const all = listed ?? (await listedNames(client, root.listUrl as string))
  return [...new Set([...all, ...inline])]
    .filter((name) => patterns.length === 0 || patterns.some((p) => matchesVersionName(p, name)))
    .sort()
}

function matchesVersionName(pattern: string, name: string): boolean {
  return matchesVersion(pattern.split(':')[0] ?? '', name, '')
}

/**
 * Returns the names of a list, from all its parts. Throws `UpstreamError` when a part cannot be read, or when the list
 * is too long: an import of only some names would look complete.
 */
async function listedNames(client: UpstreamRequests, listUrl: string): Promise<string[]> {
  const names = new Set<string>()
  let url: string | null = listUrl
  for (let part = 1; url !== null; part += 1) {
    if (part > maxListParts)
      throw new UpstreamError(`the list of packages has more than ${maxListParts} parts`)
    const fetched: FetchedDocument<JsonObject> = await client.fetchDocument(url, async (bytes) =>
      parseObject(bytes, 'the list of packages'),
    )
    if (fetched.kind !== 'found') throw new UpstreamError(`${url} does not exist`)
    const { packageNames } = fetched.content
    if (!Array.isArray(packageNames)) throw new UpstreamError('the list of packages has an unknown format')
    for (const given of packageNames) {
      const name = typeof given === 'string' ? toLowerAscii(given) : ''
      if (isPackageName(name)) names.add(name)
    }
    if (names.size > maxNames) throw new UpstreamError(`the list of packages has more than ${maxNames} names`)
    url = fetched.next === null ? null : nextPart(url, fetched.next)
  }
  return [...names]
}

/** Resolves the link to the next part. The registry must not choose other hosts for the requests of svc. */
function nextPart(url: string, link: string): string {
  const next = URL.canParse(link, url) ? new URL(link, url) : null
  if (!next) throw new UpstreamError('the list of packages continues at an invalid URL')
  if (next.origin === new URL(url).origin) return next.href
  throw new UpstreamError(
    `the list of packages continues at another origin, ${next.origin}: import from that one`,
  )
}

/**
 * Reads the versions of a package. A registry with metadata-url has two documents of it, unless it is inline. When one
 * cannot be read, the result has the versions of the other.
 */
export async function readPackage(registry: OtherRegistry, name: string): Promise<ReadPackage> {
  if (!isPackageName(name)) return refusedPackage('it is not a valid package name')
  const isSplit = registry.root.metadataUrl !== null && !registry.packages.has(name)
  const parts = await Promise.all(
    (isSplit ? [false, true] : [false]).map((isDev) => readPart(registry, name, isDev)),
  )
  if (parts.every(({ versions, refused }) => versions.length === 0 && refused.length === 0))
    return refusedPackage('the registry has no version of it')
  return {
    versions: parts.flatMap(({ versions }) => versions).sort(byVersion),
    // When no document can be read, one reason is enough.
    refused: parts.every(({ isUnread }) => isUnread)
      ? (parts[0]?.refused ?? [])
      : parts.flatMap(({ refused }) => refused),
    isUnread: parts.some(({ isUnread }) => isUnread),
    isUnreachable: parts.every(({ isUnreachable }) => isUnreachable),
  }
}

function refusedPackage(reason: string): ReadPackage {
  return { versions: [], refused: [{ version: null, reason }], isUnread: false, isUnreachable: false }
}

/** Compares versions. All `dev-` versions are equal, and below every release. */
function byVersion(a: UpstreamVersion, b: UpstreamVersion): number {
  const [first, second] = [versionSortKey(a.normalized), versionSortKey(b.normalized)]
  return Number(first > second) - Number(first < second)
}

async function readPart(registry: OtherRegistry, name: string, isDev: boolean): Promise<ReadPackage> {
  try {
    const document = await findDocument(registry, name, isDev)
    const checked = document && readDocument(document, name)
    const dropped = checked?.dropped ?? []
    return {
      versions: checked?.content.versions ?? [],
      refused: dropped.map((reason) => ({ version: reason.split(':')[0] ?? '', reason })),
      isUnread: false,
      isUnreachable: false,
    }
  } catch (error) {
    if (!(error instanceof UpstreamError) || error instanceof ClosedClientError) throw error
    const reason = isDev ? `its development versions cannot be read: ${error.message}` : error.message
    const { isUnreachable } = error
    return { versions: [], refused: [{ version: null, reason }], isUnread: true, isUnreachable }
  }
}

async function findDocument({ client, root, packages }: OtherRegistry, name: string, isDev: boolean) {
  const parts = packages.get(name) ?? []
  if (root.metadataUrl === null || parts.length > 0) return inlineDocument(parts, name)
  const fetched = await client.fetchDocument(metadataUrlOf(root.metadataUrl, name, isDev), async (bytes) =>
    parseObject(bytes, `the metadata of ${name}`),
  )
  return fetched.kind === 'found' ? fetched.content : null
}
