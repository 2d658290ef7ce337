import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A closed loop: every connection sends its next request after the response to the last one. */
export interface Load {
  /** The port on 127.0.0.1. */
  port: number
  connections: number
  /** The number of requests. The duration is limited too. */
  count: number
  /** Complete requests as bytes. The connections send them in turn. */
  requests: string[]
  /** The expected response. */
  status: number
  keepBodies?: boolean
}

export interface LoadResult {
  count: number
  seconds: number
  medianMs: number
  p99Ms: number
  /** In the order of the requests; empty unless they are kept. */
  bodies: string[]
}

/**
 * Runs a load in a separate process, so that it takes no time from the process that measures. autocannon needs 35 to
 * 40 µs of processor time for a request, which is more than nginx needs: it sent 10,000 requests a second where this
 * sends 40,000, so the ratios to nginx would have measured autocannon.
 */
export async function runLoad(load: Load): Promise<LoadResult> {
  const child = fork(fileURLToPath(new URL('load-process.ts', import.meta.url)))
  child.send(load)
  const [response] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error('the load generator ended'))),
  ])) as [LoadResult | { error: string }]
  if ('error' in response) throw new Error(response.error)
  return response
}

/** Returns a request as bytes. */
export function requestText(
  path: string,
  {
    method = 'GET',
    headers = {},
    body = '',
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): string {
  const all = {
    host: '127.0.0.1',
    ...headers,
    ...(body !== '' && { 'content-length': String(Buffer.byteLength(body)) }),
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}
