import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A load in a closed loop: every connection waits for its last response before it sends its next request. */
export interface Load {
  /** The port on 127.0.0.1. */
  port: number
  connections: number
  /** The number of requests. The run ends earlier when it exceeds the longest duration. */
  count: number
  /** Complete requests as bytes. The connections send them in turn. */
  requests: string[]
  /** The expected status code of every response. */
  status: number
  keepBodies?: boolean
}

export interface LoadResult {
  count: number
  seconds: number
  medianMs: number
  p95Ms: number
  p99Ms: number
  /** The bodies, in the order of the requests. Empty unless `keepBodies` is set. */
  bodies: string[]
}

/** A process that sends loads, one after the other. */
export interface LoadProcess {
  run: (load: Load) => Promise<LoadResult>
  stop: () => void
}

/**
 * Starts a process that sends loads, so that they take no time from the process that measures. autocannon needs 35 to 40
 * µs of processor time for a request, which is more than nginx needs. autocannon sent 10,000 requests a second, and
 * this load generator sends 40,000. So ratios to nginx would have measured autocannon.
 */
export function startLoadProcess(): LoadProcess {
  const child = fork(fileURLToPath(new URL('load-process.ts', import.meta.url)))
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('the load generator ended')))
  ended.catch(() => {})
  return {
    async run(load) {
      child.send(load)
      const [response] = (await Promise.race([once(child, 'message'), ended])) as [
        LoadResult | { error: string },
      ]
      if ('error' in response) throw new Error(response.error)
      return response
    },
    stop: () => child.disconnect(),
  }
}

/** Runs a load in a separate process. */
export async function runLoad(load: Load): Promise<LoadResult> {
  const { run, stop } = startLoadProcess()
  return run(load).finally(stop)
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
