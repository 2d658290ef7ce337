import * as z from 'zod'
import { registryUrl } from '../../groups/repositories.ts'
import { describeVersion, provenanceUrl } from '../../packages/describe-version.ts'
import { distUrl } from '../../packages/documents/entry.ts'
import type { VersionChange } from '../../packages/lifecycle/change.ts'
import { deleteVersion, purgeVersion, restoreVersion } from '../../packages/lifecycle/deletion.ts'
import { listDailyDownloads, listMonthlyDownloads } from '../../packages/tables/downloads.ts'
import { findPackage } from '../../packages/tables/listed-packages.ts'
import { findVersion, type ListedVersion, listVersions } from '../../packages/tables/listed-versions.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardRepository, type RepositoryGrant } from './guards.ts'
import {
  formatPackage,
  Package,
  PackagePath,
  PurgeQuery,
  packageChangeOf,
  packageNameOf,
  packageUrl,
} from './packages.ts'
import { PageQuery, readPage } from './paging.ts'

/** The URL of a version. */
export const versionUrl = `${packageUrl}/:version`

export const VersionPath = PackagePath.extend({
  version: z.string().meta({ description: 'Semantic Version', example: '1.0.0' }),
})

const OfPublisher = z.string().nullable().optional()
/** Who brought a version here. */
export const PublishedByBody = z
  .object({
    type: z.enum(['account', 'token', 'publisher', 'source']).meta({
      description:
        '`account`: a person, in the browser or with a token; `token`: a deploy token; `publisher`: a CI job of a trusted publisher; `source`: a Git source. The other members are those of the type',
    }),
    username: z.string().optional().meta({
      description: 'Of an account; "deleted account" once the account is gone',
      example: 'alice',
    }),
    name: z.string().optional().meta({ description: 'Name of the deploy token', example: 'build server' }),
    provider: z.string().optional().meta({ description: 'Provider of the publisher', example: 'github' }),
    url: OfPublisher.meta({
      description: 'URL of the Git repository',
      example: 'https://git.example.com/acme/lib.git',
    }),
    project: OfPublisher.meta({ description: 'Project of the job', example: 'acme/lib' }),
    workflow: OfPublisher.meta({ description: 'File of the workflow', example: 'release.yml' }),
    ref: OfPublisher.meta({ description: 'Branch or tag', example: 'refs/tags/v1.0.0' }),
    commit: OfPublisher.meta({ description: 'Commit', example: '9fceb02d0ae598e95dc970b74767f19372d61af8' }),
    run_url: OfPublisher.meta({
      description: 'Page of the run; null when the issuer does not say',
      example: 'https://github.com/acme/lib/actions/runs/1',
    }),
  })
  .meta({ id: 'PublishedBy' })

/** What an attestation of a version says, as the API returns it. */
export const Attestation = z
  .object({
    predicate_type: z.string().meta({
      description: 'The kind of its statement',
      example: 'https://slsa.dev/provenance/v1',
    }),
    provider: z.string().meta({ description: 'Provider of the trusted publisher', example: 'github' }),
    project: z
      .string()
      .nullable()
      .meta({ description: 'Project of the job that signed it', example: 'acme/lib' }),
    workflow: z.string().nullable().meta({ description: 'File of the workflow', example: 'release.yml' }),
    ref: z.string().nullable().meta({ description: 'Branch or tag', example: 'refs/tags/v1.0.0' }),
    commit: z
      .string()
      .nullable()
      .meta({ description: 'Commit', example: '9fceb02d0ae598e95dc970b74767f19372d61af8' }),
    run_url: z.string().nullable().meta({
      description: 'Page of the run; null when the certificate does not say',
      example: 'https://github.com/acme/lib/actions/runs/1',
    }),
    log_url: z.string().nullable().meta({
      description: 'Its entry in the transparency log; null when the log has no URL for entries',
      example: 'https://search.sigstore.dev/?logIndex=123456789',
    }),
  })
  .meta({ id: 'Attestation' })

const versionMembers = {
  version: z.string().meta({ description: 'Semantic Version', example: '1.0.0' }),
  composer_version: z.string().meta({
    description: 'The version that Composer installs; `dev-<version>` when Composer cannot parse the version',
    example: '1.0.0',
  }),
  sha256: z.string().meta({
    description: 'SHA-256 of the archive, hexadecimal',
    example: '0df35b8fe84bf0c44587e6b65e147395a81165edf8c6babf684701bf847d556e',
  }),
  shasum: z.string().meta({
    description: 'SHA-1 of the archive, which Composer checks',
    example: '2fd4e1c67a2d28fced849ee1bb76e7391b93eb12',
  }),
  size: z.int().meta({ description: 'Bytes of the archive', example: 12_345 }),
  url: z.url().meta({
    description: 'The URL of the archive',
    example: 'https://svc.example.com/acme/php/-/packages/dist/acme/hello/1.0.0/0df35b8f.zip',
  }),
  uploader: z.string().nullable().meta({
    description: 'Username; "deleted account" once the account is gone, null when no account published it',
    example: 'alice',
  }),
  deploy_token: z.string().nullable().meta({
    description: 'Name of the deploy token that published it; null for anything else',
    example: 'build server',
  }),
  published_by: PublishedByBody.nullable().meta({
    description:
      'Who published it; of a released stage, who staged it. Null for a command, such as an import',
  }),
  attestations: z.array(Attestation).meta({
    description: 'Its attestations. They were verified when they were uploaded',
  }),
  provenance_url: z.url().nullable().meta({
    description: 'The URL of its provenance object (PEP 740); null without attestations',
    example: 'https://svc.example.com/acme/php/-/packages/integrity/acme/hello/1.0.0/provenance',
  }),
  downloads: z.int().meta({ description: 'All downloads of the version', example: 123 }),
  published_at: Moment.meta({ description: 'When it was published' }),
  deleted_at: Moment.nullable().meta({ description: 'Null for a version that is not deleted' }),
  purged_at: Moment.nullable().meta({ description: 'When it was deleted permanently' }),
  quarantined_at: Moment.nullable().meta({ description: 'Null for a version without quarantine' }),
  quarantine_reason: z
    .string()
    .nullable()
    .meta({ description: 'What Composer shows', example: 'stolen token' }),
}

/** A version, as the API returns it. */
export const Version = z.object(versionMembers).meta({ id: 'Version' })

const VersionsQuery = PageQuery.extend({
  deleted: z.enum(['true', 'false']).optional().meta({ description: '`true` lists deleted versions too' }),
})
const PackageWithVersions = z
  .object({
    ...Package.shape,
    versions: z.array(Version).meta({ description: 'At most `limit` versions, the highest first' }),
  })
  .meta({ id: 'PackageWithVersions' })
const VersionWithDownloads = z
  .object({
    ...versionMembers,
    daily_downloads: z
      .array(
        z.object({
          day: z.iso.date().meta({ description: 'A day in UTC', example: '2026-11-21' }),
          count: z.int().meta({ description: 'Downloads on this day', example: 12 }),
        }),
      )
      .meta({ description: 'The last 90 days' }),
    monthly_downloads: z
      .array(
        z.object({
          month: z.string().meta({ description: 'A month', example: '2026-07' }),
          count: z.int().meta({ description: 'Downloads in this month', example: 345 }),
        }),
      )
      .meta({ description: 'Older downloads, by month' }),
  })
  .meta({ id: 'VersionWithDownloads' })

/** A package with its versions, and each of them: `…/packages/<vendor>/<package>[/<version>]`. */
export async function versionRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, changes, config } = context
  const mayPull = guardRepository('pull', context)
  const mayDelete = guardRepository('deletePackage', context)
  const mayRestore = guardRepository('restorePackage', context)

  app.get(
    packageUrl,
    endpoint(mayPull, {
      operationId: 'getPackage',
      tag: 'Packages',
      summary: 'Get a package and its versions',
      description: 'The newest version comes first. The list of versions is paged.',
      params: PackagePath,
      querystring: VersionsQuery,
      response: { 200: PackageWithVersions },
    }),
    async (request, reply) => {
      const grant = mayPull.granted(request)
      const isWithDeleted = request.query.deleted === 'true'
      const found = await findPackage(db, grant.repositoryId, packageNameOf(request.params))
      if (!found || (found.isDeleted && !isWithDeleted)) throw notFound('package not found')
      const choice = isWithDeleted ? 'all' : 'undeleted'
      const versions = await readPage(
        { request, reply, config },
        (part) => listVersions(db, found.id, choice, part),
        ({ id }) => id,
        (version) => formatVersion(version, grant, found.name),
      )
      return { ...formatPackage(found), versions }
    },
  )

  app.get(
    versionUrl,
    endpoint(mayPull, {
      operationId: 'getVersion',
      tag: 'Versions',
      summary: 'Get a version and its downloads by day',
      description: 'A deleted version is returned too.',
      params: VersionPath,
      response: { 200: VersionWithDownloads },
    }),
    async (request) => {
      const grant = mayPull.granted(request)
      const packageName = packageNameOf(request.params)
      const version = await versionOf(grant.repositoryId, packageName, request.params.version)
      const [days, months] = await Promise.all([
        listDailyDownloads(db, version.id),
        listMonthlyDownloads(db, version.id),
      ])
      const shown = formatVersion(version, grant, packageName)
      return { ...shown, daily_downloads: days, monthly_downloads: months }
    },
  )

  app.delete(
    versionUrl,
    endpoint(mayDelete, {
      operationId: 'deleteVersion',
      tag: 'Versions',
      summary: 'Delete a version',
      description: 'The version number stays taken.',
      params: VersionPath,
      querystring: PurgeQuery,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const remove = request.query.purge === 'true' ? purgeVersion : deleteVersion
      await remove(changes, versionChangeOf(mayDelete.granted(request), request.params))
      return reply.code(204).send()
    },
  )

  app.post(
    `${versionUrl}/restore`,
    endpoint(mayRestore, {
      operationId: 'restoreVersion',
      tag: 'Versions',
      summary: 'Restore a deleted version',
      description:
        'A purged version cannot be restored. A quarantined version stays hidden until its quarantine ends.',
      params: VersionPath,
      response: { 200: Version },
    }),
    async (request) => {
      const grant = mayRestore.granted(request)
      const change = versionChangeOf(grant, request.params)
      await restoreVersion(changes, change)
      const restored = await versionOf(change.repositoryId, change.packageName, change.version)
      return formatVersion(restored, grant, change.packageName)
    },
  )

  async function versionOf(repositoryId: string, name: string, number: string): Promise<ListedVersion> {
    const found = await findPackage(db, repositoryId, name)
    const version = found && (await findVersion(db, found.id, number))
    if (!version) throw notFound('version not found')
    return version
  }
}

/** The version that a request changes. */
export function versionChangeOf(grant: RepositoryGrant, path: z.output<typeof VersionPath>): VersionChange {
  return { ...packageChangeOf(grant, path), version: path.version }
}

/** Formats a version for a response. */
function formatVersion(
  listed: ListedVersion,
  { baseUrl, path }: RepositoryGrant,
  packageName: string,
): z.input<typeof Version> {
  const registry = registryUrl(baseUrl, path)
  return {
    ...describeVersion(listed),
    url: distUrl(registry, packageName, listed.version, listed.sha256),
    provenance_url: provenanceUrl(registry, packageName, listed),
  }
}
