import type { Readable } from 'node:stream'
import { cleanLine } from '../../domain/plain-text.ts'
import { Refusal } from '../../domain/refusal.ts'
import { toOutboundError } from '../../outbound/outbound-error.ts'

/** A failed request to an upstream, with the reason. The message contains no credentials. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** The HTTP status of the response. Null when there was no response. */
  readonly status: number | null
  /** The seconds of the Retry-After header. Null when there was none. */
  readonly retryAfter: number | null
  /** Whether the request got no response because the upstream could not be reached. */
  readonly isUnreachable: boolean

  constructor(
    message: string,
    about: { status?: number; retryAfter?: number | null; isUnreachable?: boolean } = {},
  ) {
    // Parts of the message come from upstreams. It is stored, logged and shown in terminals.
    super(cleanLine(message.slice(0, 1000)))
    this.status = about.status ?? null
    this.retryAfter = about.retryAfter ?? null
    this.isUnreachable = about.isUnreachable ?? false
  }
}

/**
 * A request that the close of the client has ended, or prevented. It says nothing about the upstream, so do not store
 * it as a failure.
 */
export class ClosedClientError extends UpstreamError {
  constructor() {
    super('the request was ended, because the process stops or its time was over')
  }
}

/** Converts an error of a request to an `UpstreamError` with a readable message. */
export function toUpstreamError(error: unknown, url: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  const failed = toOutboundError(error, url)
  return failed.failure === 'closed' ? new ClosedClientError() : new UpstreamError(failed.message, failed)
}

/**
 * Returns the error for a body of an upstream that could not be received. A full disk of this machine is not a failure
 * of the upstream, so that error stays as it is.
 */
export function toReceiveError(error: unknown, body: Readable, url: string): unknown {
  const isOurs = body.errored === null && (error as NodeJS.ErrnoException | null)?.syscall !== undefined
  return error instanceof Refusal || isOurs ? error : toUpstreamError(error, url)
}
