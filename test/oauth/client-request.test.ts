import { describe, expect, it } from 'vitest'
import { hashSecret, makeClientId, makeSecret } from '../../src/domain/secrets.ts'
import { rotateClientSecret, setApplicationStatus } from '../../src/oauth/applications.ts'
import { endFailureWindows, forgetFailures } from '../support/account-rows.ts'
import { useApp } from '../support/app.ts'
import { anApplication, basicOf } from '../support/oauth-actors.ts'
import { ageClientSecrets } from '../support/oauth-rows.ts'
import { countRows } from '../support/rows.ts'
import { anAuthorizedApplication, postForm } from '../support/token-client.ts'

/** Percent-encodes every character, as RFC 6749 §2.3.1 allows. */
const encodeAll = (text: string) => text.replace(/./g, (c) => `%${c.charCodeAt(0).toString(16)}`)

describe('client authentication', () => {
  const t = useApp()
  const revoke = (headers: Record<string, string>, body = 'token=x', url = '/oauth2/revoke') =>
    postForm(t, url, body, headers)

  it.each([
    ['raw (OAUTH 69)', (s: string) => s, (id: string, secret: string) => basicOf(id, secret)],
    ['percent-encoded throughout (OAUTH 68)', encodeAll, (id: string, secret: string) => basicOf(id, secret)],
    ['percent-encoded underscores (OAUTH 68)', (s: string) => s.replace('_', '%5F'), basicOf],
    [
      'scheme in lower case (OAUTH 70)',
      (s: string) => s,
      (id: string, s: string) => basicOf(id, s).replace('B', 'b'),
    ],
    [
      'scheme in upper case (OAUTH 70)',
      (s: string) => s,
      (id: string, s: string) => basicOf(id, s).replace('Basic', 'BASIC'),
    ],
    ['more than one space', (s: string) => s, (id: string, s: string) => basicOf(id, s).replace(' ', '   ')],
    [
      'base64 without padding',
      (s: string) => s,
      (id: string, s: string) => basicOf(id, s).replace(/=+$/, ''),
    ],
  ])('accepts HTTP Basic: %s', async (_what, encode, basic) => {
    const { clientId, clientSecret } = await anApplication(t.db)
    const response = await revoke({ authorization: basic(encode(clientId), encode(clientSecret)) })
    expect(response.statusCode).toBe(200)
  })

  it('splits at the first colon only, and decodes each part: a secret may contain any character (OAUTH 68, 71)', async () => {
    const secret = 'a:b+c d%e:é'
    const { clientId } = await anApplication(t.db, { secretHash: hashSecret(secret) })
    const encoded = encodeURIComponent(secret).replaceAll('%20', '+')
    expect((await revoke({ authorization: basicOf(clientId, encoded) })).statusCode).toBe(200)
    expect((await revoke({ authorization: basicOf(clientId, 'a:b') })).statusCode).toBe(401)
    const plain = await anApplication(t.db, { secretHash: hashSecret('with:colon') })
    expect((await revoke({ authorization: basicOf(plain.clientId, 'with:colon') })).statusCode).toBe(200)
  })

  it.each([
    ['no base64', 'Basic !!!'],
    ['nothing', 'Basic'],
    ['nothing after a space', 'Basic '],
    ['no colon', `Basic ${Buffer.from('abc').toString('base64')}`],
    ['an empty id', basicOf('', 'secret')],
    ['an empty secret', basicOf('someclient', '')],
    ['only a colon', basicOf('', '')],
    ['broken percent-encoding', basicOf('someclient', '%zz')],
    ['a NUL', basicOf('someclient', 'a\0b')],
    ['bytes that are no UTF-8', `Basic ${Buffer.from([0xff, 0x3a, 0xfe]).toString('base64')}`],
    ['another scheme', 'Bearer abc'],
    ['an empty header', ''],
  ])('refuses HTTP Basic with %s (OAUTH 72)', async (_what, authorization) => {
    const response = await revoke({ authorization })
    expect(response.statusCode).toBe(401)
    expect(response.headers['www-authenticate']).toBe('Basic realm="oauth"')
    expect(response.json().error).toBe('invalid_client')
  })

  it('returns the same error for every failure (OAUTH 73, 74, 75, 80, 81, 122)', async () => {
    const { clientId } = await anApplication(t.db)
    const suspended = await anApplication(t.db)
    await setApplicationStatus(t.db, suspended.clientId, 'suspended')
    const pending = await anApplication(t.db, { status: 'pending' })
    const wrong = makeSecret('client')
    const attempts = [
      revoke({ authorization: basicOf(clientId, wrong) }),
      revoke({ authorization: basicOf(clientId, 'x') }),
      revoke({ authorization: basicOf(makeClientId(), wrong) }),
      revoke({ authorization: basicOf('…'.repeat(1000), wrong) }),
      revoke({ authorization: suspended.basic }),
      revoke({ authorization: pending.basic }),
      revoke({}, `token=x&client_id=${clientId}&client_secret=${wrong}`),
      revoke({}, `token=x&client_id=${clientId}`),
      revoke({}, `token=x&client_secret=${wrong}`),
      revoke({}),
      revoke({}, 'grant_type=authorization_code&code=x', '/oauth2/token'),
      revoke({}, 'token=x', '/oauth2/introspect'),
      revoke({ authorization: suspended.basic }, 'grant_type=refresh_token&refresh_token=x', '/oauth2/token'),
      revoke({ authorization: suspended.basic }, 'grant_type=authorization_code&code=x', '/oauth2/token'),
      revoke({ authorization: suspended.basic }, 'token=x', '/oauth2/introspect'),
    ]
    for (const response of await Promise.all(attempts)) {
      expect(response.statusCode).toBe(401)
      expect(response.headers).toMatchObject({
        'content-type': 'application/json;charset=UTF-8',
        'cache-control': 'no-store',
        pragma: 'no-cache',
        'www-authenticate': 'Basic realm="oauth"',
      })
      expect(response.json()).toEqual({
        error: 'invalid_client',
        error_description: 'Client authentication failed.',
      })
    }
  })

  it('rejects the secret of another application', async () => {
    const one = await anApplication(t.db)
    const other = await anApplication(t.db)
    expect((await revoke({ authorization: basicOf(one.clientId, other.clientSecret) })).statusCode).toBe(401)
  })

  it('accepts credentials in the body at every endpoint (OAUTH 76, 123)', async () => {
    const { application, newCode } = await anAuthorizedApplication(t)
    const credentials = `client_id=${application.clientId}&client_secret=${application.clientSecret}`
    const exchange = `grant_type=authorization_code&code=${await newCode()}`
    expect((await revoke({}, `${exchange}&${credentials}`, '/oauth2/token')).statusCode).toBe(200)
    expect((await revoke({}, `token=x&${credentials}`)).statusCode).toBe(200)
    expect((await revoke({}, `token=x&${credentials}`, '/oauth2/introspect')).statusCode).toBe(200)
  })

  it('refuses two ways at once (OAUTH 77)', async () => {
    const { basic, clientId, clientSecret } = await anApplication(t.db)
    const response = await revoke(
      { authorization: basic },
      `token=x&client_id=${clientId}&client_secret=${clientSecret}`,
    )
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_request')
  })

  it('accepts a client_id together with HTTP Basic when it is the same (OAUTH 78)', async () => {
    const { basic, clientId } = await anApplication(t.db)
    expect((await revoke({ authorization: basic }, `token=x&client_id=${clientId}`)).statusCode).toBe(200)
    const response = await revoke({ authorization: basic }, 'token=x&client_id=another')
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_request')
  })

  it('ignores credentials in the query (OAUTH 79)', async () => {
    const { clientId, clientSecret } = await anApplication(t.db)
    const query = `client_id=${clientId}&client_secret=${clientSecret}`
    expect((await revoke({}, 'token=x', `/oauth2/revoke?${query}`)).statusCode).toBe(401)
  })

  it('consumes nothing when it fails: the same code works in the next attempt (OAUTH 82)', async () => {
    const { application, exchange, refresh, newCode } = await anAuthorizedApplication(t)
    const code = await newCode()
    const wrong = { authorization: basicOf(application.clientId, 'wrong') }
    const failed = await revoke(wrong, `grant_type=authorization_code&code=${code}`, '/oauth2/token')
    expect(failed.statusCode).toBe(401)
    const pair = await exchange(code)
    expect(pair.statusCode).toBe(200)
    const token = pair.json().refresh_token
    expect(
      (await revoke(wrong, `grant_type=refresh_token&refresh_token=${token}`, '/oauth2/token')).statusCode,
    ).toBe(401)
    expect((await revoke(wrong, `token=${token}`)).statusCode).toBe(401)
    expect((await refresh(token)).json().expires_in).toBe(28_800)
  })

  it('accepts the old and the new secret while a rotation overlaps, then only the new one', async () => {
    const { id, clientId, basic } = await anApplication(t.db)
    const next = makeSecret('client')
    await rotateClientSecret(t.db, clientId, hashSecret(next), 3600)
    expect((await revoke({ authorization: basic })).statusCode).toBe(200)
    expect((await revoke({ authorization: basicOf(clientId, next) })).statusCode).toBe(200)
    await ageClientSecrets(t.db, { id })
    expect((await revoke({ authorization: basic })).statusCode).toBe(401)
    expect((await revoke({ authorization: basicOf(clientId, next) })).statusCode).toBe(200)
  })
})

describe('many failed client authentications', () => {
  const t = useApp({ TRUST_PROXY: 'true' })
  const revoke = (authorization: string, ip: string) =>
    postForm(t, '/oauth2/revoke', 'token=x', { authorization, 'x-forwarded-for': ip })
  const fail = (clientId: string, ip: string, times: number) =>
    Promise.all(Array.from({ length: times }, () => revoke(basicOf(clientId, 'wrong'), ip)))

  it('get 429 for that client from that IP, while a right secret works (OAUTH 83)', async () => {
    const { clientId, basic } = await anApplication(t.db)
    const other = await anApplication(t.db)
    const responses = await fail(clientId, '192.0.2.1', 40)
    expect(responses.filter(({ statusCode }) => statusCode === 401)).toHaveLength(30)
    const blocked = await revoke(basicOf(clientId, 'wrong'), '192.0.2.1')
    expect(blocked.statusCode).toBe(429)
    expect(Number(blocked.headers['retry-after'])).toBeGreaterThan(0)
    expect(Number(blocked.headers['retry-after'])).toBeLessThanOrEqual(60)
    expect(blocked.headers['content-type']).toBe('application/json;charset=UTF-8')
    expect(blocked.json().error).toBe('temporarily_unavailable')
    expect((await revoke(basicOf(other.clientId, 'wrong'), '192.0.2.1')).statusCode).toBe(401)
    expect((await revoke(basicOf(clientId, 'wrong'), '192.0.2.2')).statusCode).toBe(401)
    expect((await revoke(basic, '192.0.2.1')).statusCode).toBe(200)
    expect((await revoke(basic, '192.0.2.2')).statusCode).toBe(200)
  })

  it('get 429 for the IP that tries many clients (OAUTH 83)', async () => {
    await Promise.all(Array.from({ length: 120 }, () => fail(makeClientId(), '2001:db8::1', 1)))
    expect((await revoke(basicOf(makeClientId(), 'wrong'), '2001:db8::2')).statusCode).toBe(429)
    expect((await revoke(basicOf(makeClientId(), 'wrong'), '2001:db8:0:1::1')).statusCode).toBe(401)
  })

  it('no longer count when the window has ended, and a success writes nothing (OAUTH 83)', async () => {
    const { clientId, basic } = await anApplication(t.db)
    await fail(clientId, '192.0.2.3', 31)
    await endFailureWindows(t.db)
    expect((await revoke(basicOf(clientId, 'wrong'), '192.0.2.3')).statusCode).toBe(401)
    await forgetFailures(t.db)
    expect((await revoke(basic, '192.0.2.3')).statusCode).toBe(200)
    expect(await countRows(t.db, 'auth_failure')).toBe(0)
  })
})
