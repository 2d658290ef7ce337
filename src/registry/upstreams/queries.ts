import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import { cleanLine, shortenText } from '../../domain/plain-text.ts'
import { makePause } from '../../domain/time-slices.ts'
import { isJsonObject, type JsonObject } from '../manifest/manifest-json.ts'
import { isPackageName } from '../manifest/package-name.ts'
import { type ListUpstreamAdvisories, openUpstreamAdvisories } from './advisories.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { metadataUrlOf, parseObject, type UpstreamRoot } from './client/upstream-root.ts'
import { jsonForPhp } from './documents/judge-document.ts'
import { matchesGlob } from './documents/patterns.ts'
import { listForeignNames } from './tables/mirrored-packages.ts'
import { listUpstreams, type Upstream } from './tables/upstreams.ts'
import { mentionClaimedVendor } from './tables/vendor-claims.ts'

/** The timeout of requests to an upstream during a search. */
const searchMilliseconds = 5_000
/** How many names of a list are compared with the repository's own names. */
const maxNames = 1000
const maxResults = 100

/** A search result of an upstream, in Composer's format. */
export interface UpstreamResult {
  name: string
  description: string
}

/**
 * Requests to upstreams other than metadata: advisories, searches, lists and providers. The requests never contain a
 * name of our own packages or a claimed vendor. Results about such names are dropped.
 */
export interface UpstreamQueries {
  listAdvisories: ListUpstreamAdvisories
  /** Returns search results. A failing upstream adds none. */
  search: (repositoryId: string, words: readonly string[], type: string | null) => Promise<UpstreamResult[]>
  /** Returns names that match the patterns of Composer's `list`. A failing upstream adds none. */
  listNames: (repositoryId: string, wanted: { vendor: string; filter: string }) => Promise<string[]>
  /** Returns packages that provide a name. A failing upstream adds none. */
  listProviders: (repositoryId: string, name: string) => Promise<JsonObject[]>
}

/** Opens the queries of a process, with its cache of advisories. */
export function openUpstreamQueries(
  { db, client }: { db: pg.Pool; client: UpstreamClient },
  log: FastifyBaseLogger,
): UpstreamQueries {
  /** Sends a request to several upstreams. Leaves out failing ones. */
  async function askAll<T>(
    upstreams: readonly Upstream[],
    urlOf: (root: UpstreamRoot) => string | null,
    read: (document: JsonObject) => T[],
  ): Promise<T[]> {
    const results = await Promise.all(
      upstreams.map(async (upstream) => {
        const { name, root } = upstream
        const url = root && urlOf(root)
        if (!url) return []
        try {
          const fetched = await client.for(upstream).fetchDocument(url, { milliseconds: searchMilliseconds })
          return fetched.kind === 'found' ? read(parseObject(fetched.text, 'the response')) : []
        } catch (error) {
          if (!(error instanceof UpstreamError)) throw error
          log.warn({ err: error, upstream: name }, 'an upstream could not be searched')
          return []
        }
      }),
    )
    return results.flat()
  }

  /**
   * Returns the upstreams that may get a query. Returns none if the query is empty, or contains a vendor of ours. Each
   * package of ours has one.
   */
  async function upstreamsFor(
    repositoryId: string,
    words: readonly string[],
    patterns: readonly string[] = [],
  ): Promise<Upstream[]> {
    if (words.length === 0) return []
    const upstreams = (await listUpstreams(db, repositoryId)).filter(({ mode }) => mode !== 'off')
    if (upstreams.length === 0) return []
    return (await mentionClaimedVendor(db, repositoryId, words, patterns)) ? [] : upstreams
  }

  /** Keeps the results whose packages may come from an upstream. Each name is kept once. */
  async function foreignOnly<T extends { name: string }>(
    repositoryId: string,
    results: readonly T[],
  ): Promise<T[]> {
    const byName = new Map(results.toReversed().map((result) => [result.name, result]))
    const names = [...byName.keys()].filter(isPackageName).slice(-maxNames)
    const foreign = new Set((await listForeignNames(db, repositoryId, names)).map(({ name }) => name))
    return [...byName.values()].filter(({ name }) => foreign.has(name)).toReversed()
  }

  return {
    listAdvisories: openUpstreamAdvisories({ db, client }, log),

    async search(repositoryId, words, type) {
      // The type is sent too, so it may contain no name of ours either.
      const said = words.length === 0 || type === null ? words : [...words, type.toLowerCase()]
      const upstreams = await upstreamsFor(repositoryId, said)
      if (upstreams.length === 0) return []
      const results = await askAll(
        upstreams,
        ({ searchUrl }) =>
          searchUrl
            ?.replaceAll('%query%', encodeURIComponent(words.join(' ')))
            .replaceAll('%type%', encodeURIComponent(type ?? '')) ?? null,
        ({ results }) => (Array.isArray(results) ? results.filter(isJsonObject).flatMap(readResult) : []),
      )
      return (await foreignOnly(repositoryId, results)).slice(0, maxResults)
    },

    async listNames(repositoryId, { vendor, filter }) {
      const words = [vendor, filter].filter((word) => word !== '')
      // `*/console` asks about no vendor.
      const patterns = words
        .map((word) => (word.split('/')[0] ?? '').replace(/[^a-z0-9_.*-]/g, ''))
        .filter((part) => /[a-z0-9]/.test(part))
      const upstreams = await upstreamsFor(repositoryId, words, patterns)
      if (upstreams.length === 0) return []
      const names = await askAll(
        upstreams,
        ({ listUrl }) => {
          if (listUrl === null) return null
          const url = new URL(listUrl)
          if (vendor !== '') url.searchParams.set('vendor', vendor)
          if (filter !== '') url.searchParams.set('filter', filter)
          return url.href
        },
        ({ packageNames }) =>
          Array.isArray(packageNames) ? packageNames.filter((name) => typeof name === 'string') : [],
      )
      const wanted = await matching(names, [vendor && `${vendor}/*`, filter])
      const found = await foreignOnly(
        repositoryId,
        wanted.map((name) => ({ name })),
      )
      return found.map(({ name }) => name)
    },

    async listProviders(repositoryId, name) {
      if (!isPackageName(name)) return []
      const upstreams = await upstreamsFor(repositoryId, [name])
      if (upstreams.length === 0) return []
      const providers = await askAll(
        upstreams,
        ({ providersUrl }) => providersUrl && metadataUrlOf(providersUrl, name, false),
        ({ providers }) =>
          Array.isArray(providers)
            ? providers
                .filter(isJsonObject)
                .filter((one) => typeof one['name'] === 'string' && jsonForPhp(one) !== null)
            : [],
      )
      return foreignOnly(repositoryId, providers as (JsonObject & { name: string })[])
    },
  }
}

/** Returns the names that match all patterns. Many upstreams ignore the filter of a request, and send all names. */
async function matching(names: readonly string[], patterns: readonly string[]): Promise<string[]> {
  const given = patterns.filter((pattern) => pattern !== '')
  const pause = makePause()
  const found: string[] = []
  for (const name of names) {
    if (given.every((pattern) => matchesGlob(pattern, name))) found.push(name)
    await pause()
  }
  return found
}

function readResult({ name, description, virtual }: JsonObject): UpstreamResult[] {
  if (typeof name !== 'string' || virtual === true) return []
  if (typeof description !== 'string') return [{ name, description: '' }]
  // A first cut bounds the work.
  return [{ name, description: shortenText(cleanLine(description.slice(0, 2000)), 500) }]
}
