import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OpenArchive } from '../../archives/archive-store.ts'
import { type ArchiveUrl, fileNameOf } from '../../archives/archive-url.ts'
import { archiveName } from '../../archives/local-store.ts'
import { shareStatements } from '../../database/shared-statements.ts'
import type { Principal } from '../../domain/principal.ts'
import { openReadCache } from '../../domain/read-cache.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { maySee } from '../../groups/access.ts'
import type { ForRequest } from '../../groups/for-each-request.ts'
import type { SentArchive } from '../../packages/download-counter.ts'
import type { Downloader } from '../../packages/tables/recorded-downloads.ts'
import { listDownloads } from '../../packages/tables/versions.ts'
import { patienceMilliseconds } from '../../upstreams/archive-mirror.ts'
import { listMirroredDownloads, type MirroredArchive } from '../../upstreams/tables/mirrored-archives.ts'
import { allowSilence } from '../allow-silence.ts'
import { hasTag, rangeHeader, readRange } from '../conditional-requests.ts'
import { noteDownload } from '../note-download.ts'
import { openSendingLimit } from '../sending-limit.ts'
import { endWithConnection } from '../streamed-body.ts'
import {
  param,
  type RegistryContext,
  readRegistryRequest,
  registryNotFound,
  setArchiveCaching,
} from './http.ts'

/**
 * How many bytes of archives a process keeps in memory. The archives that it reads into memory or sends from there have
 * at most this many bytes together, too.
 */
const maxCachedBytes = 64 * 1024 * 1024
/** Larger archives are streamed, because each of them would displace too many others. */
const maxCachedArchive = maxCachedBytes / 16
/** Archives up to this size are sent from memory without being counted, because a stream would hold as much. */
const maxUncountedArchive = 64 * 1024

type WantedDownload = ForRequest<ArchiveUrl>

/** An archive of the store that is sent. */
interface StoredToSend {
  sha256: string
  size: number
  /** Null when they are not in memory. */
  bytes: Buffer | null
  /** The name for the download. */
  fileName: string
}

/**
 * Archives (COMPOSER E4). The URL contains the hash of the bytes, so its content never changes. Deleted versions are
 * served too, because lock files refer to them. Versions in quarantine are not served (CONTRACT 7.8, 7.9).
 */
export async function distRoute(
  app: FastifyInstance,
  { config, pools, archives, requireAccess, archiveMirror, downloads }: RegistryContext,
): Promise<void> {
  const keyOf = ({ target }: WantedDownload) => target.key
  const findDownload = shareStatements(listDownloads.bind(null, pools.pull), { keyOf })
  const findMirroredDownload = shareStatements(listMirroredDownloads.bind(null, pools.pull), { keyOf })
  let bytesBeingRead = 0
  const sending = openSendingLimit(maxCachedBytes)
  const cache = openReadCache<Buffer, number>({
    maxSize: maxCachedBytes,
    sizeOf: (bytes) => bytes.length + 1,
    read: readArchive,
  })

  app.route({ method: ['GET', 'HEAD'], url: '/dist/:vendor/:package/:version/:file', handler: download })

  async function download(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const target = readRegistryRequest(request)
    const packageName = `${param(request, 'vendor')}/${param(request, 'package')}`
    const version = param(request, 'version')
    const [, reference = '', type = ''] = /^([0-9a-f]{7,64})\.(\w{2,4})$/.exec(param(request, 'file')) ?? []
    const wanted = { target, packageName, version, reference, type }
    // Own archives are named by their SHA-256.
    if (reference.length !== 64 || type !== 'zip') return downloadMirrored(request, reply, wanted)
    const found = await findDownload(wanted)
    const { repositoryId, by } = requireAccess(target, found.access, 'pull', { packageName })
    const { size, stagedSize, quarantineReason } = found
    const sent = { repositoryId, packageName, version, downloader: downloaderOf(by) }
    const sha256 = reference
    const fileName = fileNameOf(packageName, version)
    if (stagedSize !== null && maySee(found.access, 'stage', { packageName })) {
      setArchiveHeaders(reply, sha256, fileName)
      // To everybody else it is 404.
      reply.header('cache-control', 'private, no-cache').header('vary', 'Authorization')
      return sendStored(request, reply, { sha256, size: stagedSize, bytes: null, fileName }, null)
    }
    if (found.wasMirrored) return sendMirrored(request, reply, { wanted, sent })
    if (size === null) throw registryNotFound('archive not found')
    if (quarantineReason !== null) throw inQuarantine(packageName, version, quarantineReason)

    setArchiveHeaders(reply, sha256, fileName)
    setArchiveCaching(reply, found.access.visibility)
    return sendStored(request, reply, { sha256, size, bytes: null, fileName }, sent)
  }

  async function downloadMirrored(
    request: FastifyRequest,
    reply: FastifyReply,
    wanted: WantedDownload,
  ): Promise<FastifyReply> {
    const found = await findMirroredDownload(wanted)
    const { packageName, version } = wanted
    const { repositoryId, by } = requireAccess(wanted.target, found.access, 'pull', { packageName })
    if (!found.mirrored) throw registryNotFound('archive not found')
    const sent = { repositoryId, packageName, version, downloader: downloaderOf(by) }
    return sendMirrored(request, reply, { wanted, sent, found: found.mirrored })
  }

  async function sendStored(
    request: FastifyRequest,
    reply: FastifyReply,
    { sha256, size, bytes, fileName }: StoredToSend,
    sent: SentArchive | null,
  ): Promise<FastifyReply> {
    if (hasTag(request.headers['if-none-match'], `"${sha256}"`)) return reply.code(304).send()
    if (archives.isLinked) return redirect(request, reply, { sha256, fileName }, sent)
    if (request.method === 'HEAD') return sendHead(reply, sha256)
    if (config.accelRedirectPrefix !== null) {
      noteDownload(downloads, request, sent)
      return handToProxy(reply, `${config.accelRedirectPrefix}${archiveName(sha256)}`)
    }
    if (bytes) cache.set(sha256, bytes)
    return sendArchive(request, reply, { sha256, size }, sent)
  }

  /**
   * Sends an archive of an upstream. Its file name is `<reference>.<type>`. The first request gets the bytes while they
   * arrive.
   */
  async function sendMirrored(
    request: FastifyRequest,
    reply: FastifyReply,
    about: { wanted: WantedDownload; sent: SentArchive; found?: MirroredArchive },
  ): Promise<FastifyReply> {
    const { sent, found } = about
    const { packageName, version, reference, type } = about.wanted
    const wanted = { repositoryId: sent.repositoryId, packageName, version, reference, type }
    const isHead = request.method === 'HEAD'
    if (!found?.isStored) allowSilence(request, patienceMilliseconds)
    const served = await (isHead ? archiveMirror.peek(wanted, found) : archiveMirror.serve(wanted, found))
    if (!served) throw registryNotFound('archive not found')
    setArchiveCaching(reply, 'private')
    if (served === 'absent') return reply.header('content-type', 'application/zip').send()
    if (served.kind === 'stored') {
      const fileName = fileNameOf(packageName, version, type)
      setArchiveHeaders(reply, served.sha256, fileName)
      return sendStored(request, reply, { ...served, fileName }, sent)
    }
    noteDownload(downloads, request, sent)
    reply.header('content-type', 'application/zip')
    if (served.size !== null) reply.header('content-length', served.size)
    return reply.send(endWithConnection(request, served.body))
  }

  /** Redirects the client to the bucket. The link is for the method of the request and works only for a few minutes. */
  async function redirect(
    request: FastifyRequest,
    reply: FastifyReply,
    { sha256, fileName }: { sha256: string; fileName: string },
    sent: SentArchive | null,
  ): Promise<FastifyReply> {
    const method = request.method === 'HEAD' ? 'HEAD' : 'GET'
    const url = await archives.link(sha256, { method, fileName })
    if (method === 'GET') noteDownload(downloads, request, sent)
    // These headers describe the archive, but this response has no body.
    for (const name of ['digest', 'repr-digest', 'accept-ranges', 'content-disposition', 'etag']) {
      reply.removeHeader(name)
    }
    return reply.code(302).header('cache-control', 'no-store').header('location', url).send()
  }

  /**
   * Sends the headers of a GET without opening the archive. Fastify's own HEAD route would run the GET and read the
   * whole file for nothing. Range is defined for GET only (RFC 9110 §14.2).
   */
  async function sendHead(reply: FastifyReply, sha256: string): Promise<FastifyReply> {
    const stored = await archives.stat(sha256)
    if (!stored) throw missing(sha256)
    return reply.header('content-type', 'application/zip').header('content-length', stored.size).send()
  }

  async function sendArchive(
    request: FastifyRequest,
    reply: FastifyReply,
    { sha256, size }: { sha256: string; size: number },
    sent: SentArchive | null,
  ): Promise<FastifyReply> {
    const range = readRange(rangeHeader(request.headers, `"${sha256}"`), size)
    if (range === 'unsatisfiable') {
      reply.header('content-range', `bytes */${size}`)
      throw new Refusal(errcode.outOfRange, 'the range is beyond the end of the archive', {
        status: 416,
      })
    }
    const { start, end } = range ?? { start: 0, end: size - 1 }
    if (range) reply.code(206).header('content-range', `bytes ${start}-${end}/${size}`)
    reply.header('content-type', 'application/zip').header('content-length', end - start + 1)
    // When many archives are requested at once, or clients read slowly, they are streamed, so that memory stays bounded.
    const isSmall = size <= maxUncountedArchive
    const bytesInUse = bytesBeingRead + (isSmall ? 0 : sending.bytes)
    const isCacheable = size <= maxCachedArchive && bytesInUse + size <= maxCachedBytes
    if (isCacheable || cache.has(sha256)) {
      const bytes = (await cache.fetch(sha256, { context: size })) as Buffer
      if (isSmall || sending.take(reply, bytes)) {
        noteDownload(downloads, request, sent)
        return reply.send(bytes.subarray(start, end + 1))
      }
    }
    const { bytes } = await openStored(sha256, size, { start, end })
    noteDownload(downloads, request, sent)
    return reply.send(endWithConnection(request, bytes))
  }

  async function readArchive(sha256: string, size: number): Promise<Buffer> {
    bytesBeingRead += size
    try {
      const { bytes } = await openStored(sha256, size)
      return Buffer.concat(await bytes.toArray())
    } finally {
      bytesBeingRead -= size
    }
  }

  /** Throws errcode 15 for an archive that is missing, or whose size differs from the size of the upload. */
  async function openStored(
    sha256: string,
    size: number,
    range?: { start: number; end: number },
  ): Promise<OpenArchive> {
    const opened = await archives.read(sha256, range)
    if (!opened) throw missing(sha256)
    if (opened.size === size) return opened
    opened.bytes.destroy()
    throw new Refusal(errcode.dataLoss, `archive ${sha256} has ${opened.size} bytes instead of ${size}`)
  }
}

function downloaderOf({ token, accountId }: Principal): Downloader {
  if (token === null || token.kind === 'source') return { kind: 'anonymous', id: '0', accountId: null }
  return { kind: token.kind, id: token.authorizationId ?? token.tokenId, accountId }
}

function missing(sha256: string): Refusal {
  return new Refusal(errcode.dataLoss, `archive ${sha256} is missing`)
}

/** Lets nginx send the file, with the headers that are set already. nginx handles Range requests itself. */
function handToProxy(reply: FastifyReply, path: string): FastifyReply {
  return reply.header('content-type', 'application/zip').header('x-accel-redirect', path).send()
}

/**
 * Returns the error for a version in quarantine. Composer prints the warning and stops. It does not retry a 410
 * (COMPOSER A8).
 */
function inQuarantine(packageName: string, version: string, reason: string): Refusal {
  return new Refusal(errcode.failedPrecondition, `version ${version} is in quarantine`, {
    status: 410,
    warning: `${packageName} ${version} is in quarantine and cannot be installed: ${reason}`,
  })
}

function setArchiveHeaders(reply: FastifyReply, sha256: string, fileName: string): void {
  const digest = Buffer.from(sha256, 'hex').toString('base64')
  reply.headers({
    etag: `"${sha256}"`,
    digest: `sha-256=${digest}`,
    'repr-digest': `sha-256=:${digest}:`,
    'accept-ranges': 'bytes',
    'content-disposition': `attachment; filename="${fileName}"`,
  })
}
