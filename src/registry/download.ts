import type { FileHandle } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { notFound } from './answers.ts'
import { type ArchiveVolume, openArchive } from './archives/archive-volume.ts'
import { readRange } from './byte-range.ts'
import { param, readDoor } from './door.ts'
import { errcode, RegistryError } from './errors.ts'
import type { RegistryParts } from './parts.ts'
import { findDownload } from './versions.ts'

/** How much of an archive is held in memory at once. */
const oneReadBytes = 256 * 1024

/**
 * Archives (COMPOSER E4). An address names the bytes by their hash, so what it answers is for ever; also that of a
 * deleted version, for the lock files that name it.
 */
export async function downloadRoutes(app: FastifyInstance, { db, volume, admit }: RegistryParts) {
  app.get('/dist/:vendor/:package/:version/:file', async (request, reply) => {
    const door = readDoor(request)
    const packageName = `${param(request, 'vendor')}/${param(request, 'package')}`
    const version = param(request, 'version')
    const [, sha256 = ''] = /^([0-9a-f]{64})\.zip$/.exec(param(request, 'file')) ?? []
    const found = await findDownload(db, door, { packageName, version, sha256 })
    admit(door, found, 'pull')
    if (!found.isThere) throw notFound('archive not found')

    const etag = `"${sha256}"`
    setArchiveHeaders(reply, sha256, `${packageName.replace('/', '-')}-${version}.zip`)
    if (matches(request.headers['if-none-match'], etag)) return reply.code(304).send()
    return sendArchive(reply, volume, sha256, rangeHeader(request.headers, etag))
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

/** A range counts only while the client's copy is of this very archive (RFC 9110 §13.1.5). */
function rangeHeader(headers: IncomingHttpHeaders, etag: string): string | undefined {
  const condition = headers['if-range']
  return condition === undefined || condition === etag ? headers.range : undefined
}

async function sendArchive(
  reply: FastifyReply,
  volume: ArchiveVolume,
  sha256: string,
  header: string | undefined,
): Promise<FastifyReply> {
  const archive = await openArchive(volume, sha256)
  if (!archive) throw new RegistryError(errcode.dataLoss, `archive ${sha256} is missing on the volume`)
  const { file, size } = archive
  const range = readRange(header, size)
  if (range === 'unsatisfiable') {
    await file.close()
    reply.header('content-range', `bytes */${size}`)
    throw new RegistryError(errcode.outOfRange, 'the range lies beyond the end of the archive', {
      status: 416,
    })
  }
  const { start, end } = range ?? { start: 0, end: size - 1 }
  if (range) reply.code(206).header('content-range', `bytes ${start}-${end}/${size}`)
  const length = end - start + 1
  reply.header('content-type', 'application/zip').header('content-length', length)
  // Most archives are one read, and a stream would cost more than their bytes.
  if (length <= oneReadBytes) return reply.send(await readAtOnce(file, start, length))
  return reply.send(file.createReadStream({ start, end, highWaterMark: oneReadBytes }))
}

async function readAtOnce(file: FileHandle, start: number, length: number): Promise<Buffer> {
  try {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, start)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()))
}
