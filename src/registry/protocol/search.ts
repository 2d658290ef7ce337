import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { RegistryContext } from '../context.ts'
import { listPackageNames, listProviders, searchPackages } from '../tables/package-search.ts'
import { sendJson } from './answers.ts'
import { param, readDoor } from './door.ts'

const maxQueryLength = 200

/** What Composer asks when it does not know a package's name yet (COMPOSER A2). */
export async function searchRoutes(app: FastifyInstance, { db, admit }: RegistryContext) {
  app.get('/search.json', async (request, reply) => {
    const door = readDoor(request)
    const words = queryOf(request, 'q').toLowerCase().split(/\s+/).filter(Boolean)
    const found = await searchPackages(db, door, words, queryOf(request, 'type') || null)
    admit(door, found, 'pull')
    return sendJson(reply, 200, { results: found.results, total: found.total })
  })

  app.get('/list.json', async (request, reply) => {
    const door = readDoor(request)
    const vendor = queryOf(request, 'vendor').toLowerCase()
    const filter = queryOf(request, 'filter').toLowerCase()
    const found = await listPackageNames(db, door, [vendor && `${vendor}/*`, filter].filter(Boolean))
    admit(door, found, 'pull')
    return sendJson(reply, 200, { packageNames: found.names })
  })

  app.get('/providers/:vendor/:file', async (request, reply) => {
    const door = readDoor(request)
    const name = `${param(request, 'vendor')}/${param(request, 'file').replace(/\.json$/, '')}`
    const found = await listProviders(db, door, name)
    admit(door, found, 'pull')
    return sendJson(reply, 200, { providers: found.providers })
  })
}

/** A query parameter, the first of repeated ones; '' when it is absent or can match nothing. */
function queryOf(request: FastifyRequest, name: string): string {
  const value = [(request.query as Record<string, string | string[] | undefined>)[name]].flat()[0] ?? ''
  return value.includes('\0') ? '' : value.slice(0, maxQueryLength)
}
