import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { UsedToken } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import type { RegistryAction } from './actions.ts'
import { actorName, type Event, eventColumns, eventJoins, isRegistryEvent } from './event.ts'

/** In a browser, the resource scope is `all`, and the kind of token is null. */
type EventReader = {
  accountId: string | null
  resourceScope: ResourceScope | null
  tokenKind: UsedToken['kind'] | null
  tokenId: string | null
}
const nobody = { accountId: null, resourceScope: null, tokenKind: null, tokenId: null }

/**
 * SQL that tells whether the group's event `e` concerns the repository $1: a role in the group, the name of the group,
 * or a deploy token for the repository. A token and its event have the time of their transaction.
 */
const concernsRepository = `(
  e.action in ('create-group', 'set-group-member', 'remove-group-member', 'rename-group')
  or (e.action in ('create-deploy-token', 'revoke-deploy-token')
      and exists (select from deploy_token d
                   where d.group_id = e.group_id and d.name = e.details ->> 'name'
                     and e.happened_at in (d.created_at, d.revoked_at)
                     and (d.resource_scope = 'all' or exists (select from deploy_token_repository
                                                               where deploy_token_id = d.id and repository_id = $1))))
  or (e.action = 'deploy-token-expiring'
      and exists (select from deploy_token d
                   where d.id = (e.details ->> 'deploy_token')::bigint
                     and (d.resource_scope = 'all' or exists (select from deploy_token_repository
                                                               where deploy_token_id = d.id and repository_id = $1)))))`

/** Only site administrators see these, in their own list. */
const unseen = { userAgent: 'null', requestId: 'null' }

/** SQL for the columns of an event `e` that the account $4 sees in `place`, a repository. */
const seenInRepository = eventColumns({
  ...unseen,
  reader: '$4',
  ip: 'case when e.group_id is null or place.sees_group then host(e.address) end',
  details: `case when e.group_id is not null and not place.sees_group and jsonb_typeof(e.details -> 'repositories') = 'array'
                 then e.details || jsonb_build_object('repositories', jsonb_build_array(place.path))
                 else e.details end`,
})

/**
 * Lists the events of a repository, and those of its group that concern it, the latest first. `after` is the id of an event. It
 * reads two index ranges, so the cost of a page hardly depends on the number of events. A reader who is not an admin of the
 * group sees those of the group without client IPs and the names of other repositories. Of the tokens, only an admin token reads
 * them as a site administrator.
 */
export async function listRepositoryEvents(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
  { accountId, resourceScope, tokenKind, tokenId }: EventReader = nobody,
): Promise<Event[]> {
  const before = readRowId(after)
  const { rows } = await db.query<Event>(
    `with place as materialized (
       select r.group_id, g.name || '/' || r.name as path,
              coalesce($5::resource_scope = 'all', false)
              and (exists (select from account where id = $4 and is_admin and ($6 or exists (select from personal_token where id = $7 and is_admin)))
                   or exists (select from counted_group_member
                               where group_id = r.group_id and account_id = $4 and role = 'admin')) as sees_group
         from repository r join repository_group g on g.id = r.group_id where r.id = $1)
     select ${seenInRepository}
       from ((select id from event
               where repository_id = $1 and ($2::bigint is null or id < $2)
               order by id desc limit $3)
             union all
             (select e.id from event e
               where e.group_id = (select group_id from place) and ($2::bigint is null or e.id < $2)
                 and ${concernsRepository}
               order by e.id desc limit $3)) found
       join event e on e.id = found.id and ${isRegistryEvent}
      cross join place
       ${eventJoins}
      order by e.id desc limit $3`,
    [
      repositoryId,
      before,
      limit,
      accountId,
      resourceScope,
      tokenKind === null,
      tokenKind === 'personal' ? tokenId : null,
    ],
  )
  return rows
}

/** Lists the events of one package as an account sees them, the latest first. `after` is the id of an event. */
export async function listPackageEvents(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  { after, limit }: ListPart,
  readerId: string | null,
): Promise<Event[]> {
  const before = readRowId(after)
  const { rows } = await db.query<Event>(
    `select ${eventColumns({ ...unseen, reader: '$5' })}
       from event e
       ${eventJoins}
      where e.repository_id = $1 and e.package = $2 and ($3::bigint is null or e.id < $3)
      order by e.id desc limit $4`,
    [repositoryId, packageName, before, limit, readerId],
  )
  return rows
}

/** A change of a version, or of the whole package, at a time in milliseconds. */
export interface PackageMoment {
  action: RegistryAction
  version: string
  moment: Date
}

/** Finds an event of a repository or group. Null when it was removed because of its age. */
export async function findRegistryEvent(db: Queryable, id: string): Promise<Event | null> {
  const { rows } = await db.query<Event>(
    `select ${eventColumns(unseen)} from event e ${eventJoins} where e.id = $1 and ${isRegistryEvent}`,
    [id],
  )
  return rows[0] ?? null
}

/**
 * Finds the accounts that made changes of a package, in the order of the changes. Null when no account did it, and when the
 * event was swept.
 */
export async function listPackageActors(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  changes: readonly PackageMoment[],
): Promise<(string | null)[]> {
  if (changes.length === 0) return []
  const { rows } = await db.query<{ n: number; username: string | null }>(
    `select distinct on (c.n) c.n::int, ${actorName} as username
       from unnest($3::text[], $4::text[], $5::timestamptz[]) with ordinality as c (action, version, moment, n)
       join event e on e.repository_id = $1 and e.package = $2 and e.action = any ($3) and e.action = c.action
                   and (e.version = c.version or e.version is null)
                   and date_trunc('milliseconds', e.happened_at) = c.moment
       left join account a on a.id = e.actor_id
      order by c.n, e.id desc`,
    [
      repositoryId,
      packageName,
      changes.map(({ action }) => action),
      changes.map(({ version }) => version),
      changes.map(({ moment }) => moment),
    ],
  )
  const usernames = new Map(rows.map(({ n, username }) => [n, username]))
  return changes.map((_, i) => usernames.get(i + 1) ?? null)
}
