import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { ChangedVersion } from './version-states.ts'

/** The severity of an advisory. Null when its author gives none. */
export const severities = ['low', 'medium', 'high', 'critical'] as const
export type Severity = (typeof severities)[number]

/** The text that the author of an advisory writes. */
export interface AdvisoryText {
  title: string
  /** A constraint that Composer can parse. */
  affectedVersions: string
  cve: string | null
  link: string | null
  severity: Severity | null
}

/** A security advisory of a package (COMPOSER A8). */
export interface Advisory extends AdvisoryText {
  advisoryId: string
  packageName: string
  reportedAt: Date
}

const columns = `y.advisory_id as "advisoryId", p.name as "packageName", y.title,
  y.affected_versions as "affectedVersions", y.cve, y.link, y.severity, y.reported_at as "reportedAt"`

/** Adds an advisory to a package. */
export async function insertAdvisory(
  db: Queryable,
  packageId: string,
  advisoryId: string,
  { title, affectedVersions, cve, link, severity }: AdvisoryText,
): Promise<Advisory> {
  const { rows } = await db.query<Advisory>(
    `with y as (
       insert into advisory (advisory_id, package_id, title, affected_versions, cve, link, severity)
       values ($1, $2, $3, $4, $5, $6, $7)
       returning advisory_id, package_id, title, affected_versions, cve, link, severity, reported_at
     )
     select ${columns} from y join package p on p.id = y.package_id`,
    [advisoryId, packageId, title, affectedVersions, cve, link, severity],
  )
  return rows[0] as Advisory
}

/** Withdraws an advisory. Returns false when the package has no active advisory with that id. */
export async function markWithdrawn(db: Queryable, packageId: string, advisoryId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update advisory set withdrawn_at = now()
      where package_id = $1 and advisory_id = $2 and withdrawn_at is null`,
    [packageId, advisoryId],
  )
  return rowCount === 1
}

/** Lists the active advisories of a package, the oldest first. */
export async function listAdvisories(db: Queryable, packageId: string): Promise<Advisory[]> {
  const { rows } = await db.query<Advisory>({
    name: 'list-advisories',
    text: `select ${columns}
             from advisory y join package p on p.id = y.package_id
            where y.package_id = $1 and y.withdrawn_at is null
            order by y.id`,
    values: [packageId],
  })
  return rows
}

/** Counts the active advisories of a package. */
export async function countAdvisories(db: Queryable, packageId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>({
    name: 'count-advisories',
    text: 'select count(*)::int as count from advisory where package_id = $1 and withdrawn_at is null',
    values: [packageId],
  })
  return rows[0]?.count ?? 0
}

/** Lists those of the named packages that the repository has, each with its active advisories. */
export async function listAdvisoriesOf(
  db: Queryable,
  repositoryId: string,
  names: readonly string[],
): Promise<{ name: string; advisories: Advisory[] }[]> {
  const { rows } = await db.query<{ name: string } & Advisory>({
    name: 'list-advisories-of-packages',
    text: `select p.name, ${columns}
             from package p left join advisory y on y.package_id = p.id and y.withdrawn_at is null
            where p.repository_id = $1 and p.name = any($2)
            order by p.name, y.id`,
    values: [repositoryId, names],
  })
  const found = new Map<string, Advisory[]>()
  for (const { name, ...advisory } of rows) {
    const advisories = found.get(name) ?? []
    if (advisory.advisoryId !== null) advisories.push(advisory)
    found.set(name, advisories)
  }
  return Array.from(found, ([name, advisories]) => ({ name, advisories }))
}

/** Quarantines a version, or changes the reason of its quarantine. Null when the version does not exist. */
export async function markQuarantined(
  tx: pg.PoolClient,
  packageId: string,
  version: string,
  reason: string,
): Promise<ChangedVersion | null> {
  const { rows } = await tx.query<ChangedVersion>(
    `update package_version
        set quarantined_at = coalesce(quarantined_at, now()), quarantine_reason = $3, difference = null
      where package_id = $1 and version = $2
      returning id, is_dev as "isDev"`,
    [packageId, version, reason],
  )
  return rows[0] ?? null
}

/** Ends a version's quarantine. Null when the version does not exist or is not in quarantine. */
export async function unmarkQuarantined(
  tx: pg.PoolClient,
  packageId: string,
  version: string,
): Promise<ChangedVersion | null> {
  const { rows } = await tx.query<ChangedVersion>(
    `update package_version set quarantined_at = null, quarantine_reason = null
      where package_id = $1 and version = $2 and quarantined_at is not null
      returning id, is_dev as "isDev"`,
    [packageId, version],
  )
  return rows[0] ?? null
}

/** A version in quarantine, for the p2 document of its package. */
export interface QuarantinedVersion {
  id: string
  /** The version in Composer's terms. */
  composer: string
  reason: string
}

/** Lists the package's versions in quarantine. Deleted versions are included, because a lock file may contain them. */
export async function listQuarantined(tx: pg.PoolClient, packageId: string): Promise<QuarantinedVersion[]> {
  const { rows } = await tx.query<QuarantinedVersion>({
    name: 'list-quarantined',
    text: `select id, composer, quarantine_reason as reason
             from package_version
            where package_id = $1 and quarantined_at is not null
            order by id`,
    values: [packageId],
  })
  return rows
}
