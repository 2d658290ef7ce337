import * as oidc from 'openid-client'
import type { Config } from '../../config.ts'
import { isSecureUrl, type ProviderSettings } from '../../domain/identity-provider.ts'
import type { Log } from '../../domain/log.ts'
import { isPlainText } from '../../domain/plain-text.ts'
import { singleFlight } from '../../domain/single-flight.ts'
import { anAdministrator, type Site } from '../../domain/site.ts'
import type { Outbound } from '../../outbound/outbound.ts'
import { OutboundError } from '../../outbound/outbound-error.ts'
import { type ProvenPerson, readPerson } from './person.ts'

/** How much clocks may differ. */
const toleranceSeconds = 30
/** How long the provider's metadata is used before it is read again. */
const metadataLifetimeMilliseconds = 600_000

/** Thrown when a provider could not identify a person. It has the message and the status of the page. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError'
  readonly status: 400 | 403 | 502 | 503

  constructor(status: ProviderError['status'], message: string) {
    super(message)
    this.status = status
  }
}

/**
 * The `max_age` of a sign-in: a year. Providers must then say in the ID token when the person signed in there (OpenID
 * Connect Core §3.1.2.1). A shorter one would make people sign in again.
 */
const signInMaxAgeSeconds = 365 * 86_400

/** The secrets of one sign-in (OpenID Connect Core §3.1.2.1, RFC 7636). */
export interface SignInSecrets {
  state: string
  nonce: string
  codeVerifier: string
}

/** A provider of the configuration. All its functions throw ProviderError. */
export interface Provider {
  settings: ProviderSettings
  /**
   * Returns the URL at the provider to which the browser goes. The ID token must say when the person signed in there. With
   * `asksAgain`, they must sign in there again.
   */
  authorizationUrl(redirectUri: string, secrets: SignInSecrets, asksAgain?: boolean): Promise<string>
  /**
   * Exchanges the code of a callback. Returns the person in the provider's signed ID token. `ageSeconds` is the time since
   * the browser was sent to the provider.
   */
  provePerson(callbackUrl: string, signIn: SignInSecrets & { ageSeconds: number }): Promise<ProvenPerson>
}

/**
 * Opens the providers. It sends no request before somebody signs in, so the server also starts when a provider is down.
 */
export function openProviders(
  { providers, site }: Pick<Config, 'providers' | 'site'>,
  outbound: Outbound,
  log: Log,
): ReadonlyMap<string, Provider> {
  const fetch = fetchFrom(outbound)
  return new Map(providers.map((settings) => [settings.name, openProvider(settings, site, fetch, log)]))
}

function openProvider(settings: ProviderSettings, site: Site, fetch: oidc.CustomFetch, log: Log): Provider {
  let known: { client: oidc.Configuration; readAt: number } | undefined
  const discoveries = singleFlight<oidc.Configuration>()

  /** Returns the client with the provider's metadata. Callers at the same time share one request. */
  async function client(): Promise<oidc.Configuration> {
    if (known && performance.now() - known.readAt < metadataLifetimeMilliseconds) return known.client
    try {
      const read = await discoveries.share('metadata', () => discover(settings, fetch))
      known = { client: read, readAt: performance.now() }
      return read
    } catch (error) {
      // If the metadata cannot be read, use the old one. The keys are read again when a token names an unknown key.
      if (known) return known.client
      throw error
    }
  }

  /** Runs requests to the provider. Turns errors of the library into errors of a page, and logs each once. */
  async function ask<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      const explained = explain(settings.label, site, error)
      // Do not log the error itself: it may contain tokens and claims.
      log.warn({ provider: settings.name, ...describe(error) }, 'a sign-in provider failed')
      throw explained
    }
  }

  return {
    settings,
    authorizationUrl: (redirectUri, { state, nonce, codeVerifier }, asksAgain = false) =>
      ask(async () => {
        const url = oidc.buildAuthorizationUrl(await client(), {
          redirect_uri: redirectUri,
          scope: settings.scopes,
          state,
          nonce,
          code_challenge: await oidc.calculatePKCECodeChallenge(codeVerifier),
          code_challenge_method: 'S256',
          max_age: asksAgain ? '0' : `${signInMaxAgeSeconds}`,
          ...(asksAgain && { prompt: 'login' }),
        })
        if (!isSecureUrl(url.href)) throw new oidc.ClientError('the authorization endpoint is not secure')
        return url.href
      }),
    provePerson: (callbackUrl, { state, nonce, codeVerifier, ageSeconds }) =>
      ask(async () => {
        const known = await client()
        const tokens = await oidc.authorizationCodeGrant(known, new URL(callbackUrl), {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: codeVerifier,
          idTokenExpected: true,
        })
        const idToken = tokens.claims()
        if (!idToken || !/^.{1,255}$/.test(idToken.sub) || !isPlainText(idToken.sub)) {
          throw new oidc.ClientError('the ID token has no usable subject')
        }
        const hasUserInfo = known.serverMetadata().userinfo_endpoint !== undefined
        const userInfo = hasUserInfo ? await oidc.fetchUserInfo(known, tokens.access_token, idToken.sub) : {}
        const { iss: issuer, sub: subject, iat, auth_time: signedInAt } = idToken
        return {
          ...readPerson(settings, { issuer, subject }, idToken, userInfo),
          // The browser had the URL with `max_age`, so the provider may not have seen it, and not every provider knows it.
          // Both times are of the provider's clock.
          hasJustSignedIn:
            typeof signedInAt === 'number' && iat - signedInAt <= ageSeconds + toleranceSeconds,
        }
      }),
  }
}

async function discover(settings: ProviderSettings, fetch: oidc.CustomFetch): Promise<oidc.Configuration> {
  const isLoopback = settings.issuer.startsWith('http:')
  return oidc.discovery(
    new URL(settings.issuer),
    settings.clientId,
    { [oidc.clockTolerance]: toleranceSeconds },
    authenticate(settings.clientSecret),
    {
      [oidc.customFetch]: fetch,
      execute: [
        // Also checks the signature of ID tokens that come from the token endpoint.
        oidc.enableNonRepudiationChecks,
        ...(isLoopback ? [oidc.allowInsecureRequests] : []),
      ],
    },
  )
}

/** Uses HTTP Basic, unless the provider accepts the secret only in the form (OpenID Connect Core §9). */
function authenticate(clientSecret: string): oidc.ClientAuth {
  const basic = oidc.ClientSecretBasic(clientSecret)
  const form = oidc.ClientSecretPost(clientSecret)
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const isBasic = methods.includes('client_secret_basic') || !methods.includes('client_secret_post')
    return (isBasic ? basic : form)(server, client, body, headers)
  }
}

/**
 * Returns the function through which the library sends its requests: the guarded client, with the bounds for providers. The
 * operator has named the provider in the environment, so its endpoints may be on private hosts.
 */
function fetchFrom(outbound: Outbound): oidc.CustomFetch {
  return async (url, { method, headers, body }) => {
    const options = {
      rights: { reachesPrivateHosts: true },
      method,
      headers,
      ...(body != null && { body: body instanceof URLSearchParams ? body.toString() : (body as string) }),
    }
    const response = await outbound.fetchBytes('provider', url, options)
    const { status, bytes } = response
    const fields = Object.entries(response.headers).flatMap(([name, values]) =>
      [values ?? []].flat().map((value): [string, string] => [name, value]),
    )
    const hasBody = ![204, 205, 304].includes(status)
    return new Response(hasBody ? new Uint8Array(bytes) : null, { status, headers: fields })
  }
}

/** The error and its causes, outermost first. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  for (let one = error; one instanceof Error && causes.length < 5; one = one.cause) causes.push(one)
  return causes
}

function describe(error: unknown): { reason: string; code: string | null } {
  const causes = causesOf(error)
  const code = causes.map((cause) => (cause as NodeJS.ErrnoException).code).find((one) => one !== undefined)
  const reason = causes.map(({ message }) => message).join(': ')
  return { reason: reason.slice(0, 300), code: code ?? null }
}

/** Explains an error to the person. Text of the provider is not shown, except its standard error codes. */
function explain(label: string, site: Site, error: unknown): ProviderError {
  if (error instanceof oidc.AuthorizationResponseError) {
    if (error.error === 'access_denied') {
      return new ProviderError(
        403,
        `${label} did not sign you in: the request was cancelled or refused there.`,
      )
    }
    const code = /^[a-z_]{1,60}$/.test(error.error) ? ` (${error.error})` : ''
    return new ProviderError(502, `${label} could not sign you in${code}. Try again.`)
  }
  if (error instanceof oidc.ResponseBodyError) {
    if (error.error === 'invalid_grant') {
      return new ProviderError(400, `This sign-in with ${label} was already used or has expired. Try again.`)
    }
    const hint =
      error.error === 'invalid_client' ? 'It does not know this server’s client ID and secret. ' : ''
    return new ProviderError(502, `${label} refused this server. ${hint}Tell ${anAdministrator(site)}.`)
  }
  if (causesOf(error).some((cause) => cause instanceof OutboundError && cause.isUnreachable)) {
    return new ProviderError(503, `${label} does not respond at the moment. Try again later.`)
  }
  return new ProviderError(
    502,
    `${label} sent a response that this server does not trust, so you are not signed in. Tell ${anAdministrator(site)}.`,
  )
}
