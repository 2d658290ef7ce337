/**
 * The resources of svc for which a token can be issued (RFC 8707), by their paths below BASE_URL: `/` for the API and all
 * registries, `/api`, or the URL of a registry.
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
