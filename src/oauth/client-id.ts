import type { Config } from '../config.ts'

/** The maximum length of the URL of a client metadata document. It is the client id, so it stands in every token request. */
const maxUrlCharacters = 255
/** The website of its application is its origin, and may have 128 characters (SPEC 2.1). */
const maxOriginCharacters = 128

/**
 * Returns whether a text can be a client identifier: one that svc has issued, or the URL of a client metadata document.
 * PostgreSQL rejects some texts, such as NUL.
 */
export function isClientId(text: string): boolean {
  return (
    /^[a-z0-9]{8,64}$/.test(text) || (/^https?:\/\/[!-~]+$/.test(text) && text.length <= maxUrlCharacters)
  )
}

/** Returns whether a client id is the URL of a client metadata document, and not one that svc has issued. */
export function isDocumentUrl(clientId: string): boolean {
  return /^https?:\/\//i.test(clientId)
}

/**
 * Returns why a URL cannot be a client id, or null. It must be written in the normal form of URL parsers, because client ids are
 * compared byte for byte: a document has one URL, without dot segments, a default port, or letters that are no ASCII.
 */
export function refuseDocumentUrl(
  url: string,
  { baseUrl, outbound: { allowHttp } }: Pick<Config, 'baseUrl' | 'outbound'>,
): string | null {
  if (url.length > maxUrlCharacters) return `client_id is a URL of more than ${maxUrlCharacters} characters.`
  const parsed = URL.parse(url)
  if (!parsed || !isDocumentUrl(url)) return 'client_id is not a valid URL.'
  if (parsed.protocol !== 'https:' && !allowHttp) return 'client_id is a URL that is not https.'
  if (parsed.username !== '' || parsed.password !== '' || /^https?:\/\/[^/?#]*@/.test(url))
    return 'client_id is a URL with a username or password.'
  if (url.includes('#')) return 'client_id is a URL with a fragment.'
  if (parsed.pathname === '/') return 'client_id is a URL without a path.'
  if (parsed.href !== url || !/^[!-~]+$/.test(url) || parsed.hostname.endsWith('.'))
    return 'client_id is a URL that is not in its normal form, such as one with dot segments, its default port or a host in capital letters.'
  // What people have stored here must not seem to come from the site itself.
  if (parsed.host === new URL(baseUrl).host) return 'client_id is a URL of this server.'
  if (parsed.origin.length > maxOriginCharacters) return 'client_id is a URL whose host is too long.'
  return null
}
