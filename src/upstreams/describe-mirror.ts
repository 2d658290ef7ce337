import type { JsonObject } from '../composer/manifest-json.ts'
import type { Queryable } from '../database/database.ts'
import type { DescribedMirrorVersion } from './documents/described-content.ts'
import { describePacked } from './documents/run-task.ts'
import {
  type ArchiveState,
  findMirrorDescription,
  findStoredContent,
  listArchiveStates,
} from './tables/described-mirrors.ts'

/** A version of a mirrored package with what svc has of it. */
export interface MirrorVersion extends DescribedMirrorVersion {
  /** When it is old enough, in ISO format. Null when it is not held back. */
  until: string | null
  /** Null for a metapackage, which has no archive. */
  stored: ArchiveState | null
}

/** A version of a mirrored package with its metadata. */
export interface ShownMirrorVersion extends MirrorVersion {
  metadata: JsonObject
  /** The version to which people compare it. Null when there is no other. */
  previous: string | null
}

/** The versions of a mirrored package, and one of them with its metadata. */
export interface DescribedMirror {
  count: number
  versions: MirrorVersion[]
  /** The version that was asked for, or the latest. Null when there is none. */
  shown: ShownMirrorVersion | null
}

const nothing: DescribedMirror = { count: 0, versions: [], shown: null }

/**
 * Describes the versions that the upstream of a package has, also those that are not offered, development versions last.
 * A thread reads what the upstream sent. Throws `UpstreamError` when it cannot be read in time.
 */
export async function describeMirror(
  db: Queryable,
  { repositoryId, name }: { repositoryId: string; name: string },
  { version, from, limit }: { version: string | null; from: number; limit: number },
): Promise<DescribedMirror> {
  const found = await findMirrorDescription(db, repositoryId, name)
  if (!found) return nothing
  const { packageId, upstreamId, allow, deny, flagged, held } = found
  const untilOf = new Map(held.map(({ key, until }) => [key, until]))
  const described = { count: 0, versions: [] as DescribedMirrorVersion[] }
  let previous: string | null = null
  let chosen: { about: DescribedMirrorVersion; manifest: JsonObject } | null = null
  for (const isDev of [false, true]) {
    const packed = await findStoredContent(db, { upstreamId, name, isDev })
    if (packed === null) continue
    const content = await describePacked({ owner: upstreamId }, packed, {
      packageName: name,
      allow,
      deny,
      flagged,
      held: [...untilOf.keys()],
      version,
      from: Math.max(from - described.count, 0),
      limit: Math.max(limit - described.versions.length, 0),
    })
    described.count += content.count
    described.versions.push(...content.versions)
    if (chosen) continue
    // For a development version, the previous one is the latest release.
    previous ??= content.previous
    chosen = content.shown
  }
  const all = [...described.versions, ...(chosen ? [chosen.about] : [])]
  const states = new Map(
    (
      await listArchiveStates(
        db,
        packageId,
        all.flatMap(({ archive, key }) => (archive ? [key] : [])),
      )
    ).map((state) => [state.key, state]),
  )
  const complete = (one: DescribedMirrorVersion): MirrorVersion => ({
    ...one,
    until: one.state === 'held' ? (untilOf.get(one.key) ?? null) : null,
    stored: one.archive && (states.get(one.key) ?? null),
  })
  return {
    count: described.count,
    versions: described.versions.map(complete),
    shown: chosen && { ...complete(chosen.about), metadata: chosen.manifest, previous },
  }
}
