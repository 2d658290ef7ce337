import { describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { refuseDocumentUrl } from '../../src/oauth/client-id.ts'
import { secondsOfUse } from '../../src/oauth/fetch-document.ts'
import { readClientDocument } from '../../src/oauth/read-document.ts'

const url = 'https://app.example.com/client.json'
const config = readConfig({ BASE_URL: 'https://svc.example.com', SITE_NAME: 'Acme Packages' })
const read = (members: object | string) =>
  readClientDocument(
    Buffer.from(
      typeof members === 'string'
        ? members
        : JSON.stringify({
            client_id: url,
            client_name: 'Helper',
            redirect_uris: ['https://app.example.com/callback'],
            ...members,
          }),
    ),
    url,
    config,
  )

describe('a client metadata document (OPENID 279)', () => {
  it('needs no more than its URL, a name and redirect URIs, and may read what svc enforces', () => {
    const { scopes, ...document } = read({})
    expect(document).toEqual({
      clientId: url,
      name: 'Helper',
      redirectUris: ['https://app.example.com/callback'],
    })
    expect(scopes).toContain('registry-package:r')
    expect(scopes.filter((scope) => !scope.endsWith(':r'))).toEqual([])
  })

  it('gets the scopes that it names, without unknown ones', () => {
    const scope = 'openid registry-package:rw  everything registry-package:rw'
    expect(read({ scope }).scopes).toEqual(['openid', 'registry-package:rw'])
    expect(read({ scope: 'everything' }).scopes).toEqual(read({}).scopes)
  })

  it('may have other members, and grant types that svc does not have', () => {
    const more = { grant_types: ['client_credentials', 'x'], response_types: 7, logo_uri: [], jwks: {} }
    expect(read(more)).toEqual(read({}))
    expect(read({ token_endpoint_auth_method: 'none' })).toEqual(read({}))
  })

  it('keeps those redirect URIs that svc redirects to', () => {
    const usable = [
      'http://127.0.0.1:4000/cb',
      'http://localhost/',
      'com.example.app:/cb',
      'https://a.example/?b=c',
    ]
    const unusable = [
      'http://a.example/',
      'javascript:alert(1)',
      'https://u@a.example/',
      'https://a.example/#b',
      'cursor://a',
      '/cb',
      'https://a.example/?code=1',
    ]
    expect(read({ redirect_uris: [...unusable, ...usable, ...usable] }).redirectUris).toEqual(usable)
    expect(() => read({ redirect_uris: unusable })).toThrow('has no redirect URI that can be used')
  })

  it.each<[string, object | string, string]>([
    ['no JSON', '{"client_id":', 'is no JSON object'],
    ['a list', '[]', 'is no JSON object'],
    ['null', 'null', 'is no JSON object'],
    ['another client_id', { client_id: `${url}?` }, 'has another client_id than its URL'],
    ['client_id in other letters', { client_id: url.toUpperCase() }, 'has another client_id than its URL'],
    ['no client_id', { client_id: undefined }, 'has no client_id'],
    ['no client_name', { client_name: undefined }, 'has no client_name'],
    ['a number as client_name', { client_name: 7 }, 'has no client_name'],
    ['an empty client_name', { client_name: ' ' }, 'the name is empty'],
    ['a long client_name', { client_name: 'a'.repeat(51) }, 'the name has 51 characters'],
    ['a client_name with controls', { client_name: 'a\u202eb' }, 'the name has control characters'],
    ['a client_name of two scripts', { client_name: 'Аcme' }, 'letters of two scripts'],
    ['the name of the site', { client_name: 'Acme Packages' }, 'the name is that of this site'],
    ['no redirect_uris', { redirect_uris: undefined }, 'has no redirect_uris'],
    ['no redirect URI', { redirect_uris: [] }, 'has no redirect_uris'],
    ['a text as redirect_uris', { redirect_uris: 'https://app.example.com/' }, 'has no redirect_uris'],
    ['a secret', { client_secret: 'x' }, 'has client_secret'],
    ['the expiry of a secret', { client_secret_expires_at: 0 }, 'has client_secret_expires_at'],
    ...['client_secret_basic', 'client_secret_post', 'client_secret_jwt', 'private_key_jwt'].map(
      (method): [string, object, string] => [
        method,
        { token_endpoint_auth_method: method },
        'a token_endpoint_auth_method other than none',
      ],
    ),
  ])('is refused with %s', (_what, members, reason) => {
    expect(() => read(members)).toThrow(reason)
  })
})

describe('the time for which a document is used (OPENID 278)', () => {
  it.each([
    ['', 300],
    ['max-age=10', 300],
    ['public, max-age=3600', 3600],
    ['MAX-AGE="7200"', 7200],
    ['max-age=9999999999', 86_400],
    ['s-maxage=3600', 300],
    ['max-age=-1', 300],
    ['no-store, max-age=3600', 300],
    ['no-cache', 300],
    ['x=no-storage, max-age=600', 600],
  ])('with Cache-Control: %s is %i seconds', (header, seconds) => {
    expect(secondsOfUse(header)).toBe(seconds)
  })
})

describe('the URL of a document (OPENID 275, 279)', () => {
  const refuse = (text: string, allowHttp = false) =>
    refuseDocumentUrl(text, { ...config, outbound: { ...config.outbound, allowHttp } })

  it.each([url, 'https://a.example:8443/c', 'https://a.example/c?v=1', 'https://xn--bcher-kva.example/c'])(
    'may be %s',
    (text) => {
      expect(refuse(text)).toBeNull()
    },
  )

  it('may be http only with OUTBOUND_HTTP', () => {
    expect(refuse('http://a.example/c')).toContain('not https')
    expect(refuse('http://a.example/c', true)).toBeNull()
  })

  it.each([
    ['https://a.example', 'without a path'],
    ['https://a.example/', 'without a path'],
    ['https://a.example/?c', 'without a path'],
    ['https://a.example/c#', 'a fragment'],
    ['https://a:b@a.example/c', 'a username'],
    ['https://@a.example/c', 'a username'],
    ['https://a.example/./c', 'normal form'],
    ['https://a.example/%2E%2e/c', 'normal form'],
    ['https://a.example:443/c', 'normal form'],
    ['https://A.example/c', 'normal form'],
    ['HTTPS://a.example/c', 'normal form'],
    ['https://bücher.example/c', 'normal form'],
    ['https://a.example。/c', 'normal form'],
    ['https://a.example./c', 'normal form'],
    ['https://0x7f.1/c', 'normal form'],
    ['https://a.example/c\t', 'normal form'],
    ['https://a.example\\c', 'normal form'],
    ['https://svc.example.com/api/user', 'of this server'],
    ['https://', 'not a valid URL'],
    [`https://a.example/${'c'.repeat(240)}`, 'more than 255'],
    [`https://${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(20)}/c`, 'host is too long'],
  ])('is not %s', (text, reason) => {
    expect(refuse(text)).toContain(reason)
  })
})
