import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** Returns the strong entity tag of a body: a hash of its bytes. */
export function tagOf(body: Buffer | string): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
}

/** Returns whether an If-None-Match header names the entity tag, by weak comparison (RFC 9110 §13.1.2). */
export function hasTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  const opaque = etag.replace(/^W\//, '')
  return header.split(',').some((tag) => ['*', opaque].includes(tag.trim().replace(/^W\//, '')))
}

/**
 * Returns whether the client has the current document. Composer sends the exact text of Last-Modified, and no entity
 * tags. Comparing with "not later than" would be wrong for a restored document. An entity tag takes precedence (RFC
 * 9110 §13.2.2).
 */
export function isUnchanged(
  headers: IncomingHttpHeaders,
  current: { etag: string | null; lastModified: string },
): boolean {
  const tags = headers['if-none-match']
  if (tags !== undefined) return current.etag === null ? tags.trim() === '*' : hasTag(tags, current.etag)
  const since = headers['if-modified-since']
  return since !== undefined && since === current.lastModified
}

/**
 * Returns the Range header. Ignores it if the client's If-Range header does not match the entity tag (RFC 9110
 * §13.1.5).
 */
export function rangeHeader(headers: IncomingHttpHeaders, etag: string): string | undefined {
  const condition = headers['if-range']
  return condition === undefined || condition === etag ? headers.range : undefined
}

/** Part of a body: the first and the last byte, both included. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * Reads a Range header for a body of `size` bytes (RFC 9110 §14.2). Null means the whole body: the header is absent,
 * malformed, has another unit, or has several ranges. A server may ignore such headers. `unsatisfiable` means that the
 * range is beyond the end.
 */
export function readRange(header: string | undefined, size: number): ByteRange | null | 'unsatisfiable' {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (first === '' && last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 }
  }
  const start = Number(first)
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (last !== '' && Number(last) < start) return null
  return start >= size ? 'unsatisfiable' : { start, end }
}
