/** The pages of the signed-in account: the tabs of the settings, and the menu of the header. */
export const settingsPages = [
  { url: '/settings/account', words: 'Account' },
  { url: '/settings/notifications', words: 'Notifications' },
  { url: '/settings/second-factor', words: 'Second factor' },
  { url: '/settings/security', words: 'Security' },
  { url: '/settings/sessions', words: 'Sessions' },
  { url: '/settings/tokens', words: 'Tokens' },
  { url: '/settings/authorizations', words: 'Authorizations' },
  { url: '/settings/applications', words: 'Your applications' },
]

/** A link of the breadcrumbs. */
export interface Crumb {
  url: string
  words: string
}

/**
 * Returns the breadcrumbs of a page below the page with this URL: the pages above it, and itself. For
 * `/acme/php/-/members` these are acme, php and Members.
 */
export function trailTo(url: string): Crumb[] {
  const [path = ''] = url.split(/[?#]/, 1)
  const setting = settingsPages.find((page) => path === page.url || path.startsWith(`${page.url}/`))
  if (setting) return [setting]
  const names = path.split('/').slice(1)
  const crumb = (count: number, words = names[count - 1] ?? '') => ({
    url: `/${names.slice(0, count).join('/')}`,
    words,
  })
  if (names[0] === 'admin') {
    const above = [crumb(1, 'Administration'), crumb(2, label(names[1]))].slice(0, names.length)
    // The client ID of an application says nothing to people. No account is called "-".
    return names[1] === 'accounts' && names.length > 2 && names[2] !== '-' ? [...above, crumb(3)] : above
  }
  const dash = names.indexOf('-')
  const place = dash === -1 ? names : names.slice(0, dash)
  return [
    crumb(1),
    ...(place.length > 1 ? [crumb(2)] : []),
    ...(place[2] === 'packages' ? [crumb(5, place.slice(3).join('/'))] : []),
    ...(dash === -1 ? [] : [crumb(dash + 2, label(names[dash + 1]))]),
  ]
}

/** Returns the words of a page from its part of the URL: `deploy-tokens` is Deploy tokens. */
function label(name = ''): string {
  return name.charAt(0).toUpperCase() + name.slice(1).replaceAll('-', ' ')
}
