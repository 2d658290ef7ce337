import type { FastifyReply } from 'fastify'
import type { Visibility } from '../../domain/permissions.ts'

/**
 * How long a CDN or proxy may serve a public repository without asking. A quarantine, or a change to private, reaches
 * its clients that late.
 */
const sharedSeconds = 60

/**
 * Says who may keep a document. The registry is the unit of permission: everyone who may read a document gets the same
 * one. A public one may be kept for all, whatever credentials they send.
 */
export function setDocumentCaching(reply: FastifyReply, visibility: Visibility): void {
  const isPublic = visibility === 'public'
  reply.header(
    'cache-control',
    isPublic ? `public, max-age=0, s-maxage=${sharedSeconds}` : 'private, no-cache',
  )
  reply.header('vary', isPublic ? 'Accept-Encoding' : 'Authorization, Accept-Encoding')
}

/** Says who may keep an archive. Its bytes never change, but shared caches ask again, because of quarantines. */
export function setArchiveCaching(reply: FastifyReply, visibility: Visibility): void {
  if (visibility === 'public') {
    reply.header('cache-control', `public, max-age=31536000, s-maxage=${sharedSeconds}, immutable`)
    return
  }
  reply.header('cache-control', 'private, max-age=31536000, immutable').header('vary', 'Authorization')
}

/** Returns whether an If-None-Match header names the entity tag, by weak comparison (RFC 9110 §13.1.2). */
export function hasTag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  const opaque = etag.replace(/^W\//, '')
  return header.split(',').some((tag) => ['*', opaque].includes(tag.trim().replace(/^W\//, '')))
}
