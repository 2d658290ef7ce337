import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** At most as long as the column `request_id` of identity events, and safe in every log. */
const takenId = /^[A-Za-z0-9._:/+=-]{1,100}$/

/** `traceparent` of version 00 (W3C Trace Context §3.2). The ids of trace and span are not all zeros. */
const validTraceparent = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/**
 * Returns the id of a request: its X-Request-Id, so that a proxy and svc log the same id, or a new UUID if it has none, or
 * one with other characters or more than 100. Clients choose it, so nothing may rely on it.
 */
export function requestIdOf({ headers }: IncomingMessage): string {
  const sent = headers['x-request-id']
  return typeof sent === 'string' && takenId.test(sent) ? sent : randomUUID()
}

/** Returns the `traceparent` of a request, for the log. Null without a valid one. */
export function traceparentOf({ headers }: IncomingMessage): string | null {
  const { traceparent } = headers
  return typeof traceparent === 'string' && validTraceparent.test(traceparent) ? traceparent : null
}
