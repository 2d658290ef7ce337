import { describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { hideView } from '../support/broken-schema.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { anAuthorizedApplication, ask, postForm } from '../support/token-client.ts'

/** The characters of RFC 6749 §5.2. */
const describable = /^[\x20-\x21\x23-\x5B\x5D-\x7E]+$/

describe('POST /oauth2/token', () => {
  const t = useApp()
  const form = 'application/x-www-form-urlencoded'

  /** A valid token request. A test may change its body and headers. */
  async function aRequest() {
    const { application, newCode } = await anAuthorizedApplication(t)
    const code = await newCode()
    return {
      body: `grant_type=authorization_code&code=${code}`,
      send: (payload: string | Buffer, headers: Record<string, string> = {}) =>
        postForm(t, '/oauth2/token', payload, { authorization: application.basic, ...headers }),
    }
  }

  it.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const)(
    'responds to %s with 405 and reads no credentials from the query (OAUTH 54, 127)',
    async (method) => {
      for (const endpoint of ['token', 'revoke', 'introspect']) {
        const response = await t.app.inject({
          method,
          url: `/oauth2/${endpoint}?client_id=a&client_secret=b`,
        })
        expect(response.statusCode).toBe(405)
        expect(response.headers).toMatchObject({
          allow: 'POST',
          'cache-control': 'no-store',
          pragma: 'no-cache',
        })
        if (method === 'HEAD') continue
        expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
        expect(response.json().error).toBe('invalid_request')
      }
    },
  )

  it.each([
    `${form};charset=UTF-8`,
    `${form}; charset=utf-8`,
    'Application/X-WWW-Form-URLEncoded',
    `${form} ; charset="UTF-8"`,
  ])('accepts a form sent as %s (OAUTH 55)', async (type) => {
    const { send, body } = await aRequest()
    expect((await send(body, { 'content-type': type })).statusCode).toBe(200)
  })

  it.each([
    ['JSON', '{"grant_type":"authorization_code"}', 'application/json'],
    ['multipart', '--x\r\n\r\n--x--', 'multipart/form-data; boundary=x'],
    ['XML', '<a/>', 'application/xml'],
    ['plain text', 'grant_type=authorization_code', 'text/plain'],
    ['a malformed content type', 'grant_type=authorization_code', 'nonsense'],
    ['an empty content type', 'grant_type=authorization_code', ''],
    ['an empty body', '', form],
    ['an empty body without content type', '', ''],
    ['a body of separators', '&&&=&', form],
  ])('refuses %s (OAUTH 56)', async (_what, payload, type) => {
    const { send } = await aRequest()
    const response = await send(payload, { 'content-type': type })
    expect(response.statusCode).toBe(400)
    expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
    expect(response.json()).toEqual({
      error: 'invalid_request',
      error_description: expect.stringMatching(describable),
    })
  })

  it('refuses a body without content type, and no body at all (OAUTH 56)', async () => {
    const { basic } = await anApplication(t.db)
    for (const payload of ['grant_type=refresh_token', undefined]) {
      const response = await t.app.inject({
        method: 'POST',
        url: '/oauth2/token',
        headers: { authorization: basic },
        ...(payload !== undefined && { payload }),
      })
      expect(response.statusCode).toBe(400)
      expect(response.json().error).toBe('invalid_request')
    }
  })

  it.each([
    ['grant_type missing (OAUTH 57)', 'code=x', 'invalid_request'],
    ['grant_type empty (OAUTH 61)', 'grant_type=&code=x', 'invalid_request'],
    ['grant_type without value (OAUTH 61)', 'grant_type&code=x', 'invalid_request'],
    ['grant password (OAUTH 58)', 'grant_type=password&username=a&password=b', 'unsupported_grant_type'],
    ['grant client_credentials (OAUTH 58)', 'grant_type=client_credentials', 'unsupported_grant_type'],
    [
      'a grant named like an inherited property (OAUTH 58)',
      'grant_type=constructor',
      'unsupported_grant_type',
    ],
    [
      'a repeated grant_type (OAUTH 59)',
      'grant_type=refresh_token&grant_type=refresh_token',
      'invalid_request',
    ],
    ['a repeated code (OAUTH 59)', 'grant_type=authorization_code&code=a&code=b', 'invalid_request'],
    [
      'a repeated redirect_uri (OAUTH 59)',
      'grant_type=authorization_code&code=a&redirect_uri=b&redirect_uri=b',
      'invalid_request',
    ],
    [
      'a repeated refresh_token (OAUTH 59)',
      'grant_type=refresh_token&refresh_token=a&refresh_token=b',
      'invalid_request',
    ],
    [
      'a repeated scope (OAUTH 59)',
      'grant_type=refresh_token&refresh_token=a&scope=b&scope=b',
      'invalid_request',
    ],
    [
      'a repeated client_id (OAUTH 59)',
      'grant_type=refresh_token&refresh_token=a&client_id=b&client_id=b',
      'invalid_request',
    ],
    [
      'a repeated parameter that the grant does not read (OAUTH 59)',
      'grant_type=authorization_code&code=a&scope=b&scope=b',
      'invalid_request',
    ],
    ['broken percent-encoding (OAUTH 62)', 'grant_type=authorization_code&code=%zz', 'invalid_request'],
    [
      'percent-encoding that ends early (OAUTH 62)',
      'grant_type=authorization_code&code=%4',
      'invalid_request',
    ],
    ['an encoded NUL (OAUTH 62)', 'grant_type=authorization_code&code=a%00b', 'invalid_request'],
    ['a raw NUL (OAUTH 62)', 'grant_type=authorization_code&code=a\0b', 'invalid_request'],
    [
      'encoded bytes that are no UTF-8 (OAUTH 62)',
      'grant_type=authorization_code&code=%ff',
      'invalid_request',
    ],
    ['an encoded surrogate (OAUTH 62)', 'grant_type=authorization_code&code=%ED%A0%80', 'invalid_request'],
    [
      'nonsense in an unknown name (OAUTH 62)',
      'grant_type=authorization_code&code=x&%ff=y',
      'invalid_request',
    ],
  ])('refuses %s', async (_what, body, error) => {
    const { send } = await aRequest()
    const response = await send(body)
    expect(response.statusCode).toBe(400)
    expect(response.headers).toMatchObject({
      'content-type': 'application/json;charset=UTF-8',
      'cache-control': 'no-store',
      pragma: 'no-cache',
    })
    expect(response.json()).toEqual({ error, error_description: expect.stringMatching(describable) })
  })

  it('refuses raw bytes that are not UTF-8 (OAUTH 62)', async () => {
    const { send, body } = await aRequest()
    const response = await send(Buffer.concat([Buffer.from(body), Buffer.from([0xff, 0xfe])]))
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_request')
  })

  it('ignores unknown parameters, also repeated ones (OAUTH 60)', async () => {
    const { send, body } = await aRequest()
    expect((await send(`${body}&x=1&x=2&audience=y`)).statusCode).toBe(200)
  })

  it('counts an empty parameter as absent, also together with one that has a value (OAUTH 61)', async () => {
    const { send, body } = await aRequest()
    expect((await send(`code=&redirect_uri=&code_verifier=&client_secret=&${body}`)).statusCode).toBe(200)
  })

  it('refuses a body over 64 kB (OAUTH 63)', async () => {
    const { send, body } = await aRequest()
    const response = await send(`${body}&x=${'x'.repeat(64 * 1024)}`)
    expect(response.statusCode).toBe(413)
    expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
    expect(response.json().error).toBe('invalid_request')
  })

  it('treats names that are special in JavaScript and PHP as plain names (OAUTH 64)', async () => {
    const { send, body } = await aRequest()
    const odd = '__proto__=x&constructor=y&toString=z&a[b]=c&a[]=d&__proto__[x]=e&hasOwnProperty=f'
    expect((await send(`${odd}&${body}`)).statusCode).toBe(200)
    expect(({} as Record<string, unknown>)['x']).toBeUndefined()
  })

  it('puts only the allowed characters into descriptions, whatever was sent (OAUTH 65)', async () => {
    const { send } = await aRequest()
    for (const odd of ['"', '\\', 'é', '%0d%0a', '<script>']) {
      const response = await send(`grant_type=${odd}`)
      expect(response.json().error_description).toMatch(describable)
    }
  })

  it('gives no cross-origin access (OAUTH 67)', async () => {
    const { send, body } = await aRequest()
    const response = await send(body, { origin: 'https://elsewhere.example' })
    expect(Object.keys(response.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
  })
})

describe('an unknown path under /oauth2', () => {
  const t = useApp()

  it.each([
    '/oauth2',
    '/oauth2/',
    '/oauth2/tokens',
    '/oauth2/token/',
    '/oauth2/token/x',
    '/oauth2/%zz',
    '/oauth2/%00',
  ])('gets an error in the format of OAuth: %s', async (url) => {
    for (const method of ['GET', 'POST', 'DELETE'] as const) {
      const response = await t.app.inject({ method, url })
      expect([400, 404]).toContain(response.statusCode)
      expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
      expect(response.json()).toEqual({
        error: 'invalid_request',
        error_description: expect.stringMatching(describable),
      })
    }
  })
})

describe('a server error', () => {
  const t = useApp()

  it('is reported without detail, and logged once (OAUTH 66)', async () => {
    const application = await anApplication(t.db)
    await hideView(t.db, 'application_credential')
    for (const [endpoint, parameter] of [
      ['token', 'refresh_token'],
      ['revoke', 'token'],
      ['introspect', 'token'],
    ] as const) {
      const response = await ask(t, application, endpoint, { grant_type: 'refresh_token', [parameter]: 'x' })
      expect(response.statusCode).toBe(500)
      expect(response.headers).toMatchObject({
        'content-type': 'application/json;charset=UTF-8',
        'cache-control': 'no-store',
      })
      expect(response.json()).toEqual({
        error: 'server_error',
        error_description: 'The server failed to process this request.',
      })
    }
    expect(t.log().match(/"level":50/g)).toHaveLength(3)
  })
})
