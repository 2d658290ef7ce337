import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { Log } from '../domain/log.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { mayKnow } from './client/upstream-root.ts'
import type { ServedAdvisory } from './documents/complete-advisories.ts'
import { advisoriesOfPacked, runTask } from './documents/run-task.ts'
import { listStoredContents } from './tables/upstream-documents.ts'
import { listUpstreamsById, type Upstream } from './tables/upstreams.ts'

/** Composer waits 10 seconds for the advisories. After that, it says only that svc is too slow. */
const requestMilliseconds = 8_000
const freshMilliseconds = 5 * 60_000
/** After a failure, an upstream is not asked about the same names for this time. */
const failedMilliseconds = 30_000
/** How many stored documents are in memory at the same time. Each can be large. */
const documentBatch = 10
/** The size of a gzipped document whose advisories are read. Larger ones would delay other requests for too long. */
const maxStoredBytes = 4 * 1024 * 1024
/** The size of the advisories in one response. An upstream can have a document of this size. */
const maxResponseCharacters = 16 * 1024 * 1024
/** The size of the advisories that a process keeps. Anybody may ask about new names, and upstreams return any size. */
const maxKeptCharacters = 8 * 1024 * 1024
/** What a name takes besides its texts. Most names have no advisories. */
const entryCharacters = 400

/** The advisories of a name at an upstream. */
interface KnownAdvisories {
  /** When the upstream is asked again, in milliseconds since 1970. */
  askAt: number
  /** Null when the upstream told nothing about the name. */
  advisories: ServedAdvisory[] | null
  /** Why nothing is known. Null when the upstream has responded at least once. */
  failure: string | null
}

/** A name whose advisories are wanted. The function `package_origin` has allowed to send it to these upstreams. */
export interface AuditedName {
  name: string
  /** Only its own upstream for a bound name. */
  upstreamIds: string[]
  isBound: boolean
}

/**
 * Returns the advisories of packages from their upstreams, by name (UPSTREAMS 14). All upstreams that may have the
 * package are asked about a name that is not bound yet. Names that no upstream knows are left out. Throws errcode 14
 * when an upstream fails, because an empty list would mean "no advisories".
 */
export type ListUpstreamAdvisories = (
  names: readonly AuditedName[],
) => Promise<Record<string, ServedAdvisory[]>>

/** Opens the advisories of a process, with their cache. */
export function openUpstreamAdvisories(
  { db, client }: { db: pg.Pool; client: UpstreamClient },
  log: Log,
): ListUpstreamAdvisories {
  const cache = new LRUCache<string, KnownAdvisories>({
    maxSize: maxKeptCharacters,
    sizeCalculation: ({ advisories, failure }, key) =>
      key.length + entryCharacters + sizeOf(advisories ?? []) + (failure?.length ?? 0),
  })

  async function listOf(
    upstreamId: string,
    asked: readonly AuditedName[],
  ): Promise<[string, ServedAdvisory[]][]> {
    const keyOf = ({ name }: AuditedName) => `${upstreamId} ${name}`
    // The response needs them even if the cache drops them meanwhile.
    const known = new Map<string, KnownAdvisories>()
    for (const one of asked) {
      const kept = cache.get(keyOf(one))
      if (kept) known.set(one.name, kept)
    }
    const old = asked.filter(({ name }) => Date.now() >= (known.get(name)?.askAt ?? 0))
    if (old.length > 0) {
      const [upstream] = await listUpstreamsById(db, [upstreamId])
      if (!upstream?.root) return []
      const { root } = upstream
      // Without an API, only a bound name has advisories. Cache nothing for others: they can become bound at any time.
      const wanted = old.filter(
        ({ name, isBound }) => isBound || (root.advisoriesUrl !== null && mayKnow(root, name)),
      )
      const keep = (one: AuditedName, learned: Omit<KnownAdvisories, 'askAt'>, milliseconds: number) => {
        const kept = { ...learned, askAt: Date.now() + milliseconds }
        known.set(one.name, kept)
        cache.set(keyOf(one), kept)
      }
      try {
        const found = await read(
          upstream,
          wanted.map(({ name }) => name),
        )
        for (const one of wanted)
          keep(one, { advisories: found.get(one.name) ?? null, failure: null }, freshMilliseconds)
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error
        for (const one of wanted) {
          const last = known.get(one.name)
          const isKnown = last !== undefined && last.failure === null
          keep(one, isKnown ? last : { advisories: null, failure: error.message }, failedMilliseconds)
        }
        log.warn({ err: error, upstream: upstream.name }, 'the advisories of an upstream could not be read')
      }
    }
    for (const { failure } of known.values()) if (failure !== null) throw unavailable(failure)
    return asked.flatMap((one): [string, ServedAdvisory[]][] => {
      const advisories = known.get(one.name)?.advisories ?? null
      // Without an entry, Composer asks other repositories: this one does not know whether it has the package.
      if (advisories === null || (advisories.length === 0 && !one.isBound)) return []
      return [[one.name, advisories]]
    })
  }

  function read(upstream: Upstream, names: readonly string[]): Promise<Map<string, ServedAdvisory[]>> {
    const url = upstream.root?.advisoriesUrl ?? null
    if (url !== null) return request(upstream, url, names)
    return readStored(upstream, upstream.root?.hasAdvisoriesInDocuments ? names : [])
  }

  async function request(
    upstream: Upstream,
    url: string,
    names: readonly string[],
  ): Promise<Map<string, ServedAdvisory[]>> {
    if (names.length === 0) return new Map()
    const form = new URLSearchParams(names.map((name): [string, string] => ['packages[]', name])).toString()
    const fetched = await client
      .for(upstream)
      .fetchDocument(url, (bytes) => runTask({ owner: upstream.id }, 'parseAdvisories', bytes, names, url), {
        form,
        milliseconds: requestMilliseconds,
      })
    if (fetched.kind !== 'found') throw new UpstreamError(`${url} does not exist`)
    const found = fetched.content
    return new Map(names.map((name, i) => [name, found[i] ?? []]))
  }

  /** Reads the advisories in stored documents, for an upstream that has them only there. */
  async function readStored(
    upstream: Upstream,
    names: readonly string[],
  ): Promise<Map<string, ServedAdvisory[]>> {
    const found = new Map<string, ServedAdvisory[]>()
    let characters = 0
    for (let start = 0; start < names.length; start += documentBatch) {
      const batch = names.slice(start, start + documentBatch)
      for (const { name, content } of await listStoredContents(db, upstream.id, batch, maxStoredBytes)) {
        if (content === null) {
          log.warn(
            { upstream: upstream.name, package: name },
            'a document is too large to read its advisories',
          )
          continue
        }
        const advisories = await advisoriesOfPacked({ owner: upstream.id }, content, name)
        characters += sizeOf(advisories)
        if (characters > maxResponseCharacters)
          throw new UpstreamError('the advisories are too large together')
        if (advisories.length > 0) found.set(name, advisories)
      }
    }
    return found
  }

  return async (names) => {
    const byUpstream = new Map<string, AuditedName[]>()
    for (const id of new Set(names.flatMap(({ upstreamIds }) => upstreamIds))) {
      byUpstream.set(
        id,
        names.filter(({ upstreamIds }) => upstreamIds.includes(id)),
      )
    }
    const found = await Promise.all(Array.from(byUpstream, ([id, asked]) => listOf(id, asked)))
    const merged = new Map<string, ServedAdvisory[]>()
    for (const [name, advisories] of found.flat()) {
      const known = merged.get(name) ?? []
      const ids = new Set(known.map(({ advisoryId }) => advisoryId))
      merged.set(name, [...known, ...advisories.filter(({ advisoryId }) => !ids.has(advisoryId))])
    }
    if (sizeOf([...merged.values()].flat()) > maxResponseCharacters)
      throw unavailable('the advisories of the upstreams are too large together')
    return Object.fromEntries(merged)
  }
}

function sizeOf(advisories: readonly ServedAdvisory[]): number {
  return advisories.reduce((sum, { text }) => sum + text.length, 0)
}

function unavailable(reason: string): Refusal {
  return new Refusal(errcode.unavailable, 'the upstream is unavailable', {
    warning: `Its advisories cannot be read: ${reason}.`,
  })
}
