import { describe, expect, it } from 'vitest'
import { allScopes } from '../../src/domain/scopes.ts'
import { anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { aPublisher } from '../support/registry-actors.ts'

const wellKnown = '/.well-known/oauth-protected-resource'
const site = 'http://svc.test'
const t = useApp({ AUTH_URL: `${site}/auth` })

describe(`GET ${wellKnown} (OPENID 271)`, () => {
  it.each([
    ['', ''],
    ['/', ''],
    ['/api', '/api'],
    ['/api/', '/api/'],
    ['/acme/php/-/packages/', '/acme/php/-/packages/'],
    ['/acme/php/-/packages', '/acme/php/-/packages'],
  ])('describes the resource of %s, whose URL is exactly that of the request', async (path, resource) => {
    const response = await t.app.inject({ url: wellKnown + path, headers: { host: 'evil.test' } })
    expect(response.statusCode).toBe(200)
    expect(response.headers['content-type']).toMatch(/^application\/json/)
    const { scopes_supported: scopes, ...document } = response.json()
    expect(document).toEqual({
      resource: site + resource,
      authorization_servers: [`${site}/auth`],
      bearer_methods_supported: ['header'],
    })
    expect(allScopes).toEqual(expect.arrayContaining(scopes))
    if (path.includes('packages')) expect(scopes).toEqual(['registry-package:r', 'registry-package:rw'])
    else expect(scopes).toEqual(expect.arrayContaining(['account-profile:r', 'registry-package:rw']))
  })

  it('is the same for a private repository and for one that does not exist', async () => {
    const hidden = await aRepository(t.db)
    const [ofHidden, ofMissing] = await Promise.all(
      [hidden.path, 'no/where'].map((path) => t.app.inject(`${wellKnown}/${path}/-/packages/`)),
    )
    expect(ofMissing?.body).toBe(ofHidden?.body.replaceAll(hidden.path, 'no/where'))
  })

  it.each(['/other', '/api/user', '/acme/php', '/acme/php/-/packages/x', '/ac%20me/php/-/packages/'])(
    'does not exist for %s',
    async (path) => {
      const response = await t.app.inject(wellKnown + path)
      expect([response.statusCode, response.json().error]).toEqual([404, 'invalid_request'])
    },
  )
})

describe('the challenge of a 401 and a 403 (OPENID 272)', () => {
  it('names the document about the API, and the scopes of the endpoint', async () => {
    const { call } = await aCaller(t, { scopes: ['account-profile:r'] })
    const metadata = `scope="account-email:r", resource_metadata="${site}${wellKnown}/api"`
    const anonymous = await t.app.inject('/api/user/emails')
    expect(anonymous.headers['www-authenticate']).toBe(`Bearer realm="svc", ${metadata}`)
    const unscoped = await t.app.inject({
      url: '/api/user/emails',
      headers: { authorization: `Bearer ${await aTokenWithout('account-email')}` },
    })
    expect([unscoped.statusCode, unscoped.headers['www-authenticate']]).toEqual([
      403,
      `Bearer realm="svc", error="insufficient_scope", ${metadata}`,
    ])
    expect((await t.app.inject(new URL(`${site}${wellKnown}/api`).pathname)).statusCode).toBe(200)
    expect((await call('GET', '')).statusCode).toBe(403)
  })

  it('comes after that of HTTP Basic at a registry, and alone with a token that lacks the scope', async () => {
    const { ask, push, path, token } = await aPublisher(t, { scopes: ['registry-package:r'] })
    const document = `${site}${wellKnown}${path}`
    const basic = 'Basic realm="svc", charset="UTF-8"'
    const pull = `scope="registry-package:r", resource_metadata="${document}"`
    const anonymous = await ask('packages.json', { headers: { authorization: undefined } })
    expect(anonymous.headers['www-authenticate']).toEqual([basic, `Bearer realm="svc", ${pull}`])
    const wrong = await ask('packages.json', { headers: { authorization: `Bearer ${token}x` } })
    expect([wrong.statusCode, wrong.headers['www-authenticate']]).toEqual([
      401,
      [basic, `Bearer realm="svc", error="invalid_token", ${pull}`],
    ])
    const upload = await push('1.0.0')
    expect([upload.statusCode, upload.headers['www-authenticate']]).toEqual([
      403,
      [
        `Bearer realm="svc", error="insufficient_scope", scope="registry-package:rw", resource_metadata="${document}"`,
      ],
    ])
  })

  it('has no error when the role, and not a scope, forbids the request', async () => {
    const { push, path } = await aPublisher(t, { role: 'guest' })
    const upload = await push('1.0.0')
    expect([upload.statusCode, upload.headers['www-authenticate']]).toEqual([
      403,
      [`Bearer realm="svc", scope="registry-package:rw", resource_metadata="${site}${wellKnown}${path}"`],
    ])
  })
})

describe('a 403 for a missing scope (OPENID 283)', () => {
  it('lists all scopes of an endpoint that needs several', async () => {
    const { call } = await aCaller(t, { scopes: ['repo-basic-info:r'] })
    const response = await call('PATCH', '/packages/acme/lib', { release: 'reviewed' })
    expect(response.statusCode).toBe(403)
    expect(response.headers['www-authenticate']).toContain('scope="registry-package:rw registry-manage:rw"')
  })

  it('lists them also when only one of them is missing', async () => {
    const { call } = await aCaller(t, { scopes: ['registry-package:rw'] })
    const response = await call('PATCH', '/packages/acme/lib', { release: 'reviewed' })
    expect(response.headers['www-authenticate']).toContain('scope="registry-package:rw registry-manage:rw"')
    expect(response.json().errmsg).toBe('the scope registry-manage:rw is required')
  })
})

async function aTokenWithout(name: string): Promise<string> {
  const scopes = allScopes.filter((scope) => !scope.startsWith(`${name}:`))
  return aPersonalToken(t.db, await anAccount(t.db), { scopes })
}
