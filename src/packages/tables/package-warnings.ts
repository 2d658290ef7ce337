import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import {
  accessTable,
  accessValues,
  publisherAccessJson,
  type RegistryRequest,
  type WithAccess,
} from '../../groups/access.ts'
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
  /** The id in the file from which it was imported. Null for one that was written here. */
  osvId: string | null
}

const columns = `y.advisory_id as "advisoryId", p.name as "packageName", y.title,
  y.affected_versions as "affectedVersions", y.cve, y.link, y.severity, y.reported_at as "reportedAt", y.osv_id as "osvId"`

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
       returning advisory_id, package_id, title, affected_versions, cve, link, severity, reported_at, osv_id
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

/** The result of an audit's statement, with the access to the repository. */
export interface FoundAdvisories extends WithAccess {
  /** Those of the named packages that the repository has, each with its active advisories. */
  own: { name: string; advisories: Advisory[] }[]
  /** Those of the names that upstreams may see, each with the upstreams to ask. */
  foreign: { name: string; upstreamIds: string[]; isBound: boolean }[]
}

/** SQL: whether the request may see the repository at all. */
const maySee = "(a.visibility = 'public' or a.role is not null)"

/** Finds the advisories of named packages. Finds none in a repository that the request may not see. */
export async function findAdvisories(
  db: Queryable,
  target: RegistryRequest,
  names: readonly string[],
): Promise<FoundAdvisories> {
  const { rows } = await db.query<FoundAdvisories>({
    name: 'find-advisories',
    // Materialized, because PostgreSQL inlines package_origin only when its arguments contain no subquery.
    text: `with a as materialized (
             select a.*, exists (select from upstream u where u.repository_id = a.repository_id
                                                          and u.removed_at is null) as has_upstreams
               from ${accessTable}
           )
           select ${publisherAccessJson} as access, own.packages as own, others.packages as foreign
             from a
            cross join lateral (
              select coalesce(json_agg(json_build_object('name', p.name, 'advisories', advisories.list) order by p.name),
                              '[]') as packages
                from package p
               cross join lateral (
                 select coalesce(json_agg(row_to_json(y)), '[]') as list
                   from (select ${columns} from advisory y
                          where y.package_id = p.id and y.withdrawn_at is null order by y.id) y) advisories
               where p.repository_id = a.repository_id and p.name = any($4) and ${maySee}) own
            cross join lateral (
              select coalesce(json_agg(json_build_object('name', n.name, 'upstreamIds', o.upstream_ids::text[],
                                                         'isBound', o.is_bound) order by n.name), '[]') as packages
                from unnest($4::text[]) as n (name), package_origin(a.repository_id, n.name) o
               where ${maySee} and a.has_upstreams and o.verdict = 'upstream') others`,
    values: [...accessValues(target), names],
  })
  const found = rows[0] as FoundAdvisories
  for (const { advisories } of found.own)
    for (const advisory of advisories) advisory.reportedAt = new Date(advisory.reportedAt)
  return found
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
