import { z } from 'zod'
import { isPlainText } from '../../../domain/plain-text.ts'
import { isJsonObject, type JsonObject } from '../../manifest/manifest-json.ts'
import { isPackageName, toLowerAscii } from '../../manifest/package-name.ts'
import { matchesGlob } from '../documents/patterns.ts'
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

/** The versions of packages, by name. Each value is a list of versions, or an object by version. */
export type InlinePackages = ReadonlyMap<string, unknown>

/** Bounds for packages.json together with its includes. */
const maxIncludes = 1000
const maxCharacters = 128 * 1024 * 1024
const includeMilliseconds = 60_000

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
 * Reads an upstream's packages.json. Without metadata-url, it also reads the `includes` with `fetchText`. With it,
 * Composer ignores them. Throws `UpstreamError` when the upstream is not a Composer repository, supports only Composer 1,
 * or is too large.
 * `characters` is the size of all that was read.
 */
export async function readRoot(
  url: string,
  body: string,
  fetchText: (url: string) => Promise<string>,
): Promise<{ root: UpstreamRoot; packages: InlinePackages; characters: number }> {
  const parsed = Root.safeParse(parseObject(body, 'packages.json'))
  if (!parsed.success)
    throw new UpstreamError('packages.json of the upstream does not describe a Composer repository')
  const said = parsed.data
  const absolute = (link: string | undefined) =>
    link === undefined ? null : resolveLink(link, rootUrlOf(url))
  const root: UpstreamRoot = {
    metadataUrl: absolute(said['metadata-url']),
    names: said['available-packages']?.map(toLowerAscii).filter(isPackageName) ?? null,
    patterns: said['available-package-patterns']?.map(toLowerAscii).filter(isPlainText) ?? null,
    searchUrl: absolute(said.search),
    listUrl: absolute(said.list),
    providersUrl: absolute(said['providers-api']),
    advisoriesUrl: absolute(said['security-advisories']?.['api-url']),
    hasAdvisoriesInDocuments: said['security-advisories']?.metadata ?? false,
    changesUrl: absolute(said['metadata-changes-url']),
    filterSummaryUrl: absolute(said.filter?.['summary-url']),
  }
  const packages = new Map<string, unknown>()
  addPackages(packages, said.packages)
  if (root.metadataUrl !== null) return { ...partialRoot(root, packages), characters: body.length }
  const includes = Object.keys(said.includes ?? {})
  if (includes.length > maxIncludes)
    throw new UpstreamError(`packages.json of the upstream has more than ${maxIncludes} includes`)
  // Only one level of includes is read. Satis writes one level, although Composer reads more.
  const start = Date.now()
  let characters = body.length
  for (const path of includes) {
    if (Date.now() - start > includeMilliseconds)
      throw new UpstreamError('the includes of the upstream did not arrive in time')
    const content = await fetchText(resolveLink(path, rootUrlOf(url)))
    characters += content.length
    if (characters > maxCharacters)
      throw new UpstreamError('packages.json of the upstream is too large with its includes')
    addPackages(packages, readInclude(parseObject(content, path), path))
  }
  const isForComposer1 = ['provider-includes', 'providers-url', 'providers-lazy-url'].some(
    (key) => said[key as keyof typeof said] !== undefined,
  )
  if (packages.size === 0 && isForComposer1) {
    throw new UpstreamError(
      'the upstream offers metadata for Composer 1 only (provider-includes): it needs metadata-url, packages or includes',
    )
  }
  if (said.packages === undefined && said.includes === undefined) {
    throw new UpstreamError(
      'packages.json of the upstream has neither metadata-url nor packages nor includes',
    )
  }
  return {
    root: { ...root, inlineNames: [...packages.keys()], vendors: vendorsOf(packages) },
    packages,
    characters,
  }
}

function vendorsOf(packages: InlinePackages): string[] {
  return [...new Set(Array.from(packages.keys(), (name) => name.slice(0, name.indexOf('/'))))]
}

/** Returns the parts of a packages.json with metadata-url. Composer does not count inline packages without versions. */
function partialRoot(root: UpstreamRoot, inline: InlinePackages) {
  if (!root.metadataUrl?.includes('%package%'))
    throw new UpstreamError('metadata-url of the upstream lacks %package%')
  const packages = new Map([...inline].filter(([, versions]) => versionList(versions).length > 0))
  const inlineNames = [...packages.keys()]
  // A change feed need not report changes of packages.json. Without it, svc asks for every package again.
  const changesUrl = inlineNames.length === 0 ? root.changesUrl : null
  return { root: { ...root, inlineNames, vendors: vendorsOf(packages), changesUrl }, packages }
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

/** Parses a JSON object of an upstream. Throws `UpstreamError` for anything else, such as an error page in HTML. */
export function parseObject(body: string, what: string): JsonObject {
  let content: unknown
  try {
    content = JSON.parse(body)
  } catch {
    throw new UpstreamError(`${what} of the upstream is not JSON`)
  }
  if (typeof content === 'object' && content !== null && !Array.isArray(content)) return content as JsonObject
  throw new UpstreamError(`${what} of the upstream is not a JSON object`)
}

/** Returns the packages of an include. An error in JSON with status 200 must not mean that it has none. */
function readInclude({ packages, includes }: JsonObject, path: string): unknown {
  const hasPackages = isJsonObject(packages) || Array.isArray(packages)
  if (hasPackages || (packages === undefined && includes !== undefined)) return packages
  throw new UpstreamError(`${path} of the upstream has no packages`)
}

function addPackages(all: Map<string, unknown>, packages: unknown): void {
  if (typeof packages !== 'object' || packages === null || Array.isArray(packages)) return
  for (const [name, versions] of Object.entries(packages)) {
    const lower = toLowerAscii(name)
    if (isPackageName(lower)) all.set(lower, mergeVersions(all.get(lower), versions))
  }
}

function mergeVersions(known: unknown, more: unknown): unknown {
  return known === undefined ? more : [...versionList(known), ...versionList(more)]
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
