/**
 * The resources of svc for which a token can be issued (RFC 8707), by their paths below BASE_URL: `/` for the API and all
 * registries, `/api`, or that of a registry.
 */
export const siteResource = '/'
export const apiResource = '/api'

/** Returns the resource of a registry. */
export function registryResource(group: string, name: string): string {
  return `/${group}/${name}/-/packages/`
}

/** A registry whose names could exist. */
const registryPath = /^\/([a-z0-9][a-z0-9._-]{0,99})\/([a-z0-9][a-z0-9._-]{0,99})\/-\/packages\/$/

/**
 * Returns the resource of a path, with or without its last slash. Null when svc has no such resource. A registry need not
 * exist: nobody learns here which private repositories exist.
 */
export function resourceOfPath(path: string): string | null {
  const bare = path.replace(/\/$/, '')
  if (bare === '') return siteResource
  if (bare === apiResource) return apiResource
  return registryPath.test(`${bare}/`) ? `${bare}/` : null
}

/** How many resources a request may name. */
const maxResources = 10

/**
 * Reads the values of `resource` (RFC 8707 §2). Null when there are none, which stands for everything. Empty when one of them is
 * not a resource of svc, or there are too many: then the request is refused.
 */
export function readResources(values: readonly string[], baseUrl: string): string[] | null {
  if (values.length === 0) return null
  const resources = values.map((value) => resourceOfUrl(value, baseUrl))
  if (values.length > maxResources || !resources.every((resource) => resource !== null)) return []
  return [...new Set(resources)].sort()
}

function resourceOfUrl(value: string, baseUrl: string): string | null {
  const url = URL.parse(value)
  if (!url || url.origin !== new URL(baseUrl).origin || /[?#@\\\s]/.test(value)) return null
  return resourceOfPath(url.pathname)
}

/** Returns the URLs of resources. */
export function urlsOfResources(resources: readonly string[], baseUrl: string): string[] {
  return resources.map((path) => (path === siteResource ? baseUrl : `${baseUrl}${path}`))
}

/** Says to people where tokens for some resources work. */
export function describeResources(resources: readonly string[], baseUrl: string): string {
  const { host } = new URL(baseUrl)
  const words = resources.map((resource) => {
    if (resource === siteResource) return `the API and all registries of ${host}`
    if (resource === apiResource) return `the API of ${host}`
    return `the registry of ${resource.slice(1, -'/-/packages/'.length)}`
  })
  return words.join(', ')
}

/**
 * Returns whether what was granted for some resources covers the requested ones. Null stands for everything. The same rule in
 * SQL is `covers_resources`.
 */
export function coversResources(granted: readonly string[] | null, asked: readonly string[] | null): boolean {
  if (granted === null) return true
  return asked?.every((one) => granted.includes(one) || granted.includes(siteResource)) ?? false
}
