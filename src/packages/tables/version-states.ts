import type pg from 'pg'

/** A version whose state has just changed. */
export interface ChangedVersion {
  id: string
  isDev: boolean
}

/** What a published version is, the strongest first. */
export type VersionState = 'purged' | 'deleted' | 'quarantined' | 'listed'

/** The SQL expression for the state of the version `v`. */
export const stateOfVersion = `case when v.purged_at is not null then 'purged' when v.deleted_at is not null then 'deleted'
       when v.quarantined_at is not null then 'quarantined' else 'listed' end`

const changed = 'id, is_dev as "isDev"'

/** Marks a version as deleted. Null when the version does not exist or is already deleted. */
export async function markDeleted(
  tx: pg.PoolClient,
  packageId: string,
  version: string,
): Promise<ChangedVersion | null> {
  const { rows } = await tx.query<ChangedVersion>(
    `update package_version set deleted_at = now(), difference = null
      where package_id = $1 and version = $2 and deleted_at is null
      returning ${changed}`,
    [packageId, version],
  )
  return rows[0] ?? null
}

/**
 * Marks all remaining versions as deleted, and stores the time with the package. Returns the versions that it marked.
 */
export async function markAllDeleted(tx: pg.PoolClient, packageId: string): Promise<string[]> {
  return changeAll(
    tx,
    packageId,
    `noted as (update package set deleted_at = now() where id = $1),
     changed as (
       update package_version set deleted_at = now(), difference = null
        where package_id = $1 and deleted_at is null
        returning version)`,
  )
}

/** Undoes the deletion of a version. Null when the version does not exist, is not deleted, or is purged. */
export async function unmarkDeleted(
  tx: pg.PoolClient,
  packageId: string,
  version: string,
): Promise<ChangedVersion | null> {
  const { rows } = await tx.query<ChangedVersion>(
    `update package_version set deleted_at = null
      where package_id = $1 and version = $2 and deleted_at is not null and purged_at is null
      returning ${changed}`,
    [packageId, version],
  )
  return rows[0] ?? null
}

/** Undoes the last deletion of the whole package, except for purged versions. Returns the restored versions. */
export async function unmarkAllDeleted(tx: pg.PoolClient, packageId: string): Promise<string[]> {
  return changeAll(
    tx,
    packageId,
    `last as (select deleted_at from package where id = $1),
     cleared as (update package set deleted_at = null where id = $1),
     changed as (
       update package_version v set deleted_at = null
         from last
        where v.package_id = $1 and v.deleted_at = last.deleted_at and v.purged_at is null
        returning v.version)`,
  )
}

/** Marks a version as purged and deleted. Null when the version does not exist or is already purged. */
export async function markPurged(
  tx: pg.PoolClient,
  packageId: string,
  version: string,
): Promise<ChangedVersion | null> {
  const { rows } = await tx.query<ChangedVersion>(
    `update package_version
        set purged_at = now(), deleted_at = coalesce(deleted_at, now()), difference = null
      where package_id = $1 and version = $2 and purged_at is null
      returning ${changed}`,
    [packageId, version],
  )
  return rows[0] ?? null
}

/** Marks all remaining versions as purged and deleted. Returns the versions that it marked. */
export async function markAllPurged(tx: pg.PoolClient, packageId: string): Promise<string[]> {
  return changeAll(
    tx,
    packageId,
    `noted as (update package set deleted_at = now() where id = $1),
     changed as (
       update package_version
          set purged_at = now(), deleted_at = coalesce(deleted_at, now()), difference = null
        where package_id = $1 and purged_at is null
        returning version)`,
  )
}

/**
 * Runs a change of a package's versions. Returns the changed versions in one value, because reading tens of thousands
 * of rows takes long.
 */
async function changeAll(tx: pg.PoolClient, packageId: string, change: string): Promise<string[]> {
  const { rows } = await tx.query<{ versions: string[] }>(
    `with ${change} select coalesce(json_agg(version), '[]') as versions from changed`,
    [packageId],
  )
  return rows[0]?.versions ?? []
}

/** Finds the state of a version. Null when the package never had the version. */
export async function findVersionState(
  tx: pg.PoolClient,
  packageId: string,
  version: string,
): Promise<VersionState | null> {
  const { rows } = await tx.query<{ state: VersionState }>(
    `select ${stateOfVersion} as state from package_version v where package_id = $1 and version = $2`,
    [packageId, version],
  )
  return rows[0]?.state ?? null
}
