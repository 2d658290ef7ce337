/** The error codes of registries (SPEC 7) and of the API (CONTRACT 6.1), which are those of gRPC. */
export const errcode = {
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const

/** One of the numbers in `errcode`. */
export type Errcode = (typeof errcode)[keyof typeof errcode]

const statusOf: Record<Errcode, number> = {
  3: 400,
  4: 504,
  5: 404,
  6: 409,
  7: 403,
  8: 429,
  9: 400,
  10: 409,
  11: 400,
  12: 501,
  13: 500,
  14: 503,
  15: 500,
  16: 401,
}

/** The body of an error response. Composer prints `warning`. `details` are for people who read the JSON. */
export interface RefusalBody {
  errcode: Errcode
  errmsg: string
  warning?: string
  details?: readonly string[]
}

interface RefusalOptions {
  /** An HTTP status that differs from the usual one of the errcode: 400 for 4, 413 or 507 for 8, and 403 or 404 for 16. */
  status?: number
  warning?: string
  details?: readonly string[]
  /** The Allow header of a 405. */
  allow?: string
  /** The Retry-After header. The default for 503 is 5. */
  retryAfterSeconds?: number
  /** Whether it is a failure of the server, for the log of errors. The default is true for a status of 5xx. */
  isFailure?: boolean
  /** The cause is for the log only. It is never sent. */
  cause?: unknown
}

/** An error that the client may read. It has the errcode and errmsg of SPEC 7, and help in other members. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal'
  readonly errcode: Errcode
  readonly status: number
  readonly warning: string | undefined
  readonly details: readonly string[]
  readonly allow: string | undefined
  readonly retryAfterSeconds: number | undefined
  /** Whether the server failed, so that the log gets the error. */
  readonly isFailure: boolean

  constructor(errcode: Errcode, errmsg: string, options: RefusalOptions = {}) {
    super(errmsg, 'cause' in options ? { cause: options.cause } : undefined)
    this.errcode = errcode
    this.status = options.status ?? statusOf[errcode]
    this.warning = options.warning
    this.details = options.details ?? []
    this.allow = options.allow
    this.retryAfterSeconds = options.retryAfterSeconds ?? (this.status === 503 ? 5 : undefined)
    this.isFailure = options.isFailure ?? this.status >= 500
  }

  get errmsg(): string {
    return this.message
  }

  /** The errmsg as a sentence, for pages. */
  get sentence(): string {
    return `${this.message.charAt(0).toUpperCase()}${this.message.slice(1)}.`
  }

  /** What people read: the warning, or else the errmsg, as a sentence. */
  get explanation(): string {
    return this.warning === undefined ? this.sentence : this.warning.replace(/(?<![.!?])$/, '.')
  }

  get body(): RefusalBody {
    return {
      errcode: this.errcode,
      errmsg: this.errmsg,
      ...(this.warning !== undefined && { warning: this.warning }),
      ...(this.details.length > 0 && { details: this.details }),
    }
  }
}

/** Returns whether a refusal is about the server: its store is full or unavailable. Then other versions would be refused too. */
export function isOfServer({ errcode: code, status }: Refusal): boolean {
  return code === errcode.unavailable || status === 507
}

/**
 * Returns the error of SPEC 7 for a missing permission. The status is 401 for missing or bad credentials, 403 for good
 * credentials without the permission, and 404 for an upload to a repository that the token may not see.
 */
export function notAuthorized(options: Omit<RefusalOptions, 'status'> & { status?: 401 | 403 | 404 } = {}) {
  return new Refusal(errcode.unauthenticated, 'not authorized', options)
}
