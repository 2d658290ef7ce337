import { constants, createHmac, KeyObject, randomUUID, sign as signBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { exportSPKI } from 'jose'
import { describe, expect, it } from 'vitest'
import { endFailureWindows, setFailures } from '../support/account-rows.ts'
import { callApi } from '../support/api-actors.ts'
import { boundsWithin, patientBounds, useApp } from '../support/app.ts'
import { aSigningKey, issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import {
  aTrustedRepository,
  exchangeAt,
  exchangeGrant,
  jobClaims,
  pushWith,
} from '../support/publisher-actors.ts'
import { aPublisher } from '../support/registry-actors.ts'

const t = useApp(issuersHere)
const ci = useCiIssuer()
const evil = useCiIssuer()

/** The last bits of a signature in base64url mean nothing: returns the same token in other bytes. */
function inOtherBytes(token: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = alphabet.indexOf(token.at(-1) ?? '')
  return token.slice(0, -1) + alphabet[last ^ 1]
}

describe('an attacker', () => {
  it('cannot exchange a token without an id again in other bytes', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const token = await ci.sign({ ...jobClaims, jti: undefined })
    expect((await exchange(token)).statusCode).toBe(200)
    const again = await exchange(inOtherBytes(token))
    expect(again.json()).toMatchObject({ error: 'invalid_grant' })
  })

  it.each([
    ['iss', 'http://a\0b'],
    ['iss', 'http://a\ud800'],
    ['ref', 'refs/heads/a\0b'],
    ['sha', 'a\ud800'],
    ['ref', `${'a'.repeat(499)}😀`],
    ['workflow_ref', 'acme/lib/.github/workflows/release.yml@refs/heads/a\0b'],
    ['environment', '\0'],
    ['event_name', 'x\ud800'],
    ['jti', '\0\ud800'],
    ['repository_id', '1\0'],
    ['repository_owner_id', '\ud800'],
    ['run_id', '\0'],
    ['exp', 1e300],
    ['exp', -1],
    ['iat', -1e300],
    ['aud', { a: '\0' }],
  ])('causes no error of the server with %s=%j', async (claim, value) => {
    const { exchange } = await aTrustedRepository(t, ci, { environment: 'test' })
    const environment = claim === 'environment' ? value : 'test'
    const response = await exchange(await ci.sign({ ...jobClaims, environment, [claim]: value }))
    expect([200, 400]).toContain(response.statusCode)
    const refused = await exchange(await ci.sign({ ...jobClaims, environment: 'x', [claim]: value }))
    expect(refused.statusCode).toBe(400)
  })

  it('cannot use a file whose name begins with that of the workflow', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const workflow_ref = 'acme/lib/.github/workflows/release.yml@evil.yml@refs/heads/main'
    const response = await exchange(await ci.sign({ ...jobClaims, workflow_ref }))
    expect(response.json()).toMatchObject({
      error_description: expect.stringContaining('The claim workflow_ref differs'),
    })
  })

  it('learns nothing of stages of packages that the publisher is not for', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci, {
      right: 'stage',
      packages: ['acme/lib', 'acme/a_*'],
    })
    const developer = await aPublisher(t, { repository })
    const stage = async (name: string) => (await developer.stage('1.0.0', { name })).json().id as string
    const other = await stage('acme/other')
    const similar = await stage('acme/abc')
    const own = await stage('acme/a_c')
    const { access_token } = (await exchange(await ci.sign(jobClaims))).json()
    const staged = (await pushWith(t, repository, access_token, { to: 'stage' })).json().id as string
    const url = `/api/repositories/${repository.path}/stages`
    const listed = (await callApi(t, access_token, 'GET', url)).json() as { id: string }[]
    expect(listed.map(({ id }) => id)).toEqual([staged, own])
    for (const id of [other, similar]) {
      expect((await callApi(t, access_token, 'GET', `${url}/${id}?wait=1`)).statusCode).toBe(404)
    }
    expect((await callApi(t, access_token, 'GET', `${url}/${staged}`)).json()).toMatchObject({ id: staged })
  })

  it('learns nothing of the documents of an issuer on a private host', async () => {
    ci.tell({ discovery: { jwks_uri: 'http://10.11.12.13/secret' } })
    const { exchange } = await aTrustedRepository(t, ci, { issuer: `${ci.issuer}/leaks` })
    const response = await exchange(await ci.sign({ ...jobClaims, iss: `${ci.issuer}/leaks` }))
    expect(response.json()).toMatchObject({ error: 'invalid_grant' })
    expect(response.body).not.toContain('10.11.12.13')
    expect(response.body).toContain('OUTBOUND_PRIVATE_HOSTS')
  })

  it('does not make svc ask an issuer that fails more than once a minute', async () => {
    const issuer = `${ci.issuer}/fails`
    const { exchange } = await aTrustedRepository(t, ci, { issuer })
    ci.tell({ respond: (response) => void response.writeHead(500).end() })
    const token = await ci.sign({ ...jobClaims, iss: issuer })
    for (let i = 0; i < 3; i += 1)
      expect((await exchange(token)).json()).toMatchObject({ error: 'invalid_grant' })
    expect(ci.requests.filter((path) => path.startsWith('/fails'))).toHaveLength(1)
  })

  it('cannot exchange a token of a resource with characters that no name has', async () => {
    const token = await ci.sign(jobClaims)
    for (const resource of [
      'http://svc.test/a%00/b/-/packages/',
      'http://svc.test/../../-/packages/',
      'http://svc.test/a\ud800/b/-/packages/',
    ]) {
      const response = await exchangeAt(t, { subject_token: token, resource })
      expect(response.statusCode).toBe(400)
    }
  })
})

describe('a signature that is right, but not accepted', () => {
  // To make a key takes longer than a test.
  const pair = aSigningKey('RS256')
  type Sign = (input: Buffer, keys: Awaited<ReturnType<typeof aSigningKey>>) => Promise<Buffer> | Buffer
  const rsa =
    (digest: string, padding: number = constants.RSA_PKCS1_PADDING): Sign =>
    (input, { privateKey }) =>
      signBytes(digest, input, { key: KeyObject.from(privateKey), padding })

  it.each<[string, Record<string, unknown>, Sign, number]>([
    ['RS256, which is accepted', { alg: 'RS256' }, rsa('sha256'), 200],
    ['RS512', { alg: 'RS512' }, rsa('sha512'), 400],
    ['PS256', { alg: 'PS256' }, rsa('sha256', constants.RSA_PKCS1_PSS_PADDING), 400],
    ['none', { alg: 'none' }, () => Buffer.alloc(0), 400],
    [
      'HS256 with the public key as the secret',
      { alg: 'HS256' },
      async (input, { publicKey }) =>
        createHmac('sha256', await exportSPKI(publicKey))
          .update(input)
          .digest(),
      400,
    ],
    ['RS256 with a critical extension', { alg: 'RS256', crit: ['exp'], exp: 1 }, rsa('sha256'), 400],
  ])('is one of %s', async (_name, header, sign, status) => {
    const keys = { ...(await pair), kid: randomUUID() }
    // The key says nothing about the algorithm, so only svc does.
    const { alg: _, ...entry } = { ...keys.entry, kid: keys.kid }
    const issuer = `${ci.issuer}/${keys.kid.replaceAll('-', '')}`
    ci.tell({ keySet: { keys: [entry] } })
    const { exchange } = await aTrustedRepository(t, ci, { issuer })
    const input = signingInput({ kid: keys.kid, ...header }, issuer)
    const signature = await sign(Buffer.from(input), keys)
    const response = await exchange(`${input}.${signature.toString('base64url')}`)
    expect(response.statusCode).toBe(status)
    if (status === 400)
      expect(response.json().error_description).toMatch(/^The signature of the token is not accepted/)
  })

  it.each(['jwk', 'jku', 'x5c', 'x5u'])('is one of a key that the token brings as %s', async (name) => {
    const { exchange } = await aTrustedRepository(t, ci)
    const own = await pair
    const { publicKey } = own
    const [header = ''] = (await ci.sign({})).split('.')
    const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string }
    const pem = (await exportSPKI(publicKey)).replaceAll(/-.*-|\n/g, '')
    const url = `${evil.issuer}/keys`
    const brought = { jwk: { ...own.entry, kid }, jku: url, x5c: [pem], x5u: url }[name]
    const token = await ci.sign(jobClaims, { key: own.privateKey, header: { kid, [name]: brought } })
    expect((await exchange(token)).json()).toMatchObject({
      error: 'invalid_grant',
      error_description: 'The signature of the token is wrong.',
    })
    expect(evil.requests).toEqual([])
  })
})

describe('a network', () => {
  it('gets 429 after 120 refused exchanges in a minute, and others do not', async () => {
    const { registry, exchange } = await aTrustedRepository(t, ci)
    const refused = (remoteAddress: string) =>
      t.app.inject({
        method: 'POST',
        url: '/oauth2/token',
        remoteAddress,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        payload: new URLSearchParams({
          grant_type: exchangeGrant,
          subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
          subject_token: 'no token',
          resource: registry,
        }).toString(),
      })
    expect((await refused('203.0.113.7')).statusCode).toBe(400)
    await setFailures(t.db, 119)
    expect((await refused('203.0.113.7')).statusCode).toBe(400)
    expect((await refused('203.0.113.7')).statusCode).toBe(429)
    const { statusCode, headers } = await refused('203.0.113.7')
    expect(statusCode).toBe(429)
    expect(Number(headers['retry-after'])).toBeGreaterThan(0)
    expect((await refused('203.0.113.8')).statusCode).toBe(400)
    expect((await exchange(await ci.sign(jobClaims))).statusCode).toBe(200)
    await endFailureWindows(t.db)
  })
})

describe('an issuer that does not answer', () => {
  const patient = useApp(issuersHere, patientBounds)
  const hasty = useApp(issuersHere, boundsWithin(300))

  it('is asked once for all its tokens, and delays no other exchange', async () => {
    const issuer = `${ci.issuer}/silent`
    const { exchange } = await aTrustedRepository(patient, ci, { issuer })
    const other = await aTrustedRepository(patient, ci)
    expect((await other.exchange(await ci.sign(jobClaims))).statusCode).toBe(200)
    const silent: ServerResponse[] = []
    ci.tell({ respond: (response) => void silent.push(response) })
    let answered = 0
    const waiting = Array.from({ length: 20 }, async () => {
      const response = await exchange(await ci.sign({ ...jobClaims, iss: issuer }))
      answered += 1
      return response
    })
    await expect.poll(() => silent.length).toBe(1)
    for (let i = 0; i < 5; i += 1)
      expect((await other.exchange(await ci.sign(jobClaims))).statusCode).toBe(200)
    expect(answered).toBe(0)
    silent[0]?.writeHead(500).end()
    for (const response of await Promise.all(waiting))
      expect(response.json()).toMatchObject({
        error: 'invalid_grant',
        error_description: expect.stringContaining('cannot be read at the moment'),
      })
    expect(ci.requests.filter((path) => path.startsWith('/silent'))).toHaveLength(1)
  })

  it('is given up', async () => {
    const issuer = `${ci.issuer}/quiet`
    const { exchange } = await aTrustedRepository(hasty, ci, { issuer })
    ci.tell({ respond: () => undefined })
    const response = await exchange(await ci.sign({ ...jobClaims, iss: issuer }))
    expect(response.json()).toMatchObject({
      error: 'invalid_grant',
      error_description: expect.stringContaining('cannot be read at the moment'),
    })
  })
})

function signingInput(header: object, iss: string): string {
  const now = Math.floor(Date.now() / 1000)
  const claims = { ...jobClaims, iss, aud: 'http://svc.test', iat: now, exp: now + 300 }
  return [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
}
