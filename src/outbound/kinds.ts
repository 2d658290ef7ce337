/** The bounds of the requests of one kind. */
export interface Bounds {
  /** What an operator must do, so that the exceptions of OUTBOUND_PRIVATE_HOSTS and OUTBOUND_HTTP hold. */
  act: string
  /** The time for all of it: the wait for a place, the redirects, and the body. */
  milliseconds: number
  /** The time until the headers arrive, if it is shorter. */
  headersMilliseconds?: number
  /** The time between two parts of the body, if it is shorter. */
  idleMilliseconds?: number
  /** The size of a body as it is sent. */
  maxBytes: number
  /** How many requests of the kind a process sends at once. Others wait. */
  requests: number
  /** How many of them go to one origin at once. */
  connections: number
  /** How many redirects are followed. Without any, the redirect is the response. */
  redirects: number
  /** The operator has named these URLs in the environment, so they may be on every host, and use http on this machine. */
  isConfigured?: boolean
  /**
   * Everybody who is signed in names these URLs. So the exceptions hold only for hosts that OUTBOUND_PRIVATE_HOSTS lists one by
   * one: a range would let everybody look for what listens in it.
   */
  isNamedByAnybody?: boolean
}

/** The largest archive that MAX_ARCHIVE_BYTES can allow. */
const largestArchiveBytes = 10 * 1024 ** 3

/** Every kind of request has bounds and connections of its own, so a receiver of one kind never delays another kind. */
export const kinds = {
  /** Other Composer repositories: metadata, archives, advisories. */
  upstream: {
    act: 'add the upstream',
    milliseconds: 10 * 60_000,
    headersMilliseconds: 15_000,
    idleMilliseconds: 30_000,
    maxBytes: largestArchiveBytes,
    requests: 512,
    connections: 16,
    redirects: 5,
  },
  /** `svc import`. */
  import: {
    act: 'run the import',
    milliseconds: 10 * 60_000,
    headersMilliseconds: 15_000,
    idleMilliseconds: 30_000,
    maxBytes: largestArchiveBytes,
    requests: 16,
    connections: 16,
    redirects: 5,
  },
  /** The discovery documents and the keys of CI providers. */
  issuer: {
    act: 'add the trusted publisher',
    milliseconds: 5_000,
    maxBytes: 64 * 1024,
    requests: 32,
    connections: 2,
    redirects: 0,
  },
  /** The OpenID Connect providers of `OIDC_<NAME>_ISSUER`, through which people sign in. */
  provider: {
    act: 'name the provider',
    milliseconds: 5_000,
    maxBytes: 1024 * 1024,
    requests: 128,
    connections: 64,
    redirects: 0,
    isConfigured: true,
  },
  /** Client metadata documents (OPENID 278). Further bounds, for each origin, are in `oauth/fetch-document.ts`. */
  clientDocument: {
    act: 'list the host itself there, not only a range',
    milliseconds: 1_000,
    maxBytes: 5 * 1024,
    requests: 16,
    connections: 4,
    redirects: 0,
    isNamedByAnybody: true,
  },
  /** The receivers of webhooks. Only the start of a response is read. */
  webhook: {
    act: 'add the webhook',
    milliseconds: 20_000,
    maxBytes: 1024 * 1024,
    requests: 64,
    connections: 4,
    redirects: 0,
  },
  /** The receivers of logout tokens. Of a response only the status counts. */
  logout: {
    act: 'register the application',
    milliseconds: 10_000,
    maxBytes: 64 * 1024,
    requests: 64,
    connections: 4,
    redirects: 0,
  },
  /** Git repositories. The program `git` sends the requests, to an address that was approved here. */
  git: {
    act: 'add the source',
    milliseconds: 10_000,
    maxBytes: 0,
    requests: 16,
    connections: 1,
    redirects: 0,
  },
} as const satisfies Record<string, Bounds>

/** What a request is for. */
export type OutboundKind = keyof typeof kinds

/** The bounds of every kind. */
export type OutboundBounds = Readonly<Record<OutboundKind, Bounds>>

/** The kinds whose requests svc itself sends. */
export type RequestKind = Exclude<OutboundKind, 'git'>
