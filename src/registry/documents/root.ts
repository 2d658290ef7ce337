/** The filter list that Composer blocks by default, on update and on install from a lock file (COMPOSER A8). */
export const quarantineList = 'malware'

/** Above so many packages, packages.json names their vendors instead: it is fetched by every update. */
const maxListedNames = 10_000

/** What a repository's packages.json depends on. */
export interface RootContents {
  names: readonly string[]
  /** Whether other repositories' packages are offered too: Composer must then ask for every name. */
  hasUpstreams?: boolean
}

/** The packages.json of a repository without packages. */
export function emptyRootText(registryUrl: string): string {
  return rootText(registryUrl, { names: [] })
}

/** The filter.json of a repository that never had a quarantine. */
export const emptyFilterText = JSON.stringify({ filter: { [quarantineList]: {} } })

/**
 * A repository's packages.json (COMPOSER A2). All URLs are absolute, because Composer 2.5 resolves some of them only
 * then. The list of names is never empty: Composer reads an empty list as "ask for any name", and would send the names
 * of all public dependencies here. `-/-` is the name of no package.
 */
export function rootText(registryUrl: string, { names, hasUpstreams = false }: RootContents): string {
  return JSON.stringify({
    packages: [],
    'metadata-url': `${registryUrl}p2/%package%.json`,
    ...(hasUpstreams ? {} : availability(names)),
    'notify-batch': `${registryUrl}downloads`,
    search: `${registryUrl}search.json?q=%query%&type=%type%`,
    list: `${registryUrl}list.json`,
    'providers-api': `${registryUrl}providers/%package%.json`,
    'metadata-changes-url': `${registryUrl}metadata/changes.json`,
    'security-advisories': { metadata: true, 'api-url': `${registryUrl}security-advisories` },
    // Always there: Composer keeps packages.json for up to ten minutes, and would miss a filter that comes with the
    // first quarantine. The summary saves it a request for each locked package.
    filter: {
      metadata: true,
      lists: { [quarantineList]: { enabled: true } },
      'summary-url': `${registryUrl}filter.json`,
    },
    // Composer 1 and 2.0 read these two keys; `warnings` is read since 2.2 only.
    warning: 'Composer 1 is not supported: run composer self-update --2.',
    'warning-versions': '<2.0',
  })
}

function availability(names: readonly string[]) {
  if (names.length === 0) return { 'available-package-patterns': ['-/-'] }
  if (names.length <= maxListedNames) return { 'available-packages': names }
  const vendors = new Set(names.map((name) => name.slice(0, name.indexOf('/'))))
  return { 'available-package-patterns': Array.from(vendors, (vendor) => `${vendor}/*`) }
}
