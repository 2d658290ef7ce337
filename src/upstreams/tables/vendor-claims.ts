import type pg from 'pg'
import { type Queryable, together } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'

/** A vendor whose packages only the group's own repositories offer. */
export interface VendorClaim {
  vendor: string
  /** Patterns of names that upstreams may still serve. */
  exceptions: string[]
  /** Whether an administrator made the claim. False when the publication of a package made it. */
  byHand: boolean
  claimedAt: Date
}

const columns = `vendor, exceptions, by_hand as "byHand", claimed_at as "claimedAt"`

/**
 * Claims a vendor for a group by hand, or changes the exceptions of its claim. Returns the former exceptions, too: null
 * when the group had no claim on the vendor.
 */
export async function claimVendor(
  db: Queryable,
  groupId: string,
  vendor: string,
  exceptions: readonly string[],
): Promise<{ claim: VendorClaim; formerExceptions: string[] | null }> {
  const { rows } = await db.query<VendorClaim & { formerExceptions: string[] | null }>(
    `insert into vendor_claim (group_id, vendor, exceptions, by_hand) values ($1, $2, $3, true)
     on conflict (group_id, vendor) do update set exceptions = excluded.exceptions, by_hand = true
     returning ${columns}, judge_replacements_again(group_id, vendor),
               (select exceptions from vendor_claim where group_id = $1 and vendor = $2) as "formerExceptions"`,
    [groupId, vendor, exceptions],
  )
  const { vendor: claimed, byHand, claimedAt, formerExceptions } = rows[0] as (typeof rows)[0]
  return { claim: { vendor: claimed, exceptions: [...exceptions], byHand, claimedAt }, formerExceptions }
}

/**
 * Claims the vendor of a package for its group, unless the group has claimed it already. Call it in the transaction that
 * creates the package: from then on, no upstream can offer names of the vendor. Malware flags of an upstream's package of
 * the same name leave filter.json, because they are not about ours.
 */
export async function claimVendorOfPackage(
  tx: pg.PoolClient,
  { repositoryId, name }: { repositoryId: string; name: string },
): Promise<void> {
  await together([
    tx.query(
      `insert into vendor_claim (group_id, vendor)
       select group_id, split_part($2, '/', 1) from repository where id = $1 and group_id is not null
       on conflict do nothing`,
      [repositoryId, name],
    ),
    tx.query(
      `select judge_replacements_again(group_id, split_part($2, '/', 1)) from repository where id = $1`,
      [repositoryId, name],
    ),
    tx.query(
      `select render_filter_document($1)
        where exists (select from mirrored_package
                       where repository_id = $1 and name = $2 and (flags <> '[]' or summary is not null))`,
      [repositoryId, name],
    ),
  ])
}

/** Lists the vendor claims of a group, by vendor; `after` is a vendor. */
export async function listVendorClaims(
  db: Queryable,
  groupId: string,
  { after, limit }: ListPart = { after: null, limit: 100_000 },
): Promise<VendorClaim[]> {
  const { rows } = await db.query<VendorClaim>(
    `select ${columns} from vendor_claim
      where group_id = $1 and vendor collate "C" > $2 order by vendor collate "C" limit $3`,
    [groupId, after ?? '', limit],
  )
  return rows
}

/**
 * Ends a claim that was made by hand. Returns `published` when the group has published packages of the vendor. The
 * claim stays then. Null when the group has no claim on the vendor.
 */
export async function releaseVendor(
  db: Queryable,
  groupId: string,
  vendor: string,
): Promise<'released' | 'published' | null> {
  const { rows } = await db.query<{ outcome: 'released' | 'published' }>(
    `with published as (
       select exists (select from package p join repository r on r.id = p.repository_id
                       where $1 in (r.group_id, r.deleted_from_id) and p.name like replace($2, '_', '\\_') || '/%') as is_there
     ), released as (
       delete from vendor_claim using published
        where group_id = $1 and vendor = $2 and by_hand and not published.is_there
        returning judge_replacements_again($1, $2)
     )
     select case when exists (select from released) then 'released' else 'published' end as outcome
       from vendor_claim where group_id = $1 and vendor = $2`,
    [groupId, vendor],
  )
  return rows[0]?.outcome ?? null
}

/** SQL: whether a word contains a name or vendor. A longer one such as `acme-labs` contains `acme`. */
function contains(word: string, name: string): string {
  return `${word} ~ ('(^|[^a-z0-9])' || replace(${name}, '.', '\\.') || '($|[^a-z0-9])')`
}

/**
 * Returns whether words contain a vendor that the repository's group has claimed, or whether a pattern with `*` matches
 * one. A word that is an exception of the claim contains none, unless it contains a package of the group: exceptions are
 * for names that upstreams serve, and those of the group stay private.
 */
export async function mentionClaimedVendor(
  db: Queryable,
  repositoryId: string,
  words: readonly string[],
  patterns: readonly string[],
): Promise<boolean> {
  const { rows } = await db.query<{ isMentioned: boolean }>({
    name: 'mention-claimed-vendor',
    // A name that begins with the vendor and `/` is below the vendor and `0`, the next character.
    text: `select exists (
             select from vendor_claim c join repository r on r.group_id = c.group_id
              where r.id = $1
                and (matches_pattern(c.vendor, $3)
                     or exists (select from unnest($2::text[]) as word
                                 where ${contains('word', 'c.vendor')}
                                   and (not matches_pattern(word, c.exceptions)
                                        or exists (select from package p join repository o on o.id = p.repository_id
                                                    where c.group_id in (o.group_id, o.deleted_from_id)
                                                      and p.name collate "C" > c.vendor || '/'
                                                      and p.name collate "C" < c.vendor || '0'
                                                      and strpos(word, p.name) > 0
                                                      and ${contains('word', 'p.name')}))))) as "isMentioned"`,
    values: [repositoryId, words, patterns],
  })
  return rows[0]?.isMentioned === true
}

/**
 * Counts the packages of a vendor that come from upstreams of the group's repositories, and would no longer do so after a
 * claim with these exceptions.
 */
export async function countCutOff(
  db: Queryable,
  groupId: string,
  vendor: string,
  exceptions: readonly string[],
): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count
       from mirrored_package m join repository r on r.id = m.repository_id
      where r.group_id = $1 and m.upstream_id is not null and m.name like replace($2, '_', '\\_') || '/%'
        and not matches_pattern(m.name, $3)
        and not exists (select from vendor_claim c
                         where c.group_id = $1 and c.vendor = $2 and not matches_pattern(m.name, c.exceptions))
        and not exists (select from package p where p.repository_id = m.repository_id and p.name = m.name)`,
    [groupId, vendor, exceptions],
  )
  return rows[0]?.count ?? 0
}

/** SQL: the vendor of the package. */
const vendorOfPackage = `split_part($2, '/', 1)`

/**
 * SQL: whether packages.json of the upstream `u`, as last read, lists packages of the vendor, and the rules of the
 * upstream do not hide the whole vendor. A pattern such as `*` says nothing about a vendor.
 */
const isVendorListed = `(u.allow = '{}' or matches_pattern(${vendorOfPackage}, array(
                              select split_part(split_part(pattern, ':', 1), '/', 1) from unnest(u.allow) as pattern)))
                        and not is_denied_by(${vendorOfPackage} || '/*', u.deny)
                        and (jsonb_path_exists(u.root, '$.names[*] ? (@ starts with $start)',
                                               jsonb_build_object('start', ${vendorOfPackage} || '/'))
                          or jsonb_path_exists(u.root, '$.vendors[*] ? (@ == $vendor)',
                                               jsonb_build_object('vendor', ${vendorOfPackage}))
                          or matches_pattern(${vendorOfPackage}, array(
                              select split_part(pattern #>> '{}', '/', 1)
                                from jsonb_path_query(u.root, '$.patterns[*]') as pattern
                               where split_part(pattern #>> '{}', '/', 1) ~ '^[a-z0-9_.*-]*[a-z0-9][a-z0-9_.*-]*$')))`

/**
 * Returns whether a package can be published only after a claim. This is so when an upstream of the group serves its
 * vendor, and the group has not claimed the vendor. An upstream serves a vendor if a package came from it, or if it
 * lists one. It is not asked, because the name may be private.
 */
export async function needsVendorClaim(
  db: Queryable,
  repositoryId: string,
  packageName: string,
): Promise<boolean> {
  const { rows } = await db.query<{ needed: boolean }>({
    name: 'needs-vendor-claim',
    text: `select case
             when exists (select from vendor_claim c join repository r on r.group_id = c.group_id
                           where r.id = $1 and c.vendor = ${vendorOfPackage}) then false
             else exists (select from repository r
                            join repository other on other.group_id = r.group_id
                            join mirrored_package m on m.repository_id = other.id and m.upstream_id is not null
                                                   and split_part(m.name, '/', 1) = ${vendorOfPackage}
                           where r.id = $1)
               or exists (select from repository r
                            join repository other on other.group_id = r.group_id
                            join upstream u on u.repository_id = other.id and u.removed_at is null and u.mode <> 'off'
                           where r.id = $1 and ${isVendorListed})
           end as needed`,
    values: [repositoryId, packageName],
  })
  return rows[0]?.needed ?? false
}
