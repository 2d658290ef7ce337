import type { Queryable } from '../../database/database.ts'

/** For how long a trusted publisher reserves the names of packages that do not exist yet. */
export const reservedDays = 30

/** SQL: whether the trusted publisher `p` reserves the exact names among its packages. */
const reserves = `p.removed_at is null and p.token_right <> 'read'
  and p.created_at > now() - interval '${reservedDays} days'`

/** SQL: the names that the trusted publisher `p` reserves. A published package needs no reservation. */
export const reservedNames = `case when ${reserves} then
  array(select exact from unnest(p.packages) exact
         where exact not like '%*%'
           and not exists (select from package where repository_id = p.repository_id and name = exact))
  else '{}' end`

/** SQL: whether one of the trusted publishers with these ids may give a repository its first package of this name. */
export function mayTakeName(repositoryId: string, name: string, publisherIds: string): string {
  return `coalesce((select bool_or(p.id = any(${publisherIds}::bigint[])) from trusted_publisher p
                     where p.repository_id = ${repositoryId} and ${name} = any(p.packages) and ${reserves}), true)`
}

/** The reservation of a name. */
export interface Reservation {
  /** The id of the trusted publisher. */
  publisherId: string
  until: Date
}

/** Finds the reservation of a name that ends last. Null when there is none. */
export async function findReservation(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<Reservation | null> {
  const { rows } = await db.query<Reservation>(
    `select p.id as "publisherId", p.created_at + interval '${reservedDays} days' as until
       from trusted_publisher p
      where p.repository_id = $1 and $2 = any(p.packages) and ${reserves}
      order by p.created_at desc limit 1`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}
