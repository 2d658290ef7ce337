import type { Queryable } from '../../src/database/database.ts'

/** An upstream of a repository, as it is stored. */
export interface UpstreamRow {
  id: string
  name: string
  mode: string
  allow: string[]
  deny: string[]
  exempt: string[]
  minimumAgeHours: number
  position: number
  keepsSource: boolean
  isSlow: boolean
  isRemoved: boolean
  /** Where svc continues to read the change feed. */
  feedSince: string | null
  /** Whether svc has read the change feed without a gap. */
  isFollowed: boolean
}

/** Lists the upstreams of a repository, also removed ones, in their order. Without a repository, lists all. */
export async function upstreamRows(
  db: Queryable,
  repository: { id: string } | null = null,
): Promise<UpstreamRow[]> {
  const { rows } = await db.query<UpstreamRow>(
    `select id, name, mode, allow, deny, exempt, minimum_age_hours as "minimumAgeHours", position,
            keeps_source as "keepsSource", is_slow as "isSlow", removed_at is not null as "isRemoved",
            feed_since as "feedSince", feed_from is not null as "isFollowed"
       from upstream where $1::bigint is null or repository_id = $1 order by position, id`,
    [repository?.id ?? null],
  )
  return rows
}

/** Adds an upstream that no request is sent to. Returns its id. */
export async function anUpstream(
  db: Queryable,
  repository: { id: string },
  {
    name = 'public',
    url = 'https://packages.example.com/',
    mode = 'automatic',
    position = 1,
    minimumAgeHours = 0,
  } = {},
): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into upstream (repository_id, name, url, mode, position, minimum_age_hours)
     values ($1, $2, $3, $4, $5, $6) returning id`,
    [repository.id, name, url, mode, position, minimumAgeHours],
  )
  return rows[0]?.id ?? ''
}

/** Changes the rules of the upstreams of a repository, without the work that a change starts. */
export async function setRules(
  db: Queryable,
  repository: { id: string },
  { allow = null as string[] | null, deny = null as string[] | null, mode = null as string | null },
): Promise<void> {
  await db.query(
    `update upstream set allow = coalesce($2, allow), deny = coalesce($3, deny), mode = coalesce($4, mode)
      where repository_id = $1`,
    [repository.id, allow, deny, mode],
  )
}

/** Marks upstreams as removed, without the work that a removal starts. */
export async function markRemoved(
  db: Queryable,
  { repository, id, name }: { repository?: { id: string }; id?: string; name?: RegExp },
): Promise<void> {
  await db.query(
    `update upstream set removed_at = now()
      where ($1::bigint is null or repository_id = $1) and ($2::bigint is null or id = $2)
        and ($3::text is null or name ~ $3)`,
    [repository?.id ?? null, id ?? null, name?.source ?? null],
  )
}

/** Lets the upstreams of a repository have announced the URL of their changes. */
export async function announceChanges(db: Queryable, repository: { id: string }, url: string): Promise<void> {
  await db.query(
    `update upstream set root = jsonb_build_object('changesUrl', $2::text) where repository_id = $1`,
    [repository.id, url],
  )
}

/** Keeps an upstream as it is until the end of the transaction. */
export async function lockUpstream(tx: Queryable, id: string): Promise<void> {
  await tx.query('select from upstream where id = $1 for share', [id])
}

/** Lets svc read the change feeds of all upstreams again at once. */
export async function ageFeedChecks(db: Queryable): Promise<void> {
  await db.query(`update upstream set feed_checked_at = feed_checked_at - interval '1 minute'`)
}

/** Lets hours pass since svc has read the change feeds of all upstreams without a gap. */
export async function ageFeeds(db: Queryable, hours: number): Promise<void> {
  await db.query(
    `update upstream set feed_from = feed_from - make_interval(hours => $1),
                         feed_checked_at = feed_checked_at - interval '1 minute'`,
    [hours],
  )
}

/** Sets since when svc has read the change feeds of all upstreams without a gap. Null: it reads none. */
export async function setFollowedHours(db: Queryable, hours: number | null): Promise<void> {
  await db.query(
    `update upstream set feed_from = now() - make_interval(hours => $1),
                         feed_checked_at = case when $1 is not null then now() end`,
    [hours],
  )
}

/** Lets hours pass since svc has read packages.json of the upstreams: of all, or of those of one repository. */
export async function ageRoots(
  db: Queryable,
  hours: number,
  repository: { id: string } | null = null,
): Promise<void> {
  await db.query(
    `update upstream set root_checked_at = root_checked_at - make_interval(hours => $1)
      where $2::bigint is null or repository_id = $2`,
    [hours, repository?.id ?? null],
  )
}

/** What svc knows of packages.json of the upstreams, as if a release had read it that did not know the key. */
export async function forgetRootKey(db: Queryable, repository: { id: string }, key: string): Promise<void> {
  await db.query('update upstream set root = root - $2::text where repository_id = $1', [repository.id, key])
}

/** Makes packages.json of the upstreams of a repository name this URL of the malware summary. */
export async function announceSummary(
  db: Queryable,
  repository: { id: string },
  url: string | null,
): Promise<void> {
  await db.query(
    `update upstream set root = root || jsonb_build_object('filterSummaryUrl', $2::text) where repository_id = $1`,
    [repository.id, url],
  )
}

/** Returns the names that the malware summaries of the upstreams flag: of all, or of those of one repository. */
export async function flaggedNames(
  db: Queryable,
  repository: { id: string } | null = null,
): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select f.name from upstream_flag f join upstream u on u.id = f.upstream_id
      where $1::bigint is null or u.repository_id = $1`,
    [repository?.id ?? null],
  )
  return rows.map(({ name }) => name)
}

/** A document that an upstream serves about a package, as it is stored. */
export interface UpstreamDocumentRow {
  name: string
  isDev: boolean
  upstreamId: string
  upstream: string
  hasContent: boolean
  isStale: boolean
  failure: string | null
  /** Whether svc has read it less than a minute ago. */
  isRecent: boolean
  /** When another check may begin. Null when none runs. */
  checkingUntil: Date | null
  retryAt: Date | null
  /** For how long svc leaves the upstream alone. */
  retrySeconds: number | null
}

/** Lists the stored documents of the packages whose names match. */
export async function upstreamDocuments(
  db: Queryable,
  name: string | RegExp,
): Promise<UpstreamDocumentRow[]> {
  const { rows } = await db.query<UpstreamDocumentRow>(
    `select d.name, d.is_dev as "isDev", d.upstream_id as "upstreamId", u.name as upstream,
            d.content is not null as "hasContent", d.is_stale as "isStale", d.failure,
            d.checked_at > now() - interval '1 minute' as "isRecent", d.checking_until as "checkingUntil",
            d.retry_at as "retryAt", extract(epoch from d.retry_at - now())::float8 as "retrySeconds"
       from upstream_document d join upstream u on u.id = d.upstream_id
      where d.name = $1 or d.name ~ $2 order by d.name, d.is_dev`,
    typeof name === 'string' ? [name, null] : [null, name.source],
  )
  return rows
}

/** Adds a document that svc has never read to the upstream with this URL or name. */
export async function anUpstreamDocument(db: Queryable, upstream: string, name: string): Promise<void> {
  await db.query(
    `insert into upstream_document (upstream_id, name, is_dev)
     select id, $2, false from upstream where url = $1 or name = $1 order by id desc limit 1`,
    [upstream, name],
  )
}

/** Lets hours pass since svc has read or failed to read documents: all, or those of one package. */
export async function ageDocuments(
  db: Queryable,
  { name = null as string | null, hours = 1 } = {},
): Promise<void> {
  await db.query(
    `update upstream_document
        set checked_at = checked_at - make_interval(hours => $2), failed_at = failed_at - make_interval(hours => $2),
            retry_at = retry_at - make_interval(hours => $2)
      where $1::text is null or name = $1`,
    [name, hours],
  )
}

/** Marks the documents of a package as changed at the upstream. */
export async function markStale(db: Queryable, name: string): Promise<void> {
  await db.query('update upstream_document set is_stale = true where name = $1', [name])
}

/** Lets svc leave an upstream alone for a minute more after it could not read a document. */
export async function extendRest(db: Queryable, name: string): Promise<void> {
  await db.query(
    `update upstream_document set retry_at = retry_at + interval '1 minute' where name = $1 and retry_at > failed_at`,
    [name],
  )
}

/** Lets svc try again now to read all documents that could not be read. */
export async function endRetryDelays(db: Queryable): Promise<void> {
  await db.query('update upstream_document set retry_at = now() where retry_at is not null')
}

/** Gives a process the turn to check the documents of a package, for seconds from now on. */
export async function takeCheck(db: Queryable, name: string, seconds: number): Promise<void> {
  await db.query(
    'update upstream_document set checking_until = now() + make_interval(secs => $2) where name = $1',
    [name, seconds],
  )
}

/** Damages the stored document of a package. */
export async function damageDocument(db: Queryable, name: string): Promise<void> {
  await db.query(`update upstream_document set content = 'no gzip' where name = $1`, [name])
}

/** Appends zeros to the stored document of a package. A reader of gzip ignores them. */
export async function padDocument(db: Queryable, name: string, bytes: number): Promise<void> {
  await db.query(
    `update upstream_document set content = content || decode(repeat('00', $2), 'hex') where name = $1`,
    [name, bytes],
  )
}

/** Claims a vendor for a group, without the checks of a claim. */
export async function aVendorClaim(
  db: Queryable,
  group: { id: string },
  vendor: string,
  exceptions: string[] = [],
): Promise<void> {
  await db.query(
    `insert into vendor_claim (group_id, vendor, exceptions, by_hand) values ($1, $2, $3, true)
         on conflict (group_id, vendor) do update set exceptions = excluded.exceptions`,
    [group.id, vendor, exceptions],
  )
}

/** Whose a name is in a repository: `own`, of an upstream, or neither. */
export async function originOf(db: Queryable, repository: { id: string }, name: string): Promise<string> {
  const { rows } = await db.query<{ verdict: string }>('select verdict from package_origin($1, $2)', [
    repository.id,
    name,
  ])
  return rows[0]?.verdict ?? ''
}

/** What the database says about a name and the patterns of a rule. */
export async function comparePatterns(
  db: Queryable,
  name: string,
  patterns: string[],
): Promise<{ matches: boolean; isDenied: boolean } | undefined> {
  const { rows } = await db.query<{ matches: boolean; isDenied: boolean }>(
    'select matches_pattern($1, $2) as matches, is_denied_by($1, $2) as "isDenied"',
    [name, patterns],
  )
  return rows[0]
}

/** Lets an upstream also have the name of a package that another one serves. */
export async function aContestedName(db: Queryable, name: string, upstream: string): Promise<void> {
  await db.query(
    `insert into contested_name (package_id, upstream_id)
     select m.id, u.id from mirrored_package m join upstream u using (repository_id) where m.name = $1 and u.name = $2`,
    [name, upstream],
  )
}

/** Opens all decided contests again. */
export async function reopenContests(db: Queryable): Promise<void> {
  await db.query('update contested_name set decided_at = null')
}

/** Ends the turns to check a package's documents that began seconds ago. Returns how many ended. */
export async function endCheck(db: Queryable, name: string, seconds: number): Promise<number> {
  const { rowCount } = await db.query(
    `update upstream_document set checking_until = checking_until - make_interval(secs => $2)
      where name = $1 and checking_until is not null`,
    [name, seconds],
  )
  return rowCount ?? 0
}

/** Puts an upstream at a position. */
export async function setPosition(db: Queryable, id: string, position: number): Promise<void> {
  await db.query('update upstream set position = $2 where id = $1', [id, position])
}
