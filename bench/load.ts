import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A closed loop: every connection sends its next request when the last one is answered. */
export interface Load {
  /** Of 127.0.0.1. */
  port: number
  connections: number
  /** How many requests in all; bounded in time as well. */
  count: number
  /** Whole requests as bytes, taken in turn. */
  requests: string[]
  /** What every answer must be. */
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
 * Runs a load from a process of its own, so that it takes no time from the process that measures. autocannon needs 35 to
 * 40 µs of processor time for a request, which is more than nginx needs: it reached 10,000 requests a second where this
 * reaches 40,000, and the ratios to nginx would have measured autocannon.
 */
export async function runLoad(load: Load): Promise<LoadResult> {
  const child = fork(fileURLToPath(new URL('load-process.ts', import.meta.url)))
  child.send(load)
  const [answer] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error('the load generator ended'))),
  ])) as [LoadResult | { error: string }]
  if ('error' in answer) throw new Error(answer.error)
  return answer
}

/** A request as bytes. */
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
