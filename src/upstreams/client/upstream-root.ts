import * as z from 'zod'
import { isJsonObject } from '../../composer/manifest-json.ts'
import { isPackageName, toLowerAscii } from '../../composer/package-name.ts'
import { matchesGlob } from '../../domain/glob.ts'
import { isPlainText } from '../../domain/plain-text.ts'
import { parseObject } from '../documents/parse-object.ts'
import { UpstreamError } from './upstream-error.ts'

/**
 * The parts of an upstream's packages.json that svc uses. All URLs are absolute. A URL is null when packages.json does
 * not have it.
 */
export interface UpstreamRoot {
  /** A template with `%package%`. Null when all packages are in packages.json itself and in its `includes`. */
  metadataUrl: string | null
  /**
   * The names of the packages that are in packages.json itself and in its `includes`. Beside metadata-url, Composer uses
   * these packages, and requests no other metadata of them. Undefined in rows of earlier releases.
   */
  inlineNames?: string[]
  /** All names of the upstream. Null when packages.json does not list them. */
  names: string[] | null
  /** Patterns that match all names of the upstream. Null when packages.json has none. */
  patterns: string[] | null
  /** The vendors of the packages in packages.json and its `includes`. Earlier releases have not stored them. */
  vendors?: string[]
  /** A template with `%query%` and `%type%`. */
  searchUrl: string | null
  listUrl: string | null
  /** A template with `%package%`. */
  providersUrl: string | null
  advisoriesUrl: string | null
  /** Whether documents of packages contain advisories. Undefined in rows of earlier releases. */
  hasAdvisoriesInDocuments?: boolean
  changesUrl: string | null
  filterSummaryUrl: string | null
}

/**
 * The packages in packages.json of an upstream and in its includes, by name: the versions as JSON, from one or several of
 * these documents.
 */
export type InlinePackages = ReadonlyMap<string, readonly Uint8Array[]>

/** The packages of one document. */
export interface PackedPackages {
  names: string[]
  /** The versions of each package as JSON, one after another. */
  bytes: Uint8Array
  /** Where the versions of each package end. */
  ends: number[]
  /** The size of the document. */
  documentBytes: number
}

/** The content of an upstream's packages.json. */
export interface RootDocument {
  /** Without the names of the packages in its `includes`. */
  root: UpstreamRoot
  packages: PackedPackages
  /** The URLs of the documents with more packages. */
  includes: string[]
  /** The reason why packages.json has no packages, if the `includes` have none. */
  emptyReason: string | null
}

/** Bounds for packages.json together with its includes. */
const maxIncludes = 1000
const maxInlineBytes = 64 * 1024 * 1024
const includeMilliseconds = 60_000
/** Bounds for lists of names. They are read with the row of the upstream, and each name is compared with all patterns. */
const maxNames = 50_000
const maxNameCharacters = 1024 * 1024
const maxPatterns = 1000
const maxPatternCharacters = 32 * 1024

const text = z.string().min(1).max(2000)
const loose = <T extends z.ZodType>(schema: T) => schema.optional().catch(undefined)
const Root = z.object({
  'metadata-url': loose(text),
  'available-packages': loose(z.array(z.string())),
  'available-package-patterns': loose(z.array(z.string().max(200))),
  search: loose(text),
  list: loose(text),
  'providers-api': loose(text),
  'metadata-changes-url': loose(text),
  'security-advisories': loose(z.object({ 'api-url': loose(text), metadata: loose(z.boolean()) })),
  filter: loose(z.object({ 'summary-url': loose(text) })),
  packages: loose(z.union([z.record(z.string(), z.unknown()), z.array(z.unknown())])),
  includes: loose(z.record(z.string(), z.unknown())),
  'provider-includes': z.unknown().optional(),
  'providers-url': z.unknown().optional(),
  'providers-lazy-url': z.unknown().optional(),
})

/**
 * Returns the URL of an upstream's packages.json. Composer derives it from the URL of the repository in the same way.
 */
export function rootUrlOf(url: string): string {
  return /\.json(?:$|[?#])/.test(url) ? url : `${url.replace(/\/+$/, '')}/packages.json`
}

/**
 * Parses an upstream's packages.json. Throws `UpstreamError` when the upstream is not a Composer repository, or supports
 * only Composer 1.
 */
export function parseRoot(bytes: Uint8Array, url: string): RootDocument {
  const parsed = Root.safeParse(parseObject(bytes, 'packages.json'))
  if (!parsed.success)
    throw new UpstreamError('packages.json of the upstream does not describe a Composer repository')
  const said = parsed.data
  const absolute = (link: string | undefined) =>
    link === undefined ? null : resolveLink(link, rootUrlOf(url))
  const names = said['available-packages']?.map(toLowerAscii).filter(isPackageName) ?? null
  const patterns = said['available-package-patterns']?.map(toLowerAscii).filter(isPlainText) ?? null
  // Without the lists, svc asks the upstream about every name.
  const areListed =
    isBounded(names ?? [], maxNames, maxNameCharacters) &&
    isBounded(patterns ?? [], maxPatterns, maxPatternCharacters)
  const metadataUrl = absolute(said['metadata-url'])
  // Beside metadata-url, Composer does not count inline packages without versions.
  const packages = packPackages(said.packages, {
    documentBytes: bytes.length,
    skipsEmpty: metadataUrl !== null,
  })
  const root: UpstreamRoot = {
    metadataUrl,
    names: areListed ? names : null,
    patterns: areListed ? patterns : null,
    searchUrl: absolute(said.search),
    listUrl: absolute(said.list),
    providersUrl: absolute(said['providers-api']),
    advisoriesUrl: absolute(said['security-advisories']?.['api-url']),
    hasAdvisoriesInDocuments: said['security-advisories']?.metadata ?? false,
    changesUrl: absolute(said['metadata-changes-url']),
    filterSummaryUrl: absolute(said.filter?.['summary-url']),
  }
  if (metadataUrl !== null) {
    if (!metadataUrl.includes('%package%'))
      throw new UpstreamError('metadata-url of the upstream lacks %package%')
    // A change feed need not report changes of packages.json. Without it, svc asks for every package again.
    const changesUrl = packages.names.length === 0 ? root.changesUrl : null
    return { root: { ...root, changesUrl }, packages, includes: [], emptyReason: null }
  }
  const includes = Object.keys(said.includes ?? {})
  if (includes.length > maxIncludes)
    throw new UpstreamError(`packages.json of the upstream has more than ${maxIncludes} includes`)
  const isForComposer1 = ['provider-includes', 'providers-url', 'providers-lazy-url'].some(
    (key) => said[key as keyof typeof said] !== undefined,
  )
  if (!isForComposer1 && said.packages === undefined && said.includes === undefined) {
    throw new UpstreamError(
      'packages.json of the upstream has neither metadata-url nor packages nor includes',
    )
  }
  const emptyReason = isForComposer1
    ? 'the upstream offers metadata for Composer 1 only (provider-includes): it needs metadata-url, packages or includes'
    : null
  return { root, packages, includes: includes.map((path) => resolveLink(path, rootUrlOf(url))), emptyReason }
}

/**
 * Parses an include of packages.json. An error in JSON with status 200 must not mean that it has no packages. Only one
 * level of includes is read. Satis writes one level, although Composer reads more.
 */
export function parseInclude(bytes: Uint8Array, url: string): PackedPackages {
  const what = new URL(url).pathname
  const { packages, includes } = parseObject(bytes, what)
  const hasPackages = isJsonObject(packages) || Array.isArray(packages)
  if (hasPackages || (packages === undefined && includes !== undefined))
    return packPackages(packages, { documentBytes: bytes.length })
  throw new UpstreamError(`${what} of the upstream has no packages`)
}

/**
 * Returns an upstream's packages.json with its includes, which `fetchInclude` reads. Beside metadata-url, Composer ignores
 * includes. Throws `UpstreamError` when the upstream has no packages, or is too large.
 */
export async function completeRoot(
  { root, packages: first, includes, emptyReason }: RootDocument,
  fetchInclude: (url: string) => Promise<PackedPackages>,
): Promise<{ root: UpstreamRoot; packages: InlinePackages }> {
  const packages = new Map<string, Uint8Array[]>()
  const start = Date.now()
  let size = first.documentBytes
  addPackages(packages, first)
  for (const url of includes) {
    if (Date.now() - start > includeMilliseconds)
      throw new UpstreamError('the includes of the upstream did not arrive in time')
    const include = await fetchInclude(url)
    addPackages(packages, include)
    size += include.documentBytes
    if (size > maxInlineBytes)
      throw new UpstreamError('packages.json of the upstream is too large with its includes')
    if (!isBounded([...packages.keys()], maxNames, maxNameCharacters)) throw tooManyPackages()
  }
  const inlineNames = [...packages.keys()]
  if (inlineNames.length === 0 && emptyReason !== null) throw new UpstreamError(emptyReason)
  return { root: { ...root, inlineNames, vendors: vendorsOf(packages) }, packages }
}

function isBounded(texts: readonly string[], maxTexts: number, maxCharacters: number): boolean {
  return texts.length <= maxTexts && texts.reduce((sum, { length }) => sum + length, 0) <= maxCharacters
}

function tooManyPackages(): UpstreamError {
  return new UpstreamError('packages.json of the upstream has too many packages')
}

/** Returns the packages of a document. Throws `UpstreamError` when it has too many of them. */
function packPackages(
  packages: unknown,
  { documentBytes, skipsEmpty = false }: { documentBytes: number; skipsEmpty?: boolean },
): PackedPackages {
  const listed = isJsonObject(packages) ? Object.entries(packages) : []
  const kept = listed
    .map(([name, versions]) => [toLowerAscii(name), versions] as const)
    .filter(([name, versions]) => isPackageName(name) && !(skipsEmpty && versionList(versions).length === 0))
  const names = kept.map(([name]) => name)
  if (!isBounded(names, maxNames, maxNameCharacters)) throw tooManyPackages()
  const parts = kept.map(([, versions]) => Buffer.from(JSON.stringify(versions)))
  let end = 0
  const ends = parts.map(({ length }) => (end += length))
  return { names, bytes: Buffer.concat(parts), ends, documentBytes }
}

function addPackages(all: Map<string, Uint8Array[]>, { names, bytes, ends }: PackedPackages): void {
  for (const [i, name] of names.entries()) {
    const versions = bytes.subarray(ends[i - 1] ?? 0, ends[i])
    const parts = all.get(name)
    if (parts) parts.push(versions)
    else all.set(name, [versions])
  }
}

function vendorsOf(packages: InlinePackages): string[] {
  return [...new Set(Array.from(packages.keys(), (name) => name.slice(0, name.indexOf('/'))))]
}

/** Returns whether the versions of a package are in packages.json of the upstream, or may be there. */
export function isInline({ metadataUrl, inlineNames = [] }: UpstreamRoot, packageName: string): boolean {
  return metadataUrl === null || inlineNames.includes(packageName)
}

/** Returns false when packages.json of the upstream excludes the name. */
export function mayKnow({ names, patterns, inlineNames }: UpstreamRoot, packageName: string): boolean {
  if (names === null && patterns === null) return true
  if (inlineNames?.includes(packageName)) return true
  if (names?.includes(packageName)) return true
  return (patterns ?? []).some((pattern) => matchesGlob(pattern, packageName))
}

/** Returns the URL of a package's document. */
export function metadataUrlOf(template: string, packageName: string, isDev: boolean): string {
  return template.replaceAll('%package%', `${packageName}${isDev ? '~dev' : ''}`)
}

/** Returns the entries of `packages.<name>`, which is a list or an object by version. */
export function versionList(versions: unknown): unknown[] {
  if (Array.isArray(versions)) return versions
  return typeof versions === 'object' && versions !== null ? Object.values(versions) : []
}

/** Resolves a link against the URL of packages.json. Keeps its `%…%` placeholders. */
function resolveLink(link: string, rootUrl: string): string {
  const escaped = link.replaceAll('%', '%25')
  if (!URL.canParse(escaped, rootUrl))
    throw new UpstreamError('packages.json of the upstream contains an invalid URL')
  return new URL(escaped, rootUrl).href.replaceAll('%25', '%')
}
