import { type Account, findAccountByUsername } from '../accounts/accounts.ts'
import type { Queryable } from '../database/database.ts'
import { findGroup, type Group } from '../repositories/groups.ts'
import { findRepositoryByPath, type Repository } from '../repositories/repositories.ts'

/** Finds the account with a username. Throws when there is none. */
export async function theAccount(db: Queryable, username: string): Promise<Account> {
  return (await findAccountByUsername(db, username)) ?? missing('account', username)
}

/** Finds the group with a name. Throws when there is none. */
export async function theGroup(db: Queryable, name: string): Promise<Group> {
  return (await findGroup(db, name)) ?? missing('group', name)
}

/** Finds the repository with a path such as `acme/php`. Throws when there is none. */
export async function theRepository(db: Queryable, path: string): Promise<Repository> {
  return (await findRepositoryByPath(db, path)) ?? missing('repository', path)
}

function missing(kind: string, name: string): never {
  throw new Error(`There is no ${kind} ${JSON.stringify(name)}.`)
}
