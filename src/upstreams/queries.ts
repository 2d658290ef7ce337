import type pg from 'pg'
import type { JsonObject } from '../composer/manifest-json.ts'
import { isPackageName } from '../composer/package-name.ts'
import type { Log } from '../domain/log.ts'
import { type ListUpstreamAdvisories, openUpstreamAdvisories } from './advisories.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { metadataUrlOf, type UpstreamRoot } from './client/upstream-root.ts'
import { runTask, type TaskOwner } from './documents/run-task.ts'
import type { UpstreamResult } from './documents/search-results.ts'
import { listForeignNames } from './tables/mirrored-packages.ts'
import { listUpstreams, type Upstream } from './tables/upstreams.ts'
import { mentionClaimedVendor } from './tables/vendor-claims.ts'

/** The timeout of requests to an upstream during a search. */
const searchMilliseconds = 5_000
/** How many names are compared with the repository's own names. */
const maxNames = 1000
const maxResults = 100

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
  log: Log,
): UpstreamQueries {
  /** Sends a request to several upstreams. Leaves out failing ones. */
  async function askAll<T>(
    upstreams: readonly Upstream[],
    urlOf: (root: UpstreamRoot) => string | null,
    read: (owner: TaskOwner, bytes: Uint8Array) => Promise<T[]>,
  ): Promise<T[]> {
    const results = await Promise.all(
      upstreams.map(async (upstream) => {
        const { id: owner, name, root } = upstream
        const url = root && urlOf(root)
        if (!url) return []
        try {
          const options = { milliseconds: searchMilliseconds }
          const fetched = await client
            .for(upstream)
            .fetchDocument(url, (bytes) => read({ owner }, bytes), options)
          return fetched.kind === 'found' ? fetched.content : []
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
        (owner, bytes) => runTask(owner, 'parseSearch', bytes),
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
      const wanted = [vendor && `${vendor}/*`, filter].filter((pattern) => pattern !== '')
      const names = await askAll(
        upstreams,
        ({ listUrl }) => {
          if (listUrl === null) return null
          const url = new URL(listUrl)
          if (vendor !== '') url.searchParams.set('vendor', vendor)
          if (filter !== '') url.searchParams.set('filter', filter)
          return url.href
        },
        (owner, bytes) => runTask(owner, 'parseNames', bytes, wanted),
      )
      return (await foreignOnly(repositoryId, names)).map(({ name }) => name)
    },

    async listProviders(repositoryId, name) {
      if (!isPackageName(name)) return []
      const upstreams = await upstreamsFor(repositoryId, [name])
      if (upstreams.length === 0) return []
      const providers = await askAll(
        upstreams,
        ({ providersUrl }) => providersUrl && metadataUrlOf(providersUrl, name, false),
        (owner, bytes) => runTask(owner, 'parseProviders', bytes),
      )
      return foreignOnly(repositoryId, providers)
    },
  }
}
