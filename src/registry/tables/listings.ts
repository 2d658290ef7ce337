import type { Queryable } from '../../database/database.ts'

/**
 * Stores that the content of a repository's packages.json has changed. Call it last in a transaction: it locks the
 * repository, so that revisions grow in the order of the commits.
 */
export async function noteListingChange(db: Queryable, repositoryId: string): Promise<void> {
  await db.query({
    name: 'note-listing-change',
    text: `with held as materialized (select id from repository where id = $1 for no key update)
           insert into repository_listing (repository_id) select id from held
           on conflict (repository_id) do update set revision = nextval('document_revision')`,
    values: [repositoryId],
  })
}

/** The content of a repository's packages.json, and its revision. */
export interface Listing {
  /** `acme/php`. */
  path: string
  revision: string
  /** Whether the repository has upstreams. */
  hasUpstreams: boolean
  /** All names that were ever published, in byte order. Names without versions stay claimed. */
  names: string[]
  /** The vendors of all names when there are more than `maxNames` names. `names` is incomplete then. Null otherwise. */
  vendors: string[] | null
}

/**
 * Reads the content of a repository's packages.json in one snapshot. Null when the repository was deleted or has no
 * listing.
 */
export async function findListing(
  db: Queryable,
  repositoryId: string,
  maxNames: number,
): Promise<Listing | null> {
  const { rows } = await db.query<Listing>(
    `with recursive listed as materialized (
       select name from package where repository_id = $1 order by name collate "C" limit $2::int + 1
     ), vendor (name) as (
       select split_part(min(name collate "C"), '/', 1) from listed having count(*) > $2
       union all
       -- Skips to the next vendor, because in byte order 0 follows the slash. This needs one lookup for each vendor.
       select (select split_part(p.name, '/', 1) from package p
                where p.repository_id = $1 and p.name collate "C" >= v.name || '0'
                order by p.name collate "C" limit 1)
         from vendor v where v.name is not null
     )
     select g.name || '/' || r.name as path, l.revision,
            exists (select from upstream where repository_id = r.id and removed_at is null) as "hasUpstreams",
            array(select name from listed limit $2) as names,
            case when exists (select from vendor) then array(select name from vendor where name is not null) end as vendors
       from repository r
       join repository_group g on g.id = r.group_id
       join repository_listing l on l.repository_id = r.id
      where r.id = $1`,
    [repositoryId, maxNames],
  )
  return rows[0] ?? null
}
