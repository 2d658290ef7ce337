import type { FileHandle } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { shareStatements } from '../../database/shared-statements.ts'
import { openArchive, statArchive } from '../archives/archive-volume.ts'
import type { RegistryContext } from '../context.ts'
import { errcode, RegistryError } from '../errors.ts'
import { listDownloads } from '../tables/versions.ts'
import { notFound } from './answers.ts'
import { readRange } from './byte-range.ts'
import { param, readDoor } from './door.ts'

/** How much of an archive is read at once, and at most held in memory of each. */
const oneReadBytes = 256 * 1024

/**
 * Archives (COMPOSER E4). A URL names the bytes by their hash, so its response never changes. Archives of deleted
 * versions are served too, for the lock files that name them.
 */
export async function distRoute(app: FastifyInstance, context: RegistryContext): Promise<void> {
  const { db, admit } = context
  const findDownload = shareStatements(listDownloads.bind(null, db))

  app.route({
    method: ['GET', 'HEAD'],
    url: '/dist/:vendor/:package/:version/:file',
    handler: async (request, reply) => {
      const door = readDoor(request)
      const packageName = `${param(request, 'vendor')}/${param(request, 'package')}`
      const version = param(request, 'version')
      const [, sha256 = ''] = /^([0-9a-f]{64})\.zip$/.exec(param(request, 'file')) ?? []
      const found = await findDownload({ door, packageName, version, sha256 })
      admit(door, found, 'pull')
      if (!found.isThere) throw notFound('archive not found')

      const etag = `"${sha256}"`
      setArchiveHeaders(reply, sha256, `${packageName.replace('/', '-')}-${version}.zip`)
      if (matches(request.headers['if-none-match'], etag)) return reply.code(304).send()
      if (request.method === 'HEAD') return sendHead(reply, context, sha256)
      return sendArchive(reply, context, sha256, rangeHeader(request.headers, etag))
    },
  })
}

function setArchiveHeaders(reply: FastifyReply, sha256: string, fileName: string): void {
  const digest = Buffer.from(sha256, 'hex').toString('base64')
  reply.headers({
    'cache-control': 'private, max-age=31536000, immutable',
    etag: `"${sha256}"`,
    vary: 'Authorization',
    digest: `sha-256=${digest}`,
    'repr-digest': `sha-256=:${digest}:`,
    'accept-ranges': 'bytes',
    'content-disposition': `attachment; filename="${fileName}"`,
  })
}

/** A range counts only if the client's copy is of this very archive (RFC 9110 §13.1.5). */
function rangeHeader(headers: IncomingHttpHeaders, etag: string): string | undefined {
  const condition = headers['if-range']
  return condition === undefined || condition === etag ? headers.range : undefined
}

/**
 * Sends the headers of a GET without opening the archive: Fastify's own HEAD would run the GET, and read a whole file
 * for nobody. Range is defined for GET only (RFC 9110 §14.2).
 */
async function sendHead(
  reply: FastifyReply,
  { volume }: RegistryContext,
  sha256: string,
): Promise<FastifyReply> {
  const stored = await statArchive(volume, sha256)
  if (!stored) throw missing(sha256)
  return reply.header('content-type', 'application/zip').header('content-length', stored.size).send()
}

async function sendArchive(
  reply: FastifyReply,
  context: RegistryContext,
  sha256: string,
  header: string | undefined,
): Promise<FastifyReply> {
  const archive = context.archiveCache.get(sha256) ?? (await openToSend(context, sha256))
  const size = 'bytes' in archive ? archive.bytes.length : archive.size
  const range = readRange(header, size)
  if (range === 'unsatisfiable') {
    if ('file' in archive) await archive.file.close()
    reply.header('content-range', `bytes */${size}`)
    throw new RegistryError(errcode.outOfRange, 'the range lies beyond the end of the archive', {
      status: 416,
    })
  }
  const { start, end } = range ?? { start: 0, end: size - 1 }
  if (range) reply.code(206).header('content-range', `bytes ${start}-${end}/${size}`)
  reply.header('content-type', 'application/zip').header('content-length', end - start + 1)
  if ('bytes' in archive) return reply.send(archive.bytes.subarray(start, end + 1))
  return reply.send(archive.file.createReadStream({ start, end, highWaterMark: oneReadBytes }))
}

/** Returns a small archive's bytes, and caches them, or a larger archive open for reading. */
async function openToSend(
  { volume, archiveCache }: RegistryContext,
  sha256: string,
): Promise<{ bytes: Buffer } | { file: FileHandle; size: number }> {
  const opened = await openArchive(volume, sha256)
  if (!opened) throw missing(sha256)
  if (opened.size > oneReadBytes) return opened
  try {
    const small = { bytes: await opened.file.readFile() }
    archiveCache.set(sha256, small)
    return small
  } finally {
    await opened.file.close()
  }
}

function missing(sha256: string): RegistryError {
  return new RegistryError(errcode.dataLoss, `archive ${sha256} is missing on the volume`)
}

function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()))
}
