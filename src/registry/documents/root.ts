/** The filter list that Composer blocks by default, on update and on install from a lock file (COMPOSER A8). */
export const quarantineList = 'malware'

/** Above so many packages, packages.json names their vendors instead: it is fetched by every update. */
const maxListedNames = 10_000

/** What a repository's packages.json tells of. */
export interface RootContents {
  names: readonly string[]
  /** Whether any version is in quarantine. */
  isQuarantining: boolean
  /** Whether other repositories' packages are offered too: Composer must then ask for every name. */
  hasUpstreams?: boolean
}

/** packages.json of a repository without packages. */
export function emptyRootText(registryUrl: string): string {
  return rootText(registryUrl, { names: [], isQuarantining: false })
}

/**
 * A repository's packages.json (COMPOSER A2). All addresses are absolute, for some are only understood so. The list
 * of names is never empty: an empty one means "ask for anything", and would send the names of all public
 * dependencies here. `-/-` is no package's name.
 */
export function rootText(
  registryUrl: string,
  { names, isQuarantining, hasUpstreams = false }: RootContents,
): string {
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
    // Costs a current Composer a request for each locked package, so it is said only when there is something to see.
    ...(isQuarantining && { filter: { metadata: true, lists: { [quarantineList]: { enabled: true } } } }),
    warnings: [{ versions: '<2.0', message: 'Composer 1 is not supported: run composer self-update --2.' }],
  })
}

function availability(names: readonly string[]) {
  if (names.length === 0) return { 'available-package-patterns': ['-/-'] }
  if (names.length <= maxListedNames) return { 'available-packages': names }
  const vendors = new Set(names.map((name) => name.slice(0, name.indexOf('/'))))
  return { 'available-package-patterns': Array.from(vendors, (vendor) => `${vendor}/*`) }
}
