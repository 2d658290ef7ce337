import * as z from 'zod'
import { isPackageName, toLowerAscii } from '../../composer/package-name.ts'
import { type RepositoryAct, releaseRules } from '../../domain/permissions.ts'
import type { PackageChange } from '../../packages/lifecycle/change.ts'
import { deletePackage, purgePackage, restorePackage } from '../../packages/lifecycle/deletion.ts'
import { setReleaseRule } from '../../packages/lifecycle/release-rule.ts'
import { setOnlyTrustedPublishers } from '../../packages/lifecycle/trusted-only.ts'
import { setAbandoned } from '../../packages/lifecycle/warn.ts'
import { findPackage, type ListedPackage, listPackages } from '../../packages/tables/listed-packages.ts'
import { cautionForLimit } from '../../publishers/trusted-publishers.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { invalidArgument, notFound } from './errors.ts'
import { type ApiContext, guardRepository, type RepositoryGrant, requireOnRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

/** The URL of a package. */
export const packageUrl = '/repositories/:group/:name/packages/:vendor/:package'

export const PackagePath = RepositoryPath.extend({
  vendor: z.string().meta({ description: 'Vendor', example: 'acme' }),
  package: z.string().meta({ description: 'Package', example: 'hello' }),
})

/** Whether a deletion is permanent. */
export const PurgeQuery = z.object({
  purge: z
    .enum(['true', 'false'])
    .optional()
    .meta({ description: '`true` deletes permanently. Otherwise lock files can still install the archive' }),
})

/** A package, as the API returns it. */
export const Package = z
  .object({
    name: z.string().meta({ description: 'Vendor and package', example: 'acme/hello' }),
    description: z
      .string()
      .meta({ description: 'From composer.json of the latest version', example: 'Says hello' }),
    type: z.string().meta({ description: 'From composer.json of the latest version', example: 'library' }),
    keywords: z
      .array(z.string())
      .meta({ description: 'From composer.json of the latest version', example: ['greeting'] }),
    abandoned: z.boolean().meta({ description: 'Whether nobody maintains it any more' }),
    replacement: z.string().nullable().meta({
      description: 'The package to use instead of an abandoned one',
      example: 'acme/greeter',
    }),
    latest_version: z.string().nullable().meta({
      description: 'The highest stable version, or the highest version if none is stable',
      example: '1.0.0',
    }),
    version_count: z.int().meta({ description: 'The number of versions that are not deleted', example: 3 }),
    downloads: z.int().meta({ description: 'All downloads of all versions', example: 1234 }),
    release: z.enum(releaseRules).meta({
      description:
        '`reviewed`: its versions are staged until a developer releases them. The repository can have this for all',
    }),
    only_trusted_publishers: z.boolean().meta({
      description:
        'Whether only trusted publishers publish its versions: no person, no other token and no command',
    }),
    created_at: Moment.meta({ description: 'When its first version was published' }),
  })
  .meta({ id: 'Package' })

const ChangedPackage = z
  .object({
    ...Package.shape,
    details: z
      .array(z.string())
      .optional()
      .meta({
        description:
          'Warnings about the change, such as that no trusted publisher publishes the package. Missing without warnings',
        example: [
          'No trusted publisher of the repository publishes or stages acme/hello, so nobody can publish a version of it',
        ],
      }),
  })
  .meta({ id: 'ChangedPackage' })

const PackageUpdate = z
  .strictObject({
    abandoned: z.boolean().meta({ description: 'Whether nobody maintains it any more' }),
    replacement: z
      .string()
      .max(300)
      .refine(isPackageName, { message: 'must be the name of a package, vendor/package' })
      .nullable()
      .meta({ description: 'The package to use instead', example: 'acme/greeter' }),
    release: z.enum(releaseRules).meta({
      description:
        '`reviewed`: its versions are staged until a developer releases them. Only admins change this',
    }),
    only_trusted_publishers: z.boolean().meta({
      description: 'Whether only trusted publishers publish its versions. Only admins change this',
    }),
  })
  .partial()
  .meta({ id: 'PackageUpdate', description: 'Missing members keep their values' })

/** Returns what an update does besides changing a package. The body may not be validated yet. */
function actsOfUpdate(body: unknown): RepositoryAct[] {
  const { release, only_trusted_publishers: isOnly } = (body ?? {}) as Record<string, unknown>
  return [
    ...(release === undefined ? [] : ([release === 'direct' ? 'endReviews' : 'manage'] as const)),
    ...(isOnly === undefined ? [] : (['limitPublishers'] as const)),
  ]
}

/** Packages: `…/packages`, and changes of a whole package. */
export async function packageRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, changes, config } = context
  const mayPull = guardRepository('pull', context)
  const mayPush = guardRepository('push', context, actsOfUpdate)
  const mayDelete = guardRepository('deletePackage', context)
  const mayRestore = guardRepository('restorePackage', context)

  app.get(
    '/repositories/:group/:name/packages',
    endpoint(mayPull, {
      operationId: 'listPackages',
      tag: 'Packages',
      summary: 'List the packages of a repository',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Package) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayPull.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listPackages(db, repositoryId, part),
        ({ name }) => name,
        formatPackage,
      )
    },
  )

  app.patch(
    packageUrl,
    endpoint(mayPush, {
      operationId: 'updatePackage',
      tag: 'Packages',
      summary: 'Change a package',
      description:
        'Composer warns about an abandoned package and names its replacement. To change `release` or `only_trusted_publishers`, the token needs the scope `registry-manage:rw`, and the account is an admin. Applications cannot end the review of releases, and cannot change `only_trusted_publishers`.',
      params: PackagePath,
      body: PackageUpdate,
      response: { 200: ChangedPackage },
    }),
    async (request) => {
      const grant = mayPush.granted(request)
      const change = packageChangeOf(grant, request.params)
      const known = await findPackage(db, change.repositoryId, change.packageName)
      if (!known) throw notFound('package not found')
      const { release, only_trusted_publishers: isOnly, ...abandonment } = request.body
      for (const act of actsOfUpdate(request.body)) requireOnRepository(grant, act)
      const isAbandonment =
        (release === undefined && isOnly === undefined) || Object.keys(abandonment).length > 0
      if (isAbandonment) await setAbandoned(changes, change, abandonmentOf(abandonment, known))
      if (release !== undefined) await setReleaseRule(changes, change, release)
      if (isOnly !== undefined) await setOnlyTrustedPublishers(changes, change, isOnly)
      const caution = isOnly === true ? await cautionForLimit(db, change) : null
      return { ...formatPackage(await packageOf(change)), ...(caution !== null && { details: [caution] }) }
    },
  )

  app.delete(
    packageUrl,
    endpoint(mayDelete, {
      operationId: 'deletePackage',
      tag: 'Packages',
      summary: 'Delete all versions of a package',
      description: 'The name stays claimed.',
      params: PackagePath,
      querystring: PurgeQuery,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const remove = request.query.purge === 'true' ? purgePackage : deletePackage
      await remove(changes, packageChangeOf(mayDelete.granted(request), request.params))
      return reply.code(204).send()
    },
  )

  app.post(
    `${packageUrl}/restore`,
    endpoint(mayRestore, {
      operationId: 'restorePackage',
      tag: 'Packages',
      summary: 'Restore the versions that the last deletion of the whole package removed',
      params: PackagePath,
      response: { 200: Package },
    }),
    async (request) => {
      const change = packageChangeOf(mayRestore.granted(request), request.params)
      await restorePackage(changes, change)
      return formatPackage(await packageOf(change))
    },
  )

  async function packageOf({ repositoryId, packageName }: PackageChange): Promise<ListedPackage> {
    const found = await findPackage(db, repositoryId, packageName)
    if (!found) throw notFound('package not found')
    return found
  }
}

/** Returns the name of the package in a URL, in lower case. */
export function packageNameOf(path: { vendor: string; package: string }): string {
  return toLowerAscii(`${path.vendor}/${path.package}`)
}

/** The package that a request changes. */
export function packageChangeOf(
  { repositoryId, by, baseUrl }: RepositoryGrant,
  path: { vendor: string; package: string },
): PackageChange {
  return { repositoryId, packageName: packageNameOf(path), by, baseUrl }
}

/** Returns the new value of Composer's `abandoned`. Throws errcode 3 when the two members contradict each other. */
function abandonmentOf(
  { abandoned, replacement }: Pick<z.output<typeof PackageUpdate>, 'abandoned' | 'replacement'>,
  known: ListedPackage,
): true | string | null {
  if (abandoned === false && typeof replacement === 'string') {
    throw invalidArgument('replacement: only an abandoned package can have one')
  }
  const isAbandoned = abandoned ?? (typeof replacement === 'string' || known.isAbandoned)
  if (!isAbandoned) return null
  return (replacement === undefined ? known.replacement : replacement) ?? true
}

/** Formats a package for a response. */
export function formatPackage(listed: ListedPackage): z.input<typeof Package> {
  const { name, description, type, keywords, isAbandoned, replacement } = listed
  const { latestVersion, versionCount, downloads, release, onlyTrustedPublishers, createdAt } = listed
  return {
    name,
    description,
    type,
    keywords,
    abandoned: isAbandoned,
    replacement,
    latest_version: latestVersion,
    version_count: versionCount,
    downloads,
    release,
    only_trusted_publishers: onlyTrustedPublishers,
    created_at: createdAt.toISOString(),
  }
}
