import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config.ts'

describe('readConfig', () => {
  it('has the values of SPEC §8 as defaults', () => {
    expect(readConfig({}).lifetimes).toEqual({
      code: 600,
      accessToken: 28_800,
      refreshToken: 15_552_000,
      grace: 300,
    })
  })

  it('listens on this machine only, with an embedded PostgreSQL, unless told otherwise', () => {
    expect(readConfig({})).toMatchObject({
      databaseUrl: null,
      baseUrl: 'http://localhost:3000',
      authUrl: 'http://localhost:3000',
      host: 'localhost',
      port: 3000,
      trustProxy: false,
      maxArchiveBytes: 104_857_600,
    })
  })

  it('takes an empty variable for an unset one', () => {
    expect(readConfig({ PORT: '', BASE_URL: '' })).toEqual(readConfig({}))
  })

  it.each([
    [{ PORT: '8080' }, 'http://localhost:8080'],
    [{ HOST: '0.0.0.0' }, 'http://localhost:3000'],
    [{ HOST: '::1' }, 'http://[::1]:3000'],
    [{ BASE_URL: 'https://svc.example.com/' }, 'https://svc.example.com'],
    [{ BASE_URL: 'https://svc.example.com:8443//' }, 'https://svc.example.com:8443'],
  ])('builds the public URL of %j', (environment, baseUrl) => {
    expect(readConfig(environment)).toMatchObject({ baseUrl, authUrl: baseUrl })
  })

  it('takes a path in AUTH_URL, but none in BASE_URL, whose pages it would break', () => {
    expect(readConfig({ AUTH_URL: 'https://example.com/auth/' }).authUrl).toBe('https://example.com/auth')
    const mistaken = () => readConfig({ BASE_URL: 'https://example.com/svc/' })
    expect(mistaken).toThrow(/^[^\n]*\n {2}BASE_URL must have no path: give svc a host of its own$/)
  })

  it('keeps the authorization server at another URL when told to', () => {
    const { baseUrl, authUrl } = readConfig({
      BASE_URL: 'https://a.example',
      AUTH_URL: 'https://b.example/',
    })
    expect([baseUrl, authUrl]).toEqual(['https://a.example', 'https://b.example'])
  })

  it.each([
    ['true', true],
    ['false', false],
    ['2', 2],
    ['10.0.0.0/8, 192.168.1.1', '10.0.0.0/8, 192.168.1.1'],
    ['::1,fc00::/7', '::1,fc00::/7'],
  ])('trusts proxies as TRUST_PROXY=%s says', (value, trusted) => {
    expect(readConfig({ TRUST_PROXY: value }).trustProxy).toBe(trusted)
  })

  it.each([
    ['DATABASE_URL', 'mysql://localhost/svc'],
    ['BASE_URL', 'svc.example.com'],
    ['BASE_URL', 'ftp://svc.example.com'],
    ['BASE_URL', 'https://user:secret@svc.example.com'],
    ['AUTH_URL', 'https://svc.example.com/?a=b'],
    ['AUTH_URL', 'https://svc.example.com/:a/*'],
    ['PORT', '0'],
    ['PORT', '65536'],
    ['PORT', '3e3'],
    ['TRUST_PROXY', 'yes'],
    ['TRUST_PROXY', 'abc'],
    ['TRUST_PROXY', ','],
    ['TRUST_PROXY', '999.1.1.1'],
    ['TRUST_PROXY', '10.0.0.0/33'],
    ['HOST', 'a b'],
    ['HOST', 'http://svc.example.com'],
    ['MAX_ARCHIVE_BYTES', '-1'],
    ['MAX_ARCHIVE_BYTES', '100 MB'],
    ['ACCEL_REDIRECT_PREFIX', 'svc-archives'],
    ['ACCEL_REDIRECT_PREFIX', '/svc-archives'],
    ['ACCEL_REDIRECT_PREFIX', '/a b/'],
    ['LOG_LEVEL', 'loud'],
    ['CODE_LIFETIME_SECONDS', '0'],
    ['REFRESH_GRACE_SECONDS', '1.5'],
    ['EVENT_RETENTION_DAYS', '0'],
    ['EVENT_IP_DAYS', '-1'],
  ])('refuses %s=%s and names it', (name, value) => {
    expect(() => readConfig({ [name]: value })).toThrow(`  ${name} must`)
  })

  it('says of each variable one thing', () => {
    expect(() => readConfig({ BASE_URL: 'svc', AUTH_URL: 'https://svc/?a' })).toThrow(
      /^[^\n]*\n[^\n]*\n[^\n]*$/,
    )
  })

  it('names every mistake at once', () => {
    const mistaken = () => readConfig({ PORT: 'x', LOG_LEVEL: 'loud', DATABASE_URL: 'localhost' })
    expect(mistaken).toThrow(/DATABASE_URL.*PORT.*LOG_LEVEL/s)
  })
})
