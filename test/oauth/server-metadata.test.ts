import { describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'

describe('GET /.well-known/oauth-authorization-server', () => {
  const t = useApp({ AUTH_URL: 'http://svc.test/auth/' })
  const url = '/.well-known/oauth-authorization-server'

  it('describes the authorization server, built from its configured URL (OAUTH 137, 139, OPENID 208)', async () => {
    const response = await t.app.inject({ url, headers: { host: 'evil.test' } })
    expect(response.statusCode).toBe(200)
    expect(response.headers['content-type']).toMatch(/^application\/json/)
    expect(response.json()).toEqual({
      issuer: 'http://svc.test/auth',
      authorization_endpoint: 'http://svc.test/auth/oauth2/auth',
      device_authorization_endpoint: 'http://svc.test/auth/oauth2/device',
      token_endpoint: 'http://svc.test/auth/oauth2/token',
      revocation_endpoint: 'http://svc.test/auth/oauth2/revoke',
      introspection_endpoint: 'http://svc.test/auth/oauth2/introspect',
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: [
        'authorization_code',
        'refresh_token',
        'urn:ietf:params:oauth:grant-type:device_code',
        'urn:ietf:params:oauth:grant-type:token-exchange',
      ],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
      revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
      introspection_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
      client_id_metadata_document_supported: false,
      code_challenge_methods_supported: ['S256'],
      service_documentation: 'http://svc.test/docs',
      scopes_supported: expect.arrayContaining(['repo-code:r', 'repo-code:rw', 'mission-manage:rw']),
      authorization_response_iss_parameter_supported: true,
    })
  })

  it('responds to other methods with 405', async () => {
    const response = await t.app.inject({ method: 'POST', url })
    expect(response.statusCode).toBe(405)
    expect(response.headers['allow']).toBe('GET, HEAD')
    expect(response.json().error).toBe('invalid_request')
  })
})

describe('the metadata of an issuer with a path (RFC 8414 §3.1)', () => {
  const t = useApp({ AUTH_URL: 'http://svc.test/auth/v1/' })
  const wellKnown = '/.well-known/oauth-authorization-server'

  it.each([wellKnown, `${wellKnown}/auth/v1`])('is at %s', async (url) => {
    expect((await t.app.inject({ url })).json().issuer).toBe('http://svc.test/auth/v1')
    expect((await t.app.inject({ method: 'DELETE', url })).statusCode).toBe(405)
  })

  it('is not at the URL of another issuer', async () => {
    expect((await t.app.inject({ url: `${wellKnown}/auth` })).statusCode).toBe(404)
  })
})
