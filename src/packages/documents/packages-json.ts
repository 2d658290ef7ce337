import { quarantineList } from '../../composer/filter-list.ts'
import type { Listing } from '../tables/packages.ts'

/**
 * The maximum number of package names in packages.json. With more names, packages.json lists their vendors instead,
 * because every update fetches the file.
 */
export const maxNamesInRoot = 10_000

/** Returns the packages.json of a repository without packages. */
export function emptyRootText(registryUrl: string): string {
  return rootText(registryUrl, { names: [], vendors: null, hasUpstreams: false })
}

/** The filter.json of a repository that never had a quarantine. */
export const emptyFilterText = JSON.stringify({ filter: { [quarantineList]: {} } })

/**
 * Returns a repository's packages.json (COMPOSER A2). All URLs are absolute, because Composer 2.5 does not resolve some
 * relative URLs. The list of names is never empty. Composer reads an empty list as "request any name", and would send
 * the names of all public dependencies to svc. `-/-` is not a valid name of a package.
 */
export function rootText(
  registryUrl: string,
  { names, vendors, hasUpstreams }: Pick<Listing, 'names' | 'vendors' | 'hasUpstreams'>,
): string {
  return JSON.stringify({
    packages: [],
    'metadata-url': `${registryUrl}p2/%package%.json`,
    // With upstreams, Composer must request every name. The changes do not contain the packages of upstreams. A mirror
    // that followed them would take those packages for unchanged.
    ...(!hasUpstreams && {
      ...availability(names, vendors),
      'metadata-changes-url': `${registryUrl}metadata/changes.json`,
    }),
    'notify-batch': `${registryUrl}downloads`,
    search: `${registryUrl}search.json?q=%query%&type=%type%`,
    list: `${registryUrl}list.json`,
    'providers-api': `${registryUrl}providers/%package%.json`,
    'security-advisories': { metadata: true, 'api-url': `${registryUrl}security-advisories` },
    // The filter is always present. Composer caches packages.json for up to ten minutes, and would miss a filter that
    // the first quarantine adds. The summary saves a request for each locked package.
    filter: {
      metadata: true,
      lists: { [quarantineList]: { enabled: true } },
      'summary-url': `${registryUrl}filter.json`,
    },
    // Composer 1 and 2.0 read these two keys. Only Composer 2.2 and later read `warnings`.
    warning: 'Composer 1 is not supported: run composer self-update --2.',
    'warning-versions': '<2.0',
  })
}

/**
 * Returns the packages.json of a stage: that of its repository, whose documents of packages come from the URL of the stage.
 * Its downloads are not counted.
 */
export function stagedRootText(
  root: string,
  stageUrl: string,
  { packageName }: { packageName: string },
): string {
  const {
    'notify-batch': _uncounted,
    'metadata-changes-url': _unfollowed,
    'available-packages': names,
    'available-package-patterns': patterns,
    ...others
  } = JSON.parse(root) as Record<string, unknown> & {
    'available-packages'?: string[]
    'available-package-patterns'?: string[]
  }
  return JSON.stringify({
    ...others,
    'metadata-url': `${stageUrl}p2/%package%.json`,
    ...(names && { 'available-packages': [...new Set([...names, packageName])] }),
    ...(patterns && { 'available-package-patterns': [...patterns, packageName] }),
  })
}

function availability(names: readonly string[], vendors: readonly string[] | null) {
  if (vendors) return { 'available-package-patterns': vendors.map((vendor) => `${vendor}/*`) }
  return names.length === 0 ? { 'available-package-patterns': ['-/-'] } : { 'available-packages': names }
}
