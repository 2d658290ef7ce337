import type { ArchiveSource, OfferedArchive } from '../archives/repair-archives.ts'
import type { Queryable } from '../database/database.ts'
import { Refusal } from '../domain/refusal.ts'
import { refuseDenied } from './check-archive.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { listArchivesWithHash, type MirroredArchive } from './tables/mirrored-archives.ts'

/**
 * Returns the archives that upstreams still serve. It requests only those that a repository of this installation mirrors, by
 * the rules of a fetch: an upstream is not asked for a name that it may not offer now.
 */
export function sourceOfUpstreams(db: Queryable, client: UpstreamClient): ArchiveSource {
  return async function* offer(wanted) {
    for (const sha256 of wanted) {
      const asked = new Set<string>()
      for (const archive of await listArchivesWithHash(db, sha256)) {
        if (!wanted.has(sha256)) break
        if (asked.has(archive.url)) continue
        asked.add(archive.url)
        yield await fetchAgain(client, sha256, archive)
      }
    }
  }
}

async function fetchAgain(
  client: UpstreamClient,
  sha256: string,
  archive: MirroredArchive,
): Promise<OfferedArchive> {
  const { upstreamName: place, verdict } = archive
  try {
    refuseDenied(archive)
    if (verdict !== 'upstream') return { sha256, reason: `${place}: no upstream may offer it now` }
    const { body } = await client.for(archive.rights).fetchArchive(archive.url)
    return { sha256, place, size: archive.size ?? 0, bytes: body }
  } catch (error) {
    if (error instanceof UpstreamError) return { sha256, reason: `${place}: ${error.message}` }
    if (error instanceof Refusal) return { sha256, reason: `${place}: ${error.warning ?? error.errmsg}` }
    throw error
  }
}
