import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import type { Config } from '../config.ts'
import { isSecureUrl } from '../domain/identity-provider.ts'
import { isSingleHost } from '../domain/private-hosts.ts'
import { acceptedCodings, decode } from './decode.ts'
import type { Resolver } from './guard.ts'
import { kinds, type OutboundBounds, type OutboundKind, type RequestKind } from './kinds.ts'
import type { Lane } from './lane.ts'
import { OutboundError, toOutboundError } from './outbound-error.ts'
import { openPlaces, type Places } from './places.ts'

const closeMilliseconds = 3_000
/** A longer body of a response that nobody reads is not received, but its connection is closed. */
const maxDumpedBytes = 64 * 1024

/** What requests to a URL may do besides https to public hosts. It depends on who has named the URL. */
export interface OutboundRights {
  /**
   * Whether the exceptions of OUTBOUND_PRIVATE_HOSTS and OUTBOUND_HTTP hold. Only for what a command or a site administrator
   * has added: otherwise every account could read what the operator can read.
   */
  reachesPrivateHosts: boolean
}

export interface OutboundOptions {
  rights: OutboundRights
  method?: string
  headers?: Record<string, string>
  /** Returns more headers for the host of the URL, and of each redirect. So no other host gets credentials. */
  headersFor?: (url: URL) => Record<string, string>
  body?: string | Uint8Array
  /** The time for all of it, if it is shorter than that of the kind. */
  milliseconds?: number
}

/** A response. Its body must be read or destroyed. */
export interface OutboundResponse {
  status: number
  headers: Dispatcher.ResponseData['headers']
  body: Dispatcher.ResponseData['body']
  /** Whether it comes from a private IP. Then nothing of it may be shown in an error, a delivery or a page. */
  isPrivate: boolean
}

/** The client for all requests to other servers, except to the operator's own database, archive store and mail server. */
export interface Outbound {
  /**
   * Sends a request, and returns what `use` makes of the response. Throws `OutboundError`, and the errors of `use`: those of
   * the body are for `toOutboundError`.
   */
  request: <T>(
    kind: RequestKind,
    url: string,
    options: OutboundOptions,
    use: (response: OutboundResponse) => Promise<T>,
  ) => Promise<T>
  /** Sends a request, and returns the response. Its body may arrive until the time of the kind is over. */
  stream: (kind: RequestKind, url: string, options: OutboundOptions) => Promise<OutboundResponse>
  /** Sends a request, and returns the response with all its bytes, decompressed. `maxBytes` is at most that of the kind. */
  fetchBytes: (
    kind: RequestKind,
    url: string,
    options: OutboundOptions & { maxBytes?: number },
  ) => Promise<Omit<OutboundResponse, 'body'> & { bytes: Buffer }>
  /** Sends GET, and returns the JSON. Throws `OutboundError` for a status other than 200. */
  getJson: (
    kind: RequestKind,
    url: string,
    options: OutboundOptions & { maxBytes?: number },
  ) => Promise<unknown>
  /**
   * Resolves a host, and returns an IP for a program that connects itself. Throws `OutboundError` when one of the host's IPs
   * is not public, or when it does not exist.
   */
  approveHost: (kind: OutboundKind, host: string, port: number, rights: OutboundRights) => Promise<string>
  /**
   * Closes the connections, and aborts requests that still run after 3 s. Requests from now on, and the aborted ones, throw
   * `OutboundError` with the failure `closed`.
   */
  close: () => Promise<void>
}

/**
 * Loads undici, which takes a twentieth of the time of a start. Most commands send no request, and a server none before it
 * has work for one.
 */
const loadLanes = () => import('./lane.ts')

/** Opens the client. It uses no proxy of the environment. Tests have other bounds. */
export function openOutbound(
  { baseUrl, outbound }: Pick<Config, 'baseUrl' | 'outbound'>,
  resolver?: Resolver,
  bounds: OutboundBounds = kinds,
): Outbound {
  const lanes = new Map<string, Lane>()
  const places = new Map<OutboundKind, Places>()
  /** The requests that run, until the ends of their bodies. */
  const running = new Set<Promise<unknown>>()
  let closing: Promise<void> | undefined

  async function laneOf(kind: OutboundKind, { reachesPrivateHosts }: OutboundRights): Promise<Lane> {
    const { openLane } = await loadLanes()
    const key = `${kind} ${reachesPrivateHosts}`
    let lane = lanes.get(key)
    if (!lane) {
      const { isNamedByAnybody = false } = bounds[kind]
      const listed = outbound.privateHosts.filter((entry) => !isNamedByAnybody || isSingleHost(entry))
      lane = openLane(bounds[kind], reachesPrivateHosts ? listed : [], resolver)
      lanes.set(key, lane)
    }
    return lane
  }

  function placesOf(kind: OutboundKind): Places {
    let known = places.get(kind)
    if (!known) {
      known = openPlaces(bounds[kind].requests)
      places.set(kind, known)
    }
    return known
  }

  /** Returns an IP of a host, if all of them may be reached. */
  async function approve(
    kind: OutboundKind,
    host: string,
    port: number,
    rights: OutboundRights,
    signal: AbortSignal,
  ): Promise<string> {
    const isOver = once(signal, 'abort').then(() => Promise.reject(signal.reason))
    const approved = laneOf(kind, rights).then(({ guard }) => guard.approve(host, port))
    return Promise.race([approved, isOver])
  }

  /** Refuses http without permission. A private host is refused as one first: that needs another setting. */
  async function requireHttps(
    kind: RequestKind,
    url: URL,
    rights: OutboundRights,
    signal: AbortSignal,
  ): Promise<void> {
    if (url.protocol === 'https:') return
    const { act, isConfigured = false } = bounds[kind]
    if (isConfigured) {
      if (isSecureUrl(url.href)) return
      throw new OutboundError('insecure', `${url.origin} is not https`)
    }
    if (outbound.allowHttp && rights.reachesPrivateHosts) return
    if (outbound.allowHttp) await approve(kind, url.hostname, Number(url.port || 80), rights, signal)
    throw new OutboundError(
      'insecure',
      `${url.origin} is not https: an operator must allow it with OUTBOUND_HTTP=true, and ${act}`,
    )
  }

  /** Sends a request, and those of its redirects. */
  async function follow(
    kind: RequestKind,
    first: string,
    { rights, method = 'GET', headers = {}, headersFor, body }: FollowOptions,
    signal: AbortSignal,
  ): Promise<OutboundResponse> {
    const { redirects } = bounds[kind]
    const lane = await laneOf(kind, rights)
    /** Whether a response from a private host has named the URL. */
    let isHidden = false
    try {
      let url = readUrl(first)
      for (let hop = 0; hop <= redirects; hop += 1) {
        await requireHttps(kind, url, rights, signal)
        const sent = await lane.send(url, {
          method: method as Dispatcher.HttpMethod,
          headers: { 'user-agent': `svc (+${baseUrl})`, ...headers, ...headersFor?.(url) },
          body: body ?? null,
          signal,
        })
        const isPrivate = lane.guard.isPrivate(url)
        const location = headerOf(sent, 'location')
        const isRedirect = [301, 302, 303, 307, 308].includes(sent.statusCode) && location !== null
        if (!isRedirect || redirects === 0)
          return { status: sent.statusCode, headers: sent.headers, body: sent.body, isPrivate }
        await sent.body.dump({ limit: maxDumpedBytes })
        isHidden ||= isPrivate
        url = readUrl(location, url)
      }
    } catch (error) {
      const failed = toOutboundError(error, first)
      if (!isHidden || !['private', 'insecure', 'invalid-url'].includes(failed.failure)) throw failed
      throw new OutboundError(failed.failure, `${new URL(first).host} redirects to a URL that is not allowed`)
    }
    throw new OutboundError('redirects', `${new URL(first).origin} redirects more than ${redirects} times`)
  }

  /** Runs work in a place of its kind, until the time is over. */
  async function run<T>(
    kind: OutboundKind,
    url: string,
    milliseconds: number | undefined,
    work: (signal: AbortSignal, keep: (until: Promise<unknown>) => void) => Promise<T>,
  ): Promise<T> {
    const bound = bounds[kind].milliseconds
    let until: Promise<unknown> | undefined
    const result = (async () => {
      // Before the time of the request starts.
      await loadLanes()
      if (closing) throw closedError()
      const signal = AbortSignal.timeout(Math.min(milliseconds ?? bound, bound))
      const leave = await explain(url, placesOf(kind).enter(signal))
      try {
        return await work(signal, (promise) => {
          until = promise.catch(() => {}).finally(leave)
        })
      } finally {
        if (!until) leave()
      }
    })()
    const ended = result
      .then(() => until)
      .catch(() => {})
      .finally(() => running.delete(ended))
    running.add(ended)
    try {
      return await result
    } catch (error) {
      throw closing ? closedError() : error
    }
  }

  const client: Outbound = {
    request: (kind, url, options, use) =>
      run(kind, url, options.milliseconds, async (signal) => use(await follow(kind, url, options, signal))),

    stream: (kind, url, options) =>
      run(kind, url, options.milliseconds, async (signal, keep) => {
        const response = await follow(kind, url, options, signal)
        keep(once(response.body, 'close'))
        return response
      }),

    fetchBytes: (kind, url, { maxBytes = Number.POSITIVE_INFINITY, ...options }) => {
      const bound = Math.min(maxBytes, bounds[kind].maxBytes)
      const headers = { 'accept-encoding': acceptedCodings, ...options.headers }
      return client.request(kind, url, { ...options, headers }, async (response) => {
        const { status, headers, isPrivate } = response
        const bytes = await explain(url, readBytes(response, bound))
        return { status, headers, isPrivate, bytes }
      })
    },

    async getJson(kind, url, options) {
      const headers = { accept: 'application/json', ...options.headers }
      const response = await client.fetchBytes(kind, url, { ...options, headers })
      const { status, bytes } = response
      const { host } = new URL(url)
      if (status !== 200) throw new OutboundError('status', describeStatus(url, response))
      try {
        return JSON.parse(bytes.toString()) as unknown
      } catch {
        throw new OutboundError('not-json', `${host} did not send JSON`)
      }
    },

    approveHost: (kind, host, port, rights) =>
      run(kind, `https://${host}`, undefined, (signal) =>
        explain(`https://${host}`, approve(kind, host, port, rights, signal)),
      ),

    async close() {
      closing ??= Promise.race([Promise.all(running), sleep(closeMilliseconds, null, { ref: false })]).then(
        async () => void (await Promise.all(Array.from(lanes.values(), (lane) => lane.destroy()))),
      )
      await closing
    },
  }
  return client
}

/** Says that a response has another status than expected. Which one is not told of a private host. */
export function describeStatus(
  url: string,
  { status, isPrivate }: Pick<OutboundResponse, 'status' | 'isPrivate'>,
): string {
  return `${new URL(url).host} ${isPrivate ? 'did not respond as expected' : `responded with status ${status}`}`
}

type FollowOptions = Omit<OutboundOptions, 'milliseconds'>

/** Returns the first value of a header. Null when it is missing. */
export function headerOf({ headers }: Pick<Dispatcher.ResponseData, 'headers'>, name: string): string | null {
  return [headers[name]].flat()[0] ?? null
}

function readUrl(text: string, base?: URL): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base) : null
  if (!url || !/^https?:$/.test(url.protocol))
    throw new OutboundError('invalid-url', 'a URL of the receiver is not http or https')
  return url
}

/** Reads a body, and decompresses it. */
async function readBytes(response: OutboundResponse, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxBytes) throw Object.assign(new Error('too large'), { code: 'ERR_BUFFER_TOO_LARGE' })
      chunks.push(chunk)
    }
  } finally {
    response.body.destroy()
  }
  return decode(Buffer.concat(chunks), headerOf(response, 'content-encoding'), maxBytes)
}

/** Returns the result of work. Throws its error as an `OutboundError`. */
async function explain<T>(url: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw toOutboundError(error, url)
  }
}

function closedError(): OutboundError {
  return new OutboundError('closed', 'the request was ended, because the process stops or its time was over')
}
