import type pg from 'pg'
import type { ArchiveDigest } from '../../archives/tables/archives.ts'
import { type PublishedVersion, versionSortKey } from '../../composer/composer-version.ts'
import type { JsonObject } from '../../composer/manifest-json.ts'
import { accountName } from '../../database/account-name.ts'
import { advisoryLocks, type Queryable, sweepOf } from '../../database/database.ts'
import { toLikePattern } from '../../database/name-range.ts'
import type { ListPart } from '../../domain/paging.ts'
import { background, type Principal } from '../../domain/principal.ts'
import type { Attested } from '../../domain/provenance.ts'
import { readRowId } from '../../domain/row-id.ts'
import type { RenderedReadme } from './readmes.ts'

/** The states of a stage. All but the first are final. */
export const stageStates = ['staged', 'released', 'rejected', 'expired'] as const
export type StageState = (typeof stageStates)[number]

/** How long a staged version waits. The schema has the same number. */
export const stageDays = 14

/** A staged version in a list: what was uploaded, and what became of it. */
export interface ListedStage {
  id: string
  repositoryId: string
  packageName: string
  /** The version as in the URL of its upload. */
  version: string
  /** The version in Composer's terms. */
  composerVersion: string
  normalized: string
  isDev: boolean
  state: StageState
  /** Lower-case hex. */
  sha256: string
  /** Lower-case hex. */
  sha1: string
  size: number
  /** Who staged it. */
  by: Principal
  /** The username of the account that staged it. Null when none did. `deleted account` when it was deleted. */
  stager: string | null
  /** The name of the deploy token that staged it. */
  deployToken: string | null
  stagedAt: Date
  expiresAt: Date
  /** The account that gave the first of two approvals. Null without one. */
  approverId: string | null
  approver: string | null
  /** The account that released or rejected it. Null when none did. */
  decider: string | null
  decidedAt: Date | null
  /** What its attestations say. Null without any. */
  attested: Attested[] | null
}

/** A staged version. */
export interface Stage extends ListedStage {
  metadata: JsonObject
}

/** SQL: the state of the stage `s`. One whose time is over is expired, although the job has not written it yet. */
const state = `case when s.state = 'staged' and s.expires_at <= now() then 'expired' else s.state end`

const columns = `s.id, s.repository_id as "repositoryId", s.package_name as "packageName", s.version,
  s.composer as "composerVersion", s.normalized, s.is_dev as "isDev", ${state} as state,
  encode(s.sha256, 'hex') as sha256, encode(c.sha1, 'hex') as sha1, c.size::float8 as size, s.stager as by,
  ${accountName('s.stager_id')} as stager,
  (select name from deploy_token where s.stager -> 'token' ->> 'kind' = 'deploy'
      and id = (s.stager -> 'token' ->> 'tokenId')::bigint) as "deployToken",
  s.staged_at as "stagedAt", s.expires_at as "expiresAt", s.approver_id as "approverId",
  ${accountName('s.approver_id')} as approver, ${accountName('s.decider_id')} as decider, s.decided_at as "decidedAt",
  s.attested`

/** The metadata has up to half a MiB. Lists do not read it. */
const allColumns = `${columns}, s.metadata`

const from = 'staged_version s join archive c on c.sha256 = s.sha256'

/** SQL: whether the stage `s` waits. */
const isWaiting = `s.state = 'staged' and s.expires_at > now()`

function stageOf<Row extends ListedStage>(row: Row): Row {
  return { ...row, by: { ...background, ...row.by } }
}

/**
 * Makes other uploads, stages and releases of the package wait until the transaction ends, so that published and staged
 * versions share one space of numbers. Call it first. A package that has only staged versions has no row to lock.
 */
export async function lockNumbers(
  tx: pg.PoolClient,
  repositoryId: string,
  packageName: string,
): Promise<void> {
  await tx.query({
    name: 'lock-numbers',
    text: `select pg_advisory_xact_lock(${advisoryLocks.numbers}, hashtext($1 || ' ' || $2))`,
    values: [repositoryId, packageName],
  })
}

/** Returns whether versions of a package are released after a review, by the rule of the repository or of the package. */
export async function isReviewed(db: Queryable, repositoryId: string, packageName: string): Promise<boolean> {
  const { rows } = await db.query<{ isReviewed: boolean }>({
    name: 'is-reviewed',
    text: `select exists (select from repository where id = $1 and release = 'reviewed')
               or exists (select from package where repository_id = $1 and name = $2 and release = 'reviewed')
               as "isReviewed"`,
    values: [repositoryId, packageName],
  })
  return rows[0]?.isReviewed === true
}

/** Finds the stage that reserves a normalized number of a package. Null when none does. */
export async function findStagedNumber(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  normalized: string,
): Promise<Stage | null> {
  const { rows } = await db.query<Stage>({
    name: 'find-staged-number',
    text: `select ${allColumns} from ${from}
            where s.repository_id = $1 and s.package_name = $2 and s.normalized = $3 and ${isWaiting}`,
    values: [repositoryId, packageName, normalized],
  })
  return rows[0] ? stageOf(rows[0]) : null
}

/** A checked upload, which may be staged. Its archive is already stored. */
export interface CheckedUpload {
  repositoryId: string
  packageName: string
  version: PublishedVersion
  metadata: JsonObject
  readme: RenderedReadme
  archive: ArchiveDigest
  /** Who uploads it. */
  by: Principal
}

/**
 * Stores a staged version. The caller holds the numbers of the package, has ended the stages whose time is over, and knows
 * that the number is free.
 */
export async function insertStage(tx: pg.PoolClient, fresh: CheckedUpload): Promise<Stage> {
  const { repositoryId, packageName, version, metadata, readme, archive, by } = fresh
  const { accountId, via, token } = by
  const { rows } = await tx.query<{ id: string }>(
    `insert into staged_version (repository_id, package_name, version, composer, normalized, is_dev, metadata,
                                 readme_format, readme_content, sha256, stager, stager_id)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, decode($10, 'hex'), $11, $12)
     returning id`,
    [
      repositoryId,
      packageName,
      version.version,
      version.composerVersion,
      version.normalized,
      version.isDev,
      JSON.stringify(metadata),
      readme.format,
      readme.content,
      archive.sha256,
      JSON.stringify({ accountId, via, token }),
      accountId,
    ],
  )
  return (await findStage(tx, rows[0]?.id ?? '')) as Stage
}

/** Finds a stage. Null when there is none, or when its repository was deleted. */
export async function findStage(db: Queryable, id: string): Promise<Stage | null> {
  const { rows } = await db.query<Stage>(
    `select ${allColumns} from ${from}
      where s.id = $1 and exists (select from repository where id = s.repository_id and group_id is not null)`,
    [readRowId(id)],
  )
  return rows[0] ? stageOf(rows[0]) : null
}

/** Finds a stage of a repository. Null when the repository has none with this id. */
export async function findStageOf(db: Queryable, repositoryId: string, id: string): Promise<Stage | null> {
  const found = await findStage(db, id)
  return found?.repositoryId === repositoryId ? found : null
}

/** Which stages a list has. */
export interface StageFilter {
  /** Null for every state. */
  state?: StageState | null | undefined
  /** Patterns of packages. Null for every package. */
  packages?: readonly string[] | null | undefined
}

/**
 * Lists the stages of a repository, the latest first: all, or those in one state, and those of packages that match one of
 * the patterns. `after` is an id.
 */
export async function listStages(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
  { state: only = null, packages = null }: StageFilter = {},
): Promise<ListedStage[]> {
  const { rows } = await db.query<ListedStage>(
    `select ${columns} from ${from}
      where s.repository_id = $1 and ($2::bigint is null or s.id < $2) and ($4::text is null or ${state} = $4)
        and ($5::text[] is null or s.package_name like any($5))
      order by s.id desc limit $3`,
    [repositoryId, readRowId(after), limit, only, packages?.map(toLikePattern) ?? null],
  )
  return rows.map(stageOf)
}

/** Lists the versions of a package that wait for their release, the latest first. */
export async function listWaitingOf(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  limit: number,
): Promise<ListedStage[]> {
  const { rows } = await db.query<ListedStage>(
    `select ${columns} from ${from}
      where s.repository_id = $1 and s.package_name = $2 and ${isWaiting} order by s.id desc limit $3`,
    [repositoryId, packageName, limit],
  )
  return rows.map(stageOf)
}

/**
 * Marks a stage as released, or stores the first of two approvals. This one statement decides: of all releases, rejections
 * and the expiry, one changes the row. `accountId` is null for the operator, whose release needs no second person. Returns
 * the new state, or null when this account cannot release the stage (any more).
 */
export async function markReleased(
  tx: pg.PoolClient,
  id: string,
  accountId: string | null,
): Promise<'released' | 'approved' | null> {
  // The approval of somebody who has lost the role, or whose account is disabled, does not count.
  const isApproved = `(coalesce(role_of(s.approver_id, s.repository_id) >= 'developer', false)
    and exists (select from account where id = s.approver_id and disabled_at is null))`
  const isEnough = `($2::bigint is null or not r.two_people
    or case when s.stager_id is null then ${isApproved} and s.approver_id <> $2 else s.stager_id <> $2 end)`
  const isFirst = `(s.stager_id is null and not ${isApproved})`
  const { rows } = await tx.query<{ state: StageState }>(
    `update staged_version s
        set state = case when ${isEnough} then 'released' else s.state end,
            decided_at = case when ${isEnough} then now() end,
            decider_id = case when ${isEnough} then $2 end,
            approver_id = case when ${isEnough} then s.approver_id else $2 end,
            approved_at = case when ${isEnough} then s.approved_at else now() end
       from repository r
      where s.id = $1 and r.id = s.repository_id and r.group_id is not null and ${isWaiting}
        and (${isEnough} or ${isFirst})
      returning s.state`,
    [id, accountId],
  )
  const [changed] = rows
  if (!changed) return null
  return changed.state === 'released' ? 'released' : 'approved'
}

/** Marks a stage as rejected. Returns false when it does not wait any more. */
export async function markRejected(
  tx: pg.PoolClient,
  id: string,
  accountId: string | null,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update staged_version s set state = 'rejected', decided_at = now(), decider_id = $2
      where s.id = $1 and ${isWaiting}`,
    [id, accountId],
  )
  return rowCount === 1
}

/** What the event of an expiry names. */
export type ExpiredStage = Pick<Stage, 'id' | 'repositoryId' | 'packageName' | 'version' | 'sha256'>

/** Marks stages as expired whose time is over, at most `limit`: all, or the one with a number. Returns them. */
export async function markExpired(
  tx: pg.PoolClient,
  limit: number,
  number: { repositoryId: string; packageName: string; normalized: string } | null = null,
): Promise<ExpiredStage[]> {
  const { rows } = await tx.query<ExpiredStage>(
    `update staged_version s set state = 'expired', decided_at = now()
      where s.id in (select id from staged_version
                      where state = 'staged' and expires_at <= now()
                        and ($2::bigint is null or (repository_id = $2 and package_name = $3 and normalized = $4))
                      order by expires_at limit $1 for update skip locked)
      returning s.id, s.repository_id as "repositoryId", s.package_name as "packageName", s.version,
                encode(s.sha256, 'hex') as sha256`,
    [limit, number?.repositoryId ?? null, number?.packageName ?? null, number?.normalized ?? null],
  )
  return rows
}

/** Marks a stage as expired before its time. */
export async function markOutdated(tx: pg.PoolClient, id: string): Promise<void> {
  await tx.query(
    `update staged_version set state = 'expired', decided_at = now() where id = $1 and state = 'staged'`,
    [id],
  )
}

/**
 * Finds the published version with which a review compares a stage: the next lower one, a stable one if possible, or else
 * the highest. Null when the package has no other version.
 */
export async function findVersionBefore(
  db: Queryable,
  { repositoryId, packageName, normalized, isDev }: Stage,
): Promise<{ version: string; normalized: string; sha256: string } | null> {
  const { rows } = await db.query<{ version: string; normalized: string; sha256: string }>(
    `select v.version, v.normalized, encode(v.sha256, 'hex') as sha256
       from package p join package_version v on v.package_id = p.id
      where p.repository_id = $1 and p.name = $2 and v.is_listed and v.normalized <> $5
      order by (v.is_dev = $3 and v.sort_key < $4) desc, is_stable(v.is_dev, v.normalized) desc, v.is_dev,
               v.sort_key desc limit 1`,
    [repositoryId, packageName, isDev, versionSortKey(normalized), normalized],
  )
  return rows[0] ?? null
}

/** Reads the rendered README of a stage. */
export async function findStagedReadme(db: Queryable, id: string): Promise<RenderedReadme> {
  const { rows } = await db.query<RenderedReadme>(
    'select readme_format as format, readme_content as content from staged_version where id = $1',
    [id],
  )
  return rows[0] as RenderedReadme
}

/** Returns the states of those stages that exist, by their ids. */
export async function listStageStates(
  db: Queryable,
  ids: readonly string[],
): Promise<Map<string, StageState>> {
  const { rows } = await db.query<{ id: string; state: StageState }>({
    name: 'list-stage-states',
    text: `select s.id, ${state} as state from staged_version s where s.id = any($1::bigint[])`,
    values: [ids],
  })
  return new Map(rows.map(({ id, state }) => [id, state]))
}

/** The stages of a repository that wait, for people who may release them. */
export interface WaitingStages {
  /** `acme/php`. */
  path: string
  count: number
  /** Whether there are more than `count`. */
  isMore: boolean
}

/** How many stages of a repository are counted. */
const maxCounted = 100

/** Counts the stages that wait in each repository where the account is a developer or an admin, at most `limit` of them. */
export async function listWaitingStages(
  db: Queryable,
  accountId: string,
  limit: number,
): Promise<WaitingStages[]> {
  const roles = `account_id = $1 and role in ('developer', 'admin')`
  const { rows } = await db.query<WaitingStages>(
    `select g.name || '/' || r.name as path, least(n.count, ${maxCounted}) as count, n.count > ${maxCounted} as "isMore"
       from (select repository_id as id from counted_repository_member where ${roles}
              union
             select r.id from counted_group_member m join repository r on r.group_id = m.group_id where ${roles}) mine
       join repository r on r.id = mine.id
       join repository_group g on g.id = r.group_id
      cross join lateral (
        select count(*)::int from (select from staged_version s where s.repository_id = r.id and ${isWaiting}
                                    limit ${maxCounted + 1}) s) as n (count)
      where n.count > 0
      order by g.name, r.name limit $2`,
    [accountId, limit],
  )
  return rows
}

/** Deletes stages that were decided 90 days ago, at most `limit`, and returns how many. Their events stay. */
export const deleteDecidedStages = sweepOf(
  'staged_version',
  'id',
  `state <> 'staged' and decided_at < now() - interval '90 days'`,
)
