import { isSemver, readVersion } from '../../../composer/composer-version.ts'
import type { Queryable } from '../../../database/database.ts'
import { formatTime } from '../../../domain/formats.ts'
import { listPackageActors } from '../../../events/registry-events.ts'
import {
  findDescribedVersion,
  findVersion,
  type ListedVersion,
  listVersions,
} from '../../../packages/tables/listed-versions.ts'
import { findStagedNumber } from '../../../packages/tables/staged-versions.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { may } from '../permit.ts'
import type { PackageView } from './package-view.ts'

/**
 * Returns the error page for a version that is not there; '' stands for any version. People who may publish see who
 * deleted it and when, and what can be done. For everybody else it is 404, as if it had never existed: they read that the package
 * has no such version, or nothing of a package without versions.
 */
export async function missingVersion(db: Queryable, view: PackageView, version: string): Promise<PageError> {
  const { session, repository, about } = view
  if (!may(repository, session, 'push')) return noSuchVersion(db, view)
  const [deleted] =
    version === ''
      ? await listVersions(db, about.id, 'all', { after: null, limit: 1 })
      : [await findVersion(db, about.id, version)]
  if (!deleted) return (await stagedVersion(db, view, version)) ?? (await noSuchVersion(db, view))
  const done = await describeDeletion(db, view, deleted)
  const versions = versionsOf(view)
  const all = { url: versions, label: 'Show all versions' }
  if (version === '')
    return new PageError(410, `All versions of ${about.name} are deleted. The newest one, ${done}.`, {
      next: all,
    })
  if (deleted.purgedAt)
    return new PageError(410, `Version ${done}. Its archive is gone for good, and its number stays taken.`, {
      next: all,
    })
  const mayRestore = may(repository, session, 'restorePackage')
  const whoRestores = mayRestore ? 'You' : 'An admin of the repository'
  return new PageError(
    410,
    `Version ${done}. Lock files can still install it. ${whoRestores} can restore it.`,
    {
      next: mayRestore
        ? { url: `${versions}/restore?${new URLSearchParams({ version })}`, label: `Restore ${version}` }
        : all,
    },
  )
}

function versionsOf({ repository, about }: PackageView): string {
  return `/${repository.path}/packages/${about.name}/-/versions`
}

/** A package without versions is hidden, so the error does not tell that there is one. */
async function noSuchVersion(db: Queryable, view: PackageView): Promise<PageError> {
  if ((await findDescribedVersion(db, view.about.id, null)) === null) return pageNotFound()
  const next = { url: versionsOf(view), label: 'Show all versions' }
  return new PageError(404, `${view.about.name} has no such version.`, { next })
}

/** Returns the error page for a version that waits for its release. Null when none does. */
async function stagedVersion(
  db: Queryable,
  { repository, about }: PackageView,
  version: string,
): Promise<PageError | null> {
  if (!isSemver(version)) return null
  const stage = await findStagedNumber(db, repository.id, about.name, readVersion(version).normalized)
  if (!stage) return null
  return new PageError(404, `Version ${stage.version} is published when a developer releases it.`, {
    next: { url: `/${repository.path}/-/stages/${stage.id}`, label: `Review ${stage.version}` },
  })
}

/** Returns who deleted or purged versions, by the ids of those that an account deleted. */
export async function listDeleters(
  db: Queryable,
  { repository, about }: PackageView,
  versions: readonly ListedVersion[],
): Promise<Map<string, string>> {
  const deleted = versions.filter(({ deletedAt }) => deletedAt !== null)
  const moments = deleted.map(({ version, deletedAt, purgedAt }) => ({
    action: purgedAt ? ('purge' as const) : ('delete' as const),
    version,
    moment: purgedAt ?? (deletedAt as Date),
  }))
  const usernames = await listPackageActors(db, repository.id, about.name, moments)
  return new Map(deleted.flatMap(({ id }, i) => (usernames[i] ? [[id, usernames[i]]] : [])))
}

/** Returns words such as `1.0.0 was deleted by alice on 2 Jan 2026, 03:04 UTC`. */
async function describeDeletion(db: Queryable, view: PackageView, deleted: ListedVersion): Promise<string> {
  const { id, version, deletedAt, purgedAt } = deleted
  const username = (await listDeleters(db, view, [deleted])).get(id)
  const who = username === undefined ? '' : ` by ${username}`
  return `${version} was ${purgedAt ? 'purged' : 'deleted'}${who} on ${formatTime(purgedAt ?? (deletedAt as Date))}`
}
