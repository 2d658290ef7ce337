import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AppContext } from '../../context.ts'
import { shareStatements } from '../../database/shared-statements.ts'
import { readResources, urlsOfResources } from '../../domain/resources.ts'
import { isApplicationScope, splitScope } from '../../domain/scopes.ts'
import { hashSecret, kindOfSecret, makeSecret, noSecretHash, type SecretHash } from '../../domain/secrets.ts'
import { pollDevice } from '../../oauth/device-requests.ts'
import type { LastUse } from '../../oauth/last-use.ts'
import { noteCodeReplay, noteTokenReuse } from '../../oauth/replays.ts'
import { openSeal, sealPair, type TokenPair } from '../../oauth/seal.ts'
import {
  type CodeExchange,
  exchangeCodes,
  introspectTokens,
  type PairRefresh,
  type PresentedClient,
  refreshPairs,
  revokeTokens,
  type SeenToken,
} from '../../oauth/token-pairs.ts'
import { type IdTokens, openIdTokens } from '../../openid/id-tokens.ts'
import { readTextList } from '../forms.ts'
import { applicationOf } from '../principal.ts'
import { type Form, formOf, readClient, readRequired, refuseClient } from './client-request.ts'
import { deviceGrantType } from './device.ts'
import { OAuthError, sendJson } from './errors.ts'
import { exchangeGrantType, revokeForHolder, type TokenExchange } from './token-exchange.ts'

/** The token response object of SPEC 2.3. */
export interface TokenResponse {
  access_token: string
  token_type: 'bearer'
  expires_in: number
  refresh_token: string
  scope: string
  /** With the scope `openid` (OpenID Connect Core §3.1.3.3). */
  id_token?: string
}

/** The context of the token endpoints. */
export interface OAuthContext extends AppContext {
  lastUse: LastUse
  tokenExchange: TokenExchange
}

type GrantHandler = (client: PresentedClient, form: Form, request: FastifyRequest) => Promise<TokenResponse>

/** Token endpoint: SPEC 4.2, RFC 6749 §3.2, RFC 8693 §2.1. */
export async function tokenRoute(app: FastifyInstance, context: OAuthContext): Promise<void> {
  const idTokens = openIdTokens(context.db, context.config)
  const exchange = openCodeExchange(context, idTokens)
  const grantHandlers = new Map<string, GrantHandler>([
    ['authorization_code', exchangeCode(exchange)],
    ['refresh_token', refresh(context, idTokens)],
    [deviceGrantType, exchangeDevice(context, exchange)],
  ])

  app.post('/token', async (request, reply) => {
    const form = formOf(request)
    if (form.grant_type === exchangeGrantType)
      return sendJson(reply, await context.tokenExchange.exchange(request, form))
    const client = readClient(request, form)
    const handler = grantHandlers.get(readRequired(form, 'grant_type'))
    if (!handler) {
      throw new OAuthError(
        'unsupported_grant_type',
        `The grant_type must be ${[...grantHandlers.keys()].join(', ')} or ${exchangeGrantType}.`,
      )
    }
    return sendJson(reply, await handler(client, form, request))
  })
}

/** Exchanges a code for its first pair. Throws the error that the client may read. */
type CodeHandler = (
  client: PresentedClient,
  code: Pick<CodeExchange, 'codeHash' | 'redirectUri' | 'codeChallenge'>,
  request: FastifyRequest,
) => Promise<TokenResponse>

/** Opens the exchange of codes of a process, whose concurrent requests share statements. */
function openCodeExchange({ db, config, lastUse }: OAuthContext, idTokens: IdTokens): CodeHandler {
  const lifetimes = lifetimesOf(config)
  const exchange = shareStatements((calls: CodeExchange[]) => exchangeCodes(db, lifetimes, calls))

  return async (client, code, request) => {
    const pair = makePair()
    const result = await exchange({
      client,
      ...code,
      resources: readAskedResources(request, config.baseUrl),
      accessHash: hashSecret(pair.accessToken),
      refreshHash: hashSecret(pair.refreshToken),
      by: applicationOf(request),
    })
    if (result.outcome === 'invalid_client') return refuseClient(db, client)
    if (result.outcome === 'issued') {
      noteUse(lastUse, client, result.authorizationId, hashSecret(pair.accessToken))
      return addIdToken(idTokens, tokenResponse(pair, result.scope, lifetimes.accessSeconds), {
        isRefresh: false,
      })
    }
    if (result.outcome === 'invalid_target') throw invalidTarget()
    if (result.outcome === 'replayed') {
      request.log.warn({ clientId: client.clientId }, 'an authorization code was used again')
      await noteCodeReplay(db, applicationOf(request), code.codeHash)
    }
    throw new OAuthError(
      'invalid_grant',
      'The code is unknown, expired or already used, or it was issued for another client, redirect_uri or code_verifier.',
    )
  }
}

/** Grant type `authorization_code` (SPEC 4.2, RFC 6749 §4.1.3, RFC 7636 §4.5). It ignores a `scope` parameter. */
function exchangeCode(exchange: CodeHandler): GrantHandler {
  return async (client, form, request) => {
    const codeHash = hashSecret(readRequired(form, 'code'))
    const verifier = form.code_verifier
    const codeChallenge = verifier === undefined ? null : challengeOf(verifier)
    return exchange(client, { codeHash, redirectUri: form.redirect_uri ?? null, codeChallenge }, request)
  }
}

/** Why a poll of a device gets no pair. */
const pollErrors = {
  authorization_pending: 'Nobody has decided yet. Poll again after the interval.',
  slow_down: 'The device polls too fast. Wait 5 seconds longer between two polls from now on.',
  access_denied: 'The account did not give its consent.',
  expired_token: 'The device code has expired. Start again.',
  unauthorized_client: 'The application is not registered for devices.',
  invalid_grant: 'The device code is unknown or already used, or it was issued to another client.',
} as const

/** The grant type of a device (OPENID 224–226, RFC 8628 §3.4). An approval has made a code, which the poll exchanges. */
function exchangeDevice({ db, config }: OAuthContext, exchange: CodeHandler): GrantHandler {
  return async (client, form, request) => {
    const deviceHash = hashSecret(readRequired(form, 'device_code'))
    const poll = await pollDevice(db, client, deviceHash, config.requireSecondFactor)
    if (poll.outcome === 'invalid_client') return refuseClient(db, client)
    if (poll.outcome !== 'approved') throw new OAuthError(poll.outcome, pollErrors[poll.outcome])
    return exchange(client, { codeHash: poll.codeHash, redirectUri: null, codeChallenge: null }, request)
  }
}

/**
 * Grant type `refresh_token` (SPEC 3, 4.2, RFC 6749 §6). In the grace period, repeated requests return the same pair.
 */
function refresh({ db, config, lastUse }: OAuthContext, idTokens: IdTokens): GrantHandler {
  const lifetimes = lifetimesOf(config)
  const refreshOne = shareStatements((calls: PairRefresh[]) => refreshPairs(db, lifetimes, calls))

  return async (client, form, request) => {
    const refreshToken = readRequired(form, 'refresh_token')
    const next = makePair()
    const result = await refreshOne({
      client,
      refreshHash: hashSecret(refreshToken),
      scope: readScope(form),
      resources: readAskedResources(request, config.baseUrl),
      accessHash: hashSecret(next.accessToken),
      nextRefreshHash: hashSecret(next.refreshToken),
      sealedSuccessor: sealPair(next, refreshToken),
    })
    if (result.outcome === 'invalid_client') return refuseClient(db, client)
    if (result.outcome === 'issued' || result.outcome === 'repeated') {
      noteUse(lastUse, client, result.authorizationId, hashSecret(next.accessToken))
      const pair = result.outcome === 'issued' ? next : openSeal(result.sealedPair, refreshToken)
      return addIdToken(idTokens, tokenResponse(pair, result.scope, result.expiresIn), { isRefresh: true })
    }
    if (result.outcome === 'invalid_scope') {
      throw new OAuthError('invalid_scope', 'The scope asks for more than was granted.')
    }
    if (result.outcome === 'invalid_target') throw invalidTarget()
    if (result.outcome === 'reused') {
      request.log.warn({ clientId: client.clientId }, 'a refresh token was used after its grace period')
      await noteTokenReuse(db, applicationOf(request), hashSecret(refreshToken))
    }
    throw new OAuthError(
      'invalid_grant',
      'The refresh token is unknown, expired or revoked, or it was issued to another client.',
    )
  }
}

/**
 * Revocation endpoint: SPEC 4.3, RFC 7009. It ignores `token_type_hint`: both columns are searched for the token's hash. The
 * holder of a token of a trusted publisher revokes it without client authentication.
 */
export async function revokeRoute(app: FastifyInstance, { db }: AppContext): Promise<void> {
  const revoke = shareStatements(revokeTokens.bind(null, db))

  app.post('/revoke', async (request, reply) => {
    if (await revokeForHolder(db, request, (text) => kindOfSecret(text) === 'publisher'))
      return sendJson(reply, {})
    const form = formOf(request)
    const client = readClient(request, form)
    const token = readRequired(form, 'token')
    const isAuthenticated = await revoke({
      client,
      tokenHash: hashSecret(token),
      by: applicationOf(request),
    })
    if (!isAuthenticated) return refuseClient(db, client)
    // An unknown token is not an error: it does not work, which is what the client wants (RFC 7009 §2.2).
    return sendJson(reply, {})
  })
}

/**
 * Introspection endpoint (RFC 7662). An application sees its own tokens; a resource server sees all but refresh tokens.
 */
export async function introspectRoute(app: FastifyInstance, { db, config }: AppContext): Promise<void> {
  const introspect = shareStatements(introspectTokens.bind(null, db))

  app.post('/introspect', async (request, reply) => {
    const form = formOf(request)
    const client = readClient(request, form)
    const token = readRequired(form, 'token')
    const seen = await introspect({ client, tokenHash: hashSecret(token) })
    if (!seen) return refuseClient(db, client)
    return sendJson(reply, seen.token ? describeToken(seen.token, config) : { active: false })
  })
}

/** Returns the response of RFC 7662 §2.2. It includes the token's resource scope for resource servers (SPEC 2.1). */
function describeToken(token: SeenToken, { authUrl, baseUrl }: OAuthContext['config']): object {
  return {
    active: true,
    scope: token.scopes.join(' '),
    ...(token.clientId !== null && { client_id: token.clientId }),
    // The type differs, so that no server accepts a refresh token as a bearer token.
    token_type: token.kind === 'refresh' ? 'refresh_token' : 'bearer',
    ...(token.expiresAt !== null && { exp: token.expiresAt }),
    iat: token.issuedAt,
    iss: authUrl,
    ...(token.resources && { aud: audienceOf(token.resources, baseUrl) }),
    // A deploy token acts for a group, so it has no account id and no username.
    ...(token.group
      ? { sub: `group:${token.group.id}`, group: token.group.name }
      : { sub: token.accountId, username: token.username }),
    resource_scope: token.resourceScope,
    ...(token.resourceScope === 'specified' && { repositories: token.repositories }),
  }
}

/** One audience is a string (RFC 7519 §4.1.3). */
function audienceOf(resources: readonly string[], baseUrl: string): string | string[] {
  const [first = '', ...others] = urlsOfResources(resources, baseUrl)
  return others.length === 0 ? first : [first, ...others]
}

function lifetimesOf({ lifetimes }: OAuthContext['config']) {
  return {
    accessSeconds: lifetimes.accessToken,
    refreshSeconds: lifetimes.refreshToken,
    graceSeconds: lifetimes.grace,
  }
}

/**
 * Returns the requested scopes without duplicates, separated by single spaces. Null when the request has no `scope`. Empty
 * when one of them does not exist, so that the request is refused. With `:rw` granted, the database would accept a `:r`
 * that does not exist.
 */
function readScope(form: Form): string | null {
  if (form.scope === undefined) return null
  const names = splitScope(form.scope)
  return names.every(isApplicationScope) ? names.join(' ') : ''
}

/** Notes that a client got a pair. Of a public client, svc also keeps when each of its grants was used (OPENID 210). */
function noteUse(
  lastUse: LastUse,
  { secretHash }: PresentedClient,
  authorizationId: string,
  accessHash: SecretHash,
): void {
  lastUse.noteAuthorization(authorizationId, secretHash === noSecretHash ? accessHash : null)
}

/**
 * Returns the requested resources (RFC 8707 §2.2), separated by spaces. Null when the request has none. Empty when one of them
 * does not exist, so that the request is refused after the client is authenticated.
 */
function readAskedResources(request: FastifyRequest, baseUrl: string): string | null {
  return readResources(readTextList('resource', request), baseUrl)?.join(' ') ?? null
}

function invalidTarget(): OAuthError {
  return new OAuthError(
    'invalid_target',
    'The resource is unknown, or it is not one of those that were granted.',
  )
}

function makePair(): TokenPair {
  return { accessToken: makeSecret('access'), refreshToken: makeSecret('refresh') }
}

/** S256 of RFC 7636 §4.2. */
function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url')
}

function tokenResponse(pair: TokenPair, scope: string, expiresIn: number): TokenResponse {
  return {
    access_token: pair.accessToken,
    token_type: 'bearer',
    expires_in: expiresIn,
    refresh_token: pair.refreshToken,
    scope,
  }
}

/** Adds the ID token, if the scopes include `openid` (OPENID 243, 244). */
async function addIdToken(
  idTokens: IdTokens,
  response: TokenResponse,
  { isRefresh }: { isRefresh: boolean },
): Promise<TokenResponse> {
  const { access_token: accessToken, scope } = response
  const idToken = await idTokens.issue({ accessToken, scope, isRefresh })
  return idToken === null ? response : { ...response, id_token: idToken }
}
