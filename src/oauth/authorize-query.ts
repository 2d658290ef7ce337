/** The parameters of a link's query: names decoded, values as they stand, each as often as it came. */
export type LinkQuery = ReadonlyMap<string, readonly string[]>

/** Splits a request's address without decoding its values, so that `state` can go back unchanged. */
export function readLinkQuery(url: string): LinkQuery {
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
 * The decoded value of a parameter; null when it is absent or empty (RFC 6749 §3.1). Throws what `refuse` makes
 * of the reason when it came more than once or cannot be decoded.
 */
export function readParameter(
  query: LinkQuery,
  name: string,
  refuse: (reason: string) => Error,
): string | null {
  const [raw = '', ...more] = query.get(name) ?? []
  if (more.length > 0) throw refuse(`${name} is there more than once.`)
  const value = decode(raw)
  if (value === null) throw refuse(`${name} is not percent-encoded UTF-8.`)
  return value === '' ? null : value
}

/**
 * `state` as it stands in the query, also when it is empty (OAUTH 5, 6); null when it is absent or repeated. Only
 * what no address may contain is encoded: a decoder reads the same bytes, whichever rules it follows for `+`.
 */
export function readState(query: LinkQuery): string | null {
  const [state, ...more] = query.get('state') ?? []
  if (state === undefined || more.length > 0) return null
  return state.replace(
    /[^!$-;=?-Z[\]_a-z~]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
}

/** Null for what is not percent-encoded UTF-8, and for NUL, which no text here may hold. */
function decode(raw: string): string | null {
  try {
    const text = decodeURIComponent(raw.replaceAll('+', ' '))
    return text.includes('\0') ? null : text
  } catch {
    return null
  }
}
