import { isIP } from 'node:net'
import type { Queryable } from '../../database/database.ts'
import type { UsedToken } from '../../jobs/last-use.ts'
import type { ListPart } from '../../repositories/list-part.ts'

/** Who acts: an account, with which token (none in a browser or on the command line), from which address. */
export interface Author {
  accountId: string | null
  token: UsedToken | null
  address: string | null
}

/** What can happen in a registry. */
export type RegistryAction =
  | 'publish'
  | 'delete'
  | 'restore'
  | 'purge'
  | 'abandon'
  | 'unabandon'
  | 'quarantine'
  | 'release'
  | 'advise'
  | 'withdraw'
  | 'set-member'
  | 'remove-member'
  | 'change-repository'
  | 'delete-repository'

/** An event to be noted. */
export interface NewEvent {
  repositoryId: string
  /** Null when it is about the repository. */
  packageName: string | null
  /** Null when it is about the package as a whole. */
  version: string | null
  action: RegistryAction
  details?: Record<string, unknown>
}

/** Notes an event, in the transaction of the change it tells of. Events are never changed or removed. */
export async function insertEvent(db: Queryable, author: Author, event: NewEvent): Promise<void> {
  const { accountId, token, address } = author
  const { repositoryId, packageName, version, action, details = {} } = event
  await db.query({
    name: 'insert-registry-event',
    text: `insert into registry_event
             (repository_id, package, version, action, account_id, token_kind, token_id, address, details)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    values: [
      repositoryId,
      packageName,
      version,
      action,
      accountId,
      token?.kind,
      token?.tokenId,
      address === null ? null : inetOf(address),
      JSON.stringify(details),
    ],
  })
}

/** What PostgreSQL takes for an address: proxies are believed in what they write, and may write anything. */
function inetOf(address: string): string | null {
  const bare = address.replace(/%.*$/, '')
  return isIP(bare) === 0 ? null : bare
}

/** An event as it was noted. */
export interface RegistryEvent {
  id: string
  happenedAt: Date
  packageName: string | null
  version: string | null
  action: RegistryAction
  /** Null when no account did it, or one that is gone. */
  username: string | null
  tokenKind: UsedToken['kind'] | null
  tokenId: string | null
  address: string | null
  details: Record<string, unknown>
}

/** The events of a repository, the latest first; `after` is the id of one of them. */
export async function listEvents(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<RegistryEvent[]> {
  const before = /^\d{1,18}$/.test(after ?? '') ? after : null
  const { rows } = await db.query<RegistryEvent>(
    `select e.id, e.happened_at as "happenedAt", e.package as "packageName", e.version, e.action, u.username,
            e.token_kind as "tokenKind", e.token_id as "tokenId", host(e.address) as address, e.details
       from registry_event e left join account u on u.id = e.account_id
      where e.repository_id = $1 and ($2::bigint is null or e.id < $2)
      order by e.id desc limit $3`,
    [repositoryId, before, limit],
  )
  return rows
}
