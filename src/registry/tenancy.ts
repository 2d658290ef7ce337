import type pg from 'pg'
import { transaction } from '../database/database.ts'
import type { Visibility } from '../domain/permissions.ts'
import { enqueue } from '../jobs/job.ts'
import { deleteGroup, type Group, renameGroup, setFactorRequired } from '../repositories/groups.ts'
import {
  changeRepository,
  deleteRepository,
  findRepository,
  lockRepositoriesOf,
  type Repository,
  renameRepository,
} from '../repositories/repositories.ts'
import { markDocumentsOutdated } from './documents/documents.ts'
import { renderOutdatedJob } from './documents/rerender.ts'
import { type Author, insertEvent, type RegistryAction } from './tables/events.ts'

/** Changes description and visibility; null leaves one as it is. Writes the event. Null when the repository is gone. */
export async function setRepository(
  db: pg.Pool,
  author: Author,
  repositoryId: string,
  changes: { description: string | null; visibility: Visibility | null },
): Promise<(Repository & { createdAt: Date }) | null> {
  return transaction(db, async (tx) => {
    const repository = await changeRepository(tx, repositoryId, changes)
    if (!repository) return null
    const given = Object.entries(changes).filter(([, value]) => value !== null)
    await note(tx, author, { repositoryId }, 'change-repository', Object.fromEntries(given))
    return repository
  })
}

/**
 * Renames a repository. Its old URLs keep working, and nobody else gets the old name. Its documents get the new URLs in
 * the background. Writes the event. False when the repository is gone. Throws with a rule of repository names.
 */
export async function changeRepositoryName(
  db: pg.Pool,
  author: Author,
  repositoryId: string,
  newName: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const oldName = await renameRepository(tx, repositoryId, newName)
    if (oldName === null) return false
    if (oldName === newName) return true
    await markDocumentsOutdated(tx, [repositoryId])
    await note(tx, author, { repositoryId }, 'rename-repository', { from: oldName, to: newName })
    await enqueue(tx, renderOutdatedJob, {})
    return true
  })
}

/** Deletes a repository and everything in it for good. Writes the event. False when it is gone already. */
export async function removeRepository(
  db: pg.Pool,
  author: Author,
  { id, path }: Pick<Repository, 'id' | 'path'>,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    if (!(await deleteRepository(tx, id))) return false
    await note(tx, author, { repositoryId: id }, 'delete-repository', { path })
    return true
  })
}

/**
 * Renames a group. The URLs of its repositories change with it, so their stored documents are outdated until a job has
 * rendered them again. Throws with the constraint `group_name_is_taken` or another rule of group names.
 */
export async function changeGroupName(
  db: pg.Pool,
  author: Author,
  group: Group,
  newName: string,
): Promise<void> {
  await transaction(db, async (tx) => {
    await renameGroup(tx, group.id, newName)
    await markDocumentsOutdated(tx, await lockRepositoriesOf(tx, group.id))
    await enqueue(tx, renderOutdatedJob, undefined)
    await note(tx, author, { groupId: group.id }, 'rename-group', { from: group.name, to: newName })
  })
}

/** Makes a group require a second factor of its members, or not, and writes the event. */
export async function requireFactorOfMembers(
  db: pg.Pool,
  author: Author,
  group: { id: string },
  isRequired: boolean,
): Promise<void> {
  await transaction(db, async (tx) => {
    if (!(await setFactorRequired(tx, group.id, isRequired))) return
    await note(tx, author, { groupId: group.id }, 'set-group', { requires_second_factor: isRequired })
  })
}

/** A group that still has repositories is only deleted by force. */
export type GroupRemoval = { isDeleted: boolean; repositories: string[] }

/** Deletes a group; with `force` also its repositories and everything in them, for good. Writes the events. */
export async function removeGroup(
  db: pg.Pool,
  author: Author,
  group: Group,
  { force = false } = {},
): Promise<GroupRemoval> {
  return transaction(db, async (tx) => {
    const ids = await lockRepositoriesOf(tx, group.id)
    const repositories: string[] = []
    for (const id of ids) {
      const repository = await findRepository(tx, id)
      if (!repository) continue
      repositories.push(repository.path)
      if (!force) continue
      await deleteRepository(tx, id)
      await note(tx, author, { repositoryId: id }, 'delete-repository', { path: repository.path })
    }
    if (repositories.length > 0 && !force) return { isDeleted: false, repositories }
    await deleteGroup(tx, group.id)
    await note(tx, author, { groupId: group.id }, 'delete-group', { name: group.name })
    return { isDeleted: true, repositories }
  })
}

async function note(
  tx: pg.PoolClient,
  author: Author,
  subject: { repositoryId: string } | { groupId: string },
  action: RegistryAction,
  details: Record<string, unknown>,
): Promise<void> {
  const about = 'groupId' in subject ? { repositoryId: null, ...subject } : subject
  await insertEvent(tx, author, { ...about, packageName: null, version: null, action, details })
}
