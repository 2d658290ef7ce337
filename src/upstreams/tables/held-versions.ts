import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'

/** SQL: the versions of the mirrored package `m` that are held back, of both documents: a JSON list of `ListedHeld`. */
export const heldVersions = `(select coalesce(jsonb_agg(jsonb_build_object('version', h.version, 'until', h.until)
                                                order by h.is_dev, h.place), '[]')
    from (select d.is_dev, e.place, e.held ->> 'version' as version, e.held ->> 'until' as until
            from mirrored_document d, jsonb_array_elements(d.held_back) with ordinality as e (held, place)
           where d.package_id = m.id
           order by d.is_dev, e.place limit 1000) h)`

/** A version that is held back until it is old enough, in a list. */
export interface ListedHeld {
  version: string
  /** In ISO format. */
  until: string
}

/** Returns the package of a name that is bound to an upstream. Null when no upstream serves it. */
export async function findMirror(
  db: Queryable,
  repositoryId: string,
  packageName: string,
): Promise<{ id: string; upstream: string } | null> {
  const { rows } = await db.query<{ id: string; upstream: string }>(
    `select m.id, u.name as upstream
       from mirrored_package m join upstream u on u.id = m.upstream_id
      where m.repository_id = $1 and m.name = $2 and u.removed_at is null`,
    [repositoryId, packageName],
  )
  return rows[0] ?? null
}

/**
 * Stores that versions which are held back may be offered: one, or all for null. Returns them. The transaction has locked
 * the package.
 */
export async function allowHeldVersions(
  tx: pg.PoolClient,
  packageId: string,
  version: string | null,
): Promise<string[]> {
  const { rows } = await tx.query<{ version: string }>(
    `with held as (
       select e.held ->> 'version' as version, e.held ->> 'key' as key, d.is_dev, e.place
         from mirrored_document d, jsonb_array_elements(d.held_back) with ordinality as e (held, place)
        where d.package_id = $1 and ($2::text is null or e.held ->> 'version' = $2)
     ), allowed as (
       insert into early_version (package_id, version_key) select distinct $1::bigint, key from held
       on conflict do nothing
     )
     select version from held order by is_dev, place`,
    [packageId, version],
  )
  return rows.map((row) => row.version)
}
