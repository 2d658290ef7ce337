import type { Queryable } from '../database/database.ts'
import { coversAll, isScope } from '../domain/scopes.ts'
import { type Application, findApplicationByClientId } from './applications.ts'
import { AuthorizationError, LinkError, type ResponseTarget } from './authorize-errors.ts'
import { type LinkQuery, readLinkQuery, readParameter, readState } from './authorize-query.ts'
import { checkRedirectUri } from './redirect-uri.ts'

/** Longer addresses do not survive every browser and proxy on the way (OAUTH 50). */
const maxLinkCharacters = 8192

/** A link whose application and redirect URI are proven, though not yet what it asks for. */
export interface ProvenLink {
  query: LinkQuery
  application: Application
  target: ResponseTarget
}

/** What the application asks for. */
export interface AuthorizeRequest {
  scopes: string[]
  codeChallenge: string | null
  /** `none`: no page may be shown; `ask`: one must be; null: as needed. */
  prompt: 'none' | 'ask' | null
}

const unreserved = /^[A-Za-z0-9._~-]{43,128}$/

/** The first phase of an authorization request: until it has passed, nothing is redirected. Throws LinkError. */
export async function proveLink(db: Queryable, url: string): Promise<ProvenLink> {
  const refuse = (reason: string) => new LinkError(reason)
  if (url.length > maxLinkCharacters) throw refuse(`The link is longer than ${maxLinkCharacters} characters.`)
  const query = readLinkQuery(url)
  const clientId = readParameter(query, 'client_id', refuse)
  if (clientId === null) throw refuse('client_id is missing.')
  const asked = readParameter(query, 'redirect_uri', refuse)
  const application = await findApplicationByClientId(db, clientId)
  if (!application) throw refuse('client_id is not known here.')
  if (application.status !== 'approved') throw refuse('The application is not approved at the moment.')
  const { uri, refusal } = checkRedirectUri(asked ?? application.redirectUri, application)
  if (refusal !== undefined) throw refuse(refusal)
  return { query, application, target: { redirectUri: uri, state: readState(query) } }
}

/** The second phase: what is wrong from here on, the application is told. Throws AuthorizationError. */
export function readAuthorizeRequest({ query, application, target }: ProvenLink): AuthorizeRequest {
  const invalid = (reason: string) => new AuthorizationError(target, 'invalid_request', reason)
  if ((query.get('state')?.length ?? 0) > 1) throw invalid('state is there more than once.')
  const responseType = readParameter(query, 'response_type', invalid)
  if (responseType === null) throw invalid('response_type is missing.')
  if (responseType !== 'code') {
    throw new AuthorizationError(target, 'unsupported_response_type', 'response_type must be code.')
  }
  return {
    scopes: readScopes(readParameter(query, 'scope', invalid), application, target),
    codeChallenge: readCodeChallenge(query, invalid),
    prompt: readPrompt(query, invalid),
  }
}

/** The registered scopes, or those of them that the request asks for (OAUTH 33–35). */
function readScopes(scope: string | null, application: Application, target: ResponseTarget): string[] {
  if (scope === null) return application.scopes
  const asked = [...new Set(scope.split(' '))]
  if (asked.every(isScope) && coversAll(application.scopes, asked)) return asked
  throw new AuthorizationError(
    target,
    'invalid_scope',
    'scope must name scopes the application is registered with, separated by single spaces.',
  )
}

/** PKCE with S256 only: a plain challenge would protect nothing (RFC 9700 §2.1.1). Null when it is not used. */
function readCodeChallenge(query: LinkQuery, invalid: (reason: string) => Error): string | null {
  const challenge = readParameter(query, 'code_challenge', invalid)
  const method = readParameter(query, 'code_challenge_method', invalid)
  if (challenge === null && method === null) return null
  if (challenge === null) throw invalid('code_challenge_method is there without code_challenge.')
  if (method !== 'S256')
    throw invalid('transform algorithm not supported: code_challenge_method must be S256.')
  if (!unreserved.test(challenge)) throw invalid('code_challenge must be 43 to 128 unreserved characters.')
  return challenge
}

/** OpenID Connect's `prompt`, as far as it means something here: every wish but `none` is met by the consent page. */
function readPrompt(query: LinkQuery, invalid: (reason: string) => Error): AuthorizeRequest['prompt'] {
  const wishes = readParameter(query, 'prompt', invalid)?.split(' ') ?? []
  if (!wishes.includes('none')) return wishes.length > 0 ? 'ask' : null
  if (wishes.length > 1) throw invalid('prompt=none stands alone.')
  return 'none'
}
