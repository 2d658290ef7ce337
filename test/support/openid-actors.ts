import type { LightMyRequestResponse } from 'fastify'
import { createLocalJWKSet, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from './actors.ts'
import type { TestApp } from './app.ts'
import { authorizeLink, open, responseOf, submitConsent } from './browse.ts'
import { type ApplicationActor, anApplication } from './oauth-actors.ts'
import { tokenClient } from './token-client.ts'

/** The scopes of OpenID Connect. */
export const allOpenid = 'openid profile email'

/** A browser that is signed in, and an application that signs people in with svc. */
export async function aRelyingParty(
  t: TestApp,
  {
    account = {} as Parameters<typeof anAccount>[1],
    application: differences = {} as Parameters<typeof anApplication>[1],
  } = {},
) {
  const person = await anAccount(t.db, account)
  const application = await anApplication(t.db, {
    scopes: ['openid', 'profile', 'email', 'account-profile:r'],
    ...differences,
  })
  const cookie = await signIn(t.app, person)
  const link = (parameters: Record<string, string | null> = {}) =>
    authorizeLink(application, { scope: allOpenid, ...parameters })
  /** Opens a link, and agrees if the consent page is shown. */
  const authorize = async (parameters: Record<string, string | null> = {}, as = cookie) => {
    const page = await open(t, link(parameters), as)
    return page.statusCode === 200 ? submitConsent(t, page, as, 'approve') : page
  }
  const client = tokenClient(t, application)
  /** Signs the person in, and returns the tokens. */
  const enter = async (parameters: Record<string, string | null> = {}, as = cookie) => {
    const code = responseOf(await authorize(parameters, as))['code'] ?? ''
    return (await client.exchange(code)).json<TokenResponse>()
  }
  return { account: person, application, cookie, link, authorize, enter, ...client }
}

/** Verifies an ID token with the published keys, and returns its claims. */
export async function readIdToken(
  t: TestApp,
  { clientId }: Pick<ApplicationActor, 'clientId'>,
  idToken: string | undefined,
): Promise<JWTPayload> {
  const keys = createLocalJWKSet((await t.app.inject('/oauth2/jwks')).json<JSONWebKeySet>())
  const { payload } = await jwtVerify(idToken ?? '', keys, { issuer: t.config.authUrl, audience: clientId })
  return payload
}

/** Asks for the claims of an access token. */
export function askUserinfo(t: TestApp, accessToken: string): Promise<LightMyRequestResponse> {
  return t.app.inject({ url: '/oauth2/userinfo', headers: { authorization: `Bearer ${accessToken}` } })
}

/** Proves the identity with the password, on the page at `url` that asks for it. */
export async function confirmAccess(
  t: TestApp,
  url: string,
  cookie: string,
): Promise<LightMyRequestResponse> {
  const page = await open(t, url, cookie)
  const form = { csrf_token: csrfTokenIn(page), current_password: password, return: returnIdIn(page) }
  return post(t.app, '/settings/confirm-access', cookie, form)
}

/**
 * Opens a link of an application in a browser that is not signed in, and signs in. Returns the form, the Cookie header of the
 * browser and the URL at which it continues.
 */
export async function signInAt(
  t: TestApp,
  link: string,
  { username }: { username: string },
): Promise<{ form: LightMyRequestResponse; cookie: string; location: string }> {
  const asked = await open(t, link)
  const form = await open(t, String(asked.headers.location))
  const fields = { csrf_token: csrfTokenIn(form), username, password, return: returnIdIn(form) }
  const signedIn = await post(t.app, '/login', cookiesOf(form), fields)
  return { form, cookie: cookiesOf(signedIn), location: String(signedIn.headers.location) }
}

/** Returns the id of the link at which the browser continues after a form. */
function returnIdIn({ body }: LightMyRequestResponse): string {
  return /name="return" value="([^"]+)"/.exec(body)?.[1] ?? ''
}
