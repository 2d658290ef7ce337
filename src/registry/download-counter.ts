import type { FastifyBaseLogger } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Queryable } from '../database/database.ts'
import { networkOf } from '../http/client-ip.ts'
import { addDownloads, type CountedDownload } from './tables/downloads.ts'

/** How long counts are gathered before they are written. */
const gatherMilliseconds = 1_000
/** How many different versions are gathered. With names of 255 characters, that is about 10 MB. */
const maxGathered = 10_000
/** How many gathered versions one statement writes. */
const maxPerStatement = 1_000
/** How many downloads of one network are counted in an hour. A count is only an estimate, and anybody may send one. */
export const maxPerNetworkAndHour = 20_000
/** How many networks are remembered. The least recently used ones are forgotten first. */
const maxNetworks = 20_000

/** A download that a client reported. */
export interface ReportedDownload {
  repositoryId: string
  packageName: string
  normalized: string
}

/** Counts downloads without a statement for each report. */
export interface DownloadCounter {
  /** Remembers the downloads and returns at once. Downloads above the limits are not counted. */
  count: (downloads: readonly ReportedDownload[], clientIp: string) => void
  /** Writes the counts so far. */
  flush: () => Promise<void>
}

/**
 * Gathers downloads in the process and writes them together. A process that is killed loses about a second of counts.
 * While the database is unavailable, the counts are kept, up to the limit.
 */
export function openDownloadCounter(db: Queryable, log: FastifyBaseLogger): DownloadCounter {
  const gathered = new Map<string, CountedDownload>()
  const perNetwork = new LRUCache<string, { count: number }>({ max: maxNetworks, ttl: 3_600_000 })
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> | null = null

  function schedule(): void {
    timer ??= setTimeout(() => void flush(), gatherMilliseconds).unref()
  }

  function add(download: ReportedDownload & { count: number }): void {
    const { repositoryId, packageName, normalized, count } = download
    const key = `${repositoryId} ${packageName} ${normalized}`
    const known = gathered.get(key)
    if (known) known.count += count
    else if (gathered.size < maxGathered) gathered.set(key, { repositoryId, packageName, normalized, count })
  }

  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    // Run one flush at a time. The next one writes the counts that arrived in the meantime.
    while (writing) await writing
    if (gathered.size === 0) return
    writing = write(takeAll())
    await writing
  }

  function takeAll(): CountedDownload[] {
    const all = [...gathered.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, download]) => download)
    gathered.clear()
    return all
  }

  async function write(all: CountedDownload[]): Promise<void> {
    let start = 0
    try {
      for (; start < all.length; start += maxPerStatement) {
        await addDownloads(db, all.slice(start, start + maxPerStatement))
      }
    } catch (error) {
      log.warn({ err: error }, 'download counts could not be written and will be retried')
      for (const download of all.slice(start)) add(download)
      schedule()
    } finally {
      writing = null
    }
  }

  function takeFromLimit(clientIp: string, wanted: number): number {
    const network = networkOf(clientIp)
    const used = perNetwork.get(network) ?? { count: 0 }
    const taken = Math.min(wanted, maxPerNetworkAndHour - used.count)
    // The entry expires an hour after the network's first report, even when more reports follow.
    if (used.count === 0) perNetwork.set(network, used)
    used.count += taken
    return taken
  }

  return {
    count(downloads, clientIp) {
      const taken = takeFromLimit(clientIp, downloads.length)
      for (const download of downloads.slice(0, taken)) add({ ...download, count: 1 })
      if (gathered.size > 0) schedule()
    },
    flush,
  }
}
