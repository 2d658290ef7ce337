import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { LightMyRequestResponse } from 'fastify'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll } from 'vitest'
import type { TestApp } from './app.ts'

/** The claims of a person at a provider. */
export type ProviderClaims = Record<string, unknown>

/** A real OpenID Connect provider on the loopback interface: oidc-provider. */
export interface IdentityProvider {
  readonly name: string
  readonly issuer: string
  /** The settings of svc for this provider. */
  readonly environment: Record<string, string>
  /** The people who have an account there, by subject. */
  readonly people: Map<string, ProviderClaims>
}

const clientId = 'svc'
const clientSecret = randomBytes(32).toString('base64url')

/** The settings of svc for a provider on a loopback port. */
export function providerEnvironment(
  name: string,
  port: number,
  more: Record<string, string> = {},
): Record<string, string> {
  const own = {
    ISSUER: `http://127.0.0.1:${port}`,
    CLIENT_ID: clientId,
    CLIENT_SECRET: clientSecret,
    ...more,
  }
  return Object.fromEntries(
    Object.entries(own).map(([part, value]) => [`OIDC_${name.toUpperCase()}_${part}`, value]),
  )
}

/** The settings of svc with which everybody at a provider gets an account. No mail is sent. */
export const openSignUp = { SIGN_UP: 'open', SMTP_URL: 'smtp://127.0.0.1:9', MAIL_FROM: 'svc@example.com' }

/** Starts a provider for one test file. Its sign-in page asks only for the subject. */
export function useIdentityProvider(
  name: string,
  port: number,
  baseUrl: string,
  settings: Record<string, string> = {},
): IdentityProvider {
  const issuer = `http://127.0.0.1:${port}`
  const people = new Map<string, ProviderClaims>()
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [`${baseUrl}/login/oidc/${name}/callback`],
      },
    ],
    claims: {
      openid: ['sub'],
      profile: ['name', 'preferred_username'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    scopes: ['openid', 'profile', 'email', 'groups'],
    pkce: { methods: ['S256'], required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/sign-in/${uid}` },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    jwks: { keys: [aSigningKey()] },
    ttl: { Interaction: 600, Session: 600, Grant: 600, IdToken: 600, AccessToken: 600 },
    findAccount: (_ctx: unknown, sub: string) => ({
      accountId: sub,
      claims: async () => ({ sub, ...people.get(sub) }),
    }),
    // Everybody who signs in has consented: the tests do not cover consent at the provider.
    loadExistingGrant: async (ctx: {
      oidc: { session: { accountId: string }; client: { clientId: string } }
    }) => {
      const { session, client } = ctx.oidc
      const grant = new provider.Grant({ accountId: session.accountId, clientId: client.clientId })
      grant.addOIDCScope('openid profile email groups')
      await grant.save()
      return grant
    },
  })
  const handle = provider.callback()
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/sign-in/')) void signIn(request, response)
    else void handle(request, response)
  })
  async function signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { searchParams } = new URL(request.url ?? '', issuer)
    const [person, at] = [searchParams.get('person'), searchParams.get('at')]
    if (person === null) {
      response.setHeader('content-type', 'text/html')
      response.end('<form><input name="person" aria-label="Person"><button>Sign in there</button></form>')
      return
    }
    const result =
      person === 'nobody'
        ? { error: 'access_denied', error_description: 'a <b>text</b> of the provider' }
        : { login: { accountId: person, ...(at !== null && { ts: Number(at) }) } }
    await provider.interactionFinished(request, response, result)
  }
  beforeAll(() => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)))
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const environment = providerEnvironment(name, port, settings)
  return { name, issuer, environment, people }
}

function aSigningKey(): object {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig', kid: 'test' }
}

/** A person's browser. It stores the cookies of svc and of providers. */
export class Walker {
  readonly #t: TestApp
  readonly #jars = new Map<string, Map<string, string>>()

  constructor(t: TestApp, cookie = '') {
    this.#t = t
    if (cookie !== '') this.#keep('svc', cookie.split('; '))
  }

  /** The Cookie header for svc. */
  get cookie(): string {
    return this.#cookieFor('svc')
  }

  /** Opens a page of svc. */
  async open(url: string): Promise<LightMyRequestResponse> {
    const response = await this.#t.app.inject({ url, headers: { cookie: this.cookie } })
    return this.#seen(response)
  }

  /** Sends a form of svc. */
  async post(url: string, fields: Record<string, string>): Promise<LightMyRequestResponse> {
    const response = await this.#t.app.inject({
      method: 'POST',
      url,
      headers: { cookie: this.cookie, 'content-type': 'application/x-www-form-urlencoded' },
      payload: new URLSearchParams(fields).toString(),
    })
    return this.#seen(response)
  }

  /** Sends a form of svc with files. */
  async postFiles(url: string, form: FormData): Promise<LightMyRequestResponse> {
    const body = new Response(form)
    const response = await this.#t.app.inject({
      method: 'POST',
      url,
      headers: { cookie: this.cookie, 'content-type': String(body.headers.get('content-type')) },
      payload: Buffer.from(await body.arrayBuffer()),
    })
    return this.#seen(response)
  }

  /**
   * Signs in at the provider as a person, after a redirect from svc. Returns the path of the callback. The provider
   * remembers the person, and that they signed in `secondsAgo`.
   */
  async signInThere(redirect: LightMyRequestResponse, person: string, secondsAgo = 0): Promise<string> {
    let url = new URL(String(redirect.headers.location))
    const { origin } = url
    for (let steps = 0; steps < 10; steps += 1) {
      if (url.pathname.startsWith('/sign-in/')) {
        url.searchParams.set('person', person)
        url.searchParams.set('at', `${Math.floor(Date.now() / 1000) - secondsAgo}`)
      }
      const response = await fetch(url, {
        redirect: 'manual',
        headers: { cookie: this.#cookieFor(origin) },
      })
      this.#keep(
        origin,
        response.headers.getSetCookie().map((line) => line.split(';', 1)[0] ?? ''),
      )
      const location = response.headers.get('location')
      if (location === null) throw new Error(`the provider stopped: ${await response.text()}`)
      url = new URL(location, url)
      if (url.origin !== origin) return `${url.pathname}${url.search}`
    }
    throw new Error('the provider redirects without end')
  }

  /** Runs a whole sign-in, from svc to the provider and back. Returns the response to the callback. */
  async signIn(provider: { name: string }, person: string, returnId = ''): Promise<LightMyRequestResponse> {
    const start = await this.open(`/login/oidc/${provider.name}?return=${returnId}`)
    return this.open(await this.signInThere(start, person))
  }

  #seen(response: LightMyRequestResponse): LightMyRequestResponse {
    this.#keep(
      'svc',
      response.cookies.map(({ name, value }) => `${name}=${value}`),
    )
    return response
  }

  #keep(site: string, pairs: string[]): void {
    const jar = this.#jars.get(site) ?? new Map<string, string>()
    this.#jars.set(site, jar)
    for (const pair of pairs) {
      const at = pair.indexOf('=')
      const [name, value] = [pair.slice(0, at), pair.slice(at + 1)]
      if (value === '') jar.delete(name)
      else jar.set(name, value)
    }
  }

  #cookieFor(site: string): string {
    return Array.from(this.#jars.get(site) ?? [], ([name, value]) => `${name}=${value}`).join('; ')
  }
}

/** The username of the account that a browser is signed in to; null when it is signed out. */
export async function usernameOf(walker: Walker): Promise<string | null> {
  const page = await walker.open('/settings/account')
  return /Signed in as <strong>([^<]+)</.exec(page.body)?.[1] ?? null
}

/** The text of the problem that a page shows; null without one. */
export function problemOf(page: LightMyRequestResponse): string | null {
  return /<p class="problem"[^>]*>([^<]+)<\/p>/.exec(page.body)?.[1] ?? null
}
