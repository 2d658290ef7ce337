import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { setAbandoned } from '../registry/lifecycle/abandonment.ts'
import { deletePackage, purgePackage, restorePackage } from '../registry/lifecycle/deletion.ts'
import { isPackageName } from '../registry/manifest/package-name.ts'
import { allowedTo, changeOf } from './admission.ts'
import type { ApiContext } from './context.ts'
import { invalidArgument, notFound } from './errors.ts'
import { addInterface, addList } from './interface.ts'
import { findPackage, type ListedPackage, listPackages } from './listed-packages.ts'
import { readPage } from './paging.ts'

/** Below it: everything about one package. */
export const packageUrl = '/repositories/:group/:name/packages/:vendor/:package'

/** Whether a deletion is for good. */
export const PurgeQuery = z.object({ purge: z.enum(['true', 'false']).optional() })

/** A package, as interfaces answer it. */
export const Package = z.object({
  name: z.string(),
  description: z.string(),
  type: z.string(),
  keywords: z.array(z.string()),
  abandoned: z.boolean(),
  replacement: z.string().nullable(),
  latest_version: z.string().nullable(),
  version_count: z.int(),
  downloads: z.int(),
  created_at: z.iso.datetime(),
})

const Abandonment = z
  .object({
    abandoned: z.boolean(),
    replacement: z
      .string()
      .refine(isPackageName, { message: 'must be the name of a package, vendor/package' })
      .nullable(),
  })
  .partial()

/** Packages: `…/packages`, and what is done to one as a whole (DESIGN §6). */
export async function packageRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { db, config } = context

  addList(
    app,
    {
      url: '/repositories/:group/:name/packages',
      summary: 'Packages of a repository',
      entrance: allowedTo('pull', context),
      item: Package,
    },
    config.baseUrl,
    async ({ admitted, part }) =>
      readPage(
        part,
        (wanted) => listPackages(db, admitted.repositoryId, wanted),
        ({ name }) => name,
        describePackage,
      ),
  )

  addInterface(
    app,
    {
      method: 'PATCH',
      url: packageUrl,
      summary: 'Say that a package is abandoned, and by what it is replaced',
      entrance: allowedTo('push', context),
      body: Abandonment,
      answer: Package,
    },
    async ({ request, admitted, body }) => {
      const change = changeOf(request, admitted)
      const known = await findPackage(db, admitted.repositoryId, change.packageName)
      if (!known) throw notFound('package not found')
      await setAbandoned(db, change, abandonmentOf(body, known))
      return describePackage(await packageAt(change))
    },
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url: packageUrl,
      summary:
        'Delete all versions of a package: softly, or for good with purge=true. Its name stays claimed',
      entrance: allowedTo('deletePackage', context),
      query: PurgeQuery,
    },
    async ({ request, admitted, query }) => {
      const remove = query.purge === 'true' ? purgePackage : deletePackage
      await remove(db, changeOf(request, admitted))
    },
  )

  addInterface(
    app,
    {
      method: 'POST',
      url: `${packageUrl}/restore`,
      summary: 'Bring back what the last deletion of the whole package took',
      entrance: allowedTo('deletePackage', context),
      answer: Package,
    },
    async ({ request, admitted }) => {
      const change = changeOf(request, admitted)
      await restorePackage(db, change)
      return describePackage(await packageAt(change))
    },
  )

  async function packageAt({ repositoryId, packageName }: { repositoryId: string; packageName: string }) {
    const found = await findPackage(db, repositoryId, packageName)
    if (!found) throw notFound('package not found')
    return found
  }
}

/** What Composer's `abandoned` says after a change of either member. Throws errcode 3 when they disagree. */
function abandonmentOf(
  { abandoned, replacement }: z.output<typeof Abandonment>,
  known: ListedPackage,
): true | string | null {
  if (abandoned === false && typeof replacement === 'string') {
    throw invalidArgument('replacement: only an abandoned package has one')
  }
  if (replacement === known.name) throw invalidArgument('replacement: a package does not replace itself')
  const isAbandoned = abandoned ?? (typeof replacement === 'string' || known.isAbandoned)
  if (!isAbandoned) return null
  return (replacement === undefined ? known.replacement : replacement) ?? true
}

/** A package as `Package` has it. */
export function describePackage(listed: ListedPackage): z.input<typeof Package> {
  const { name, description, type, keywords, isAbandoned, replacement } = listed
  const { latestVersion, versionCount, downloads, createdAt } = listed
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
    created_at: createdAt.toISOString(),
  }
}
