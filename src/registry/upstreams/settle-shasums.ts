import type pg from 'pg'
import { commandLine, insertEventList, type NewEvent } from '../tables/events.ts'
import type { UpstreamDist } from './documents/judge-document.ts'
import { saveAlarms } from './tables/archive-alarms.ts'
import type { FixedArchive, MirrorRules } from './tables/rendered-mirrors.ts'

/** How the reasons of these alarms begin. */
const begin = 'the upstream now announces the SHA-1'

/** An archive of a document whose bytes are fixed. */
export interface FixedDist extends FixedArchive {
  version: string
  dist: UpstreamDist
  rules: MirrorRules
}

/**
 * Returns the shasums that documents must announce instead of those of the upstream. An archive whose bytes are fixed
 * keeps the shasum that its first fetch had to match. With another one every installation would fail. A difference is an
 * alarm with one event, until the upstream announces the right shasum again.
 */
export async function settleShasums(
  tx: pg.PoolClient,
  found: readonly FixedDist[],
): Promise<ReadonlyMap<UpstreamDist, string>> {
  const wrong = found.filter(({ dist, sha1 }) => dist.shasum !== null && dist.shasum !== sha1)
  // A document may contain an archive twice.
  const wrongById = new Map(wrong.map((one) => [one.archiveId, one]))
  const alarms: { id: string; alarm: string | null }[] = []
  const events: NewEvent[] = []
  for (const { archiveId: id, dist, version, sha1, alarm, rules } of wrongById.values()) {
    // Another alarm stays. Otherwise the two would replace each other, each time with an event.
    if (alarm !== null) continue
    const { repositoryId, packageName, upstreamName } = rules
    const reason = `${begin} ${dist.shasum}, and that of the first fetch is ${sha1}`
    alarms.push({ id, alarm: reason })
    const details = { upstream: upstreamName, url: dist.url, reason }
    events.push({ repositoryId, packageName, version, action: 'archive-alarm', details })
  }
  for (const { archiveId: id, alarm } of found) {
    if (alarm?.startsWith(begin) && !wrongById.has(id)) alarms.push({ id, alarm: null })
  }
  if (alarms.length > 0) await saveAlarms(tx, alarms)
  if (events.length > 0) await insertEventList(tx, commandLine, events)
  return new Map(wrong.map(({ dist, sha1, checkedShasum }) => [dist, checkedShasum === sha1 ? sha1 : '']))
}
