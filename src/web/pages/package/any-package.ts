import type { FastifyReply, FastifyRequest } from 'fastify'
import type { JsonObject } from '../../../composer/manifest-json.ts'
import type { AppContext } from '../../../context.ts'
import { resolveFiles } from '../../../packages/readmes/file-links.ts'
import { findPreviousRelease, listVersions } from '../../../packages/tables/listed-versions.ts'
import type { RenderedReadme } from '../../../packages/tables/readmes.ts'
import { findListedMirror, findOrigin } from '../../../upstreams/tables/mirrored-packages.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { pageNotFound } from '../../page-error.ts'
import { may, type PagesContext } from '../permit.ts'
import { archiveOfMirror, describe, type MirrorView, type ShownArchive, shownOf } from './mirror-view.ts'
import {
  findNamed,
  findShownVersion,
  listOfferedVersions,
  offeredVersions,
  type PackageRoute,
  type PackageView,
  refuseQuarantined,
} from './package-view.ts'

/** A package of the repository itself or of an upstream, with the access of one reader. */
export type AnyPackage = PackageView | MirrorView

/** A version for the field in which people choose one. */
export interface OfferedVersion {
  version: string
  isDev: boolean
}

/** A version of a package of either kind. */
export interface AnyVersion extends OfferedVersion {
  /** Composer's normalized form. */
  normalized: string
  /** The metadata of its composer.json. */
  metadata: JsonObject
  /** Returns what the reader may see of its archive. Throws 403 for a version in quarantine. */
  openArchive: () => Promise<ShownArchive>
  /** Returns the previous release, else any older version that the reader may open. Null when there is none. */
  findPrevious: () => Promise<string | null>
}

/** Finds the package of a URL: of the repository itself, or of an upstream. Throws 404 when there is neither. */
export async function findAnyPackage(
  context: AppContext,
  request: FastifyRequest<PackageRoute>,
): Promise<AnyPackage> {
  const { db } = context
  const { own, session, repository, name } = await findNamed(context, request)
  if (own) return own
  const mirror = await findListedMirror(db, repository.id, name)
  if (!mirror) throw pageNotFound()
  const { verdict } = await findOrigin(db, repository.id, name)
  return { session, repository, name, mirror, verdict, mayManage: may(repository, session, 'manage') }
}

/**
 * Makes a page of packages of either kind. That of a mirrored package waits for its turn among the pages that take long,
 * because a thread reads what its upstream sent.
 */
export function pageOfAny(
  context: AppContext & { heavy: HeavyPages },
  show: (
    view: AnyPackage,
    request: FastifyRequest<PackageRoute>,
    reply: FastifyReply,
  ) => Promise<FastifyReply>,
): (request: FastifyRequest<PackageRoute>, reply: FastifyReply) => Promise<FastifyReply> {
  return async (request, reply) => {
    const view = await findAnyPackage(context, request)
    if (!('mirror' in view)) return show(view, request, reply)
    return context.heavy<PackageRoute>(() => show(view, request, reply))(request, reply)
  }
}

/**
 * Finds a version that people may choose; the latest one for ''. Throws 404 for an unknown one. Null when an upstream has
 * no version of the package.
 */
export async function findAnyVersion(
  context: PagesContext,
  view: AnyPackage,
  version: string,
): Promise<AnyVersion | null> {
  return (await chooseVersion(context, view, version, 0)).shown
}

/** Finds a version like `findAnyVersion`, and the newest ones for the field in which people choose another. */
export async function chooseVersion(
  context: PagesContext,
  view: AnyPackage,
  version: string,
  limit = offeredVersions,
): Promise<{ shown: AnyVersion | null; offered: OfferedVersion[] }> {
  if ('mirror' in view) {
    const described = await describe(context, view, { version, limit })
    const shown = shownOf(described, version)
    return {
      shown: shown && {
        ...shown,
        openArchive: () => archiveOfMirror(context, view, shown),
        findPrevious: async () => shown.previous,
      },
      offered: described.versions,
    }
  }
  const { db } = context
  const { repository, about, mayPush } = view
  const shown = await findShownVersion(context, view, version)
  return {
    shown: {
      ...shown,
      async openArchive() {
        refuseQuarantined(view, shown)
        const isPublic = repository.visibility === 'public' && shown.quarantinedAt === null
        return { state: 'stored', sha256: shown.sha256, size: shown.size, isPublic }
      },
      async findPrevious() {
        const release = await findPreviousRelease(db, about.id, shown)
        if (release !== null) return release
        const choice = mayPush ? 'undeleted' : 'installable'
        return (await listVersions(db, about.id, choice, { after: shown.id, limit: 1 }))[0]?.version ?? null
      },
    },
    offered: limit === 0 ? [] : await listOfferedVersions(context, view),
  }
}

/** Makes links and images of Markdown in an archive point to the files of its version. */
export function withFiles(
  rendered: RenderedReadme,
  { repository, name }: Pick<AnyPackage, 'repository' | 'name'>,
  { version }: OfferedVersion,
): RenderedReadme {
  if (rendered.format !== 'html') return rendered
  const files = `/${repository.path}/packages/${name}/-/files`
  const query = `version=${encodeURIComponent(version)}&path=`
  const urls = { page: `${files}?${query}`, image: `${files}/image?${query}` }
  return { ...rendered, content: resolveFiles(rendered.content, urls) }
}
