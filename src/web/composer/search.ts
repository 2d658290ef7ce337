import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ListPart, pageOf } from '../../domain/paging.ts'
import { findAccess } from '../../groups/access.ts'
import {
  listPackageNames,
  listProviders,
  maxListedNames,
  searchPackages,
} from '../../packages/tables/matching-packages.ts'
import { listKnownNames } from '../../upstreams/tables/mirrored-packages.ts'
import { nextLink } from '../next-link.ts'
import { param, type RegistryContext, readRegistryRequest, sendRegistryJson } from './http.ts'

const maxQueryCharacters = 200

/** Search, list and providers (COMPOSER A2). */
export async function searchRoutes(
  app: FastifyInstance,
  { config, db, pools, requireAccess, upstreamQueries }: RegistryContext,
) {
  app.get('/search.json', async (request, reply) => {
    const repositoryId = await admitPull(request)
    const words = queryOf(request, 'q').toLowerCase().split(/\s+/).filter(Boolean)
    const type = queryOf(request, 'type') || null
    const [{ results, total }, theirs] = await Promise.all([
      searchPackages(pools.search, repositoryId, words, type),
      upstreamQueries.search(repositoryId, words, type),
    ])
    return sendRegistryJson(reply, 200, { results: [...results, ...theirs], total: total + theirs.length })
  })

  app.get('/list.json', async (request, reply) => {
    const repositoryId = await admitPull(request)
    const vendor = queryOf(request, 'vendor').toLowerCase()
    const filter = queryOf(request, 'filter').toLowerCase()
    const patterns = [vendor && `${vendor}/*`, filter].filter(Boolean)
    const after = queryOf(request, 'after')
    const listNames = async ({ limit }: ListPart) => {
      const [ours, known] = await Promise.all([
        listPackageNames(db, repositoryId, patterns, { after, limit }),
        listKnownNames(pools.search, repositoryId, patterns, { after, limit }),
      ])
      // Names are ASCII, so this is their byte order.
      return [...new Set([...ours, ...known])].toSorted()
    }
    const [{ rows: names, next }, answered] = await Promise.all([
      pageOf(listNames, { after, limit: maxListedNames }, (name) => name),
      after === '' ? upstreamQueries.listNames(repositoryId, { vendor, filter }) : [],
    ])
    // Composer reads only the first part. A mirror follows the link.
    if (next !== null) reply.header('link', nextLink(config.baseUrl, request.url, 'after', next))
    return sendRegistryJson(reply, 200, { packageNames: [...new Set([...names, ...answered])] })
  })

  app.get('/providers/:vendor/:file', async (request, reply) => {
    const repositoryId = await admitPull(request)
    const name = `${param(request, 'vendor')}/${param(request, 'file').replace(/\.json$/, '')}`
    const [ours, theirs] = await Promise.all([
      listProviders(db, repositoryId, name),
      upstreamQueries.listProviders(repositoryId, name),
    ])
    return sendRegistryJson(reply, 200, { providers: [...ours, ...theirs] })
  })

  async function admitPull(request: FastifyRequest): Promise<string> {
    const target = readRegistryRequest(request)
    return requireAccess(target, await findAccess(db, target), 'pull').repositoryId
  }
}

/**
 * Returns a query parameter, or the first one when it is repeated. Returns '' when it is absent or invalid. A long value
 * is cut between characters: half of a surrogate pair cannot be encoded for an upstream.
 */
function queryOf(request: FastifyRequest, name: string): string {
  const value = [(request.query as Record<string, string | string[] | undefined>)[name]].flat()[0] ?? ''
  if (value.includes('\0')) return ''
  // A character has at most two UTF-16 units.
  return Array.from(value.slice(0, 2 * maxQueryCharacters))
    .slice(0, maxQueryCharacters)
    .join('')
}
