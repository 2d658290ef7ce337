import { LRUCache } from 'lru-cache'
import { type GroupBytes, measureGroup } from '../archives/tables/archives.ts'
import type { AppContext } from '../context.ts'
import { findDatabaseBytes } from '../database/installation.ts'
import { keepUpTo } from '../domain/growing-cache.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { singleFlight } from '../domain/single-flight.ts'
import { anAdministrator, type Site } from '../domain/site.ts'
import { findGroupId } from './repositories.ts'

/** Decides whether new archives may be stored: the size of the database, and the quota of each group. */
export interface StorageRoom {
  /** Throws errcode 8 with 507 when the database has its maximum size. Receiving an archive checks the disk itself. */
  requireDatabaseRoom: () => Promise<void>
  /** Throws errcode 8 with 507 when the group of a repository may not store this number of bytes more. */
  requireGroupRoom: (repositoryId: string, bytes: number) => Promise<void>
  /**
   * Stores an archive for a repository. Throws the errors of `requireGroupRoom`. Archives that are being stored at the
   * same time count too.
   */
  storing: <T>(repositoryId: string, bytes: number, store: () => Promise<T>) => Promise<T>
  /** Returns the bytes of a group, at most a second old. */
  bytesOf: (groupId: string) => Promise<GroupBytes>
}

/** For how long a measurement counts, with what this process has stored since. Other processes store too. */
const reusedMilliseconds = 10_000
/** Before a refusal, and for a page, a group is measured again: somebody may have purged versions. */
const freshMilliseconds = 1_000
const maxGroups = 10_000

/** An archive that is being stored, or was stored after the last measurement. */
interface Claim {
  bytes: number
  /** Resolves when it is stored, or failed. */
  ended: Promise<unknown>
  /** Null while it is being stored. */
  storedAt: number | null
}

interface MeasuredGroup {
  measured: GroupBytes
  measuredAt: number
  claims: Set<Claim>
}

/** Opens the storage room of a process. */
export function openStorageRoom({ config, db }: AppContext): StorageRoom {
  const { site, storage } = config
  const { groupBytes, databaseBytes } = storage
  const groups = new LRUCache<string, MeasuredGroup>(keepUpTo(maxGroups))
  const measurements = singleFlight<void>()
  let database = { bytes: 0, measuredAt: Number.NEGATIVE_INFINITY }

  async function measure(groupId: string, maxAge: number): Promise<MeasuredGroup> {
    const oldest = performance.now() - maxAge
    let group = groups.get(groupId)
    if (!group) {
      const measured = { stored: 0, mirrored: 0 }
      group = { measured, measuredAt: Number.NEGATIVE_INFINITY, claims: new Set() }
      groups.set(groupId, group)
    }
    const found = group
    while (found.measuredAt < oldest) {
      await measurements.share(groupId, () => measureAgain(groupId, found))
    }
    return found
  }

  async function measureAgain(groupId: string, group: MeasuredGroup): Promise<void> {
    const startedAt = performance.now()
    group.measured = await measureGroup(db, groupId)
    group.measuredAt = startedAt
    for (const claim of group.claims) {
      if (claim.storedAt !== null && claim.storedAt <= startedAt) group.claims.delete(claim)
    }
  }

  /**
   * Checks that a group may store this number of bytes more, and calls `use` at once, so that no other check comes between.
   * It gets the group of the repository, or null when no quota holds.
   */
  async function withRoom<T>(
    repositoryId: string,
    bytes: number,
    use: (group: MeasuredGroup | null) => Promise<T>,
  ): Promise<T> {
    const groupId = groupBytes === null ? null : await findGroupId(db, repositoryId)
    if (groupBytes === null || groupId === null) return use(null)
    const isFull = (group: MeasuredGroup) => usedBytes(group) + bytes > groupBytes
    let group = await measure(groupId, reusedMilliseconds)
    if (isFull(group)) group = await measure(groupId, freshMilliseconds)
    if (isFull(group) && group.claims.size > 0) {
      // The last measurement may have counted these archives, too.
      await Promise.all([...group.claims].map(({ ended }) => ended))
      group = await measure(groupId, 0)
    }
    if (isFull(group)) throw groupIsFull(usedBytes(group), groupBytes, site)
    return use(group)
  }

  return {
    async requireDatabaseRoom() {
      if (databaseBytes === null) return
      if (performance.now() - database.measuredAt > reusedMilliseconds) {
        database = { bytes: await findDatabaseBytes(db), measuredAt: performance.now() }
      }
      if (database.bytes >= databaseBytes) throw databaseIsFull(site)
    },

    requireGroupRoom: (repositoryId, bytes) => withRoom(repositoryId, bytes, async () => {}),

    storing: (repositoryId, bytes, store) =>
      withRoom(repositoryId, bytes, (group) => (group ? withClaim(group, bytes, store) : store())),

    bytesOf: async (groupId) => (await measure(groupId, freshMilliseconds)).measured,
  }
}

/** Stores an archive of a group, and counts it until the group is measured again. */
async function withClaim<T>(group: MeasuredGroup, bytes: number, store: () => Promise<T>): Promise<T> {
  const storing = store()
  const claim: Claim = { bytes, ended: Promise.allSettled([storing]), storedAt: null }
  group.claims.add(claim)
  try {
    const stored = await storing
    claim.storedAt = performance.now()
    return stored
  } catch (error) {
    group.claims.delete(claim)
    throw error
  }
}

function usedBytes({ measured, claims }: MeasuredGroup): number {
  let bytes = measured.stored + measured.mirrored
  for (const claim of claims) bytes += claim.bytes
  return bytes
}

function groupIsFull(used: number, max: number, site: Site): Refusal {
  return new Refusal(errcode.resourceExhausted, 'the group has no space left for archives', {
    status: 507,
    // The group is at its limit, and the server is fine.
    isFailure: false,
    warning: `The archives of the group have ${used} of at most ${max} bytes. Purge deleted versions, or ask ${anAdministrator(site)} about GROUP_QUOTA_BYTES.`,
  })
}

function databaseIsFull(site: Site): Refusal {
  return new Refusal(errcode.resourceExhausted, 'no space left in the database', {
    status: 507,
    warning: `The database has the size of DATABASE_MAX_BYTES. Ask ${anAdministrator(site)} to change this.`,
  })
}
