import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Passport } from 'passport'
import { type Profile, Strategy } from 'passport-openidconnect'
import { afterAll, beforeAll } from 'vitest'

/** What the application of the test must know about svc. */
export interface ProviderOptions {
  issuer: string
  clientId: string
  clientSecret: string
}

/**
 * Starts an application on loopback that signs people in with Passport and its strategy for OpenID Connect. `/` shows who is
 * signed in as JSON, `/login` begins, and `/callback` ends the sign-in. `provider` is read at the first request.
 */
export function usePassportApp(port: number, provider: () => ProviderOptions): void {
  const here = `http://127.0.0.1:${port}`
  const passport = new Passport()
  const sessions = new Map<string, { user?: Profile }>()

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', here)
    const known = /(?:^|; )app=([^;]+)/.exec(request.headers.cookie ?? '')?.[1] ?? ''
    const session = sessions.get(known) ?? {}
    if (!sessions.has(known)) {
      const id = randomUUID()
      sessions.set(id, session)
      response.setHeader('set-cookie', `app=${id}; Path=/; HttpOnly; SameSite=Lax`)
    }
    response.setHeader('content-type', 'application/json')
    if (url.pathname === '/') return void response.end(JSON.stringify(session.user ?? null))
    // What Passport reads of a request, which a framework would provide.
    const read = Object.assign(request, { query: Object.fromEntries(url.searchParams), session })
    const { issuer, clientId, clientSecret } = provider()
    const strategy = new Strategy(
      {
        issuer,
        authorizationURL: `${issuer}/oauth2/auth`,
        tokenURL: `${issuer}/oauth2/token`,
        userInfoURL: `${issuer}/oauth2/userinfo`,
        clientID: clientId,
        clientSecret,
        callbackURL: `${here}/callback`,
        scope: ['profile', 'email'],
        nonce: true,
        maxAge: 3600,
        skipUserProfile: false,
      },
      (_issuer, profile, context, _idToken, done) => done(null, { ...profile, ...context }),
    )
    passport.authenticate(strategy, { session: false }, (error, user) => {
      if (error || !user) return void response.writeHead(error ? 502 : 403).end(JSON.stringify(String(error)))
      session.user = user
      response.writeHead(302, { location: '/' }).end()
    })(read, response)
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)))
  afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())))
}
