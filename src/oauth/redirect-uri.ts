/** What an application's registration says about its redirects. */
export interface RedirectRegistration {
  redirectUri: string
  /** Only the registered Redirect URL itself, instead of any address on its host. */
  exactRedirect: boolean
}

/** The string that was checked, to be emitted as it is; or why not, in words for the application's author. */
export type RedirectVerdict = { uri: string; refusal?: never } | { uri?: never; refusal: string }

/** Bounds what is stored, and leaves room for code, state and iss in what browsers take as an address. */
const maxCharacters = 2000
/** Parsers strip or rewrite everything else silently, each in its own way: printable ASCII without the space, and without \ " < > ^ ` { | }. */
const safeCharacters = /^[!#-;=?-[\]_a-z~]+$/
/** Percent signs in a host are refused with the userinfo: only some programs decode them. */
const absolute = /^https?:\/\/[^/?#@%]+(?:[/?#]|$)/
/** Parameters of the authorization response, which the redirect itself must not bring along. */
const ownParameters = ['code', 'state', 'error', 'iss']
const loopback = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * Judges the redirect_uri of an authorization request (SPEC 4.1, OAUTH §10): any path and query on the
 * registered scheme, host and port is accepted, on loopback any port (RFC 8252 §7.3). Refusals never repeat
 * what is registered.
 */
export function checkRedirectUri(asked: string, registration: RedirectRegistration): RedirectVerdict {
  const refusal = refuse(asked, registration)
  return refusal === null ? { uri: asked } : { refusal }
}

/**
 * The redirect with its response parameters. Values come percent-encoded, and are appended as text: a URL
 * object would re-encode the application's own query (OAUTH 27).
 */
export function redirectTo(uri: string, parameters: Record<string, string | null>): string {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    value === null ? [] : `${name}=${value}`,
  )
  const glue = !uri.includes('?') ? '?' : /[?&]$/.test(uri) ? '' : '&'
  return uri + glue + pairs.join('&')
}

function refuse(asked: string, { redirectUri, exactRedirect }: RedirectRegistration): string | null {
  if (asked.length > maxCharacters) return `redirect_uri is longer than ${maxCharacters} characters.`
  if (!safeCharacters.test(asked)) return 'redirect_uri contains characters that must be percent-encoded.'
  if (!absolute.test(asked)) {
    return 'redirect_uri must be an absolute http or https address without user name or password.'
  }
  if (asked.includes('#')) return 'redirect_uri must not have a fragment (#…).'
  const url = URL.parse(asked)
  if (!url) return 'redirect_uri is not a valid address.'
  if (ownParameters.some((name) => url.searchParams.has(name))) {
    return 'redirect_uri already has a code, state, error or iss parameter in its query.'
  }
  if (exactRedirect) {
    return asked === redirectUri ? null : 'redirect_uri must be exactly the Redirect URL of the registration.'
  }
  const registered = new URL(redirectUri)
  if (url.protocol !== registered.protocol) return 'redirect_uri has another scheme than the registration.'
  if (url.hostname !== registered.hostname) return 'redirect_uri has another domain than the registration.'
  if (url.port !== registered.port && !loopback.test(url.hostname)) {
    return 'redirect_uri has another port than the registration.'
  }
  return null
}
