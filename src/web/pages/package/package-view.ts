import type { FastifyRequest } from 'fastify'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { findVisibleRepository, type VisibleRepository } from '../../../groups/repositories.ts'
import { findPackageSummary, type PackageSummary } from '../../../packages/tables/listed-packages.ts'
import {
  type DescribedVersion,
  findDescribedVersion,
  type ListedVersion,
  listVersions,
} from '../../../packages/tables/listed-versions.ts'
import { type ListedStage, listWaitingOf } from '../../../packages/tables/staged-versions.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { readSession } from '../../visit.ts'
import { may } from '../permit.ts'
import { missingVersion } from './missing-version.ts'

/** A route below the page of a package. */
export interface PackageRoute {
  Params: { group: string; name: string; vendor: string; package: string }
}

/** A package with the access of one reader. */
export interface PackageView {
  /** Null when the reader is not signed in. */
  session: Session | null
  repository: VisibleRepository
  name: string
  about: PackageSummary
  /** Whether the reader may publish versions, and say what is wrong with them. */
  mayPush: boolean
}

/** The URL pattern of a package's page. */
export const packagePath = '/:group/:name/packages/:vendor/:package'

/** Finds the repository's own package of a URL. Throws 404 when there is none that the reader may see. */
export async function findPackageView(
  context: AppContext,
  request: FastifyRequest<PackageRoute>,
): Promise<PackageView> {
  const { own } = await findNamed(context, request)
  if (!own) throw pageNotFound()
  return own
}

/** The reader, the repository and the name of a URL. `own` is null when the repository has no package of the name. */
export type PackageOfUrl = Pick<PackageView, 'session' | 'repository' | 'name'> & { own: PackageView | null }

/** Finds what a URL names. Throws 404 when the reader may not see the repository. */
export async function findNamed(
  context: AppContext,
  request: FastifyRequest<PackageRoute>,
): Promise<PackageOfUrl> {
  const { params } = request
  const session = await readSession(context, request)
  const repository = await findVisibleRepository(context.db, params, session?.account.id ?? null)
  if (!repository) throw pageNotFound()
  const name = `${params.vendor}/${params.package}`
  const about = await findPackageSummary(context.db, repository.id, name)
  return { session, repository, name, own: about && viewOf(session, repository, about) }
}

/** Returns a package as its reader sees it. */
export function viewOf(
  session: Session | null,
  repository: VisibleRepository,
  about: PackageSummary,
): PackageView {
  return { session, repository, name: about.name, about, mayPush: may(repository, session, 'push') }
}

/**
 * Finds a version that is not deleted; the latest one for ''. Throws 404 when there is none. People who may publish see
 * that it was deleted, by whom and when.
 */
export async function findShownVersion(
  { db }: AppContext,
  view: PackageView,
  version: string,
): Promise<DescribedVersion> {
  const shown = await findDescribedVersion(db, view.about.id, version || null)
  if (!shown) throw await missingVersion(db, view, version)
  return shown
}

/** Throws 403 for the contents of a version in quarantine, unless the reader may publish versions. */
export function refuseQuarantined({ mayPush }: PackageView, version: ListedVersion): void {
  if (version.quarantinedAt === null || mayPush) return
  throw new PageError(
    403,
    `Version ${version.version} is quarantined, so its files are not shown. Choose another version.`,
  )
}

/** Reads from the archive store. Throws an error page for a damaged archive and for an unreachable store. */
export async function readingArchive<T>(reading: () => Promise<T>): Promise<T> {
  try {
    return await reading()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const isDown = error.status >= 500
    const message = isDown
      ? 'The archive store cannot be reached. Please try again later.'
      : 'This archive cannot be read.'
    throw new PageError(isDown ? 503 : 404, message)
  }
}

/** A page names so many versions that wait for their release. */
const namedStages = 3

/** The versions of a package that wait for their release: the latest ones, and whether there are more. */
export interface PackageStages {
  stages: ListedStage[]
  isMore: boolean
}

/** Lists the versions of a package that wait for their release. None for people who may not release them. */
export async function listWaiting(
  { db }: AppContext,
  { repository, about }: PackageView,
): Promise<PackageStages> {
  const found =
    repository.staged > 0 ? await listWaitingOf(db, repository.id, about.name, namedStages + 1) : []
  return { stages: found.slice(0, namedStages), isMore: found.length > namedStages }
}

/** The maximum number of versions that a field offers. People can type others. */
export const offeredVersions = 50

/** Lists the newest versions, for a field in which people choose one. */
export function listOfferedVersions({ db }: AppContext, { about }: PackageView): Promise<ListedVersion[]> {
  return listVersions(db, about.id, 'undeleted', { after: null, limit: offeredVersions })
}
