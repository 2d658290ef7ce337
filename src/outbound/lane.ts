import { Agent, type Dispatcher, request } from 'undici'
import type { PrivateHost } from '../domain/private-hosts.ts'
import { type HostGuard, openHostGuard, type Resolver } from './guard.ts'
import type { Bounds } from './kinds.ts'

/** The connections of one kind. Those with exceptions are apart: nobody else may use an open connection to a private host. */
export interface Lane {
  guard: HostGuard
  send: (
    url: URL,
    options: Omit<Dispatcher.RequestOptions, 'origin' | 'path'>,
  ) => Promise<Dispatcher.ResponseData>
  /** Closes the connections, and aborts the requests that still run. */
  destroy: () => Promise<void>
}

/** Opens a lane. It connects for its first request. */
export function openLane(bounds: Bounds, privateHosts: readonly PrivateHost[], resolver?: Resolver): Lane {
  const { milliseconds, headersMilliseconds, idleMilliseconds, maxBytes, connections } = bounds
  const guard = openHostGuard(bounds, privateHosts, resolver)
  const agent = new Agent({
    connections,
    headersTimeout: headersMilliseconds ?? milliseconds,
    bodyTimeout: idleMilliseconds ?? milliseconds,
    keepAliveTimeout: 10_000,
    maxHeaderSize: 64 * 1024,
    maxResponseSize: maxBytes,
    connect: guard.connect,
  })
  return {
    guard,
    // undici ignores credentials in a URL.
    send: (url, options) => request(url, { ...options, dispatcher: agent }),
    // Not `agent.close()`: it forgets its connections, and `destroy` then aborts nothing.
    destroy: () => agent.destroy(),
  }
}
