import type { FastifyRequest } from 'fastify'
import { shareStatements } from '../database/shared-statements.ts'
import { type Act, judge, scopeOf } from '../domain/permissions.ts'
import { type Access, findAccess } from '../registry/access.ts'
import type { PackageChange, VersionChange } from '../registry/lifecycle/change.ts'
import { toLowerAscii } from '../registry/manifest/package-name.ts'
import type { Author } from '../registry/tables/events.ts'
import { readBearer, requireScope } from './bearer.ts'
import type { ApiContext } from './context.ts'
import { ApiError, errcodes, invalidToken, notFound } from './errors.ts'
import type { Entrance } from './interface.ts'
import { listTokenHolders, type TokenHolder } from './token-holders.ts'

/** Who comes in to a repository, and how it stands to them. */
export interface RepositoryAdmission {
  repositoryId: string
  /** `acme/php`. */
  path: string
  access: Access
  author: Author
  baseUrl: string
}

/** Lets in the holder of a token with the scope. */
export function holdersOf({ db, lastUse }: ApiContext, scope: string): Entrance<TokenHolder> {
  const findTokenHolder = shareStatements(listTokenHolders.bind(null, db))
  return {
    scope,
    async admit(request) {
      const holder = await findTokenHolder(readBearer(request))
      if (!holder) throw invalidToken()
      lastUse.note(holder)
      requireScope(holder.scopes, scope)
      return holder
    },
  }
}

/**
 * Lets in whom the permission rule allows an act on the repository of the address (DESIGN §1). Unlike the registry,
 * which serves a public repository to everyone, an interface asks for its scope there too.
 */
export function allowedTo(act: Act, { config, db, lastUse }: ApiContext): Entrance<RepositoryAdmission> {
  return {
    scope: scopeOf(act),
    async admit(request) {
      const group = param(request, 'group')
      const name = param(request, 'name')
      // Now, for the socket of a client that hangs up no longer knows it.
      const address = request.ip
      const access = await findAccess(db, { group, name, tokenHash: readBearer(request) })
      const { repositoryId, tokenKind, tokenId, authorizationId, accountId } = access
      if (tokenKind === null) throw invalidToken()
      const token = { kind: tokenKind, tokenId, authorizationId }
      lastUse.note(token)
      const verdict = repositoryId === null ? 'hidden' : judge(access, { ...access, id: repositoryId }, act)
      if (repositoryId === null || verdict === 'hidden') throw notFound('repository not found')
      requireScope(access.scopes, scopeOf(act))
      if (verdict !== 'allowed') throw roleForbids()
      const author = { accountId, token, address }
      return { repositoryId, path: `${group}/${name}`, access, author, baseUrl: config.baseUrl }
    },
  }
}

/** The package that a request would change. */
export function changeOf(
  request: FastifyRequest,
  { repositoryId, author, baseUrl }: RepositoryAdmission,
): PackageChange {
  return { repositoryId, packageName: packageNameOf(request), author, baseUrl }
}

/** The version that a request would change. */
export function versionChangeOf(request: FastifyRequest, admitted: RepositoryAdmission): VersionChange {
  return { ...changeOf(request, admitted), version: param(request, 'version') }
}

/** The package's name in the address, in lower case. */
export function packageNameOf(request: FastifyRequest): string {
  return toLowerAscii(`${param(request, 'vendor')}/${param(request, 'package')}`)
}

/** A parameter of the route's path, decoded. */
export function param(request: FastifyRequest, name: string): string {
  return (request.params as Record<string, string | undefined>)[name] ?? ''
}

function roleForbids(): ApiError {
  const errmsg = 'the role of the account, or the repositories that its token was made for, do not allow this'
  return new ApiError(403, errcodes.permissionDenied, errmsg)
}
