import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config.ts'

describe('OUTBOUND_HTTP and OUTBOUND_PRIVATE_HOSTS', () => {
  it('are read, and also by their names of earlier releases', () => {
    const { outbound } = readConfig({
      OUTBOUND_PRIVATE_HOSTS: 'a.internal',
      UPSTREAM_PRIVATE_HOSTS: 'b.internal',
    })
    expect(outbound).toEqual({
      allowHttp: false,
      privateHosts: [
        { name: 'a.internal', port: null },
        { name: 'b.internal', port: null },
      ],
    })
    for (const name of ['OUTBOUND_HTTP', 'UPSTREAM_HTTP'])
      expect(readConfig({ [name]: 'true' }).outbound.allowHttp).toBe(true)
  })

  it.each([
    'http://a.internal',
    'a b',
    '10.0.0.0/33',
    '10.0/8',
    'fd00::/129',
    '[a.internal]:80',
    'a/8',
    'fd00::g',
  ])('refuse the private host %s', (entry) => {
    const read = () => readConfig({ OUTBOUND_PRIVATE_HOSTS: `a.internal,${entry}` })
    expect(read).toThrow('OUTBOUND_PRIVATE_HOSTS must be host names, IPs or ranges such as 10.0.0.0/8')
  })
})

describe('readConfig', () => {
  it('has the values of SPEC 8 as defaults', () => {
    expect(readConfig({}).lifetimes).toEqual({
      code: 600,
      accessToken: 28_800,
      refreshToken: 15_552_000,
      grace: 300,
    })
  })

  it('listens on this machine only, with an embedded PostgreSQL, by default', () => {
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

  it('treats an empty variable as unset', () => {
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

  it('accepts a path in AUTH_URL, but none in BASE_URL, because it would break the pages', () => {
    const given = { BASE_URL: 'https://example.com', AUTH_URL: 'https://example.com/auth/' }
    expect(readConfig(given).authUrl).toBe('https://example.com/auth')
    const mistaken = () => readConfig({ BASE_URL: 'https://example.com/svc/' })
    expect(mistaken).toThrow(/^[^\n]*\n {2}BASE_URL must have no path: svc needs its own host name$/)
  })

  it.each([
    ['https://a.example', 'https://b.example'],
    ['https://a.example', 'https://auth.a.example/oauth'],
    ['https://a.example', 'http://a.example/auth'],
    [undefined, 'https://a.example'],
  ])('refuses an AUTH_URL that the cookies of BASE_URL do not reach (%s, %s)', (base, auth) => {
    const environment = { ...(base !== undefined && { BASE_URL: base }), AUTH_URL: auth }
    expect(() => readConfig(environment)).toThrow(/AUTH_URL must have the scheme and host of BASE_URL/)
  })

  it('keeps events for 400 days, and their client IPs for 90, by default', () => {
    const byDefault = { retentionDays: 400, ipDays: 90 }
    expect(readConfig({}).events).toEqual(byDefault)
    expect(readConfig({ EVENT_RETENTION_DAYS: '', EVENT_IP_DAYS: '' }).events).toEqual(byDefault)
    expect(readConfig({ EVENT_RETENTION_DAYS: '36500' }).events.retentionDays).toBe(36_500)
  })

  it('accepts another port in AUTH_URL, because cookies know no ports', () => {
    const given = { BASE_URL: 'https://a.example', AUTH_URL: 'https://a.example:8443' }
    expect(readConfig(given).authUrl).toBe('https://a.example:8443')
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
    ['SITE_NAME', 'a'.repeat(51)],
    ['SITE_NAME', 'Acme\u202e Packages'],
    ['SITE_CONTACT', 'the administrators'],
    ['SMTP_URL', 'mail.example.com'],
    ['SMTP_URL', 'http://mail.example.com'],
    ['SMTP_URL', 'smtp://'],
    ['SIGN_UP', 'yes'],
    ['CLIENT_METADATA_DOCUMENTS', 'on'],
    ['MAIL_FROM', 'svc'],
    ['MAIL_FROM', 'svc <svc@example.com>, eve@example.com'],
    ['MAIL_FROM', 'svc\r\nBcc: eve@example.com <svc@example.com>'],
  ])('refuses %s=%s and names it', (name, value) => {
    expect(() => readConfig({ [name]: value })).toThrow(`  ${name} must`)
  })

  it('sends mails only with a mail server, and then needs a sender', () => {
    const SMTP_URL = 'smtp://user:p%40ss@mail.example.com:587'
    expect(readConfig({}).mail).toBeNull()
    expect(readConfig({ MAIL_FROM: 'svc@example.com' }).mail).toBeNull()
    expect(readConfig({ SMTP_URL, MAIL_FROM: 'svc <svc@example.com>' }).mail).toEqual({
      smtpUrl: SMTP_URL,
      from: 'svc <svc@example.com>',
    })
    expect(() => readConfig({ SMTP_URL })).toThrow('MAIL_FROM must be set with SMTP_URL')
  })

  it('accepts client metadata documents only when it is told to (OPENID 275)', () => {
    expect(readConfig({}).clientDocuments).toBe('off')
    expect(readConfig({ CLIENT_METADATA_DOCUMENTS: 'review' }).clientDocuments).toBe('review')
  })

  it('lets everybody sign up only with a mail server', () => {
    expect(readConfig({}).signUp).toBe('invited')
    expect(() => readConfig({ SIGN_UP: 'open' })).toThrow('SIGN_UP=open needs SMTP_URL')
    const mail = { SMTP_URL: 'smtp://mail.example.com', MAIL_FROM: 'svc@example.com' }
    expect(readConfig({ SIGN_UP: 'open', ...mail }).signUp).toBe('open')
    // Without passwords there is no sign-up by mail: providers create the accounts.
    expect(readConfig({ SIGN_UP: 'open', PASSWORD_SIGN_IN: 'admins' }).signUp).toBe('open')
  })

  it('reports one problem of each variable', () => {
    expect(() => readConfig({ BASE_URL: 'svc', AUTH_URL: 'https://svc/?a' })).toThrow(
      /^[^\n]*\n[^\n]*\n[^\n]*$/,
    )
  })

  it('names every mistake at once', () => {
    const mistaken = () => readConfig({ PORT: 'x', LOG_LEVEL: 'loud', DATABASE_URL: 'localhost' })
    expect(mistaken).toThrow(/DATABASE_URL.*PORT.*LOG_LEVEL/s)
  })

  describe('with ARCHIVE_STORE', () => {
    const keys = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' }
    const told = (environment: Record<string, string>) => {
      try {
        readConfig({ ...keys, ...environment })
        return null
      } catch (error) {
        return (error as Error).message.split('\n')[1]?.trim()
      }
    }

    it('reads a bucket with its prefix, endpoint, region and credentials', () => {
      const ARCHIVE_STORE =
        's3://packages/a/b/?endpoint=https://s3.example.com&region=eu-central-1&path_style=true'
      expect(readConfig({ ...keys, ARCHIVE_STORE, AWS_SESSION_TOKEN: 'token' }).archiveStore).toEqual({
        name: 'packages',
        prefix: 'a/b/',
        endpoint: 'https://s3.example.com',
        region: 'eu-central-1',
        isPathStyle: true,
        credentials: {
          kind: 'keys',
          keys: { accessKeyId: 'id', secretAccessKey: 'secret', sessionToken: 'token' },
        },
      })
      expect(readConfig({ ...keys, ARCHIVE_STORE: 's3://packages' })).toMatchObject({
        archiveStore: { prefix: '', endpoint: 'https://s3.us-east-1.amazonaws.com', isPathStyle: false },
        archiveDelivery: 'redirect',
      })
      expect(readConfig({}).archiveStore).toBeNull()
    })

    it.each([
      ['https://packages', 'must be empty or the URL of a bucket, such as s3://'],
      ['s3://', 'must be empty or the URL of a bucket, such as s3://'],
      ['s3://A_B', 'has an invalid bucket name: A_B'],
      ['s3://packages/a b', 'may have only letters'],
      ['s3://packages?bucket=x', 'has an unknown parameter bucket'],
      ['s3://packages?endpoint=ftp://x', 'must have an endpoint that is an http or https URL without a path'],
      [
        's3://packages?endpoint=https://x/y',
        'must have an endpoint that is an http or https URL without a path',
      ],
      ['s3://packages?path_style=yes', 'must have path_style=true or path_style=false'],
      ['s3://packages?region=a/b', 'has an invalid region'],
    ])('refuses %s', (ARCHIVE_STORE, reason) => {
      expect(told({ ARCHIVE_STORE })).toContain(`ARCHIVE_STORE ${reason}`)
    })

    it('refuses a store on the host and port of svc, with the reason', () => {
      const store = (endpoint: string) => `s3://packages?endpoint=${endpoint}&path_style=true`
      const BASE_URL = 'https://svc.example.com'
      const reason =
        'ARCHIVE_STORE must not be on the host and port of BASE_URL or AUTH_URL (https://svc.example.com): Composer would send the credentials for svc to the store'
      expect(told({ BASE_URL, ARCHIVE_STORE: store('https://svc.example.com:443') })).toBe(reason)
      expect(told({ BASE_URL, ARCHIVE_STORE: 's3://svc?endpoint=https://example.com' })).toContain(
        '(https://svc.example.com)',
      )
      expect(told({ BASE_URL, ARCHIVE_STORE: store('https://svc.example.com:9000') })).toBeNull()
      const AUTH_URL = 'https://svc.example.com:9000'
      expect(told({ BASE_URL, AUTH_URL, ARCHIVE_STORE: store(AUTH_URL) })).toContain(`(${AUTH_URL})`)
      expect(() =>
        readConfig({ ...keys, BASE_URL, ARCHIVE_STORE: store('https://svc.example.com'), PORT: 'x' }),
      ).toThrow(reason)
    })

    it('takes the credentials of a role when there are no keys, in the order of the programs of AWS', () => {
      const source = (variables: NodeJS.ProcessEnv) =>
        readConfig({ ARCHIVE_STORE: 's3://packages?region=eu-central-1', ...variables }).archiveStore
          ?.credentials
      const instance = {}
      const container = { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: '/v2/credentials/x' }
      const identity = { AWS_WEB_IDENTITY_TOKEN_FILE: '/run/token', AWS_ROLE_ARN: 'arn:aws:iam::1:role/svc' }
      expect(source(instance)).toEqual({ kind: 'instance', endpoint: 'http://169.254.169.254' })
      expect(source(container)).toEqual({
        kind: 'container',
        url: 'http://169.254.170.2/v2/credentials/x',
        token: null,
        tokenFile: null,
      })
      expect(source({ ...container, ...identity })).toEqual({
        kind: 'web-identity',
        endpoint: 'https://sts.eu-central-1.amazonaws.com',
        roleArn: 'arn:aws:iam::1:role/svc',
        sessionName: 'svc',
        tokenFile: '/run/token',
      })
      expect(source({ ...identity, AWS_REGION: 'cn-north-1' })).toMatchObject({
        endpoint: 'https://sts.cn-north-1.amazonaws.com.cn',
      })
      expect(source({ ...keys, ...container, ...identity })).toMatchObject({ kind: 'keys' })
    })

    it.each([
      [{ AWS_ACCESS_KEY_ID: 'id' }, 'needs both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'],
      [
        { AWS_EC2_METADATA_DISABLED: 'true' },
        'needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
      ],
      [
        { ARCHIVE_STORE: 's3://packages?endpoint=https://s3.example.com' },
        'needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
      ],
      [{ AWS_WEB_IDENTITY_TOKEN_FILE: '/run/token' }, 'needs AWS_ROLE_ARN with AWS_WEB_IDENTITY_TOKEN_FILE'],
      [
        { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://example.com/x' },
        'needs an https URL, or a local one, in AWS_CONTAINER_CREDENTIALS_FULL_URI',
      ],
      [
        { AWS_EC2_METADATA_SERVICE_ENDPOINT: 'metadata' },
        'needs an http or https URL without a path in AWS_EC2_METADATA_SERVICE_ENDPOINT',
      ],
    ])('refuses a bucket with %o', (variables, reason) => {
      const without = { ...keys, AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' }
      expect(() => readConfig({ ...without, ARCHIVE_STORE: 's3://packages', ...variables })).toThrow(
        `ARCHIVE_STORE ${reason}`,
      )
    })

    it('excludes files that nginx sends', () => {
      expect(told({ ARCHIVE_STORE: 's3://packages', ACCEL_REDIRECT_PREFIX: '/x/' })).toContain(
        'ARCHIVE_STORE cannot be combined with ACCEL_REDIRECT_PREFIX',
      )
    })
  })

  it('reports all contradictions between settings together', () => {
    const environment = { SMTP_URL: 'smtp://mail.test', PASSWORD_SIGN_IN: 'off', ARCHIVE_STORE: 'disk' }
    const contradictions = /PASSWORD_SIGN_IN.*\n.*ARCHIVE_STORE.*\n.*MAIL_FROM/
    expect(() => readConfig(environment)).toThrow(contradictions)
    const mistaken = () => readConfig({ ...environment, PORT: 'x', BASE_URL: 'svc' })
    expect(mistaken).toThrow(/BASE_URL.*\n.*PORT/)
    expect(mistaken).toThrow(contradictions)
  })
})
