import type { FastifyInstance } from 'fastify'
import { toLowerAscii } from '../../composer/package-name.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { findAccess } from '../../groups/access.ts'
import type { ReportedDownload } from '../../packages/download-counter.ts'
import { type RegistryContext, readRegistryRequest, sendRegistryJson } from './http.ts'

const maxInstallations = 1000

/** A package that Composer installed. */
interface Installation {
  name: string
  /** Normalized. */
  version: string
}

/**
 * `notify-batch`: Composer reports the packages that it has installed, also from lock files and from its cache
 * (COMPOSER A2, E3).
 */
export async function notifyRoutes(
  app: FastifyInstance,
  { pools, requireAccess, downloads }: RegistryContext,
) {
  app.post('/downloads', async (request, reply) => {
    const target = readRegistryRequest(request)
    const { repositoryId } = requireAccess(target, await findAccess(pools.pull, target), 'pull')
    const reported = readInstallations(request.body).map(
      ({ name, version }): ReportedDownload => ({
        repositoryId,
        packageName: toLowerAscii(name),
        normalized: version,
      }),
    )
    downloads.count(reported, request.ip)
    return sendRegistryJson(reply, 200, { status: 'success' })
  })
}

/** Returns the valid items of `{"downloads":[{"name","version"}]}`. Throws errcode 3 when the body has no such list. */
function readInstallations(body: unknown): Installation[] {
  const downloads = parseDownloads(body)
  if (!Array.isArray(downloads)) {
    throw new Refusal(errcode.invalidArgument, 'invalid request', {
      details: ['expected {"downloads":[{"name":"vendor/package","version":"1.0.0.0"}]}'],
    })
  }
  return downloads.slice(0, maxInstallations).filter(isInstallation)
}

function parseDownloads(body: unknown): unknown {
  try {
    return (JSON.parse(String(body)) as { downloads?: unknown } | null)?.downloads
  } catch {
    return undefined
  }
}

function isInstallation(item: unknown): item is Installation {
  if (typeof item !== 'object' || item === null || !('name' in item) || !('version' in item)) return false
  return [item.name, item.version].every(
    (text) => typeof text === 'string' && text.length <= 255 && !text.includes('\0'),
  )
}
