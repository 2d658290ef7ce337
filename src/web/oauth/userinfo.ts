import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { shareStatements } from '../../database/shared-statements.ts'
import { hashSecret, kindOfToken } from '../../domain/secrets.ts'
import { describeAccountClaims } from '../../openid/claims.ts'
import { listTokenHolders } from '../api/token-holders.ts'
import { bearerChallenge } from '../bearer-challenge.ts'
import { tokenPrincipalOf } from '../principal.ts'
import { readParameters } from './client-request.ts'
import { OAuthError, sendJson } from './errors.ts'
import type { OAuthContext } from './token.ts'

const tokenParameter = new Set(['access_token'] as const)

/** `/oauth2/userinfo`: the claims about the account of an access token (OpenID Connect Core §5.3, OPENID 254). */
export async function userinfoRoute(app: FastifyInstance, { db, lastUse }: OAuthContext): Promise<void> {
  const findHolder = shareStatements(listTokenHolders.bind(null, db), {
    keyOf: (tokenHash) => tokenHash.toString('latin1'),
  })

  const describe = async (request: FastifyRequest, reply: FastifyReply) => {
    const principalOf = tokenPrincipalOf(request)
    const token = readToken(request)
    const holder = kindOfToken(token) === 'access' ? await findHolder(hashSecret(token)) : null
    const account = holder?.account
    if (!holder || !account) throw refusal(request, 'invalid_token', 'The access token is not valid.')
    const { kind, tokenId, authorizationId, scopes } = holder
    lastUse.note(principalOf({ kind, tokenId, authorizationId }, account.id))
    if (!scopes.includes('openid'))
      throw refusal(request, 'insufficient_scope', 'The scope openid is required.')
    const claims = describeAccountClaims(
      { ...account, isEmailVerified: account.emailVerifiedAt !== null },
      scopes,
    )
    return sendJson(reply, { sub: account.id, ...claims })
  }

  app.get('/userinfo', describe)
  app.post('/userinfo', describe)
}

/** Returns the token from the header, or from the form of a POST (RFC 6750 §2.1, 2.2). Throws when it is missing or doubled. */
function readToken(request: FastifyRequest): string {
  const { authorization } = request.headers
  const inBody = request.method === 'POST' ? readParameters(tokenParameter, request).access_token : undefined
  if (authorization !== undefined && inBody !== undefined)
    throw refusal(request, 'invalid_request', 'The request carries more than one access token.')
  if (inBody !== undefined) return inBody
  if (authorization === undefined || !/^bearer(?: |$)/i.test(authorization)) throw refusal(request, null)
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization)?.[1]
  if (token === undefined) throw refusal(request, 'invalid_request', 'The Authorization header is malformed.')
  return token
}

/** Returns the error for a token (RFC 6750 §3.1). Without credentials, the challenge has no error. */
function refusal(
  request: FastifyRequest,
  code: 'invalid_request' | 'invalid_token' | 'insufficient_scope' | null,
  description = 'An access token is required.',
): OAuthError {
  const attributes = code === null ? {} : { error: code, error_description: description }
  const headers = { 'www-authenticate': bearerChallenge(request, attributes, ['openid']) }
  return new OAuthError(code ?? 'invalid_token', description, { headers })
}
