import type { LightMyRequestResponse } from 'fastify'
import { post } from './actors.ts'
import type { TestApp } from './app.ts'
import type { ApplicationActor } from './oauth-actors.ts'

/** Returns the link with which an application requests authorization. A parameter that is null is left out. */
export function authorizeLink(
  { clientId }: Pick<ApplicationActor, 'clientId'>,
  parameters: Record<string, string | null> = {},
): string {
  const all = { response_type: 'code', client_id: clientId, ...parameters }
  const given = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== null)
  return `/oauth2/auth?${new URLSearchParams(given)}`
}

/** Opens a page as the browser with these cookies. */
export function open(t: TestApp, url: string, cookie = ''): Promise<LightMyRequestResponse> {
  return t.app.inject({ url, headers: { cookie } })
}

/** Presses a button of a consent page. `fields` are added to the hidden ones. */
export function submitConsent(
  t: TestApp,
  page: LightMyRequestResponse,
  cookie: string,
  decision: string,
  fields: Record<string, string | string[]> = {},
): Promise<LightMyRequestResponse> {
  return post(t.app, '/oauth2/auth', cookie, { ...hiddenFields(page), decision, ...fields })
}

/**
 * Follows a link of an application to svc, and agrees if the consent page is shown. Returns the URL to which the browser
 * returns.
 */
export async function followAndApprove(t: TestApp, link: string, cookie: string): Promise<URL> {
  const page = await open(t, link.replace(t.config.authUrl, ''), cookie)
  const redirect = page.statusCode === 200 ? await submitConsent(t, page, cookie, 'approve') : page
  return new URL(String(redirect.headers.location))
}

/** The hidden fields of a consent page. */
export function hiddenFields(page: LightMyRequestResponse): { csrf_token: string; request: string } {
  const value = (name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(page.body)?.[1]
  const [csrf_token, request] = [value('csrf_token'), value('request')]
  if (!csrf_token || !request) throw new Error(`no consent form: ${page.statusCode} ${page.headers.location}`)
  return { csrf_token, request }
}

/** Returns the parameters in the URL of a redirect to the application. */
export function responseOf(redirect: LightMyRequestResponse): Record<string, string> {
  return Object.fromEntries(new URL(String(redirect.headers.location)).searchParams)
}
