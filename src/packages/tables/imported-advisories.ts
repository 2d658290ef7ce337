import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'
import { readRowId } from '../../domain/row-id.ts'
import type { AdvisoryText } from './package-warnings.ts'

/** An advisory of a package, also one that was withdrawn, as an import and an export see it. */
export interface KnownAdvisory extends AdvisoryText {
  id: string
  advisoryId: string
  /** The id in the file from which it was imported. Null for one that was written here. */
  osvId: string | null
  /** Other ids, without the CVE. */
  aliases: string[]
  reportedAt: Date
  withdrawnAt: Date | null
  sourceModifiedAt: Date | null
}

const columns = `y.id, y.advisory_id as "advisoryId", y.osv_id as "osvId", y.aliases, y.title,
  y.affected_versions as "affectedVersions", y.cve, y.link, y.severity, y.reported_at as "reportedAt",
  y.withdrawn_at as "withdrawnAt", y.source_modified_at as "sourceModifiedAt"`

/** Lists all advisories of a package of a repository. Null when the repository publishes no such package. */
export async function listKnownAdvisories(
  db: Queryable,
  repositoryId: string,
  packageName: string,
): Promise<KnownAdvisory[] | null> {
  const { rows } = await db.query<Partial<KnownAdvisory>>(
    `select ${columns} from package p left join advisory y on y.package_id = p.id
      where p.repository_id = $1 and p.name = $2 order by y.id`,
    [repositoryId, packageName],
  )
  return rows.length === 0 ? null : rows.filter((row): row is KnownAdvisory => row.id != null)
}

/** An advisory of a file. */
export interface ImportedAdvisory extends AdvisoryText {
  /** Null for an advisory that was exported here. */
  osvId: string | null
  aliases: string[]
  modifiedAt: Date
  /** Null for now. */
  publishedAt: Date | null
}

/** Adds an advisory of a file to a package. */
export async function insertImported(
  tx: pg.PoolClient,
  packageId: string,
  advisoryId: string,
  { osvId, aliases, modifiedAt, publishedAt, title, affectedVersions, cve, link, severity }: ImportedAdvisory,
): Promise<void> {
  await tx.query(
    `insert into advisory (advisory_id, package_id, title, affected_versions, cve, link, severity, osv_id, aliases,
                           source_modified_at, reported_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, least(now(), $11))`,
    [
      advisoryId,
      packageId,
      title,
      affectedVersions,
      cve,
      link,
      severity,
      osvId,
      aliases,
      modifiedAt,
      publishedAt,
    ],
  )
}

/** Gives an advisory what a file says about it. */
export async function updateImported(
  tx: pg.PoolClient,
  id: string,
  { aliases, modifiedAt, title, affectedVersions, cve, link, severity }: ImportedAdvisory,
): Promise<void> {
  await tx.query(
    `update advisory
        set title = $2, affected_versions = $3, cve = $4, link = $5, severity = $6, aliases = $7, source_modified_at = $8,
            modified_at = now()
      where id = $1`,
    [id, title, affectedVersions, cve, link, severity, aliases, modifiedAt],
  )
}

/** An advisory to export. */
export interface ExportedAdvisory extends KnownAdvisory {
  packageId: string
  packageName: string
  modifiedAt: Date
}

/** Lists all advisories of the packages of a repository, also those that were withdrawn, the oldest first. */
export async function listExported(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<ExportedAdvisory[]> {
  const { rows } = await db.query<ExportedAdvisory>(
    `select ${columns}, p.id as "packageId", p.name as "packageName",
            greatest(y.reported_at, y.modified_at, y.withdrawn_at, y.source_modified_at) as "modifiedAt"
       from package p join advisory y on y.package_id = p.id
      where p.repository_id = $1 and y.id > $2
      order by y.id limit $3`,
    [repositoryId, readRowId(after) ?? '0', limit],
  )
  return rows
}

/** How many versions of a package an export compares with its advisories. */
const maxVersions = 10_000

/** Lists the versions of a package that are not purged, as Composer names them, the newest first. */
export async function listNamedVersions(
  db: Queryable,
  packageId: string,
): Promise<{ composer: string; normalized: string }[]> {
  const { rows } = await db.query<{ composer: string; normalized: string }>(
    `select composer, normalized from package_version
      where package_id = $1 and purged_at is null order by is_dev, sort_key desc, id desc limit ${maxVersions}`,
    [packageId],
  )
  return rows
}
