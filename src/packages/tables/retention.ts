import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'
import type { ChangedVersion } from './version-states.ts'

/** The retention rules of a repository. Null: the rule is off. */
export interface RetentionRules {
  /** How many development versions of each package stay: those that changed last. */
  keepDevelopment: number | null
  /** After how many days the archive of a deleted version is purged. */
  deletedArchivesDays: number | null
}

/** The retention rules of a repository, and when they are applied next. */
export interface Retention extends RetentionRules {
  /** Null when all rules are off. */
  dueAt: Date | null
}

/** The largest values of the rules. The schema has the same numbers. */
export const maxKeptVersions = 1000
export const maxArchiveDays = 3650

const columns = `keep_development as "keepDevelopment", deleted_archives_days as "deletedArchivesDays", due_at as "dueAt"`

/** Finds the retention rules of a repository. */
export async function findRetention(db: Queryable, repositoryId: string): Promise<Retention> {
  const { rows } = await db.query<Retention>(
    `select ${columns} from repository_retention where repository_id = $1`,
    [repositoryId],
  )
  return rows[0] ?? { keepDevelopment: null, deletedArchivesDays: null, dueAt: null }
}

/**
 * Stores the retention rules of a locked repository. Where they become stricter, they wait a day before they are applied, so
 * that a mistake can be undone.
 */
export async function saveRetention(
  tx: pg.PoolClient,
  repositoryId: string,
  { keepDevelopment, deletedArchivesDays }: RetentionRules,
): Promise<void> {
  if (keepDevelopment === null && deletedArchivesDays === null) {
    await tx.query('delete from repository_retention where repository_id = $1', [repositoryId])
    return
  }
  const isLower = (rule: string) => `coalesce(excluded.${rule}, 100000) < coalesce(r.${rule}, 100000)`
  await tx.query(
    `insert into repository_retention as r (repository_id, keep_development, deleted_archives_days, due_at)
     values ($1, $2, $3, now() + interval '1 day')
     on conflict (repository_id) do update
        set keep_development = excluded.keep_development, deleted_archives_days = excluded.deleted_archives_days,
            due_at = case when ${isLower('keep_development')} or ${isLower('deleted_archives_days')}
                          then excluded.due_at else r.due_at end`,
    [repositoryId, keepDevelopment, deletedArchivesDays],
  )
}

/** What rules do with a version: they delete it, they purge it, or it stays. */
export type RetentionVerdict =
  | 'delete'
  | 'purge'
  /** One of the development versions that changed last. */
  | 'newest'
  /** The version of a branch that is no feature branch, or a release. */
  | 'lasting'
  /** The lock file of a project names it, or has named it within the last week. */
  | 'project'
  /** Somebody restored it after a rule had deleted it. */
  | 'restored'
  | 'quarantined'
  /** It was not deleted long enough ago. */
  | 'recent'

/** A version with what the rules do with it now. */
export interface JudgedVersion {
  id: string
  packageName: string
  version: string
  verdict: RetentionVerdict
  /** How many development versions of its package have changed later. Null when nobody counts. */
  newer: number | null
  changedAt: Date
  deletedAt: Date | null
}

/** SQL: the versions of the repository $1, judged by the rules $2 and $3. */
const judged = 'judge_retention($1, null, $2, $3) j'
const goes = "j.verdict in ('delete', 'purge')"

/** Lists the versions of a repository that rules delete and purge now, or those that stay, by package, the newest first. */
export async function listJudged(
  db: Queryable,
  repositoryId: string,
  { keepDevelopment, deletedArchivesDays }: RetentionRules,
  going: boolean,
  { after, limit }: ListPart,
): Promise<JudgedVersion[]> {
  const [, name = '', id = null] = /^(\S+) (\d{1,18})$/.exec(after ?? '') ?? []
  const { rows } = await db.query<JudgedVersion>(
    `select j.version_id as id, j.package_name as "packageName", j.version, j.verdict, (j.place - 1)::int as newer,
            j.changed_at as "changedAt", j.deleted_at as "deletedAt"
       from ${judged}
      where (${goes}) = $4
        and (j.package_name collate "C" > $5 or (j.package_name = $5 and j.version_id < $6))
      order by j.package_name collate "C", j.version_id desc limit $7`,
    [repositoryId, keepDevelopment, deletedArchivesDays, going, name, id, limit],
  )
  return rows
}

/** Returns the key after which `listJudged` continues. */
export function keyOfJudged({ packageName, id }: JudgedVersion): string {
  return `${packageName} ${id}`
}

/** How many versions rules delete and purge now, and how many of those that they are about stay. */
export interface JudgedCounts {
  deleted: number
  purged: number
  kept: number
}

/** Counts what rules do with the versions of a repository now. */
export async function countJudged(
  db: Queryable,
  repositoryId: string,
  { keepDevelopment, deletedArchivesDays }: RetentionRules,
): Promise<JudgedCounts> {
  const { rows } = await db.query<JudgedCounts>(
    `select (count(*) filter (where j.verdict = 'delete'))::int as deleted,
            (count(*) filter (where j.verdict = 'purge'))::int as purged,
            (count(*) filter (where not (${goes})))::int as kept
       from ${judged}`,
    [repositoryId, keepDevelopment, deletedArchivesDays],
  )
  return rows[0] as JudgedCounts
}

/** Lists the repositories whose rules are due. */
export async function listDueRetentions(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    'select repository_id as id from repository_retention where due_at <= now() order by due_at',
  )
  return rows.map(({ id }) => id)
}

/** Lists the packages of which the due rules of a repository delete or purge versions. */
export async function listDuePackages(db: Queryable, repositoryId: string): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select distinct j.package_name as name from ${dueRules}
      cross join lateral judge_retention(r.repository_id, null, r.keep_development, r.deleted_archives_days) j
      where ${goes} order by 1`,
    [repositoryId],
  )
  return rows.map(({ name }) => name)
}

/** SQL: the rules of the repository $1, if they are due. */
const dueRules = `(select * from repository_retention where repository_id = $1 and due_at <= now()) r`

/** Notes that the rules of a repository were applied. Those that became stricter meanwhile wait longer. */
export async function noteRetentionApplied(db: Queryable, repositoryId: string): Promise<void> {
  await db.query(
    `update repository_retention set due_at = now() + interval '1 day' where repository_id = $1 and due_at <= now()`,
    [repositoryId],
  )
}

/** A version that a rule has deleted or purged. */
export interface RetiredVersion extends ChangedVersion {
  version: string
  /** The value of the rule. */
  rule: number
}

/** SQL: at most $3 versions of the package $2 on which the rules of the repository $1 pass a verdict now. */
const condemned = (verdict: 'delete' | 'purge') => `(
  select j.version_id, j.changed_at, r.keep_development, r.deleted_archives_days
    from ${dueRules}
   cross join lateral judge_retention(r.repository_id, $2, r.keep_development, r.deleted_archives_days) j
   where j.verdict = '${verdict}' order by j.changed_at, j.version_id limit $3) c`

/** SQL: what a statement `retired` has changed. Their events have the same order. */
const oldestFirst = 'select id, "isDev", version, rule from retired order by changed_at, id'

/** Deletes versions of a locked package that the rule deletes now. Returns them, the oldest first. */
export async function markRetired(
  tx: pg.PoolClient,
  { id, repositoryId }: { id: string; repositoryId: string },
  limit: number,
): Promise<RetiredVersion[]> {
  const { rows } = await tx.query<RetiredVersion>(
    `with retired as (
       update package_version v set deleted_at = now(), retired_at = now(), difference = null
         from ${condemned('delete')}
        where v.id = c.version_id
    returning v.id, v.is_dev as "isDev", v.version, c.keep_development as rule, c.changed_at)
     ${oldestFirst}`,
    [repositoryId, id, limit],
  )
  return rows
}

/** Purges deleted versions of a locked package that the rule purges now. Returns them, the oldest first. */
export async function markPurgedByRule(
  tx: pg.PoolClient,
  { id, repositoryId }: { id: string; repositoryId: string },
  limit: number,
): Promise<RetiredVersion[]> {
  const { rows } = await tx.query<RetiredVersion>(
    `with retired as (
       update package_version v set purged_at = now()
         from ${condemned('purge')}
        where v.id = c.version_id
    returning v.id, v.is_dev as "isDev", v.version, c.deleted_archives_days as rule, c.changed_at)
     ${oldestFirst}`,
    [repositoryId, id, limit],
  )
  return rows
}

/** Returns whether a retention rule, and not a person, has deleted a version. */
export async function isRetired(
  db: Queryable,
  { repositoryId, packageName, version }: { repositoryId: string; packageName: string; version: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from package p join package_version v on v.package_id = p.id
      where p.repository_id = $1 and p.name = $2 and v.version = $3 and v.deleted_at = v.retired_at and v.purged_at is null`,
    [repositoryId, packageName, version],
  )
  return rowCount === 1
}
