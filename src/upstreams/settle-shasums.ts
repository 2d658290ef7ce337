import type pg from 'pg'
import { background } from '../domain/principal.ts'
import { insertEvents, type NewEvent } from '../events/events.ts'
import { archiveKey } from './documents/packed-content.ts'
import { saveAlarms } from './tables/archive-alarms.ts'
import type { FixedArchive, MirrorRules } from './tables/rendered-mirrors.ts'

/** How the reasons of these alarms begin. */
const begin = 'the upstream now announces the SHA-1'

/** An archive of a document whose bytes are fixed, and the rules for its document. */
export interface RuledArchive extends FixedArchive {
  rules: MirrorRules
}

/**
 * Returns the shasums that documents must announce instead of those of the upstream, by the place of the document and
 * `archiveKey`. An archive whose bytes are fixed keeps the shasum that its first fetch had to match. With another one
 * every installation would fail. A difference is an alarm with one event, until the upstream announces the right shasum
 * again.
 */
export async function settleShasums(
  tx: pg.PoolClient,
  found: readonly RuledArchive[],
): Promise<ReadonlyMap<number, Readonly<Record<string, string>>>> {
  const wrong = found.filter(({ shasum, sha1 }) => shasum !== null && shasum !== sha1)
  // A document may contain an archive twice.
  const wrongById = new Map(wrong.map((one) => [one.archiveId, one]))
  const alarms: { id: string; alarm: string | null }[] = []
  const events: NewEvent[] = []
  for (const { archiveId: id, url, shasum, version, sha1, alarm, rules } of wrongById.values()) {
    // Another alarm stays. Otherwise the two would replace each other, each time with an event.
    if (alarm !== null) continue
    const { repositoryId, packageName, upstreamName } = rules
    const reason = `${begin} ${shasum}, and that of the first fetch is ${sha1}`
    alarms.push({ id, alarm: reason })
    const details = { upstream: upstreamName, url, reason }
    events.push({ repositoryId, packageName, version, action: 'archive-alarm', details })
  }
  for (const { archiveId: id, alarm } of found) {
    if (alarm?.startsWith(begin) && !wrongById.has(id)) alarms.push({ id, alarm: null })
  }
  if (alarms.length > 0) await saveAlarms(tx, alarms)
  if (events.length > 0) await insertEvents(tx, background, events)
  const announced = new Map<number, Record<string, string>>()
  for (const archive of wrong) {
    const { place, sha1, checkedShasum } = archive
    const ofDocument = announced.get(place) ?? {}
    ofDocument[archiveKey(archive)] = checkedShasum === sha1 ? sha1 : ''
    announced.set(place, ofDocument)
  }
  return announced
}
