import type { FastifyReply } from 'fastify'
import type { Queryable } from '../../database/database.ts'
import { readResources } from '../../domain/resources.ts'
import { coversAll, isApplicationScope, splitScope } from '../../domain/scopes.ts'
import { type Application, findApplicationByClientId } from '../../oauth/applications.ts'
import { checkRedirectUri, redirectTo } from '../../oauth/redirect-uri.ts'
import { maxLinkCharacters } from '../pages/sign-in/return-path.ts'
import {
  defaultScopes,
  type OpenidParameters,
  readOpenidParameters,
  type UnsupportedParameter,
  withClaimScopes,
} from './openid-parameters.ts'

/** A link whose application and redirect URI are checked. The other parameters are not read yet. */
export interface ProvenLink {
  query: LinkQuery
  application: Application
  target: ResponseTarget
}

/** The scopes and options that the application requests. */
export interface AuthorizeRequest extends OpenidParameters {
  scopes: string[]
  codeChallenge: string | null
  /** Where the tokens shall work (RFC 8707). Null: everywhere. */
  resources: string[] | null
  /** `none`: no page may be shown. `ask`: the consent page must be shown. Null: it is shown if needed. */
  prompt: 'none' | 'ask' | null
}

/** Finds the client of an authorization request with this `redirect_uri`. Throws AuthorizationPageError for an unknown one. */
export type FindClient = (clientId: string, redirectUri: string | null) => Promise<Application>

/** Returns how an approved application is found, with what is stored of it. */
export function findRegistered(db: Queryable): FindClient {
  return async (clientId) => {
    const application = await findApplicationByClientId(db, clientId)
    if (!application) throw new AuthorizationPageError('client_id is not known here.')
    if (application.status !== 'approved')
      throw new AuthorizationPageError('The application is not approved at the moment.')
    return application
  }
}

/** Returns whether a link has `prompt=none`, so that no page of the sign-in may be shown. */
export function isSilent(url: string): boolean {
  return readLinkQuery(url).get('prompt')?.includes('none') === true
}

/** The first phase of an authorization request: until it succeeds, nothing is redirected. Throws AuthorizationPageError. */
export async function proveLink(findClient: FindClient, url: string): Promise<ProvenLink> {
  const refuse = (reason: string) => new AuthorizationPageError(reason)
  if (url.length > maxLinkCharacters) throw refuse(`The link is longer than ${maxLinkCharacters} characters.`)
  const query = readLinkQuery(url)
  const clientId = readParameter(query, 'client_id', refuse)
  if (clientId === null) throw refuse('client_id is missing.')
  const asked = readParameter(query, 'redirect_uri', refuse)
  const application = await findClient(clientId, asked)
  // The scope decides which redirect URIs are allowed. Whether it is valid is the second phase's.
  const scopes = (query.get('scope') ?? []).flatMap((scope) => decode(scope)?.split(' ') ?? [])
  const { uri, refusal } = checkRedirectUri(asked ?? application.redirectUri, application, scopes)
  if (refusal !== undefined) throw refuse(refusal)
  return { query, application, target: { redirectUri: uri, state: readState(query) } }
}

/** The second phase: its errors are sent to the application. Throws AuthorizationError. */
export function readAuthorizeRequest(
  { query, application, target }: ProvenLink,
  baseUrl: string,
): AuthorizeRequest {
  const invalid = (reason: string) => new AuthorizationError(target, 'invalid_request', reason)
  if ((query.get('state')?.length ?? 0) > 1) throw invalid('state is repeated.')
  const responseType = readParameter(query, 'response_type', invalid)
  if (responseType === null) throw invalid('response_type is missing.')
  if (responseType !== 'code') {
    throw new AuthorizationError(target, 'unsupported_response_type', 'response_type must be code.')
  }
  // A client that asks for another mode would never find its response.
  const responseMode = readParameter(query, 'response_mode', invalid)
  if (responseMode !== null && responseMode !== 'query') throw invalid('response_mode must be query.')
  const openid = readOpenidParameters(
    (name) => readParameter(query, name, invalid),
    (code, reason) => new AuthorizationError(target, code, reason),
  )
  const scopes = readScopes(
    readParameter(query, 'scope', invalid),
    application.scopes,
    (reason) => new AuthorizationError(target, 'invalid_scope', reason),
  )
  return {
    ...openid,
    scopes: withClaimScopes(scopes, openid, application.scopes),
    codeChallenge: readCodeChallenge(query, application, invalid),
    resources: readAskedResources(query, target, baseUrl),
    prompt: readPrompt(query, invalid),
  }
}

/** Returns the parameters of OpenID Connect in the link of an authorization request that was read before. */
export function readOpenidRequest(link: string): OpenidParameters {
  const query = readLinkQuery(link)
  const invalid = (reason: string) => new Error(reason)
  return readOpenidParameters(
    (name) => readParameter(query, name, invalid),
    (_code, reason) => invalid(reason),
  )
}

/** Returns the registered scopes, or those of them that the request names (OAUTH 33–35). Throws the error for a reason. */
export function readScopes(
  scope: string | null,
  registered: readonly string[],
  invalid: (reason: string) => Error,
): string[] {
  const asked = scope === null ? defaultScopes(registered) : splitScope(scope)
  if (asked.length > 0 && asked.every(isApplicationScope) && coversAll(registered, asked)) return asked
  throw invalid('scope must name scopes the application is registered with, separated by single spaces.')
}

/** Returns the resources that the request names. It may repeat the parameter (RFC 8707 §2.1). */
function readAskedResources(query: LinkQuery, target: ResponseTarget, baseUrl: string): string[] | null {
  const values = (query.get('resource') ?? []).map(decode).filter((value) => value !== '')
  const resources = readResources(
    values.map((value) => value ?? ''),
    baseUrl,
  )
  if (resources?.length === 0)
    throw new AuthorizationError(target, 'invalid_target', invalidTargetDescription)
  return resources
}

/** What is wrong with a resource that does not exist, or that the account may not see. */
export const invalidTargetDescription =
  'resource must be the URL of the API, of a registry that the account may see, or of the whole server.'

/**
 * Returns the PKCE challenge. Null without PKCE, which a public client must use (OPENID 202). Only S256 is allowed: a plain
 * challenge has no effect (RFC 9700 §2.1.1).
 */
function readCodeChallenge(
  query: LinkQuery,
  { isPublic }: Application,
  invalid: (reason: string) => Error,
): string | null {
  const challenge = readParameter(query, 'code_challenge', invalid)
  const method = readParameter(query, 'code_challenge_method', invalid)
  if (challenge === null && isPublic)
    throw invalid('A public client must use PKCE: code_challenge is missing.')
  if (challenge === null && method === null) return null
  if (challenge === null) throw invalid('code_challenge_method needs a code_challenge.')
  if (method !== 'S256')
    throw invalid('transform algorithm not supported: code_challenge_method must be S256.')
  if (!isCodeChallenge(challenge)) throw invalid('code_challenge must be 43 to 128 unreserved characters.')
  return challenge
}

/** Returns whether a text can be a code challenge: 43 to 128 unreserved characters (RFC 7636 §4.2). */
export function isCodeChallenge(text: string): boolean {
  return /^[A-Za-z0-9._~-]{43,128}$/.test(text)
}

/**
 * Reads the `prompt` parameter of OpenID Connect. `login` asks for a proof of identity. Every other value except `none` shows
 * the consent page.
 */
function readPrompt(query: LinkQuery, invalid: (reason: string) => Error): AuthorizeRequest['prompt'] {
  const values = readParameter(query, 'prompt', invalid)?.split(' ') ?? []
  if (!values.includes('none')) return values.some((value) => value !== 'login') ? 'ask' : null
  if (values.length > 1) throw invalid('prompt=none must be the only value.')
  return 'none'
}

/**
 * The authorization request is wrong and its redirect URI is not verified: a page shows the error and nothing is redirected
 * (SPEC 4.1, OAUTH 8–26). The message is for the application's author.
 */
export class AuthorizationPageError extends Error {
  /** Path and query of the request, to try again. Null when trying again would not help. */
  readonly again: string | null

  constructor(reason: string, again: string | null = null) {
    super(reason)
    this.again = again
  }
}

/** The application's redirect URI and state, after the redirect URI was checked. */
export interface ResponseTarget {
  redirectUri: string
  /** Percent-encoded, as it was received. Null when the request had none. */
  state: string | null
}

/** The error codes of RFC 6749 §4.1.2.1 and RFC 8707 §2, and of OpenID Connect Core §3.1.2.6 for `prompt=none`. */
export type AuthorizationErrorCode =
  | 'access_denied'
  | 'consent_required'
  | 'invalid_request'
  | 'invalid_scope'
  | 'invalid_target'
  | 'login_required'
  | 'unsupported_response_type'
  | UnsupportedParameter

/** An error that is sent to the application by redirect. The description has only the characters of RFC 6749 §4.1.2.1. */
export class AuthorizationError extends Error {
  readonly target: ResponseTarget
  readonly code: AuthorizationErrorCode

  constructor(target: ResponseTarget, code: AuthorizationErrorCode, description: string) {
    super(description)
    this.target = target
    this.code = code
  }
}

/**
 * Sends the browser back to the application: 302 (SPEC 4.1; never 307, which would post the consent form there),
 * with `state` as it came and `iss` (RFC 9207 §2).
 */
export function sendBack(
  reply: FastifyReply,
  target: ResponseTarget,
  issuer: string,
  response: { code: string } | { error: AuthorizationErrorCode; error_description: string },
): FastifyReply {
  const encoded = Object.entries(response).map(([name, value]) => [name, encodeURIComponent(value)])
  const parameters = { ...Object.fromEntries(encoded), state: target.state, iss: encodeURIComponent(issuer) }
  return reply.redirect(redirectTo(target.redirectUri, parameters), 302)
}

/** The parameters of a query. Names are decoded, values are as sent. A repeated parameter has several values. */
type LinkQuery = ReadonlyMap<string, readonly string[]>

/** Splits the query of a URL without decoding its values, so that `state` can be returned unchanged. */
function readLinkQuery(url: string): LinkQuery {
  const [, query = ''] = /^[^?#]*\?([^#]*)/.exec(url) ?? []
  const parameters = new Map<string, string[]>()
  for (const pair of query.split('&')) {
    const [, rawName = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? []
    const name = decode(rawName)
    if (name) parameters.set(name, [...(parameters.get(name) ?? []), value])
  }
  return parameters
}

/**
 * Returns the decoded value of a parameter; null when it is absent or empty (RFC 6749 §3.1). Throws the error that
 * `refuse` creates when the parameter is repeated or cannot be decoded.
 */
function readParameter(query: LinkQuery, name: string, refuse: (reason: string) => Error): string | null {
  const [raw = '', ...more] = query.get(name) ?? []
  if (more.length > 0) throw refuse(`${name} is repeated.`)
  const value = decode(raw)
  if (value === null) throw refuse(`${name} is not percent-encoded UTF-8.`)
  return value === '' ? null : value
}

/**
 * Returns `state` as sent, also when it is empty (OAUTH 5, 6); null when it is absent or repeated. Only characters that
 * no URL may contain are encoded, so that a decoder reads the same bytes, whatever it does with `+`.
 */
function readState(query: LinkQuery): string | null {
  const [state, ...more] = query.get('state') ?? []
  if (state === undefined || more.length > 0) return null
  return state.replace(
    /[^!$-;=?-Z[\]_a-z~]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
}

/** Returns null for text that is not percent-encoded UTF-8, and for NUL, which PostgreSQL cannot store. */
function decode(raw: string): string | null {
  try {
    const text = decodeURIComponent(raw.replaceAll('+', ' '))
    return text.includes('\0') ? null : text
  } catch {
    return null
  }
}
