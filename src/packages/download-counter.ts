import { LRUCache } from 'lru-cache'
import type { Queryable } from '../database/database.ts'
import { networkOf } from '../domain/client-ip.ts'
import { keepUpTo } from '../domain/growing-cache.ts'
import type { Log } from '../domain/log.ts'
import { addDownloads, type CountedDownload } from './tables/downloads.ts'
import { type Downloader, type RecordedDownload, saveDownloads } from './tables/recorded-downloads.ts'

/** How long counts are gathered before they are written. */
const gatherMilliseconds = 1_000
/** How many different counts of each kind are gathered. With names of 255 characters, that is about 10 MB. */
const maxGathered = 10_000
/** How many gathered counts one statement writes. */
const maxPerStatement = 1_000
/** How many downloads of one network are counted in an hour. A count is only an estimate, and anybody may send one. */
export const maxPerNetworkAndHour = 20_000
/** How many networks are remembered. The least recently used ones are forgotten first. */
const maxNetworks = 20_000

/** A download that a client reported. */
export type ReportedDownload = Omit<CountedDownload, 'count'>

/** A download: the archive, and the account or token that gets it. */
export type SentArchive = Omit<RecordedDownload, 'count'>

/** Counts downloads without a statement for each of them. */
export interface DownloadCounter {
  /** Remembers the downloads and returns at once. Downloads above the limits are not counted. */
  count: (downloads: readonly ReportedDownload[], clientIp: string) => void
  /**
   * Remembers who downloads an archive, and returns at once. Call it just before the bytes, or a link to them, are sent.
   */
  record: (sent: SentArchive) => void
  /** Writes the counts so far. */
  flush: () => Promise<void>
}

/**
 * Gathers downloads in the process and writes them together. A process that is killed loses about a second of counts.
 * While the database is unavailable, the counts are kept, up to the limit.
 */
export function openDownloadCounter(db: Queryable, log: Log): DownloadCounter {
  const perNetwork = new LRUCache<string, { count: number }>({ ...keepUpTo(maxNetworks), ttl: 3_600_000 })
  const counted = gather<CountedDownload>({
    keyOf: ({ repositoryId, packageName, normalized }) => `${repositoryId} ${packageName} ${normalized}`,
    write: (downloads) => addDownloads(db, downloads),
    schedule,
  })
  const recorded = gather<RecordedDownload>({
    keyOf: ({ repositoryId, packageName, version, downloader: { kind, id } }) =>
      `${repositoryId} ${packageName} ${version} ${kind} ${id}`,
    write: (downloads) => saveDownloads(db, downloads),
    schedule,
  })
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> | null = null

  function schedule(): void {
    timer ??= setTimeout(() => void flush(), gatherMilliseconds).unref()
  }

  async function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    // Run one flush at a time. The next one writes the counts that arrived in the meantime.
    while (writing) await writing
    writing = write()
    await writing
  }

  async function write(): Promise<void> {
    for (const gathered of [counted, recorded]) {
      await gathered.writeAll().catch((error: unknown) => {
        log.warn({ err: error }, 'download counts could not be written and will be retried')
        schedule()
      })
      const lost = gathered.takeLost()
      if (lost > 0)
        log.warn({ downloads: lost }, 'too many different downloads in a second: some are not counted')
    }
    writing = null
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
      for (const download of downloads.slice(0, taken)) counted.add({ ...download, count: 1 })
    },
    record(sent) {
      recorded.add({ ...sent, count: 1 })
    },
    flush,
  }
}

/** Returns a download by the names that the log uses. */
export function describeDownload({ packageName, version, downloader }: SentArchive): object {
  return { package: packageName, version, by: downloader.kind, ...idsOf(downloader) }
}

/** Returns the ids of a downloader by the names that the log and commands use. */
function idsOf({ kind, id, accountId }: Downloader): object {
  if (kind === 'anonymous') return {}
  if (kind === 'session') return { account_id: id }
  if (kind === 'access') return { account_id: accountId, authorization_id: id }
  return { ...(accountId !== null && { account_id: accountId }), token_id: id }
}

/** Adds up counts by their keys until they are written. */
function gather<Count extends { count: number }>({
  keyOf,
  write,
  schedule,
}: {
  keyOf: (count: Count) => string
  write: (counts: Count[]) => Promise<void>
  /** Called when there is something to write. */
  schedule: () => void
}) {
  const gathered = new Map<string, Count>()
  let lost = 0

  function add(count: Count): void {
    const key = keyOf(count)
    const known = gathered.get(key)
    if (known) known.count += count.count
    else if (gathered.size < maxGathered) gathered.set(key, count)
    else lost += count.count
    schedule()
  }

  return {
    add,
    /** Returns how many downloads were not gathered because of the limit, since the last call. */
    takeLost(): number {
      const taken = lost
      lost = 0
      return taken
    },
    /** Writes all counts. Keeps those that could not be written, and throws. */
    async writeAll(): Promise<void> {
      const all = [...gathered.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count)
      gathered.clear()
      for (let start = 0; start < all.length; start += maxPerStatement) {
        try {
          await write(all.slice(start, start + maxPerStatement))
        } catch (error) {
          for (const count of all.slice(start)) add(count)
          throw error
        }
      }
    },
  }
}
