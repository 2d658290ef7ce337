import { createHmac } from 'node:crypto'
import { exportSPKI } from 'jose'
import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import { deleteRepository, restoreRepository } from '../../src/groups/group-lifecycle.ts'
import { deleteExpiredIdentityTokens } from '../../src/publishers/publisher-tokens.ts'
import { removePublisher } from '../../src/publishers/trusted-publishers.ts'
import { aName, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { aSigningKey, issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { anApplication } from '../support/oauth-actors.ts'
import {
  aTrustedPublisher,
  aTrustedRepository,
  exchangeAt,
  exchangeGrant,
  jobClaims,
  pullWith,
  pushWith,
} from '../support/publisher-actors.ts'
import { ageTokens, countTokens } from '../support/publisher-rows.ts'
import { ask, postForm } from '../support/token-client.ts'

const t = useApp(issuersHere)
const ci = useCiIssuer()
const unnamed = useCiIssuer()

const outcomeOf = ({ statusCode, body }: { statusCode: number; body: string }) => {
  const { error, error_description } = JSON.parse(body) as Record<string, string>
  return { statusCode, error, error_description }
}

describe('POST /oauth2/token with an identity token', () => {
  it('returns a token of the repository for 15 minutes', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci)
    const response = await exchange(await ci.sign(jobClaims))
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'application/json;charset=UTF-8',
      'cache-control': 'no-store',
      pragma: 'no-cache',
    })
    expect(response.json()).toEqual({
      access_token: expect.stringMatching(/^svct_[0-9A-Za-z]{49}$/),
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      token_type: 'bearer',
      expires_in: 900,
      scope: 'registry-package:rw',
    })
    const { access_token } = response.json()
    expect((await pushWith(t, repository, access_token)).statusCode).toBe(201)
    expect((await pullWith(t, repository, access_token, 'p2/acme/lib.json')).statusCode).toBe(200)
    expect((await pullWith(t, repository, access_token)).statusCode).toBe(200)
  })

  it.each(['RS256', 'ES256', 'EdDSA'] as const)('accepts a signature with %s', async (alg) => {
    const { exchange } = await aTrustedRepository(t, ci)
    expect((await exchange(await ci.sign(jobClaims, { alg }))).statusCode).toBe(200)
  })

  it('accepts an array of only its audience, times as texts, and a resource without its last slash', async () => {
    const { exchange, registry } = await aTrustedRepository(t, ci)
    const now = Math.floor(Date.now() / 1000)
    const times = { iat: String(now), nbf: String(now), exp: String(now + 60) }
    const token = await ci.sign({ ...jobClaims, ...times, aud: ['http://svc.test'] })
    const type = 'urn:ietf:params:oauth:token-type:jwt'
    const response = await exchange(token, { resource: registry.slice(0, -1), subject_token_type: type })
    expect(response.statusCode).toBe(200)
  })

  /** Seconds from now, in the time of a token. A function: the tests may begin minutes after they were listed. */
  const inSeconds = (seconds: number) => () => Math.floor(Date.now() / 1000) + seconds

  it.each<[string, Record<string, unknown>, string]>([
    ['another audience', { aud: 'https://other.example.com' }, 'aud'],
    ['a second audience', { aud: ['http://svc.test', 'https://other.example.com'] }, 'aud'],
    ['no audience', { aud: undefined }, 'aud'],
    ['an end more than a minute ago', { exp: inSeconds(-61) }, 'exp'],
    ['no end', { exp: undefined }, 'exp'],
    ['a beginning in the future', { nbf: inSeconds(300) }, 'nbf'],
    ['an issue in the future', { iat: inSeconds(300) }, 'iat'],
    ['a life of more than a day', { exp: inSeconds(86_460) }, 'exp'],
    ['a time that is none', { exp: 'soon' }, 'exp'],
    [
      'another workflow',
      { workflow_ref: 'acme/lib/.github/workflows/x.yml@refs/heads/main' },
      'workflow_ref',
    ],
    [
      'a called workflow from elsewhere',
      { job_workflow_ref: 'evil/x/.github/workflows/x.yml@main' },
      'job_workflow_ref',
    ],
    ['an event from outside', { event_name: 'pull_request_target' }, 'event_name'],
    ['no id of the repository', { repository_id: undefined }, 'repository_id'],
  ])('refuses %s, and names the claim at the publisher too', async (_name, differing, claim) => {
    const { exchange, lastExchange } = await aTrustedRepository(t, ci)
    const given = Object.entries(differing).map(([name, value]) => [
      name,
      typeof value === 'function' ? value() : value,
    ])
    const { statusCode, error, error_description } = outcomeOf(
      await exchange(await ci.sign({ ...jobClaims, ...Object.fromEntries(given) })),
    )
    expect([statusCode, error]).toEqual([400, 'invalid_grant'])
    expect(error_description).toContain(`The claim ${claim} differs: expected`)
    expect(await lastExchange()).toMatchObject({ outcome: 'refused', differs: [{ claim }] })
  })

  it('tells what was expected and what was given', async () => {
    const { exchange } = await aTrustedRepository(t, ci, { environment: 'production' })
    const response = await exchange(await ci.sign({ ...jobClaims, environment: 'test' }))
    expect(response.json().error_description).toBe(
      'The claim environment differs: expected production, given test.',
    )
  })

  it('tells a token of another project nothing, although its branch matches', async () => {
    const { registry } = await aTrustedRepository(t, ci, {
      provider: 'claims',
      project: null,
      workflow: null,
      claims: [
        { name: 'ref', value: 'refs/heads/main' },
        { name: 'repository', value: 'acme/lib' },
      ],
    })
    const foreign = { ...jobClaims, repository: 'evil/lib', ref: 'refs/heads/main' }
    const at = async (resource: string) =>
      outcomeOf(await exchangeAt(t, { subject_token: await ci.sign(foreign), resource }))
    const refused = await at(registry)
    expect(refused.error).toBe('invalid_target')
    expect(refused).toEqual(await at('http://svc.test/no/where/-/packages/'))
  })

  it('gives one text for everything that it must not tell', async () => {
    const { registry } = await aTrustedRepository(t, ci)
    const bare = await aRepository(t.db)
    const elsewhere = await aTrustedRepository(t, ci, { issuer: 'https://gitlab.example.com' })
    const foreign = { ...jobClaims, repository: 'evil/lib' }
    const at = (subject_token: string, resource: string) =>
      exchangeAt(t, { subject_token, resource }).then(outcomeOf)
    const bareRegistry = `http://svc.test/${bare.path}/-/packages/`
    const places = [
      registry,
      bareRegistry,
      elsewhere.registry,
      'http://svc.test/no/where/-/packages/',
      'https://x.test/',
    ]
    const refused = await Promise.all(places.map(async (place) => at(await ci.sign(foreign), place)))
    expect(new Set(refused.map((one) => JSON.stringify(one))).size).toBe(1)
    expect(refused[0]).toMatchObject({ statusCode: 400, error: 'invalid_target' })
    expect(refused[0]?.error_description).toContain('repository=evil/lib')
    expect(refused[0]?.error_description).not.toContain('acme/lib;')
    const other = await at(await unnamed.sign(foreign), registry)
    expect(other.error_description?.replace(unnamed.issuer, ci.issuer)).toBe(refused[0]?.error_description)
    // A signature is checked before anything is compared, in each case alike.
    const { privateKey } = await aSigningKey('RS256')
    for (const claims of [foreign, jobClaims]) {
      const forged = await ci.sign(claims, { key: privateKey })
      const outcomes = await Promise.all(places.map((place) => at(forged, place)))
      expect(new Set(outcomes.map((one) => JSON.stringify(one))).size).toBe(1)
      expect(outcomes[0]).toMatchObject({ error: 'invalid_grant' })
    }
    expect(unnamed.requests).toEqual([])
  })

  it.each<[string, () => Promise<string>]>([
    ['no algorithm', async () => unsigned({ alg: 'none' })],
    [
      'a shared secret that is the public key',
      async () => {
        const { publicKey } = await aSigningKey('RS256')
        const input = unsigned({ alg: 'HS256' }).slice(0, -1)
        const signature = createHmac('sha256', await exportSPKI(publicKey))
          .update(input)
          .digest('base64url')
        return `${input}.${signature}`
      },
    ],
    [
      'RS512',
      async () =>
        ci.sign(jobClaims, {
          alg: 'RS512',
          header: { kid: await kidOf('RS256') },
          ...(await ownKey('RS512')),
        }),
    ],
    [
      'PS256',
      async () =>
        ci.sign(jobClaims, {
          alg: 'PS256',
          header: { kid: await kidOf('RS256') },
          ...(await ownKey('PS256')),
        }),
    ],
    ['no key id', () => ci.sign(jobClaims, { header: { kid: undefined } })],
    ['an unknown key id', () => ci.sign(jobClaims, { header: { kid: 'x' } })],
    [
      'the key id of another algorithm',
      async () => ci.sign(jobClaims, { header: { kid: await kidOf('ES256') } }),
    ],
    [
      'a critical extension',
      async () => unsigned({ alg: 'RS256', crit: ['exp'], kid: await kidOf('RS256') }),
    ],
  ])('refuses %s', async (_name, token) => {
    const { exchange } = await aTrustedRepository(t, ci)
    await exchange(await ci.sign(jobClaims))
    const { statusCode, error } = outcomeOf(await exchange(await token()))
    expect([statusCode, error]).toEqual([400, 'invalid_grant'])
  })

  it.each<[string, Record<string, string>, string]>([
    ['no subject_token', { subject_token: '' }, 'invalid_request'],
    ['a token that is no JWT', { subject_token: 'abc' }, 'invalid_request'],
    ['a JWT whose parts are no objects', { subject_token: 'W10.W10.W10' }, 'invalid_request'],
    ['a token of more than 8 KiB', { subject_token: `e30.${'A'.repeat(8200)}.x` }, 'invalid_request'],
    [
      'another type of token',
      { subject_token_type: 'urn:ietf:params:oauth:token-type:saml2' },
      'invalid_request',
    ],
    ['no resource', { resource: '' }, 'invalid_request'],
    [
      'another type to get',
      { requested_token_type: 'urn:ietf:params:oauth:token-type:jwt' },
      'invalid_request',
    ],
    ['credentials of a client', { client_id: 'x', client_secret: 'y' }, 'invalid_request'],
  ])('refuses %s', async (_name, form, error) => {
    const { exchange } = await aTrustedRepository(t, ci)
    expect(outcomeOf(await exchange(await ci.sign(jobClaims), form))).toMatchObject({
      statusCode: 400,
      error,
    })
  })

  it('lets only one of twenty racing exchanges of one token succeed', async () => {
    const { exchange, repository, lastExchange } = await aTrustedRepository(t, ci)
    const token = await ci.sign(jobClaims)
    const responses = await Promise.all(Array.from({ length: 20 }, () => exchange(token)))
    const statuses = responses.map(({ statusCode }) => statusCode)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => status === 400)).toHaveLength(19)
    expect(await countTokens(t.db, repository)).toBe(1)
    // The others have waited for the one that succeeds.
    expect(await lastExchange()).toMatchObject({ outcome: 'refused', differs: [{ claim: 'jti' }] })
  })

  it('notes a token that was exchanged before at its publisher', async () => {
    const { exchange, lastExchange } = await aTrustedRepository(t, ci)
    const token = await ci.sign({ ...jobClaims, jti: 'a7' })
    await exchange(token)
    const run = { project: 'acme/lib', commit: 'c0ffee' }
    expect(await lastExchange()).toMatchObject({ outcome: 'issued', differs: [], run })
    expect(outcomeOf(await exchange(token))).toEqual({
      statusCode: 400,
      error: 'invalid_grant',
      error_description:
        'The claim jti differs: expected a token that was not exchanged before, given a7. Each token is exchanged once: request a new one from the CI.',
    })
    const differs = [{ claim: 'jti', expected: 'a token that was not exchanged before', given: 'a7' }]
    expect(await lastExchange()).toMatchObject({ outcome: 'refused', differs, run })
  })

  it('notes nothing of a token that it cannot verify, because anybody can write one', async () => {
    const silent = `${ci.issuer}/unreadable`
    const { exchange, lastExchange } = await aTrustedRepository(t, ci)
    await exchange(await ci.sign(jobClaims))
    const before = await lastExchange()
    const { privateKey } = await aSigningKey('RS256')
    const unverified = [
      await ci.sign(jobClaims, { key: privateKey }),
      await ci.sign(jobClaims, { header: { kid: undefined } }),
      await ci.sign(jobClaims, { header: { kid: 'x' } }),
      unsigned({ alg: 'none', kid: await kidOf('RS256') }),
    ]
    for (const token of unverified) expect((await exchange(token)).statusCode).toBe(400)
    expect(await lastExchange()).toEqual(before)
    const unread = await aTrustedRepository(t, ci, { issuer: silent })
    ci.tell({ respond: (response) => void response.writeHead(500).end() })
    expect((await unread.exchange(await ci.sign({ ...jobClaims, iss: silent }))).statusCode).toBe(400)
    expect(await unread.lastExchange()).toBeNull()
  })

  it('remembers a token as long as it is accepted, with the leeway of its end', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const token = await ci.sign({ ...jobClaims, exp: Math.floor(Date.now() / 1000) - 20 })
    expect((await exchange(token)).statusCode).toBe(200)
    await deleteExpiredIdentityTokens(t.db, 1000)
    expect((await exchange(token)).json().error_description).toContain('The claim jti differs')
  })

  it('remembers a token without an id by its bytes', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const token = await ci.sign({ ...jobClaims, jti: undefined })
    expect((await exchange(token)).statusCode).toBe(200)
    expect(outcomeOf(await exchange(token))).toMatchObject({ error: 'invalid_grant' })
  })

  it('pins the ids of one of racing first projects, and refuses others later', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const ids = Array.from({ length: 10 }, (_, i) => String(i))
    const responses = await Promise.all(
      ids.map(async (repository_id) => exchange(await ci.sign({ ...jobClaims, repository_id }))),
    )
    const accepted = responses.flatMap(({ statusCode }, i) => (statusCode === 200 ? [i] : []))
    expect(accepted).toHaveLength(1)
    const later = await exchange(await ci.sign({ ...jobClaims, repository_id: '99' }))
    expect(later.json()).toEqual({
      error: 'invalid_grant',
      error_description: `The claim repository_id differs: expected ${accepted[0]}, given 99.`,
    })
    expect((await exchange(await ci.sign({ ...jobClaims, repository_id: accepted[0] }))).statusCode).toBe(200)
  })

  it('counts each right for the patterns of its own publisher', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci, { packages: ['acme/lib'] })
    await aTrustedPublisher(t, ci, repository, { right: 'read', packages: ['acme/*'] })
    const { access_token, scope } = (await exchange(await ci.sign(jobClaims))).json()
    expect(scope).toBe('registry-package:rw')
    expect((await pushWith(t, repository, access_token)).statusCode).toBe(201)
    const refused = await pushWith(t, repository, access_token, { name: 'acme/other' })
    expect([refused.statusCode, refused.json().errmsg]).toEqual([403, 'not authorized'])
    expect((await pullWith(t, repository, access_token, 'p2/acme/none.json')).statusCode).toBe(404)
    expect((await pullWith(t, repository, access_token, 'p2/other/lib.json')).statusCode).toBe(403)
    const feed = (name: string) =>
      t.app.inject({
        url: `/${repository.path}/packages/${name}/-/feed.atom`,
        headers: { authorization: `Bearer ${access_token}` },
      })
    expect((await feed('acme/lib')).statusCode).toBe(200)
    expect((await feed('other/lib')).statusCode).toBe(403)
  })

  it('gives a token to read that uploads nothing, also for a pull request', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci, { right: 'read' })
    const response = await exchange(await ci.sign({ ...jobClaims, event_name: 'pull_request' }))
    expect(response.json().scope).toBe('registry-package:r')
    const { access_token } = response.json()
    expect((await pullWith(t, repository, access_token)).statusCode).toBe(200)
    expect((await pushWith(t, repository, access_token)).statusCode).toBe(403)
    const other = await aRepository(t.db, { group: await repositoryGroup(repository) })
    expect((await pullWith(t, other, access_token)).statusCode).toBe(404)
  })

  it('gives a token to stage that uploads nothing by itself', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci, {
      right: 'stage',
      packages: ['acme/lib'],
    })
    const { access_token } = (await exchange(await ci.sign(jobClaims))).json()
    expect((await pushWith(t, repository, access_token)).statusCode).toBe(403)
    const stage = (name: string) => pushWith(t, repository, access_token, { name, to: 'stage' })
    expect((await stage('acme/lib')).statusCode).toBe(202)
    expect((await stage('acme/other')).statusCode).toBe(403)
  })

  it('gives a token that only uploads and installs', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci)
    const { access_token } = (await exchange(await ci.sign(jobClaims))).json()
    await pushWith(t, repository, access_token)
    const call = (method: 'GET' | 'PATCH', url: string) =>
      t.app.inject({ method, url, payload: {}, headers: { authorization: `Bearer ${access_token}` } })
    expect((await call('GET', `/api/repositories/${repository.path}/packages/acme/lib`)).statusCode).toBe(200)
    for (const [method, url] of [
      ['PATCH', `/api/repositories/${repository.path}/packages/acme/lib`],
      ['GET', '/api/user'],
      ['GET', `/api/repositories/${repository.path}/members`],
    ] as const)
      expect([url, (await call(method, url)).statusCode]).toEqual([url, 403])
  })

  it('ends a token with its publisher, with its repository, and after 15 minutes', async () => {
    const ends: ((one: { id: string; repository: { id: string; path: string } }) => Promise<unknown>)[] = [
      ({ id }) => removePublisher(t.db, operator, { id, repositoryId: null }),
      ({ repository }) => deleteRepository(t.db, operator, repository),
      ({ repository }) => ageTokens(t.db, repository, 900),
    ]
    for (const end of ends) {
      const one = await aTrustedRepository(t, ci)
      const { access_token } = (await one.exchange(await ci.sign(jobClaims))).json()
      expect((await pullWith(t, one.repository, access_token)).statusCode).toBe(200)
      await end(one)
      expect((await pullWith(t, one.repository, access_token)).statusCode).toBe(401)
      expect((await pushWith(t, one.repository, access_token)).statusCode).toBe(401)
    }
  })

  it('ends a token with its repository for good, also one whose exchange races with the deletion', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci)
    const [, name = ''] = repository.path.split('/')
    const group = await repositoryGroup(repository)
    const { access_token } = (await exchange(await ci.sign(jobClaims))).json()
    const tokens = await Promise.all(Array.from({ length: 5 }, () => ci.sign(jobClaims)))
    const [, ...raced] = await Promise.all([
      deleteRepository(t.db, operator, repository),
      ...tokens.map((token) => exchange(token)),
    ])
    for (const response of raced) expect([200, 400]).toContain(response.statusCode)
    expect(await countTokens(t.db, repository)).toBe(0)
    await restoreRepository(t.db, operator, group, name)
    for (const token of [access_token, ...raced.map((response) => response.json().access_token ?? 'svct_x')])
      expect((await pullWith(t, repository, token)).statusCode).toBe(401)
    expect((await exchange(await ci.sign(jobClaims))).statusCode).toBe(200)
  })

  it('reads the keys of an issuer once, and again for a new key at most once a minute', async () => {
    const { exchange } = await aTrustedRepository(t, unnamed)
    unnamed.requests.length = 0
    const tokens = await Promise.all(Array.from({ length: 5 }, () => unnamed.sign(jobClaims)))
    const responses = await Promise.all(tokens.map((token) => exchange(token)))
    expect(responses.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200, 200])
    expect(unnamed.requests).toEqual(['/.well-known/openid-configuration', '/keys'])
    await unnamed.rotate()
    expect((await exchange(await unnamed.sign(jobClaims))).statusCode).toBe(200)
    for (const kid of ['x', 'y']) await exchange(await unnamed.sign(jobClaims, { header: { kid } }))
    expect(unnamed.requests).toHaveLength(4)
  })
})

describe('an issuer that lies', () => {
  const lying = useCiIssuer()

  it.each<[string, Parameters<typeof lying.tell>[0]]>([
    ['names another issuer', { discovery: { issuer: 'https://other.example.com' } }],
    ['has a slash after its issuer', { discovery: { issuer: 'http://127.0.0.1/' } }],
    ['has its keys at a private host', { discovery: { jwks_uri: 'http://127.0.0.2/keys' } }],
    ['has no URL of keys', { discovery: { jwks_uri: 7 } }],
    ['sends no key set', { keySet: [] }],
    ['sends other keys', { keySet: { keys: [{ kid: 'other', kty: 'RSA', n: 'AQAB', e: 'AQAB' }, null, 7] } }],
    ['fails', { respond: (response) => void response.writeHead(500).end('secret of the host') }],
    ['redirects', { respond: (response) => void response.writeHead(302, { location: '/' }).end() }],
    ['sends too much', { respond: (response) => void response.writeHead(200).end('x'.repeat(70_000)) }],
    ['closes the connection', { respond: (response) => void response.destroy() }],
  ])('that %s gets no token accepted', async (_name, lies) => {
    // svc remembers what it has read from an issuer, and its failures.
    const issuer = `${lying.issuer}/${aName('ci').replace('-', '')}`
    const { exchange } = await aTrustedRepository(t, lying, { issuer })
    const { exchange: exchangeOfHonest } = await aTrustedRepository(t, lying, { issuer: `${issuer}2` })
    expect((await exchangeOfHonest(await lying.sign({ ...jobClaims, iss: `${issuer}2` }))).statusCode).toBe(
      200,
    )
    lying.tell(lies)
    const { statusCode, error, error_description } = outcomeOf(
      await exchange(await lying.sign({ ...jobClaims, iss: issuer })),
    )
    expect([statusCode, error]).toEqual([400, 'invalid_grant'])
    expect(error_description).not.toContain('secret')
  })
})

describe('GET /oauth2/audience', () => {
  it('names the audience of identity tokens', async () => {
    const response = await t.app.inject('/oauth2/audience')
    expect([response.statusCode, response.json()]).toEqual([200, { audience: 'http://svc.test' }])
  })
})

describe('POST /access/api/v1/oidc/token', () => {
  const post = (payload: object) =>
    t.app.inject({ method: 'POST', url: '/access/api/v1/oidc/token', payload })
  const form = (repository: { path: string }, subject_token: string) => ({
    grant_type: exchangeGrant,
    subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
    subject_token,
    provider_name: repository.path,
  })

  it('returns a token that reads, whatever the publisher may do', async () => {
    const { repository } = await aTrustedRepository(t, ci)
    const response = await post(form(repository, await ci.sign(jobClaims)))
    expect([response.statusCode, response.json()]).toEqual([
      200,
      { access_token: expect.stringMatching(/^svct_/), expires_in: 900 },
    ])
    const { access_token } = response.json()
    expect((await pullWith(t, repository, access_token)).statusCode).toBe(200)
    expect((await pushWith(t, repository, access_token)).statusCode).toBe(403)
  })

  it('refuses the same as the token endpoint', async () => {
    const { repository } = await aTrustedRepository(t, ci)
    const token = await ci.sign({ ...jobClaims, repository: 'evil/lib' })
    expect((await post(form(repository, token))).json().error).toBe('invalid_target')
    expect((await post({ ...form(repository, token), grant_type: 'x' })).json().error).toBe(
      'unsupported_grant_type',
    )
    expect((await post([])).json().error).toBe('invalid_request')
    expect((await t.app.inject('/access/api/v1/oidc/token')).statusCode).toBe(405)
  })
})

describe('POST /oauth2/revoke with a token of a trusted publisher', () => {
  it('revokes it for its holder, without credentials of a client', async () => {
    const { exchange, repository } = await aTrustedRepository(t, ci)
    const { access_token } = (await exchange(await ci.sign(jobClaims))).json()
    const revoke = (token: string, headers = {}) => postForm(t, '/oauth2/revoke', `token=${token}`, headers)
    const response = await revoke(access_token)
    expect([response.statusCode, response.body]).toEqual([200, '{}'])
    expect((await pullWith(t, repository, access_token)).statusCode).toBe(401)
    expect((await revoke(makeSecret('publisher'))).statusCode).toBe(200)
    for (const token of ['svct_x', makeSecret('access'), makeSecret('personal')])
      expect((await revoke(token)).statusCode).toBe(401)
    const { basic } = await anApplication(t.db, { secretHash: hashSecret(makeSecret('client')) })
    expect((await revoke(makeSecret('publisher'), { authorization: basic })).statusCode).toBe(401)
    expect(
      (await postForm(t, '/oauth2/revoke', `token=${makeSecret('publisher')}&client_id=x`)).statusCode,
    ).toBe(401)
  })

  it('is not shown to other servers', async () => {
    const { exchange } = await aTrustedRepository(t, ci)
    const { access_token } = (await exchange(await ci.sign(jobClaims))).json()
    const server = await anApplication(t.db, { isResourceServer: true })
    expect((await ask(t, server, 'introspect', { token: access_token })).json()).toEqual({ active: false })
  })
})

const ownKey = async (alg: string) => ({ key: (await aSigningKey(alg)).privateKey })

async function kidOf(alg: 'RS256' | 'ES256'): Promise<string> {
  const [header = ''] = (await ci.sign({}, { alg })).split('.')
  return (JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string }).kid
}

function unsigned(header: object): string {
  const now = Math.floor(Date.now() / 1000)
  const claims = { ...jobClaims, iss: ci.issuer, aud: 'http://svc.test', iat: now, exp: now + 300 }
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ kid: 'x', ...header })}.${part(claims)}.`
}

async function repositoryGroup(repository: { path: string }) {
  const name = repository.path.split('/')[0] ?? ''
  const { rows } = await t.db.query<{ id: string; name: string }>(
    'select id, name from repository_group where name = $1',
    [name],
  )
  return rows[0] as { id: string; name: string }
}
