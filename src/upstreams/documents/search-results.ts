import { isJsonObject, type JsonObject } from '../../composer/manifest-json.ts'
import { isPackageName } from '../../composer/package-name.ts'
import { matchesGlob } from '../../domain/glob.ts'
import { cleanLine, shortenText } from '../../domain/plain-text.ts'
import { parseObject } from './parse-object.ts'
import { jsonForPhp } from './read-document.ts'

/** How many results of one upstream are compared with the repository's own names. */
const maxResults = 1000
/** The size of the packages that provide a name. */
const maxProviderCharacters = 256 * 1024

/** A search result of an upstream, in Composer's format. */
export interface UpstreamResult {
  name: string
  description: string
}

/** Parses the response to a search. */
export function parseSearch(bytes: Uint8Array): UpstreamResult[] {
  const { results } = parseObject(bytes, 'the response')
  return Array.isArray(results) ? firstOfName(results.filter(isJsonObject).flatMap(readResult)) : []
}

/**
 * Parses a list of names. Returns those that match all patterns. Many upstreams ignore the filter of a request, and send
 * all names.
 */
export function parseNames(bytes: Uint8Array, patterns: readonly string[]): { name: string }[] {
  const { packageNames } = parseObject(bytes, 'the response')
  if (!Array.isArray(packageNames)) return []
  const found = packageNames.flatMap((name) =>
    typeof name === 'string' && patterns.every((pattern) => matchesGlob(pattern, name)) ? [{ name }] : [],
  )
  return firstOfName(found)
}

/** Parses the packages that provide a name. Leaves out those that PHP cannot read. */
export function parseProviders(bytes: Uint8Array): (JsonObject & { name: string })[] {
  const { providers } = parseObject(bytes, 'the response')
  if (!Array.isArray(providers)) return []
  let characters = 0
  const read = providers.filter(isJsonObject).filter((one): one is JsonObject & { name: string } => {
    const text = typeof one['name'] === 'string' ? jsonForPhp(one) : null
    characters += text?.length ?? 0
    return text !== null && characters <= maxProviderCharacters
  })
  return firstOfName(read)
}

/** Keeps the first results with valid names, each name once. */
function firstOfName<T extends { name: string }>(results: readonly T[]): T[] {
  const byName = new Map<string, T>()
  for (const result of results) {
    if (byName.size === maxResults) break
    if (isPackageName(result.name) && !byName.has(result.name)) byName.set(result.name, result)
  }
  return [...byName.values()]
}

function readResult({ name, description, virtual }: JsonObject): UpstreamResult[] {
  if (typeof name !== 'string' || virtual === true) return []
  if (typeof description !== 'string') return [{ name, description: '' }]
  // A first cut bounds the work.
  return [{ name, description: shortenText(cleanLine(description.slice(0, 2000)), 500) }]
}
