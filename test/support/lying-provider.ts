import { createHash, createSign, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach } from 'vitest'

/** The false content of a lying provider. */
export interface Lies {
  /** Metadata of the provider that replaces the true one. */
  metadata?: Record<string, unknown>
  /** Claims of the ID token that replace the true ones. Undefined members are removed. */
  claims?: Record<string, unknown>
  header?: Record<string, unknown>
  /** Replaces an ID token with another one. */
  token?: (token: string) => string
  /** The key that signs, instead of the published one. */
  key?: KeyObject
  /** The response of UserInfo. */
  userInfo?: Record<string, unknown>
  /** Sends the response of an endpoint. Its path is `/token`, for example. */
  respond?: (path: string, response: ServerResponse) => boolean
}

/**
 * An OpenID Connect provider that can send false content. It is a small HTTP server, because real providers cannot do
 * this. It signs everybody in at once. `tell` sets the false content of the next sign-in.
 */
export interface LyingProvider {
  readonly name: string
  readonly issuer: string
  tell(lies: Lies): void
  /** The ID tokens that it has sent. */
  readonly tokens: string[]
  /** The paths of all requests. */
  readonly requests: string[]
}

const pair = generateKeyPairSync('rsa', { modulusLength: 2048 })
/** A key that the provider does not publish. */
export const anotherKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey

/** Starts a lying provider for one test file. */
export function useLyingProvider(name: string, port: number): LyingProvider {
  const issuer = `http://127.0.0.1:${port}`
  const asked = new Map<string, Record<string, string>>()
  const tokens: string[] = []
  const requests: string[] = []
  let lies: Lies = {}

  function idToken({ nonce, client_id }: Record<string, string>): string {
    const now = Math.floor(Date.now() / 1000)
    const header = { alg: 'RS256', kid: 'one', ...lies.header }
    const claims = {
      iss: issuer,
      aud: client_id,
      sub: 'eve',
      nonce,
      iat: now,
      exp: now + 300,
      ...lies.claims,
    }
    const input = [header, claims].map((part) => base64url(JSON.stringify(part))).join('.')
    const signature = createSign('sha256')
      .update(input)
      .sign(lies.key ?? pair.privateKey)
    const token = `${input}.${header.alg === 'none' ? '' : base64url(signature)}`
    return lies.token?.(token) ?? token
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', issuer)
    requests.push(pathname)
    if (lies.respond?.(pathname, response)) return
    const send = (body: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (pathname === '/.well-known/openid-configuration') {
      send({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        userinfo_endpoint: `${issuer}/userinfo`,
        jwks_uri: `${issuer}/keys`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        ...lies.metadata,
      })
    } else if (pathname === '/keys') {
      send({ keys: [{ ...pair.publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }] })
    } else if (pathname === '/authorize') {
      const code = base64url(createHash('sha256').update(String(searchParams)).digest())
      asked.set(code, Object.fromEntries(searchParams))
      const back = new URL(searchParams.get('redirect_uri') ?? '')
      back.search = new URLSearchParams({ code, state: searchParams.get('state') ?? '' }).toString()
      response.writeHead(303, { location: back.href }).end()
    } else if (pathname === '/token') {
      const form = new URLSearchParams(await readBody(request))
      const about = asked.get(form.get('code') ?? '')
      const challenge = base64url(
        createHash('sha256')
          .update(form.get('code_verifier') ?? '')
          .digest(),
      )
      if (!about || about['code_challenge'] !== challenge) return void send({ error: 'invalid_grant' }, 400)
      asked.delete(form.get('code') ?? '')
      const token = idToken(about)
      tokens.push(token)
      send({ access_token: 'a', token_type: 'bearer', id_token: token })
    } else if (pathname === '/userinfo') {
      send({ sub: 'eve', ...lies.userInfo })
    } else send({}, 404)
  }

  const server = createServer((request, response) => void handle(request, response))
  beforeAll(() => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)))
  beforeEach(() => {
    lies = {}
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return {
    name,
    issuer,
    tell: (next) => {
      lies = next
    },
    tokens,
    requests,
  }
}

function base64url(bytes: string | Buffer): string {
  return Buffer.from(bytes).toString('base64url')
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
