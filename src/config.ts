import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { type BucketSettings, bucketOrigin, readBucket } from './domain/bucket.ts'
import { maxGraceDays } from './domain/factor-grace.ts'
import { type ProviderSettings, readProviders } from './domain/identity-provider.ts'
import { plainText } from './domain/plain-text.ts'
import { type PrivateHost, readPrivateHost } from './domain/private-hosts.ts'
import {
  hostsIn,
  isIpOrRange,
  publicUrl,
  readTrustProxy,
  urlHost,
  wholeNumberSetting,
} from './domain/setting-formats.ts'
import { maxSiteNameCharacters, type Site } from './domain/site.ts'

/** The folder with `migrations/` and `views/`. It is the same for `src/` and `dist/`. */
export const projectRoot = fileURLToPath(new URL('..', import.meta.url))

const factorRules = ['off', 'admins', 'all'] as const
const secretKey = z.string().regex(/^[!-~]{32,1000}$/, {
  error: 'must be 32 to 1000 ASCII characters without spaces, such as the output of: openssl rand -base64 32',
})

const lifetime = wholeNumberSetting(1, 10 * 365 * 86_400)
const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const emailAddress = z.string().regex(/^[^\s@;()]+@[^\s@;()]+$/, 'must be an email address')

const trueOrFalse = z.enum(['true', 'false'], { error: 'must be true or false' })
const privateHosts = z
  .string()
  .transform((text) => hostsIn(text).map(readPrivateHost))
  .refine(
    (read): read is PrivateHost[] => !read.includes(null),
    'must be host names, IPs or ranges such as 10.0.0.0/8, each with or without :port, separated by commas',
  )
  .default([])

const Environment = z.object({
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres:// or postgresql://')
    .optional(),
  DATABASE_PREPARE: z.enum(['true', 'false'], { error: 'must be true or false' }).default('true'),
  BASE_URL: publicUrl
    // Cookies and the links of pages start at the root of the host.
    .refine((url) => !/^\w+:\/\/[^/]+\//.test(url), 'must have no path: svc needs its own host name')
    .optional(),
  AUTH_URL: publicUrl.optional(),
  HOST: z
    .string()
    .regex(/^[\w.:%-]+$/, 'must be a host name or an IP address')
    .default('localhost'),
  PORT: wholeNumberSetting(1, 65_535).default(3000),
  METRICS_PORT: wholeNumberSetting(1, 65_535).optional(),
  METRICS_TOKEN: z
    .string()
    .regex(/^[\w.~+/=-]{16,1000}$/, 'must be 16 to 1000 letters, digits or characters of ._~+/=-')
    .optional(),
  DATA_DIR: z.string().default('./data'),
  SECRET_KEY: secretKey.optional(),
  SECRET_KEY_PREVIOUS: secretKey.optional(),
  REQUIRE_SECOND_FACTOR: z.enum(factorRules, { error: `must be ${factorRules.join(', ')}` }).default('off'),
  REQUIRE_SECOND_FACTOR_FROM: z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], {
      error: 'must be a day or a time, such as 2027-01-31 or 2027-01-31T08:00:00Z',
    })
    .optional(),
  TRUST_PROXY: z
    .string()
    .refine(
      (text) => /^(?:true|false|\d{1,2})$/.test(text) || text.split(',').every(isIpOrRange),
      'must be true, false, a number of hops, or IP addresses separated by commas',
    )
    .default('false'),
  MIGRATIONS_DIR: z.string().optional(),
  MAX_ARCHIVE_BYTES: wholeNumberSetting(1, 10 * 1024 ** 3).default(100 * 1024 ** 2),
  GROUP_CREATION: z.enum(['everyone', 'admins'], { error: 'must be everyone or admins' }).default('everyone'),
  GROUP_QUOTA_BYTES: wholeNumberSetting(1, 100 * 1024 ** 4).optional(),
  ACCOUNT_MAX_GROUPS: wholeNumberSetting(0, 1_000_000).default(100),
  ACCOUNT_MAX_TOKENS: wholeNumberSetting(0, 1_000_000).default(1000),
  GROUP_MAX_REPOSITORIES: wholeNumberSetting(0, 1_000_000).default(1000),
  GROUP_MAX_DEPLOY_TOKENS: wholeNumberSetting(0, 1_000_000).default(1000),
  GROUP_MAX_UPSTREAMS: wholeNumberSetting(0, 1_000_000).default(100),
  REPOSITORY_MAX_STAGES: wholeNumberSetting(0, 1_000_000).default(1000),
  DISK_RESERVE_BYTES: wholeNumberSetting(0, 100 * 1024 ** 4).default(256 * 1024 ** 2),
  DATABASE_MAX_BYTES: wholeNumberSetting(1, 100 * 1024 ** 4).optional(),
  ACCEL_REDIRECT_PREFIX: z
    .string()
    .regex(/^\/(?:[\w.~-]+\/)+$/, 'must be a path that begins and ends with a slash, such as /svc-archives/')
    .optional(),
  ARCHIVE_STORE: z.string().optional(),
  ARCHIVE_DELIVERY: z.enum(['redirect', 'proxy'], { error: 'must be redirect or proxy' }).default('redirect'),
  ARCHIVE_CHECK_DAYS: wholeNumberSetting(1, 36_500).default(30),
  AWS_ACCESS_KEY_ID: z.string().optional(),
  AWS_SECRET_ACCESS_KEY: z.string().optional(),
  AWS_SESSION_TOKEN: z.string().optional(),
  LOG_LEVEL: z.enum(levels, { error: `must be one of ${levels.join(', ')}` }).default('info'),
  CODE_LIFETIME_SECONDS: lifetime.default(600),
  ACCESS_TOKEN_LIFETIME_SECONDS: lifetime.default(28_800),
  REFRESH_TOKEN_LIFETIME_SECONDS: lifetime.default(15_552_000),
  REFRESH_GRACE_SECONDS: wholeNumberSetting(0, 86_400).default(300),
  EVENT_RETENTION_DAYS: wholeNumberSetting(1, 36_500).default(400),
  EVENT_IP_DAYS: wholeNumberSetting(0, 36_500).default(90),
  UPSTREAM_AUTH_FILE: z.string().optional(),
  TRUSTED_ROOT_FILE: z.string().optional(),
  OUTBOUND_HTTP: trueOrFalse.default('false'),
  OUTBOUND_PRIVATE_HOSTS: privateHosts,
  UPSTREAM_HTTP: trueOrFalse.default('false'),
  UPSTREAM_PRIVATE_HOSTS: privateHosts,
  UPSTREAM_FRESH_SECONDS: wholeNumberSetting(1, 86_400).default(60),
  UPSTREAM_KEEP_DAYS: wholeNumberSetting(1, 36_500).optional(),
  UPSTREAM_CONTACT: emailAddress.optional(),
  SITE_NAME: plainText(maxSiteNameCharacters, 1).optional(),
  SITE_LOGO: z.string().optional(),
  SITE_CONTACT: emailAddress.optional(),
  SMTP_URL: z
    .string()
    .refine(
      (url) => /^smtps?:\/\//.test(url) && URL.canParse(url) && new URL(url).hostname !== '',
      'must be the URL of a mail server, such as smtp://user:password@mail.example.com:587',
    )
    .optional(),
  MAIL_FROM: z
    .string()
    .regex(
      /^(?:[^\s@<>,;"]+@[^\s@<>,;"]+|[^<>,;"@\p{Cc}]+ <[^\s@<>,;"]+@[^\s@<>,;"]+>)$/u,
      'must be an email address, or a name with one, such as svc <svc@example.com>',
    )
    .optional(),
  PASSWORD_SIGN_IN: z.enum(['on', 'off', 'admins'], { error: 'must be on, off or admins' }).default('on'),
  SIGN_UP: z
    .enum(['closed', 'invited', 'open'], { error: 'must be closed, invited or open' })
    .default('invited'),
  CLIENT_METADATA_DOCUMENTS: z
    .enum(['off', 'review', 'open'], { error: 'must be off, review or open' })
    .default('off'),
})

/** All settings, read once at the start (CONTRACT 2.3). */
export interface Config {
  /** Null when svc runs its own embedded PostgreSQL under `dataDir`. */
  databaseUrl: string | null
  /** False when a pooler in front of PostgreSQL does not support prepared statements. Then no statement has a name. */
  preparesStatements: boolean
  /** The public URL, without a slash at the end. All URLs that svc sends begin with it, never with the Host header. */
  baseUrl: string
  /** The issuer URL: `{auth_url}` in docs/rules/. */
  authUrl: string
  /** Whether the environment sets BASE_URL and AUTH_URL. Commands read missing ones from the database. */
  givenUrls: { base: boolean; auth: boolean }
  host: string
  port: number
  metrics: MetricsSettings
  dataDir: string
  trustProxy: boolean | number | string
  /** The key that encrypts the secrets of second factors. Null when a file in `dataDir` contains it. */
  secretKey: string | null
  /** The previous key. svc decrypts with it until `svc rekey` has run. */
  previousSecretKey: string | null
  /** The people who must have a second factor. Groups may also require it from their members. */
  requireSecondFactor: SiteFactorRule
  /** The folder of the operator's migrations. */
  migrationsDir: string
  /** True when the environment sets the folder. Then the folder must exist. */
  isMigrationsDirGiven: boolean
  maxArchiveBytes: number
  /** The internal nginx location that sends archives. Null when svc sends them itself. */
  accelRedirectPrefix: string | null
  /** The bucket of the archives. Null when they are in `dataDir`. */
  archiveStore: BucketSettings | null
  /** How clients get archives from a bucket: by a redirect, or through this process. */
  archiveDelivery: 'redirect' | 'proxy'
  /** Each stored archive is compared with its hash again after so many days. */
  archiveCheckDays: number
  /** Who creates groups. An operator always does: a site administrator, or a command. */
  groupCreation: 'everyone' | 'admins'
  limits: CountLimits
  storage: StorageLimits
  logLevel: (typeof levels)[number]
  lifetimes: Lifetimes
  events: EventSettings
  /** The trusted roots of Sigstore, with which attestations are verified. Null: none are accepted. */
  trustedRootFile: string | null
  outbound: OutboundConfig
  upstreams: UpstreamConfig
  site: Site
  /** The providers that people may sign in with: the variables `OIDC_<NAME>_…`. */
  providers: readonly ProviderSettings[]
  /** The people who may sign in with a password: everybody, nobody, or only site administrators. */
  passwordSignIn: 'on' | 'off' | 'admins'
  /** The mail server. Null when svc sends no mails. */
  mail: MailSettings | null
  /** How accounts are created: by administrators only, also by invited people, or by everybody with an email. */
  signUp: 'closed' | 'invited' | 'open'
  /**
   * What happens with a client id that is the URL of an unknown document: it is refused, waits for a review, or becomes an
   * application (OPENID 275–277).
   */
  clientDocuments: 'off' | 'review' | 'open'
}

/** Who reads `/metrics`. Without port and token, everybody reads it without the hosts of upstreams. */
export interface MetricsSettings {
  /** The separate port for metrics, on the same host. Null for none. */
  port: number | null
  /** The bearer token that `/metrics` requires. Null for none. */
  token: string | null
}

/** How many things an account, a group or a repository may have. Operators may create more. */
export interface CountLimits {
  /** For each account: groups that it created, and personal access tokens that work. */
  groups: number
  tokens: number
  /** For each group. */
  repositories: number
  deployTokens: number
  upstreams: number
  /** For each repository: staged versions that wait. */
  stages: number
}

/** How many bytes svc may store. Pulls of stored packages work without any room left. */
export interface StorageLimits {
  /** The bytes of the archives of a group, stored and mirrored. Null for no limit. */
  groupBytes: number | null
  /** The free space of the disk of `dataDir` that new archives leave. */
  reserveBytes: number
  /** The size of the database, including its indexes, above which nothing new is stored. Null for no limit. */
  databaseBytes: number | null
}

/** How mails are sent. */
export interface MailSettings {
  /** It may contain a password. */
  smtpUrl: string
  /** The sender: an email address, or a name with one. */
  from: string
}

/** Nobody, site administrators, or everybody. */
export type FactorRule = (typeof factorRules)[number]

/** Of whom the site requires a second factor. Before `from` it only asks for one; null: it requires one now. */
export interface SiteFactorRule {
  of: FactorRule
  from: Date | null
}

/** How long events are kept. */
export interface EventSettings {
  /** Days after which an event is removed. */
  retentionDays: number
  /** Days after which an event loses its client IP. */
  ipDays: number
}

/** The operator's exceptions for requests to other servers. They hold only for what the operator has added. */
export interface OutboundConfig {
  /** Whether plain http is allowed. */
  allowHttp: boolean
  /** Hosts that may have private IPs. */
  privateHosts: readonly PrivateHost[]
}

/** The settings for requests to other Composer repositories. */
export interface UpstreamConfig {
  /** Credentials in the format of Composer's auth.json; null without any. */
  authFile: string | null
  /** Seconds after which svc checks a document with the upstream again. */
  freshSeconds: number
  /** Days after which an unused archive is removed; null: never. */
  keepDays: number | null
  /** The email address in requests to upstreams. Null without one. */
  contact: string | null
}

/** SPEC 8, all in seconds. */
export interface Lifetimes {
  code: number
  accessToken: number
  refreshToken: number
  /** How long the old pair still works after a refresh. */
  grace: number
}

/**
 * Adds the variables of the file `.env` in the working directory to the process's environment. A variable that is set
 * already keeps its value. Throws when the file exists but cannot be read.
 */
export function loadEnvironmentFile(): void {
  try {
    process.loadEnvFile()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') throw new Error(`The file ${resolve('.env')} cannot be read (${code}).`)
  }
}

/** Reads the environment. An empty variable counts as unset. Throws one Error that lists every mistake. */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const read = Environment.safeParse(given)
  const { providers, mistakes: providerMistakes } = readProviders(given)
  const ownUrls = [read.success ? baseUrlOf(read.data) : given['BASE_URL'], given['AUTH_URL']]
  const archiveStore = readArchiveStore(given, ownUrls)
  const mistakes = [
    ...(read.error?.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`) ?? []),
    ...providerMistakes,
  ]
  if (given['PASSWORD_SIGN_IN'] === 'off' && providers.length === 0 && providerMistakes.length === 0) {
    mistakes.push('PASSWORD_SIGN_IN can be off only with a provider: set OIDC_<NAME>_ISSUER')
  }
  if (read.data?.AUTH_URL !== undefined && !isOnHostOf(baseUrlOf(read.data), read.data.AUTH_URL)) {
    mistakes.push(
      `AUTH_URL must have the scheme and host of BASE_URL (${baseUrlOf(read.data)}): browsers send the cookies of a sign-in to no other host`,
    )
  }
  if (read.data?.METRICS_PORT !== undefined && read.data.METRICS_PORT === read.data.PORT) {
    mistakes.push('METRICS_PORT must not be PORT: it is a separate port that only your monitoring reaches')
  }
  if (typeof archiveStore === 'string') mistakes.push(`ARCHIVE_STORE ${archiveStore}`)
  if (read.data?.REQUIRE_SECOND_FACTOR_FROM !== undefined) {
    const { REQUIRE_SECOND_FACTOR: of, REQUIRE_SECOND_FACTOR_FROM: from } = read.data
    if (of === 'off') mistakes.push('REQUIRE_SECOND_FACTOR_FROM needs REQUIRE_SECOND_FACTOR=admins or all')
    if (Date.parse(from) > Date.now() + maxGraceDays * 86_400_000) {
      mistakes.push(`REQUIRE_SECOND_FACTOR_FROM must be within the next ${maxGraceDays} days`)
    }
  }
  if (given['SMTP_URL'] !== undefined && given['MAIL_FROM'] === undefined) {
    mistakes.push('MAIL_FROM must be set with SMTP_URL: it is the sender of the mails')
  }
  const hasSignUpPage = given['SIGN_UP'] === 'open' && (given['PASSWORD_SIGN_IN'] ?? 'on') === 'on'
  if (hasSignUpPage && given['SMTP_URL'] === undefined) {
    mistakes.push('SIGN_UP=open needs SMTP_URL: people who sign up must open a link in a mail')
  }
  if (!read.success || typeof archiveStore === 'string' || mistakes.length > 0) {
    throw new Error(`The configuration cannot be used:\n  ${mistakes.join('\n  ')}`)
  }
  const env = read.data
  const baseUrl = baseUrlOf(env)
  return Object.freeze({
    databaseUrl: env.DATABASE_URL ?? null,
    preparesStatements: env.DATABASE_PREPARE === 'true',
    baseUrl,
    authUrl: env.AUTH_URL ?? baseUrl,
    givenUrls: { base: env.BASE_URL !== undefined, auth: env.AUTH_URL !== undefined },
    host: env.HOST,
    port: env.PORT,
    metrics: { port: env.METRICS_PORT ?? null, token: env.METRICS_TOKEN ?? null },
    dataDir: resolve(env.DATA_DIR),
    trustProxy: readTrustProxy(env.TRUST_PROXY),
    secretKey: env.SECRET_KEY ?? null,
    previousSecretKey: env.SECRET_KEY_PREVIOUS ?? null,
    requireSecondFactor: {
      of: env.REQUIRE_SECOND_FACTOR,
      from: env.REQUIRE_SECOND_FACTOR_FROM === undefined ? null : new Date(env.REQUIRE_SECOND_FACTOR_FROM),
    },
    migrationsDir: resolve(env.MIGRATIONS_DIR ?? join(env.DATA_DIR, 'migrations')),
    isMigrationsDirGiven: env.MIGRATIONS_DIR !== undefined,
    maxArchiveBytes: env.MAX_ARCHIVE_BYTES,
    accelRedirectPrefix: env.ACCEL_REDIRECT_PREFIX ?? null,
    archiveStore,
    archiveDelivery: env.ARCHIVE_DELIVERY,
    archiveCheckDays: env.ARCHIVE_CHECK_DAYS,
    groupCreation: env.GROUP_CREATION,
    limits: {
      groups: env.ACCOUNT_MAX_GROUPS,
      tokens: env.ACCOUNT_MAX_TOKENS,
      repositories: env.GROUP_MAX_REPOSITORIES,
      deployTokens: env.GROUP_MAX_DEPLOY_TOKENS,
      stages: env.REPOSITORY_MAX_STAGES,
      upstreams: env.GROUP_MAX_UPSTREAMS,
    },
    storage: {
      groupBytes: env.GROUP_QUOTA_BYTES ?? null,
      reserveBytes: env.DISK_RESERVE_BYTES,
      databaseBytes: env.DATABASE_MAX_BYTES ?? null,
    },
    logLevel: env.LOG_LEVEL,
    lifetimes: {
      code: env.CODE_LIFETIME_SECONDS,
      accessToken: env.ACCESS_TOKEN_LIFETIME_SECONDS,
      refreshToken: env.REFRESH_TOKEN_LIFETIME_SECONDS,
      grace: env.REFRESH_GRACE_SECONDS,
    },
    events: { retentionDays: env.EVENT_RETENTION_DAYS, ipDays: env.EVENT_IP_DAYS },
    trustedRootFile: env.TRUSTED_ROOT_FILE ? resolve(env.TRUSTED_ROOT_FILE) : null,
    outbound: {
      // The names of earlier releases stay valid.
      allowHttp: env.OUTBOUND_HTTP === 'true' || env.UPSTREAM_HTTP === 'true',
      privateHosts: [...env.OUTBOUND_PRIVATE_HOSTS, ...env.UPSTREAM_PRIVATE_HOSTS],
    },
    upstreams: {
      authFile: env.UPSTREAM_AUTH_FILE ? resolve(env.UPSTREAM_AUTH_FILE) : null,
      freshSeconds: env.UPSTREAM_FRESH_SECONDS,
      keepDays: env.UPSTREAM_KEEP_DAYS ?? null,
      contact: env.UPSTREAM_CONTACT ?? null,
    },
    site: {
      name: env.SITE_NAME ?? null,
      logoFile: env.SITE_LOGO ? resolve(env.SITE_LOGO) : null,
      contact: env.SITE_CONTACT ?? null,
    },
    mail: env.SMTP_URL && env.MAIL_FROM ? { smtpUrl: env.SMTP_URL, from: env.MAIL_FROM } : null,
    providers,
    passwordSignIn: env.PASSWORD_SIGN_IN,
    signUp: env.SIGN_UP,
    clientDocuments: env.CLIENT_METADATA_DOCUMENTS,
  })
}

function baseUrlOf({ BASE_URL, HOST, PORT }: z.output<typeof Environment>): string {
  return BASE_URL ?? `http://${urlHost(HOST)}:${PORT}`
}

/** Returns the origins under which browsers may reach the pages: of BASE_URL and of AUTH_URL. They may differ in the port. */
export function originsOf({ baseUrl, authUrl }: Pick<Config, 'baseUrl' | 'authUrl'>): string[] {
  return [...new Set([baseUrl, authUrl].map((url) => new URL(url).origin))]
}

function isOnHostOf(baseUrl: string, authUrl: string): boolean {
  const [base, auth] = [new URL(baseUrl), new URL(authUrl)]
  return base.protocol === auth.protocol && base.hostname === auth.hostname
}

/** Reads the bucket of the archives. Returns null without one, and a string that says what is wrong with it. */
function readArchiveStore(
  given: NodeJS.ProcessEnv,
  ownUrls: readonly (string | undefined)[],
): BucketSettings | null | string {
  if (given['ARCHIVE_STORE'] === undefined) return null
  const bucket = readBucket(given['ARCHIVE_STORE'], given)
  if (typeof bucket === 'string') return bucket
  if (ownUrls.some((url = '') => URL.canParse(url) && new URL(url).origin === bucketOrigin(bucket))) {
    return `must not be on the host and port of BASE_URL or AUTH_URL (${bucketOrigin(bucket)}): Composer would send the credentials for svc to the store`
  }
  if (given['ACCEL_REDIRECT_PREFIX'] === undefined) return bucket
  return 'cannot be combined with ACCEL_REDIRECT_PREFIX: nginx cannot read the files of a bucket'
}
