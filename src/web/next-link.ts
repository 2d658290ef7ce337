/**
 * Returns the Link header to the next part of a list (RFC 8288): the URL of the request with another value of `parameter`.
 * `url` is the path and query of the request.
 */
export function nextLink(baseUrl: string, url: string, parameter: string, value: string): string {
  const next = new URL(url, baseUrl)
  next.searchParams.set(parameter, value)
  return `<${baseUrl}${next.pathname}${next.search}>; rel="next"`
}
