import type { FastifyInstance } from 'fastify'

/** Lists the URL patterns of all routes, such as `/:group/-/members`, without those for all other URLs. */
export function listUrls(app: FastifyInstance): string[] {
  const segments: string[] = []
  const urls: string[] = []
  for (const line of app.printRoutes({ commonPrefix: false }).split('\n')) {
    const [, indent = '', segment = ''] = /^([│ ]*)[├└]── (\S*)/.exec(line) ?? []
    segments.splice(indent.length / 4, Number.POSITIVE_INFINITY, segment)
    const url = segments.join('')
    if (url !== '' && !url.includes('*')) urls.push(url)
  }
  return urls
}

/**
 * Lists the URL patterns of all forms of pages. The cookie is an administrator's, for the forms below /admin. The form of
 * the consent page is not in the list: its URL is among the endpoints of OAuth. Git servers send the hooks.
 */
export async function listForms(app: FastifyInstance, cookie: string): Promise<string[]> {
  const found = new Set<string>()
  for (const url of listUrls(app)) {
    if (url.includes('/-/packages/')) continue
    const { headers } = await app.inject({
      method: 'OPTIONS',
      url: url.replaceAll(':', 'x'),
      headers: { cookie },
    })
    if (String(headers.allow).includes('POST')) found.add(url)
  }
  return [...found].filter((url) => !/^\/(?:access|api|hooks|oauth2)(?:\/|$)/.test(url))
}
