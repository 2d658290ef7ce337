/** Above so many packages, packages.json names their vendors instead: it is fetched by every update. */
const maxListedNames = 10_000

/**
 * A repository's packages.json (COMPOSER A2). All addresses are absolute, for some are only understood so. The list
 * of names is never empty: an empty one means "ask for anything", and would send the names of all public
 * dependencies here. `-/-` is no package's name.
 */
export function rootText(registryUrl: string, names: readonly string[]): string {
  return JSON.stringify({
    packages: [],
    'metadata-url': `${registryUrl}p2/%package%.json`,
    ...availability(names),
    'notify-batch': `${registryUrl}downloads`,
    search: `${registryUrl}search.json?q=%query%&type=%type%`,
    list: `${registryUrl}list.json`,
    'providers-api': `${registryUrl}providers/%package%.json`,
    warnings: [{ versions: '<2.0', message: 'Composer 1 is not supported: run composer self-update --2.' }],
  })
}

function availability(names: readonly string[]) {
  if (names.length === 0) return { 'available-package-patterns': ['-/-'] }
  if (names.length <= maxListedNames) return { 'available-packages': names }
  const vendors = new Set(names.map((name) => name.slice(0, name.indexOf('/'))))
  return { 'available-package-patterns': Array.from(vendors, (vendor) => `${vendor}/*`) }
}
