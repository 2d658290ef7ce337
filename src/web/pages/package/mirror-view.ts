import type { FastifyRequest } from 'fastify'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { findVisibleRepository, type VisibleRepository } from '../../../groups/repositories.ts'
import { findPackageSummary } from '../../../packages/tables/listed-packages.ts'
import { UpstreamError } from '../../../upstreams/client/upstream-error.ts'
import {
  type DescribedMirror,
  describeMirror,
  type MirrorVersion,
} from '../../../upstreams/describe-mirror.ts'
import {
  findListedMirror,
  findOrigin,
  type ListedMirror,
  type OriginVerdict,
} from '../../../upstreams/tables/mirrored-packages.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { readSession } from '../../visit.ts'
import { may } from '../permit.ts'
import { type PackageRoute, type PackageView, viewOf } from './package-view.ts'

/** A package of an upstream with the access of one reader. */
export interface MirrorView {
  /** Null when the reader is not signed in. */
  session: Session | null
  repository: VisibleRepository
  mirror: ListedMirror
  /** Whether it may come from its upstream. */
  verdict: OriginVerdict
  mayManage: boolean
}

/** Finds the package of a URL: of the repository itself, or of an upstream. Throws 404 when there is neither. */
export async function findAnyPackage(
  context: AppContext,
  request: FastifyRequest<PackageRoute>,
): Promise<PackageView | MirrorView> {
  const { db } = context
  const { params } = request
  const session = await readSession(context, request)
  const repository = await findVisibleRepository(db, params, session?.account.id ?? null)
  if (!repository) throw pageNotFound()
  const name = `${params.vendor}/${params.package}`
  const about = await findPackageSummary(db, repository.id, name)
  if (about) return viewOf(session, repository, about)
  const mirror = await findListedMirror(db, repository.id, name)
  if (!mirror) throw pageNotFound()
  const { verdict } = await findOrigin(db, repository.id, name)
  return { session, repository, mirror, verdict, mayManage: may(repository, session, 'manage') }
}

/** Describes the versions of a package. Throws 503 when they cannot be read in time. */
export async function describe(
  { db }: AppContext,
  { repository, mirror }: Pick<MirrorView, 'repository' | 'mirror'>,
  { version = '', from = 0, limit = 0 }: { version?: string; from?: number; limit?: number },
): Promise<DescribedMirror> {
  try {
    const of = { repositoryId: repository.id, name: mirror.name }
    return await describeMirror(db, of, { version: version || null, from, limit })
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error
    throw new PageError(503, `The metadata of ${mirror.name} cannot be read now. Try again later.`)
  }
}

/** Returns the version that a page is about. Throws 404 for an unknown version. Null when the package has none. */
export function shownOf(
  { shown }: DescribedMirror,
  version: string,
): (MirrorVersion & DescribedMirror['shown']) | null {
  if (shown === null && version !== '') throw pageNotFound()
  return shown
}
