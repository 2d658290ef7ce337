import { randomUUID } from 'node:crypto'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, beforeEach } from 'vitest'

/** The environment in which svc reads the keys of an issuer on this machine. */
export const issuersHere = { OUTBOUND_HTTP: 'true', OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }

/** How an issuer misbehaves, until the next test. */
export interface IssuerLies {
  /** Members that replace those of the discovery document. */
  discovery?: Record<string, unknown>
  /** Replaces the key set. */
  keySet?: unknown
  /** Sends every response itself. */
  respond?: (response: ServerResponse) => void
}

/**
 * A CI that signs identity tokens, and publishes its keys on this machine. Each `/word` below its URL is an issuer of its own.
 */
export interface CiIssuer {
  readonly issuer: string
  /** The paths of the requests so far. */
  readonly requests: string[]
  /** Signs claims for svc at `http://svc.test`. Undefined members are left out. */
  sign: (claims: Record<string, unknown>, options?: SignOptions) => Promise<string>
  tell: (lies: IssuerLies) => void
  /** Signs with another key from now on. Returns its id. */
  rotate: () => Promise<string>
}

export interface SignOptions {
  alg?: 'RS256' | 'ES256' | 'EdDSA' | 'PS256' | 'RS512'
  header?: Record<string, unknown>
  key?: CryptoKey
}

/** A key of an issuer, with the entry of its key set. */
export async function aSigningKey(alg: string, kid = randomUUID()) {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { alg, kid, privateKey, publicKey, entry: { ...(await exportJWK(publicKey)), kid, use: 'sig', alg } }
}

/** Starts a CI for a test file. */
export function useCiIssuer(): CiIssuer {
  const requests: string[] = []
  let keys: Awaited<ReturnType<typeof aSigningKey>>[] = []
  let lies: IssuerLies = {}
  let server: Server
  let issuer = ''

  function handle(path: string, response: ServerResponse): void {
    requests.push(path)
    if (lies.respond) {
      lies.respond(response)
      return
    }
    const [, below = '', document] = /^(\/\w+)?(\/.well-known\/openid-configuration|\/keys)$/.exec(path) ?? []
    const own = issuer + below
    const send = (body: unknown) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (document === '/.well-known/openid-configuration')
      send({ issuer: own, jwks_uri: `${own}/keys`, ...lies.discovery })
    else if (document === '/keys') send(lies.keySet ?? { keys: keys.map(({ entry }) => entry) })
    else response.writeHead(404).end()
  }

  beforeAll(async () => {
    keys = await Promise.all(['RS256', 'ES256', 'EdDSA'].map((alg) => aSigningKey(alg)))
    server = createServer((request, response) => handle(request.url ?? '', response))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  beforeEach(() => {
    lies = {}
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  return {
    get issuer() {
      return issuer
    },
    requests,
    async sign(claims, { alg = 'RS256', header = {}, key } = {}) {
      const now = Math.floor(Date.now() / 1000)
      const own = keys.findLast((one) => one.alg === alg)
      const all = {
        iss: issuer,
        aud: 'http://svc.test',
        sub: 'a job',
        iat: now,
        nbf: now,
        exp: now + 300,
        jti: randomUUID(),
        ...claims,
      }
      const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
      return new SignJWT(given)
        .setProtectedHeader({ alg, ...(own && { kid: own.kid }), ...header })
        .sign(key ?? (own as { privateKey: CryptoKey }).privateKey)
    },
    tell(next) {
      lies = next
    },
    async rotate() {
      const fresh = await aSigningKey('RS256')
      keys = [...keys.filter(({ alg }) => alg !== 'RS256'), fresh]
      return fresh.kid
    },
  }
}
