import type { Queryable } from '../../../database/database.ts'
import { formatTime } from '../../../domain/formats.ts'
import { findPackageActor } from '../../../events/registry-events.ts'
import { findVersion, type ListedVersion, listVersions } from '../../../packages/tables/listed-versions.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { may } from '../permit.ts'
import type { PackageView } from './package-view.ts'

/**
 * Returns the error page for a version that is not there; '' stands for any version. People who may publish see who
 * deleted it and when, and what can be done. For everybody else it is 404, as if it had never existed.
 */
export async function missingVersion(db: Queryable, view: PackageView, version: string): Promise<PageError> {
  const { session, repository, about } = view
  if (!may(repository, session, 'push')) return pageNotFound()
  const [deleted] =
    version === ''
      ? await listVersions(db, about.id, 'all', { after: null, limit: 1 })
      : [await findVersion(db, about.id, version)]
  if (!deleted) return pageNotFound()
  const done = await describeDeletion(db, view, deleted)
  const versions = `/${repository.path}/packages/${about.name}/-/versions`
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

/** Returns words such as `1.0.0 was deleted by alice on 2 Jan 2026, 03:04 UTC`. */
async function describeDeletion(
  db: Queryable,
  { repository, about }: PackageView,
  { version, deletedAt, purgedAt }: ListedVersion,
): Promise<string> {
  const moment = purgedAt ?? (deletedAt as Date)
  const act = { action: purgedAt ? 'purge' : 'delete', version, moment } as const
  const username = await findPackageActor(db, repository.id, about.name, act)
  const who = username === null ? '' : ` by ${username}`
  return `${version} was ${purgedAt ? 'purged' : 'deleted'}${who} on ${formatTime(moment)}`
}
