import type { Queryable } from '../database.ts'
import type { UsedToken } from '../last-use.ts'

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

/** An event to be noted. */
export interface NewEvent {
  repositoryId: string
  packageName: string
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
      address,
      JSON.stringify(details),
    ],
  })
}
