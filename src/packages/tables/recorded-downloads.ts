import type { Config } from '../../config.ts'
import { accountName } from '../../database/account-name.ts'
import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'
import { readRowId } from '../../domain/row-id.ts'
import type { TokenKind } from '../../domain/secrets.ts'
import { asCount, type DailyDownloads } from './downloads.ts'

/** Who downloads an archive. */
export interface Downloader {
  /** The kind of the token. `session` is a browser in which an account is signed in. */
  kind: TokenKind | 'session' | 'anonymous'
  /**
   * The id of the personal or deploy token, of the trusted publisher, of the authorization of an access token, or of the account
   * of a session. `0` for an anonymous download. An authorization stays the same when its application refreshes its tokens.
   */
  id: string
  /** Null for a token without an account, and for an anonymous download. */
  accountId: string | null
}

/** How often somebody has downloaded a version since the last write. */
export interface RecordedDownload {
  repositoryId: string
  packageName: string
  /** The version as in the URL of the archive. */
  version: string
  downloader: Downloader
  count: number
}

/** Adds downloads to today's records (UTC). Rows are locked in one order, so that two processes cannot deadlock. */
export async function saveDownloads(db: Queryable, downloads: readonly RecordedDownload[]): Promise<void> {
  await db.query({
    name: 'save-downloads',
    text: `insert into recorded_download as d
             (day, repository_id, package, version, kind, holder_id, account_id, application_id, count)
           select (now() at time zone 'utc')::date, i.repository_id, i.package, i.version, i.kind, i.holder_id, i.account_id,
                  case when i.kind = 'access' then
                    (select application_id from account_authorization where id = i.holder_id) end,
                  i.count
             from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
                    as i (repository_id, package, version, kind, holder_id, account_id, count)
            order by i.repository_id, i.package, i.version, i.kind, i.holder_id
           on conflict on constraint download_is_recorded do update set count = d.count + excluded.count`,
    values: [
      downloads.map(({ repositoryId }) => repositoryId),
      downloads.map(({ packageName }) => packageName),
      downloads.map(({ version }) => version),
      downloads.map(({ downloader }) => downloader.kind),
      downloads.map(({ downloader }) => downloader.id),
      downloads.map(({ downloader }) => downloader.accountId),
      downloads.map(({ count }) => count),
    ],
  })
}

/** The downloads of one version by one downloader on one day. */
export interface ListedDownload {
  id: string
  /** In UTC, such as 2027-01-31. */
  day: string
  /** The path, such as `acme/php`. Null for a deleted repository. */
  repository: string | null
  packageName: string
  version: string
  kind: Downloader['kind']
  count: number
  /** `deleted account` when the account was deleted. Null for a deploy token and anonymous downloads. */
  username: string | null
  /** The id of a personal or deploy token. Null for others. */
  tokenId: string | null
  /** The name of that token. Null for others, and when the token no longer exists. */
  tokenName: string | null
  /** The client ID of the application of an access token. Null for others, and for a deleted application. */
  clientId: string | null
}

/** Which downloads are listed. Null selects all. */
export interface DownloadFilter {
  repositoryId: string | null
  packageName: string | null
  version: string | null
  accountId: string | null
  /** The first and the last day. */
  since: string | null
  until: string | null
}

/** SQL: who downloaded, of the rows `d` and their accounts `a`. */
const downloaderColumns = `${accountName('d.account_id', 'a.username')} as username,
            case when d.kind in ('personal', 'deploy', 'publisher') then d.holder_id end as "tokenId",
            case d.kind when 'personal' then (select name from personal_token where id = d.holder_id)
                        when 'deploy' then (select name from deploy_token where id = d.holder_id)
                        when 'publisher' then (select coalesce(project, issuer) from trusted_publisher where id = d.holder_id)
                        end as "tokenName",
            (select client_id from application where id = d.application_id) as "clientId"`

/** Lists downloads, the latest first. `after` is the id of one of them. */
export async function listRecordedDownloads(
  db: Queryable,
  { repositoryId, packageName, version, accountId, since, until }: DownloadFilter,
  { after, limit }: ListPart,
): Promise<ListedDownload[]> {
  const values: unknown[] = [readRowId(after), limit]
  const conditions = ['($1::bigint is null or id < $1)']
  const add = (condition: string, value: string | null) => {
    if (value === null) return
    values.push(value)
    conditions.push(`${condition} $${values.length}`)
  }
  // Use only the given conditions, so that an index serves each of them.
  add('repository_id =', repositoryId)
  add('package =', packageName)
  add('version =', version)
  add('account_id =', accountId)
  add('day >=', since)
  add('day <=', until)
  const { rows } = await db.query<ListedDownload>(
    `select d.id, d.day::text as day, g.name || '/' || r.name as repository, d.package as "packageName", d.version, d.kind,
            ${asCount('d.count')} as count,
            ${downloaderColumns}
       from (select * from recorded_download where ${conditions.join(' and ')} order by id desc limit $2) d
       left join repository r on r.id = d.repository_id
       left join repository_group g on g.id = r.group_id
       left join account a on a.id = d.account_id
      order by d.id desc`,
    values,
  )
  return rows
}

/** A package in a repository, also one of an upstream. */
interface RecordedPackage {
  repositoryId: string
  packageName: string
}

/** Lists the recorded downloads of a package on each of the last days (UTC), today last. */
export async function listRecordedDays(
  db: Queryable,
  { repositoryId, packageName }: RecordedPackage,
  days: number,
): Promise<DailyDownloads[]> {
  const { rows } = await db.query<DailyDownloads>(
    `with recorded as materialized (
       select day, sum(count) as count from recorded_download
        where repository_id = $1 and package = $2 and day > (now() at time zone 'utc')::date - $3::int
        group by day
     )
     select wanted.day::text as day, ${asCount('d.count')} as count
       from (select (now() at time zone 'utc')::date - ago as day from generate_series(0, $3::int - 1) ago) wanted
       left join recorded d on d.day = wanted.day
      order by wanted.day`,
    [repositoryId, packageName, days],
  )
  return rows
}

/** Returns how often these versions of a package were downloaded, by the version as in the URL of the archive. */
export async function countRecordedVersions(
  db: Queryable,
  { repositoryId, packageName }: RecordedPackage,
  versions: readonly string[],
): Promise<Map<string, number>> {
  const { rows } = await db.query<{ version: string; count: number }>(
    `select version, ${asCount('sum(count)')} as count from recorded_download
      where repository_id = $1 and package = $2 and version = any($3) group by version`,
    [repositoryId, packageName, versions],
  )
  return new Map(rows.map(({ version, count }) => [version, count]))
}

/** Returns the first day (UTC) with a record. Null when there is none. */
export async function findFirstRecordedDay(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ day: string | null }>(
    'select min(day)::text as day from recorded_download',
  )
  return rows[0]?.day ?? null
}

/** Somebody who downloaded a version of a package. */
export interface Installer extends Omit<ListedDownload, 'id' | 'day' | 'repository' | 'packageName'> {
  /** The position in the list. */
  key: string
  /** The first and the last day, in UTC. */
  first: string
  last: string
}

/**
 * Lists who downloaded which version of a package, with the first and the last day, by version and then by the last day.
 * Only as long as downloads are recorded.
 */
export async function listInstallers(
  db: Queryable,
  { repositoryId, packageName }: RecordedPackage,
  { after, limit }: ListPart,
): Promise<Installer[]> {
  const { rows } = await db.query<Installer>(
    `with d as (
       select version, kind, holder_id, account_id, application_id, min(day) as first, max(day) as last,
              sum(count) as count,
              concat_ws(' ', version, to_char(date '9999-01-01' - max(day), 'FM0000000'), kind, holder_id, account_id)
                collate "C" as key
         from recorded_download
        where repository_id = $1 and package = $2 and kind <> 'anonymous'
        group by version, kind, holder_id, account_id, application_id
     )
     select d.key, d.version, d.kind, d.first::text as first, d.last::text as last, ${asCount('d.count')} as count,
            ${downloaderColumns}
       from d left join account a on a.id = d.account_id
      where $3::text is null or d.key > $3
      order by d.key limit $4`,
    [repositoryId, packageName, after, limit],
  )
  return rows
}

/** Returns who downloaded, in words. */
export function describeDownloader({
  kind,
  username,
  tokenId,
  tokenName,
  clientId,
}: Pick<ListedDownload, 'kind' | 'username' | 'tokenId' | 'tokenName' | 'clientId'>): string {
  switch (kind) {
    case 'anonymous':
      return 'anonymous'
    case 'session':
      return `${username} in the browser`
    case 'access':
      return `${username} with application ${clientId ?? '(deleted)'}`
    case 'personal':
      return `${username} with token ${tokenName ?? tokenId}`
    case 'deploy':
      return `deploy token ${tokenName ?? tokenId}`
    case 'publisher':
      return `trusted publisher ${tokenName ?? tokenId}`
  }
}

/** The last package that was downloaded from a repository. */
export interface LastDownload {
  packageName: string
  version: string
  /** Whether it was downloaded today (UTC). Records know no time. */
  isToday: boolean
  day: Date
}

/**
 * Finds the last download by an account with a token, among its last 1000. With `isPublic` also the last one without
 * credentials: nobody knows whose it is.
 */
export async function findLastDownload(
  db: Queryable,
  { repositoryId, accountId, isPublic }: { repositoryId: string; accountId: string; isPublic: boolean },
): Promise<LastDownload | null> {
  const { rows } = await db.query<LastDownload>(
    `select package as "packageName", version, day::timestamptz as day,
            day = (now() at time zone 'utc')::date as "isToday"
       from ((select * from recorded_download where account_id = $2 and kind <> 'session' order by id desc limit 1000)
             union all
             (select * from recorded_download
               where $3 and repository_id = $1 and kind = 'anonymous' order by id desc limit 1)) d
      where repository_id = $1
      order by id desc limit 1`,
    [repositoryId, accountId, isPublic],
  )
  return rows[0] ?? null
}

/** Removes records that are older than the retention time of events, at most `limit`. Returns how many. */
export async function deleteOldDownloads(
  db: Queryable,
  limit: number,
  { events }: Pick<Config, 'events'>,
): Promise<number> {
  // The oldest records have the smallest ids.
  const { rowCount } = await db.query(
    `delete from recorded_download d
      using (select id, day from recorded_download order by id limit $2 for update skip locked) oldest
      where d.id = oldest.id and oldest.day < (now() at time zone 'utc')::date - $1::int`,
    [events.retentionDays, limit],
  )
  return rowCount ?? 0
}
