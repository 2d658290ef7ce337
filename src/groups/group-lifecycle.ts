import type pg from 'pg'
import type { AppContext } from '../context.ts'
import { transaction } from '../database/database.ts'
import { retriedTransaction } from '../database/retried-transaction.ts'
import { markDocumentsOutdated } from '../documents/outdated.ts'
import { background, type Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import type { RegistryAction } from '../events/actions.ts'
import { detailsOfChange, insertEvent } from '../events/events.ts'
import type { Job } from '../jobs/job.ts'
import {
  hideRepository,
  listExpiredRepositories,
  purgeExpiredRepository,
  unhideRepository,
} from './deleted-repositories.ts'
import { freeGroupName, type Group, insertGroup, purgeGroup, renameGroup } from './groups.ts'
import { requireBelowLimit } from './limits.ts'
import { changePaths, lockTenancy } from './path-locks.ts'
import {
  changeRepository,
  insertRepository,
  lockRepositoriesOf,
  type NewRepository,
  purgeRepository,
  type Repository,
  type RepositoryChanges,
  renameRepository,
} from './repositories.ts'
import { hasSiteRights } from './site-rights.ts'

/**
 * Creates a group. Its owner becomes its first admin. With `force` the name may be reserved for another group. Writes
 * the event. Throws with the constraint of a rule of group names, errcode 7 when only site administrators create groups, and 8 when
 * the account has created too many.
 */
export async function addGroup(
  { config, db }: AppContext,
  by: Principal,
  name: string,
  owner: { id: string; username: string },
  { force = false } = {},
): Promise<Group> {
  return transaction(db, async (tx) => {
    const { accountId } = by
    if (config.groupCreation === 'admins' && !(await hasSiteRights(tx, by)))
      throw groupsAreForAdministrators()
    if (accountId !== null) await requireBelowLimit(tx, config, by, 'groups', accountId)
    if (force) await freeGroupName(tx, name)
    const group = await insertGroup(tx, name, owner.id, { creatorId: accountId })
    await note(tx, by, { groupId: group.id }, 'create-group', {
      name,
      username: owner.username,
      role: 'admin',
    })
    return group
  })
}

/**
 * Creates a repository. Writes the event. Throws with the constraint of a rule of repositories, and errcode 8 when the
 * group has too many.
 */
export async function addRepository(
  { config, db }: AppContext,
  by: Principal,
  draft: NewRepository,
): Promise<Repository> {
  return transaction(db, async (tx) => {
    await requireBelowLimit(tx, config, by, 'repositories', draft.groupId)
    const repository = await insertRepository(tx, draft)
    const { id: repositoryId, path, visibility } = repository
    await note(tx, by, { repositoryId }, 'create-repository', { path, visibility })
    return repository
  })
}

/**
 * Changes settings. A null or missing value is not changed. Writes an event if something is another value then.
 * Returns null when the repository does not exist.
 */
export async function setRepository(
  db: pg.Pool,
  by: Principal,
  repositoryId: string,
  changes: RepositoryChanges,
): Promise<(Repository & { createdAt: Date }) | null> {
  return transaction(db, async (tx) => {
    const changed = await changeRepository(tx, repositoryId, changes)
    if (!changed) return null
    const details = detailsOfChange(changed.former, changes)
    if (details) await note(tx, by, { repositoryId }, 'change-repository', details)
    return changed.repository
  })
}

/**
 * Renames a repository. Its old URLs keep working, and no other repository can get the old name. A job writes the new
 * URLs into its documents. Writes the event. Returns false when the repository does not exist. Throws with the
 * constraint of a rule of repository names.
 */
export async function changeRepositoryName(
  db: pg.Pool,
  by: Principal,
  repositoryId: string,
  newName: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const oldName = await renameRepository(tx, repositoryId, newName)
    if (oldName === null) return false
    if (oldName === newName) return true
    await markDocumentsOutdated(tx, [repositoryId])
    await note(tx, by, { repositoryId }, 'rename-repository', { from: oldName, to: newName })
    return true
  })
}

/**
 * Deletes a repository. It disappears at once, and can be restored for `restorableDays`. Writes the event. Returns false
 * when it does not exist.
 */
export async function deleteRepository(
  db: pg.Pool,
  by: Principal,
  { id, path }: Pick<Repository, 'id' | 'path'>,
): Promise<boolean> {
  return retriedTransaction(db, async (tx) => {
    if (!(await hideRepository(tx, id))) return false
    await note(tx, by, { repositoryId: id }, 'delete-repository', { path })
    return true
  })
}

/**
 * Restores a deleted repository of a group with everything in it, and writes the event. Returns its path. Throws errcode
 * 5 when the group has no repository of this name that can be restored.
 */
export async function restoreRepository(
  db: pg.Pool,
  by: Principal,
  group: Pick<Group, 'id' | 'name'>,
  name: string,
): Promise<string> {
  return retriedTransaction(db, async (tx) => {
    const id = await unhideRepository(tx, group.id, name)
    if (id === null) {
      throw new Refusal(errcode.notFound, `${group.name} has no deleted repository ${name}`)
    }
    // The group may have been renamed in the meantime.
    await markDocumentsOutdated(tx, [id])
    const path = `${group.name}/${name}`
    await note(tx, by, { repositoryId: id }, 'restore-repository', { path })
    return path
  })
}

/** Removes deleted repositories with their packages for good when their time to be restored is over. Writes the events. */
export const removeExpiredRepositoriesJob: Job = {
  name: 'remove-expired-repositories',
  everySeconds: 3600,
  async run({ db }, _data, signal) {
    for (const id of await listExpiredRepositories(db)) {
      signal.throwIfAborted()
      await retriedTransaction(db, async (tx) => {
        const purged = await purgeExpiredRepository(tx, id)
        if (!purged) return
        const place = { repositoryId: id, inGroupId: purged.groupId }
        await note(tx, background, place, 'purge-repository', { path: purged.path })
      })
    }
  },
}

/**
 * Renames a group. The URLs of its repositories change too, so their stored documents are outdated until a job has
 * rendered them again. Its old URLs keep working. With `force` the new name may be reserved for another group. Throws
 * errcode 5 when the group was deleted, and with the constraint `group_name_is_taken` or another rule of group names.
 */
export async function changeGroupName(
  db: pg.Pool,
  by: Principal,
  group: Group,
  newName: string,
  { force = false } = {},
): Promise<void> {
  await transaction(db, async (tx) => {
    await changePaths(tx, group.id)
    if (force) await freeGroupName(tx, newName)
    if (!(await renameGroup(tx, group.id, newName))) throw groupIsGone()
    const repositories = await lockRepositoriesOf(tx, group.id)
    await markDocumentsOutdated(
      tx,
      repositories.map(({ id }) => id),
    )
    await note(tx, by, { groupId: group.id }, 'rename-group', { from: group.name, to: newName })
  })
}

/**
 * The result of `deleteGroup`, with the paths of the repositories. A group that has repositories is deleted only
 * `withRepositories`. Those count that can be restored.
 */
export type GroupDeletion = { isDeleted: boolean; repositories: string[] }

/**
 * Permanently deletes a group. With `withRepositories` it also deletes its repositories and everything in them. Its name
 * stays reserved. Writes the events. Throws errcode 5 when it was deleted before.
 */
export async function deleteGroup(
  db: pg.Pool,
  by: Principal,
  group: Group,
  { withRepositories = false } = {},
): Promise<GroupDeletion> {
  return retriedTransaction(db, async (tx) => {
    await lockTenancy(tx, group.id)
    const repositories: string[] = []
    for (const { id, path, isDeleted } of await lockRepositoriesOf(tx, group.id)) {
      repositories.push(path)
      if (!withRepositories) continue
      await purgeRepository(tx, id)
      const place = { repositoryId: id, inGroupId: group.id }
      await note(tx, by, place, isDeleted ? 'purge-repository' : 'delete-repository', { path })
    }
    if (repositories.length > 0 && !withRepositories) return { isDeleted: false, repositories }
    if (!(await purgeGroup(tx, group.id))) throw groupIsGone()
    await note(tx, by, { groupId: group.id }, 'delete-group', { name: group.name })
    return { isDeleted: true, repositories }
  })
}

function groupIsGone(): Refusal {
  return new Refusal(errcode.notFound, 'the group was deleted a moment ago')
}

function groupsAreForAdministrators(): Refusal {
  return new Refusal(errcode.permissionDenied, 'only site administrators create groups here')
}

async function note(
  tx: pg.PoolClient,
  by: Principal,
  subject: { repositoryId: string; inGroupId?: string } | { groupId: string },
  action: RegistryAction,
  details: Record<string, unknown>,
): Promise<void> {
  await insertEvent(tx, by, { ...subject, action, details })
}
