import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { Provenance } from '../../domain/provenance.ts'
import {
  accessTable,
  accessValues,
  publisherAccessJson,
  type RegistryRequest,
  type WithAccess,
} from '../../groups/access.ts'

/** The version that attestations are about. */
interface AttestedVersion {
  repositoryId: string
  packageName: string
  normalized: string
  /** The SHA-256 of the archive, lower-case hex. */
  sha256: string
}

/** Stores the attestations of a version with these bytes, unless it has some. Returns whether it stored them. */
export async function saveProvenance(
  tx: pg.PoolClient,
  { repositoryId, packageName, normalized, sha256 }: AttestedVersion,
  { document, attested }: Provenance,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update package_version v set provenance = $5, attested = $6
       from package p
      where p.repository_id = $1 and p.name = $2 and v.package_id = p.id and v.normalized = $3
        and v.sha256 = decode($4, 'hex') and v.provenance is null`,
    [repositoryId, packageName, normalized, sha256, document, JSON.stringify(attested)],
  )
  return rowCount === 1
}

/** Stores the attestations of a staged version, unless it has some. Returns whether it stored them. */
export async function saveStagedProvenance(
  tx: pg.PoolClient,
  stageId: string,
  { document, attested }: Provenance,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    'update staged_version set provenance = $2, attested = $3 where id = $1 and provenance is null',
    [stageId, document, JSON.stringify(attested)],
  )
  return rowCount === 1
}

/** Gives a version that is released the attestations of its stage. */
export async function releaseProvenance(
  tx: pg.PoolClient,
  { stageId, versionId }: { stageId: string; versionId: string },
): Promise<void> {
  await tx.query(
    `update package_version v set provenance = s.provenance, attested = s.attested
       from staged_version s
      where v.id = $1 and s.id = $2 and s.provenance is not null`,
    [versionId, stageId],
  )
}

/** The provenance of a version, with the access to its repository. */
export interface FoundProvenance extends WithAccess {
  /** JSON. Null when there is no such version, it is purged, or it has no attestations. */
  document: string | null
}

/** Finds the provenance object of a version that is not purged. */
export async function findProvenance(
  db: Queryable,
  target: RegistryRequest,
  { packageName, version }: { packageName: string; version: string },
): Promise<FoundProvenance> {
  const { rows } = await db.query<FoundProvenance>({
    name: 'find-provenance',
    text: `select ${publisherAccessJson} as access,
                  (select v.provenance::text from package p join package_version v on v.package_id = p.id
                    where p.repository_id = a.repository_id and p.name = $4 and v.version = $5
                      and v.purged_at is null) as document
             from ${accessTable}`,
    values: [...accessValues(target), packageName, version],
  })
  return rows[0] as FoundProvenance
}

/** Reads the provenance object of a version, as JSON. Null without attestations. */
export async function readProvenance(db: Queryable, versionId: string): Promise<string | null> {
  const { rows } = await db.query<{ document: string | null }>(
    'select provenance::text as document from package_version where id = $1',
    [versionId],
  )
  return rows[0]?.document ?? null
}
