import { createReadStream } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { AwsV4Signer } from 'aws4fetch'
import { Agent, type Dispatcher, request } from 'undici'
import type { BucketKeys, BucketSettings } from '../domain/bucket.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { openCredentials } from './s3-credentials.ts'

/**
 * The store counts as unavailable if it sends nothing for this time, in all attempts together. A client that uploads gets
 * its error within 10 s, before its own timeout or that of a proxy.
 */
const usualPatience = 8_000
/** Three attempts to connect take less than the usual patience. */
const connectMilliseconds = 2_500
/** A slower upload to the store times out. */
const minBytesPerSecond = 50 * 1024
/** Delays before the second and third attempt. */
const retryMilliseconds = [100, 500]

/** A request for an object of the bucket. A request without a key is for the bucket itself. */
export interface S3Request {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE'
  /** The key below the prefix. */
  key?: string
  query?: Record<string, string>
  headers?: Record<string, string>
  /** A file or a text to send. The store checks its SHA-256 (hex). */
  body?: { path: string; size: number; sha256: string } | { text: string; sha256: string }
}

/** How many milliseconds the requests of one operation may still wait together for a store that sends nothing. */
export interface Patience {
  left: number
}

/** Sends requests to one bucket. */
export interface S3Client {
  /**
   * Returns the response if its status is one of `expected`. The caller must read its body. Throws errcode 14, or 8
   * with 507. Takes the time that it waited from the patience.
   */
  send(wanted: S3Request, expected: readonly number[], patience?: Patience): Promise<Dispatcher.ResponseData>
  /** Returns the patience of a new operation. */
  startPatience(): Patience
  /** Returns a URL for a request without credentials. It works for the given seconds. */
  presign(wanted: S3Request, seconds: number): Promise<string>
}

/**
 * Opens an S3 client for a bucket. It signs with version 4, and tries each request up to three times while the store is
 * unavailable.
 */
export function openS3Client(bucket: BucketSettings, silentMilliseconds = usualPatience): S3Client {
  const agent = new Agent({ connect: { timeout: connectMilliseconds }, bodyTimeout: silentMilliseconds })
  const credentials = openCredentials(bucket.credentials)
  const startPatience = () => ({ left: silentMilliseconds })

  /** Sends the request once. The store may be silent for the rest of the patience, while it receives a body too. */
  async function attempt(wanted: S3Request, patience: Patience): Promise<Dispatcher.ResponseData> {
    const { method, body } = wanted
    const size = body === undefined ? 0 : 'path' in body ? body.size : Buffer.byteLength(body.text)
    const sendingMilliseconds = Math.ceil((size / minBytesPerSecond) * 1000)
    const startedAt = performance.now()
    try {
      const { url, headers } = await sign(bucket, await credentials.keys(), wanted)
      const sent = Object.fromEntries(headers.entries())
      if (body !== undefined) sent['content-length'] = String(size)
      return await request(url, {
        method,
        headers: sent,
        dispatcher: agent,
        headersTimeout: patience.left,
        body: body === undefined ? null : 'path' in body ? createReadStream(body.path) : body.text,
        ...(body !== undefined && {
          signal: AbortSignal.timeout(silentMilliseconds + sendingMilliseconds),
        }),
      })
    } finally {
      patience.left -= Math.max(0, performance.now() - startedAt - sendingMilliseconds)
    }
  }

  return {
    startPatience,
    async send(wanted, expected, patience = startPatience()) {
      if (patience.left <= 0) throw unavailable(new Error('The earlier requests took too long.'))
      for (let retry = 0; ; retry += 1) {
        const outcome = await attempt(wanted, patience).catch((error: Error) => error)
        if (!(outcome instanceof Error) && expected.includes(outcome.statusCode)) return outcome
        const error = outcome instanceof Error ? unavailable(outcome) : await refuse(wanted, outcome)
        const delay = retryMilliseconds[retry]
        if (error.errcode !== errcode.unavailable || delay === undefined) throw error
        patience.left -= delay
        if (patience.left <= 0) throw error
        await sleep(delay)
      }
    },
    async presign(wanted, seconds) {
      const { url } = await sign(bucket, await credentials.keys(), wanted, seconds)
      return url.toString()
    },
  }

  async function refuse(wanted: S3Request, response: Dispatcher.ResponseData): Promise<Refusal> {
    const { error, code } = await readRefusal(wanted, response)
    // The response to HEAD has no body, and so no code. An expired token has status 400.
    const isExpired = expiredCodes.has(code) || (wanted.method === 'HEAD' && response.statusCode === 400)
    if (!isExpired || bucket.credentials.kind === 'keys') return error
    credentials.forget()
    return unavailable(error.cause)
  }
}

/** The codes with which a store refuses temporary keys that have expired earlier than they said. */
const expiredCodes = new Set(['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired'])

/** Returns the error for a store that is unavailable, is slow, or ends a response too early. */
export function unavailable(cause: unknown): Refusal {
  return new Refusal(errcode.unavailable, 'the archive store does not respond', { cause })
}

/** Signs a request with headers. With `seconds`, it signs the query instead, for a URL that works for this time. */
async function sign(bucket: BucketSettings, keys: BucketKeys, wanted: S3Request, seconds?: number) {
  const { accessKeyId, secretAccessKey, sessionToken } = keys
  const url = urlOf(bucket, wanted)
  if (seconds !== undefined) url.searchParams.set('X-Amz-Expires', String(seconds))
  const signer = new AwsV4Signer({
    method: wanted.method,
    url: url.toString(),
    headers: {
      ...wanted.headers,
      ...(wanted.body !== undefined && { 'x-amz-content-sha256': wanted.body.sha256 }),
    },
    accessKeyId,
    secretAccessKey,
    ...(sessionToken !== null && { sessionToken }),
    service: 's3',
    region: bucket.region,
    signQuery: seconds !== undefined,
  })
  return signer.sign()
}

function urlOf({ endpoint, name, isPathStyle, prefix }: BucketSettings, { key, query }: S3Request): URL {
  const url = new URL(endpoint)
  if (!isPathStyle) url.hostname = `${name}.${url.hostname}`
  const path = [isPathStyle ? name : '', key === undefined ? '' : `${prefix}${key}`].filter(
    (part) => part !== '',
  )
  url.pathname = `/${path.join('/')}`
  for (const [parameter, value] of Object.entries(query ?? {})) url.searchParams.set(parameter, value)
  return url
}

async function readRefusal(
  { method, key }: S3Request,
  response: Dispatcher.ResponseData,
): Promise<{ error: Refusal; code: string }> {
  const { statusCode } = response
  const text = await response.body.text().catch(() => '')
  const [, code = ''] = /<Code>([^<]{1,100})<\/Code>/.exec(text) ?? []
  const cause = new Error(
    `The archive store refused ${method} ${key ?? 'of the bucket'}: ${statusCode} ${code}.`,
  )
  if (statusCode === 507 || /StorageFull|Quota|InsufficientStorage/i.test(code)) {
    const text507 = 'no space left for archives'
    return { code, error: new Refusal(errcode.resourceExhausted, text507, { status: 507, cause }) }
  }
  if (statusCode >= 500 || statusCode === 429) return { code, error: unavailable(cause) }
  // The credentials, the bucket or the clock are wrong. A retry does not help, because the operator must fix the
  // problem.
  const refused = 'the archive store refused the request'
  return { code, error: new Refusal(errcode.internal, refused, { status: 503, cause }) }
}
