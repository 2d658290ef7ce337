import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isPackageName, toLowerAscii } from '../../composer/package-name.ts'
import { networkOf } from '../../domain/client-ip.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { makePause } from '../../domain/time-slices.ts'
import { findPolicy, policyLists } from '../../projects/find-policy.ts'
import { type LicensedVersion, readPolicy } from '../../projects/policy.ts'
import {
  param,
  type RegistryContext,
  readRegistryRequest,
  registryNotFound,
  sendRegistryText,
} from './http.ts'

/** Composer sends the names of all packages that it may install. The largest projects have some thousands. */
const maxNames = 5_000
/** The maximum length of a response in characters: 5,000 packages that two rules deny for long reasons need about 5 million. */
const maxResponse = 8 * 1024 * 1024

interface Route {
  Body: string | undefined
}

/**
 * `POST policy/<list>`: what the group of a repository denies of the named packages, for Composer 2.10 and later (COMPOSER A8).
 * Composer sends names of all repositories, and no versions.
 */
export async function policyRoute(app: FastifyInstance, { config, pools, requireAccess }: RegistryContext) {
  app.post<Route>('/policy/:list', (request, reply) =>
    // A response takes more memory and time than a pull, so it waits beside pages, and not beside pulls.
    app.inTurn(networkOf(request.ip), () => respond(request, reply)),
  )

  async function respond(request: FastifyRequest<Route>, reply: FastifyReply): Promise<FastifyReply> {
    const target = readRegistryRequest(request)
    const kinds = policyLists.get(param(request, 'list'))
    const names = readNames(request.body)
    if (names && names.length > maxNames)
      throw new Refusal(errcode.invalidArgument, `too many packages: send at most ${maxNames} in one request`)
    const { access, rules, known } = await findPolicy(pools.pull, target, {
      kinds: kinds ?? [],
      names: names ?? [],
    })
    requireAccess(target, access, 'pull')
    if (!kinds) throw registryNotFound(`there is no such list: use ${[...policyLists.keys()].join(', ')}`)
    if (!names)
      throw new Refusal(
        errcode.invalidArgument,
        'the body must be JSON with a list "packages" of package URLs',
      )
    const policy = readPolicy(rules)
    const versions = new Map<string, LicensedVersion[]>(names.map((name) => [name, []]))
    for (const version of known) versions.get(version.name)?.push(version)
    const pause = makePause()
    const entries: string[] = []
    let length = 0
    for (const [name, ofName] of versions) {
      await pause()
      for (const { rule, constraint, reason } of policy.denialsOf(name, ofName)) {
        const entry = JSON.stringify({
          package: name,
          constraint,
          url: `${config.baseUrl}/${target.group}/-/policies/${rule.id}`,
          reason,
          id: `policy-${rule.id}`,
        })
        length += entry.length
        if (length > maxResponse) throw tooMuchDenied()
        entries.push(entry)
      }
    }
    return sendRegistryText(reply, `{"filter":[${entries.join()}]}`)
  }
}

function tooMuchDenied(): Refusal {
  return new Refusal(
    errcode.invalidArgument,
    `the rules deny so much of these packages that the response is longer than ${maxResponse} characters: send fewer packages, or ask an admin of the group for fewer rules with shorter constraints and reasons`,
  )
}

/** Reads the names of `{"packages":["pkg://composer/acme/lib"]}`. Null for another body. */
function readNames(body = ''): string[] | null {
  try {
    const { packages } = JSON.parse(body) as { packages?: unknown }
    if (!Array.isArray(packages)) return null
    const names = packages.map((url) => /^pkg:(?:\/\/)?composer\/(.+)$/.exec(String(url))?.[1] ?? '')
    return [...new Set(names.map(toLowerAscii).filter(isPackageName))]
  } catch {
    return null
  }
}
