import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { errcode, RegistryError } from '../errors.ts'
import { isPackageName } from '../manifest/package-name.ts'
import { type Author, insertEvent } from '../tables/events.ts'
import { requestName } from './tables/mirrored-packages.ts'

/**
 * Stores a request to approve a package of an upstream in the mode `approved`. Returns false when it is approved or
 * requested already. Throws errcode 3 for an invalid package name.
 */
export async function requestPackage(
  pool: pg.Pool,
  { repositoryId, author }: { repositoryId: string; author: Author },
  packageName: string,
): Promise<boolean> {
  const { accountId } = author
  if (!isPackageName(packageName)) throw new RegistryError(errcode.invalidArgument, 'invalid package name')
  if (accountId === null) return false
  return transaction(pool, async (tx) => {
    const isNew = await requestName(tx, repositoryId, packageName, accountId)
    if (isNew) {
      await insertEvent(tx, author, { repositoryId, packageName, version: null, action: 'request-package' })
    }
    return isNew
  })
}
