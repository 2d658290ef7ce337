import type pg from 'pg'
import { background } from '../domain/principal.ts'
import { insertEvents } from '../events/events.ts'
import { archiveKey } from './documents/packed-content.ts'
import type { FixedArchive, MirrorRules } from './tables/rendered-mirrors.ts'

/** A change of an archive at the upstream, and the archive as its event names it. */
export interface ArchiveAlarm {
  id: string
  repositoryId: string
  packageName: string
  version: string
  upstreamName: string
  url: string
  /** How the archive has changed. */
  reason: string
}

/**
 * Stores how archives at the upstream differ from the first fetch, and writes the events. The differing bytes are not
 * served; stored ones still are. Returns how many archives did not have the same alarm before.
 */
export async function raiseAlarms(tx: pg.PoolClient, alarms: readonly ArchiveAlarm[]): Promise<number> {
  const raised = await saveAlarms(tx, alarms)
  const events = alarms
    .filter(({ id }) => raised.has(id))
    .map(({ repositoryId, packageName, version, upstreamName: upstream, url, reason }) => {
      const details = { upstream, url, reason }
      return { repositoryId, packageName, version, action: 'archive-alarm' as const, details }
    })
  await insertEvents(tx, background, events)
  return raised.size
}

/** Stores alarms, or ends them with the reason null. Returns the ids of the archives whose alarm changed. */
async function saveAlarms(
  tx: pg.PoolClient,
  alarms: readonly { id: string; reason: string | null }[],
): Promise<ReadonlySet<string>> {
  if (alarms.length === 0) return new Set()
  const { rows } = await tx.query<{ id: string }>(
    `update mirrored_archive a set alarm = n.alarm, alarmed_at = case when n.alarm is not null then now() end
       from unnest($1::bigint[], $2::text[]) as n (id, alarm)
      where a.id = n.id and a.alarm is distinct from n.alarm
  returning a.id`,
    [alarms.map(({ id }) => id), alarms.map(({ reason }) => reason)],
  )
  return new Set(rows.map(({ id }) => id))
}

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
export async function keepShasums(
  tx: pg.PoolClient,
  found: readonly RuledArchive[],
): Promise<ReadonlyMap<number, Readonly<Record<string, string>>>> {
  const wrong = found.filter(({ shasum, sha1 }) => shasum !== null && shasum !== sha1)
  // A document may contain an archive twice.
  const wrongById = new Map(wrong.map((one) => [one.archiveId, one]))
  const alarms: ArchiveAlarm[] = []
  for (const { archiveId: id, shasum, sha1, alarm, rules, ...archive } of wrongById.values()) {
    // Another alarm stays. Otherwise the two would replace each other, each time with an event.
    if (alarm !== null) continue
    const reason = `${begin} ${shasum}, and that of the first fetch is ${sha1}`
    alarms.push({ ...rules, ...archive, id, reason })
  }
  const ended = found.filter(({ archiveId: id, alarm }) => alarm?.startsWith(begin) && !wrongById.has(id))
  await raiseAlarms(tx, alarms)
  await saveAlarms(
    tx,
    ended.map(({ archiveId: id }) => ({ id, reason: null })),
  )
  const announced = new Map<number, Record<string, string>>()
  for (const archive of wrong) {
    const { place, sha1, checkedShasum } = archive
    const ofDocument = announced.get(place) ?? {}
    ofDocument[archiveKey(archive)] = checkedShasum === sha1 ? sha1 : ''
    announced.set(place, ofDocument)
  }
  return announced
}
