import { describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { readProviders } from '../../src/domain/identity-provider.ts'

const acme = {
  OIDC_ACME_ISSUER: 'https://id.acme.example/realms/main',
  OIDC_ACME_CLIENT_ID: 'svc',
  OIDC_ACME_CLIENT_SECRET: 'secret',
}

describe('readProviders', () => {
  it('reads any number of providers, ordered by name, with defaults', () => {
    const { providers, mistakes } = readProviders({
      ...acme,
      OIDC_A_B_ISSUER: 'http://127.0.0.1:8080',
      OIDC_A_B_CLIENT_ID: 'id',
      OIDC_A_B_CLIENT_SECRET: 's',
      OIDC_A_B_LABEL: 'A & B',
      OIDC_A_B_SCOPES: 'openid,email groups',
      OIDC_A_B_ALLOWED_DOMAINS: 'Example.com, b.example',
      OIDC_A_B_GROUPS_CLAIM: 'realm_access.roles',
      OIDC_A_B_GROUP_MAP: 'developers=acme:write, cn=a%2Cou=b=acme:admin,/x y=php:guest',
      UNRELATED: 'x',
      OIDC_RSA_PRIVATE_KEY: 'of other software',
    })
    expect(mistakes).toEqual([])
    expect(providers).toEqual([
      {
        name: 'a-b',
        label: 'A & B',
        issuer: 'http://127.0.0.1:8080',
        clientId: 'id',
        clientSecret: 's',
        scopes: 'openid email groups',
        allowedDomains: ['example.com', 'b.example'],
        groupsClaim: 'realm_access.roles',
        groupMap: [
          { providerGroup: 'developers', group: 'acme', role: 'developer' },
          { providerGroup: 'cn=a,ou=b', group: 'acme', role: 'admin' },
          { providerGroup: '/x y', group: 'php', role: 'guest' },
        ],
      },
      {
        name: 'acme',
        label: 'Acme',
        issuer: 'https://id.acme.example/realms/main',
        clientId: 'svc',
        clientSecret: 'secret',
        scopes: 'openid profile email',
        allowedDomains: [],
        groupsClaim: 'groups',
        groupMap: [],
      },
    ])
  })

  it.each([
    ['ISSUER', 'id.acme.example', 'must be a URL'],
    ['ISSUER', 'ftp://id.acme.example', 'must be a URL'],
    ['ISSUER', 'http://id.acme.example', 'must use https'],
    ['ISSUER', 'http://127.0.0.1.evil.example', 'must use https'],
    ['ISSUER', 'https://a:b@id.acme.example', 'must have no credentials'],
    ['ISSUER', 'https://id.acme.example/?a', 'must have no credentials'],
    ['ISSUER', 'https://id.acme.example/.well-known/openid-configuration', 'must be the issuer itself'],
    ['CLIENT_ID', '', 'is missing'],
    ['CLIENT_SECRET', 'a\nb', 'must be one line'],
    ['SCOPES', 'profile', 'must contain openid'],
    ['SCOPES', 'openid "x"', 'must be scopes'],
    ['ALLOWED_DOMAINS', 'acme', 'must be domains'],
    ['ALLOWED_DOMAINS', ',', 'must be domains'],
    ['ALLOWED_DOMAINS', '@acme.example', 'must be domains'],
    ['GROUP_MAP', 'developers', 'has an invalid entry'],
    ['GROUP_MAP', 'developers=acme:owner', 'has an invalid entry'],
    ['GROUP_MAP', 'developers=acme:constructor', 'has an invalid entry'],
    ['GROUP_MAP', 'developers=Acme Inc:write', 'has an invalid entry'],
    ['GROUP_MAP', '%=acme:write', 'has an invalid entry'],
    ['GROUPS_CLAIM', 'x'.repeat(1001), 'must be one line'],
    ['LABEL', 'x'.repeat(61), 'must be one line'],
    ['CLIENT_SECRT', 'x', 'is not a provider setting'],
  ])('refuses %s=%j', (part, value, mistake) => {
    const { mistakes } = readProviders({ ...acme, [`OIDC_ACME_${part}`]: value })
    expect(mistakes).toEqual([expect.stringContaining(`OIDC_ACME_${part} ${mistake}`)])
  })

  it('lists all mistakes of a provider together, each once, and leaves the provider out', () => {
    const { providers, mistakes } = readProviders({
      OIDC_A__B_CLIENT_ID: 'a\nb',
      OIDC_A__B_SCOPES: 'profile "x"',
      OIDC_A__B_GROUP_MAP: 'a,b=c:read,d',
      ...acme,
    })
    expect(providers.map(({ name }) => name)).toEqual(['acme'])
    expect(mistakes.map((mistake) => mistake.split(':')[0])).toEqual([
      'OIDC_A__B_ISSUER has an invalid <NAME>',
      'OIDC_A__B_ISSUER is missing',
      'OIDC_A__B_CLIENT_ID must be one line of at most 1000 characters',
      'OIDC_A__B_CLIENT_SECRET is missing',
      'OIDC_A__B_SCOPES must contain openid',
      'OIDC_A__B_SCOPES must be scopes separated by spaces',
      'OIDC_A__B_GROUP_MAP has an invalid entry a',
      'OIDC_A__B_GROUP_MAP has an invalid entry d',
    ])
  })

  it('refuses two providers with one issuer', () => {
    const twin = { OIDC_B_ISSUER: acme.OIDC_ACME_ISSUER, OIDC_B_CLIENT_ID: 'b', OIDC_B_CLIENT_SECRET: 'b' }
    expect(readProviders({ ...acme, ...twin }).mistakes).toEqual([
      'OIDC_B_ISSUER is also the issuer of the provider acme: each provider needs its own',
    ])
  })

  it('is part of the configuration, which names all mistakes together', () => {
    const mistaken = { ...acme, PORT: 'x', OIDC_ACME_ISSUER: 'x', OIDC_B_ISSUER: 'https://b.example' }
    expect(() => readConfig(mistaken)).toThrow(
      /PORT.*\n.*OIDC_ACME_ISSUER must.*\n.*OIDC_B_CLIENT_ID is missing.*\n.*OIDC_B_CLIENT_SECRET is missing$/,
    )
    expect(readConfig(acme).providers).toHaveLength(1)
  })

  it('is needed when nobody may sign in with a password', () => {
    expect(() => readConfig({ PASSWORD_SIGN_IN: 'off' })).toThrow(/PASSWORD_SIGN_IN can be off only with/)
    expect(readConfig({ ...acme, PASSWORD_SIGN_IN: 'off' }).passwordSignIn).toBe('off')
    // A provider with a mistake counts here, so only its own mistake is reported.
    const mistaken = { ...acme, OIDC_ACME_ISSUER: 'x', PASSWORD_SIGN_IN: 'off' }
    expect(() => readConfig(mistaken)).toThrow(/^.*\n {2}OIDC_ACME_ISSUER must be a URL[^\n]*$/)
    expect(() => readConfig({ PASSWORD_SIGN_IN: 'no' })).toThrow(/PASSWORD_SIGN_IN must be/)
  })
})
