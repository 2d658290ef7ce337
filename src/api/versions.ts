import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { distUrl } from '../registry/documents/entry.ts'
import { deleteVersion, purgeVersion, restoreVersion } from '../registry/lifecycle/deletion.ts'
import { listDailyDownloads, listMonthlyDownloads } from '../registry/tables/downloads.ts'
import { registryUrl } from '../repositories/repositories.ts'
import { allowedTo, packageNameOf, param, type RepositoryAdmission, versionChangeOf } from './admission.ts'
import type { ApiContext } from './context.ts'
import { notFound } from './errors.ts'
import { addInterface } from './interface.ts'
import { findPackage, findVersion, type ListedVersion, listVersions } from './listed-packages.ts'
import { describePackage, Package, PurgeQuery, packageUrl } from './packages.ts'
import { nextLink, PageQuery, partOf, readPage } from './paging.ts'

/** Below it: everything about one version. */
export const versionUrl = `${packageUrl}/:version`

/** A version, as interfaces answer it. */
export const Version = z.object({
  version: z.string(),
  composer_version: z.string(),
  sha256: z.string(),
  shasum: z.string(),
  size: z.int(),
  url: z.url(),
  uploader: z.string().nullable(),
  downloads: z.int(),
  published_at: z.iso.datetime(),
  deleted_at: z.iso.datetime().nullable(),
  purged_at: z.iso.datetime().nullable(),
  quarantined_at: z.iso.datetime().nullable(),
  quarantine_reason: z.string().nullable(),
})

const VersionsQuery = PageQuery.extend({ deleted: z.enum(['true', 'false']).optional() })
const PackageWithVersions = Package.extend({ versions: z.array(Version) })
const VersionWithDays = Version.extend({
  /** The last 90 days. */
  daily_downloads: z.array(z.object({ day: z.iso.date(), count: z.int() })),
  /** Older days, by month (YYYY-MM). */
  monthly_downloads: z.array(z.object({ month: z.string(), count: z.int() })),
})

/** A package with its versions, and each of them: `…/packages/<vendor>/<package>[/<version>]` (DESIGN §6). */
export async function versionRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { db, config } = context

  addInterface(
    app,
    {
      method: 'GET',
      url: packageUrl,
      summary: 'A package and its versions, the newest first and in parts; deleted ones with deleted=true',
      entrance: allowedTo('pull', context),
      query: VersionsQuery,
      answer: PackageWithVersions,
    },
    async ({ request, reply, admitted, query }) => {
      const isWithDeleted = query.deleted === 'true'
      const found = await findPackage(db, admitted.repositoryId, packageNameOf(request))
      if (!found || (found.isDeleted && !isWithDeleted)) throw notFound('package not found')
      const choice = isWithDeleted ? 'all' : 'undeleted'
      const { items, next } = await readPage(
        partOf(query),
        (wanted) => listVersions(db, found.id, choice, wanted),
        ({ id }) => id,
        (version) => describeVersion(version, admitted, found.name),
      )
      if (next !== null) reply.header('link', nextLink(config.baseUrl, request.url, next))
      return { ...describePackage(found), versions: items }
    },
  )

  addInterface(
    app,
    {
      method: 'GET',
      url: versionUrl,
      summary: 'A version, deleted or not, with its installations of each day',
      entrance: allowedTo('pull', context),
      answer: VersionWithDays,
    },
    async ({ request, admitted }) => {
      const version = await versionAt(
        admitted.repositoryId,
        packageNameOf(request),
        param(request, 'version'),
      )
      const days = await listDailyDownloads(db, version.id)
      const months = await listMonthlyDownloads(db, version.id)
      return {
        ...describeVersion(version, admitted, packageNameOf(request)),
        daily_downloads: days,
        monthly_downloads: months,
      }
    },
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url: versionUrl,
      summary: 'Delete a version: softly, or for good with purge=true. Its number stays taken',
      entrance: allowedTo('deletePackage', context),
      query: PurgeQuery,
    },
    async ({ request, admitted, query }) => {
      const remove = query.purge === 'true' ? purgeVersion : deleteVersion
      await remove(db, versionChangeOf(request, admitted))
    },
  )

  addInterface(
    app,
    {
      method: 'POST',
      url: `${versionUrl}/restore`,
      summary: 'Bring a deleted version back, unless it is purged',
      entrance: allowedTo('deletePackage', context),
      answer: Version,
    },
    async ({ request, admitted }) => {
      const change = versionChangeOf(request, admitted)
      await restoreVersion(db, change)
      const restored = await versionAt(change.repositoryId, change.packageName, change.version)
      return describeVersion(restored, admitted, change.packageName)
    },
  )

  async function versionAt(repositoryId: string, name: string, number: string): Promise<ListedVersion> {
    const found = await findPackage(db, repositoryId, name)
    const version = found && (await findVersion(db, found.id, number))
    if (!version) throw notFound('version not found')
    return version
  }
}

/** A version as `Version` has it. */
export function describeVersion(
  listed: ListedVersion,
  { baseUrl, path }: RepositoryAdmission,
  packageName: string,
): z.input<typeof Version> {
  return {
    version: listed.version,
    composer_version: listed.composer,
    sha256: listed.sha256,
    shasum: listed.sha1,
    size: listed.size,
    url: distUrl(registryUrl(baseUrl, path), packageName, listed.version, listed.sha256),
    uploader: listed.uploader,
    downloads: listed.downloads,
    published_at: listed.publishedAt.toISOString(),
    deleted_at: listed.deletedAt?.toISOString() ?? null,
    purged_at: listed.purgedAt?.toISOString() ?? null,
    quarantined_at: listed.quarantinedAt?.toISOString() ?? null,
    quarantine_reason: listed.quarantineReason,
  }
}
