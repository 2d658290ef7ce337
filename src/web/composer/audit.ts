import type { FastifyInstance } from 'fastify'
import { isPackageName, toLowerAscii } from '../../composer/package-name.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { composerAdvisory } from '../../packages/documents/warnings.ts'
import { findAdvisories } from '../../packages/tables/package-warnings.ts'
import { type RegistryContext, readRegistryRequest, sendRegistryText } from './http.ts'

/** The maximum number of names in one request. Packagist has the same limit. */
const maxNames = 1000

/**
 * `POST security-advisories`, for `composer audit` (COMPOSER A8). A package of the repository or of its upstreams
 * without advisories gets an empty list, so that Composer asks no other repository about it. Names are left out that
 * nobody knows, or that upstreams may not see.
 */
export async function auditRoute(
  app: FastifyInstance,
  { pools, requireAccess, upstreamQueries }: RegistryContext,
) {
  app.post<{ Body: string | undefined }>('/security-advisories', async (request, reply) => {
    const target = readRegistryRequest(request)
    const names = readNames(request.body)
    const found = await findAdvisories(pools.pull, target, [
      ...new Set(names.slice(0, maxNames).filter(isPackageName)),
    ])
    requireAccess(target, found.access, 'pull')
    // Throw, because Composer would treat missing names as packages without advisories.
    if (names.length > maxNames) {
      throw new Refusal(errcode.invalidArgument, `too many packages: send at most ${maxNames} in one request`)
    }
    const theirs = await upstreamQueries.listAdvisories(found.foreign)
    const listed = new Map(Object.entries(theirs).map(([name, list]) => [name, list.map(({ text }) => text)]))
    for (const { name, advisories } of found.own)
      listed.set(
        name,
        advisories.map((advisory) => JSON.stringify(composerAdvisory(advisory))),
      )
    // The advisories of upstreams are JSON already. They can have megabytes.
    const members = Array.from(listed, ([name, texts]) => `${JSON.stringify(name)}:[${texts.join(',')}]`)
    return sendRegistryText(reply, `{"advisories":{${members.join(',')}}}`)
  })
}

/** Returns the values of `packages[]`, `packages[0]`, … in a form. */
function readNames(form = ''): string[] {
  return Array.from(new URLSearchParams(form))
    .filter(([key, name]) => /^packages\[\d*\]$/.test(key) && !name.includes('\0'))
    .map(([, name]) => toLowerAscii(name))
}
