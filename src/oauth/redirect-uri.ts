/** The redirect rules of a registered application. */
export interface RedirectRegistration {
  redirectUri: string
  /** Whether only the registered Redirect URL is allowed, instead of any URL on its host. */
  exactRedirect: boolean
  /** Whether it is a public client: it may have a private-use scheme, and returns only to this path (OPENID 206). */
  isPublic: boolean
  /** The redirect URIs of a client metadata document, each accepted exactly (OPENID 279). Null for all others. */
  redirectUris?: readonly string[] | null
}

/** The checked redirect URI, or the reason why it is rejected, for the application's author. */
export type RedirectVerdict = { uri: string; refusal?: never } | { uri?: never; refusal: string }

/** Limits stored URLs. Code, state and iss must also fit into a URL that browsers accept. */
export const maxRedirectCharacters = 2000
/** Printable ASCII without space and \ " < > ^ ` { | }. Parsers strip or rewrite other characters in different ways. */
const safeCharacters = /^[!#-;=?-[\]_a-z~]+$/
/** An absolute URL without userinfo and without percent signs in its host, which only some programs decode. */
const absolute = /^https?:\/\/[^/?#@%]+(?:[/?#]|$)/
/**
 * A private-use scheme with a path (RFC 8252 §7.1). It has the reversed name of a domain, so it has a dot. Schemes of browsers
 * such as `javascript` have none.
 */
const privateUse = /^([a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+):\//
/** Parameters of the authorization response. The redirect URI must not contain them. */
const ownParameters = ['code', 'state', 'error', 'iss']
const loopback = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * Checks the redirect_uri of an authorization request (SPEC 4.1, OAUTH 12–27). It accepts any path and query on the
 * registered scheme, host and port, and any port on loopback (RFC 8252 §7.3). A public client returns to the registered path
 * only (OPENID 206), and so does a request with the scope `openid` (OPENID 260). A refusal never contains the registered URL.
 */
export function checkRedirectUri(
  asked: string,
  registration: RedirectRegistration,
  scopes: readonly string[],
): RedirectVerdict {
  const refusal = refuse(asked, registration, scopes)
  return refusal === null ? { uri: asked } : { refusal }
}

/**
 * Returns whether the codes for a registered Redirect URL go through a network without encryption: http that is not on
 * loopback (OAUTH 20). An administrator decides whether to accept it.
 */
export function isUnencrypted(redirectUri: string): boolean {
  return new URL(redirectUri).protocol === 'http:' && !isOnLoopback(redirectUri)
}

/** Returns whether a redirect URI is on the machine of the person, where any program can listen. */
export function isOnLoopback(redirectUri: string): boolean {
  const { protocol, hostname } = new URL(redirectUri)
  return /^https?:$/.test(protocol) && loopback.test(hostname)
}

/** Describes the URLs to which an application may send the browser back. */
export function describeRedirects({
  redirectUri,
  exactRedirect,
  isPublic,
  redirectUris,
}: RedirectRegistration): string {
  if (redirectUris) return redirectUris.length === 1 ? 'This Redirect URL only' : 'These Redirect URLs only'
  const { host, hostname } = new URL(redirectUri)
  if (isPublic && loopback.test(hostname)) return 'This Redirect URL only, with any port'
  if (exactRedirect || isPublic) return 'This Redirect URL only'
  return loopback.test(hostname) ? `Any URL on ${hostname}, with any port` : `Any URL on ${host}`
}

/** Returns in words where the browser goes: the host, or for a private-use scheme the app that opens its links. */
export function describeTarget(redirectUri: string): string {
  const [, scheme] = privateUse.exec(redirectUri) ?? []
  return scheme === undefined ? new URL(redirectUri).host : `the app ${scheme} on this device`
}

/**
 * Returns the redirect URI with the response parameters. It appends the percent-encoded values as text, because a URL
 * object would re-encode the application's query (OAUTH 27).
 */
export function redirectTo(uri: string, parameters: Record<string, string | null>): string {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    value === null ? [] : `${name}=${value}`,
  )
  const glue = !uri.includes('?') ? '?' : /[?&]$/.test(uri) ? '' : '&'
  return uri + glue + pairs.join('&')
}

function refuse(
  asked: string,
  { redirectUri, exactRedirect, isPublic, redirectUris }: RedirectRegistration,
  scopes: readonly string[],
): string | null {
  if (asked.length > maxRedirectCharacters) {
    return `redirect_uri is longer than ${maxRedirectCharacters} characters.`
  }
  if (!safeCharacters.test(asked)) return 'redirect_uri contains characters that must be percent-encoded.'
  const isPrivateUse = isPublic && privateUse.test(asked)
  if (!absolute.test(asked) && !isPrivateUse) {
    return 'redirect_uri must be an absolute http or https URL without username or password.'
  }
  if (asked.includes('#')) return 'redirect_uri must not have a fragment (#…).'
  const url = URL.parse(asked)
  if (!url) return 'redirect_uri is not a valid URL.'
  if (ownParameters.some((name) => url.searchParams.has(name))) {
    return 'redirect_uri already has a code, state, error or iss parameter in its query.'
  }
  if (redirectUris) {
    return redirectUris.includes(asked)
      ? null
      : 'redirect_uri must be exactly one of those in the client metadata document that are accepted here.'
  }
  if (exactRedirect || isPrivateUse) {
    return asked === redirectUri ? null : 'redirect_uri must be exactly the Redirect URL of the registration.'
  }
  const registered = new URL(redirectUri)
  if (url.protocol !== registered.protocol) return 'redirect_uri has another scheme than the registration.'
  if (url.hostname !== registered.hostname) return 'redirect_uri has another domain than the registration.'
  if (url.port !== registered.port && !loopback.test(url.hostname)) {
    return 'redirect_uri has another port than the registration.'
  }
  if (afterOrigin(asked) === afterOrigin(redirectUri)) return null
  if (isPublic) {
    return 'redirect_uri has another path or query than the registration, as a public client must not.'
  }
  if (scopes.includes('openid')) {
    return 'redirect_uri has another path or query than the registration, as with the scope openid it must not.'
  }
  return null
}

/** Returns the path and the query of an http URL as they were written. */
function afterOrigin(uri: string): string {
  return uri.replace(/^https?:\/\/[^/?]*/, '')
}
