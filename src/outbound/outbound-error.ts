import { cleanLine } from '../domain/plain-text.ts'

/**
 * Why a request has failed: the guard does not allow its host (`private`), scheme or URL; the receiver did not respond as
 * it must; or this process stops (`closed`).
 */
export type OutboundFailure =
  | 'private'
  | 'insecure'
  | 'invalid-url'
  | 'redirects'
  | 'timeout'
  | 'unreachable'
  | 'too-large'
  | 'undecodable'
  | 'status'
  | 'not-json'
  | 'closed'

/** The failures in which no response has arrived. */
const withoutResponse: readonly OutboundFailure[] = ['private', 'timeout', 'unreachable', 'closed']

/** A failed request. The message names the host and the reason. It has no credentials, and nothing of a response. */
export class OutboundError extends Error {
  override readonly name: string = 'OutboundError'
  readonly failure: OutboundFailure

  constructor(failure: OutboundFailure, message: string) {
    // A redirect can name a host. The message is stored, logged and shown in terminals.
    super(cleanLine(message.slice(0, 1000)))
    this.failure = failure
  }

  /** Whether the receiver could not be reached. */
  get isUnreachable(): boolean {
    return withoutResponse.includes(this.failure)
  }
}

/** Thrown for a host that is not public, or that does not exist. The message does not tell which. */
export class PrivateHostError extends Error {
  override readonly name = 'PrivateHostError'
}

/** What is wrong with the certificate of a host, by the code of Node. */
const certificateFaults: Readonly<Record<string, string>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name',
  CERT_HAS_EXPIRED: 'has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is not trusted here',
  SELF_SIGNED_CERT_IN_CHAIN: 'is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is not trusted here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'is not trusted here',
}

/** Converts an error of a request to an `OutboundError` with a readable message. */
export function toOutboundError(error: unknown, url: string): OutboundError {
  if (error instanceof OutboundError) return error
  const host = URL.canParse(url) ? new URL(url).host : 'the receiver'
  const refused = [error, (error as Error | null)?.cause].find((one) => one instanceof PrivateHostError)
  if (refused) return new OutboundError('private', refused.message)
  const { name = '', code = '' } = (error ?? {}) as { name?: string; code?: string }
  if (name === 'TimeoutError' || /TIMEOUT/.test(code))
    return new OutboundError('timeout', `${host} did not respond in time`)
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE' || code === 'ERR_BUFFER_TOO_LARGE')
    return new OutboundError('too-large', `${host} sent a body that is too large`)
  // The codes of zlib and of brotli.
  if (/^Z_|^ERR_(?!TLS_|SSL_)/.test(code))
    return new OutboundError('undecodable', `${host} sent a body that cannot be decoded`)
  const fault = certificateFaults[code]
  if (fault !== undefined)
    return new OutboundError('unreachable', `${host} cannot be reached: its certificate ${fault} (${code})`)
  return new OutboundError('unreachable', `${host} cannot be reached${code ? ` (${code})` : ''}`)
}
