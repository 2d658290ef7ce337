import { createHash } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { AppContext } from '../context.ts'
import { hashSecret, makeSecret } from '../domain/secrets.ts'
import { type PresentedClient, refuseClient } from './client-auth.ts'
import { exchangeCode } from './codes.ts'
import { OAuthError } from './errors.ts'
import { type Form, readOptional, readRequired } from './form.ts'
import { openSeal, sealPair, type TokenPair } from './seal.ts'
import { refreshPair } from './tokens.ts'

/** The token response object of SPEC 2.3. */
export interface TokenResponse {
  access_token: string
  token_type: 'bearer'
  expires_in: number
  refresh_token: string
  scope: string
}

/** Grant `authorization_code` (SPEC 4.2, RFC 6749 §4.1.3, RFC 7636 §4.5). A `scope` sent along is ignored. */
export async function exchange(
  { db, config: { lifetimes } }: AppContext,
  log: FastifyBaseLogger,
  client: PresentedClient,
  form: Form,
): Promise<TokenResponse> {
  const code = readRequired(form, 'code')
  const verifier = readOptional(form, 'code_verifier')
  const pair = makePair()
  const answer = await exchangeCode(db, {
    client,
    codeHash: hashSecret(code),
    redirectUri: readOptional(form, 'redirect_uri') ?? null,
    codeChallenge: verifier === undefined ? null : challengeOf(verifier),
    accessHash: hashSecret(pair.accessToken),
    refreshHash: hashSecret(pair.refreshToken),
    accessSeconds: lifetimes.accessToken,
    refreshSeconds: lifetimes.refreshToken,
  })
  if (answer.outcome === 'invalid_client') return refuseClient(db, client)
  if (answer.outcome === 'issued') return tokenResponse(pair, answer.scopes, lifetimes.accessToken)
  if (answer.outcome === 'replayed')
    log.warn({ clientId: client.clientId }, 'an authorization code was used again')
  throw new OAuthError(
    'invalid_grant',
    'The code is unknown, expired or already used, or it was issued for another client, redirect_uri or code_verifier.',
  )
}

/** Grant `refresh_token` (SPEC §3, 4.2, RFC 6749 §6). Within the grace period it answers the first use's pair again. */
export async function refresh(
  { db, config: { lifetimes } }: AppContext,
  log: FastifyBaseLogger,
  client: PresentedClient,
  form: Form,
): Promise<TokenResponse> {
  const refreshToken = readRequired(form, 'refresh_token')
  const next = makePair()
  const answer = await refreshPair(db, {
    client,
    refreshHash: hashSecret(refreshToken),
    scopes: readScopes(form),
    accessHash: hashSecret(next.accessToken),
    nextRefreshHash: hashSecret(next.refreshToken),
    sealedSuccessor: sealPair(next, refreshToken),
    accessSeconds: lifetimes.accessToken,
    refreshSeconds: lifetimes.refreshToken,
    graceSeconds: lifetimes.grace,
  })
  if (answer.outcome === 'invalid_client') return refuseClient(db, client)
  if (answer.outcome === 'issued') return tokenResponse(next, answer.scopes, answer.expiresIn)
  if (answer.outcome === 'repeated') {
    return tokenResponse(openSeal(answer.sealedPair, refreshToken), answer.scopes, answer.expiresIn)
  }
  if (answer.outcome === 'invalid_scope') {
    throw new OAuthError('invalid_scope', 'The scope asks for more than was granted.')
  }
  if (answer.outcome === 'reused')
    log.warn({ clientId: client.clientId }, 'a refresh token was used after its grace')
  throw new OAuthError(
    'invalid_grant',
    'The refresh token is unknown, expired, revoked or of another client.',
  )
}

/** Null when the request asks for no scope of its own. */
function readScopes(form: Form): string[] | null {
  const scope = readOptional(form, 'scope')
  return scope === undefined ? null : [...new Set(scope.split(' '))]
}

function makePair(): TokenPair {
  return { accessToken: makeSecret('access'), refreshToken: makeSecret('refresh') }
}

/** S256 of RFC 7636 §4.2. */
function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url')
}

function tokenResponse(pair: TokenPair, scopes: readonly string[], expiresIn: number): TokenResponse {
  return {
    access_token: pair.accessToken,
    token_type: 'bearer',
    expires_in: expiresIn,
    refresh_token: pair.refreshToken,
    scope: scopes.join(' '),
  }
}
