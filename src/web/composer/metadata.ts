import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { findServerUrls } from '../../database/installation.ts'
import { shareStatements } from '../../database/shared-statements.ts'
import {
  type DocumentBytes,
  findFilterBytes,
  findPackageBytes,
  findRootBytes,
} from '../../documents/document-bytes.ts'
import { chooseEncoding, compress, type Encoding } from '../../documents/encodings.ts'
import type { Visibility } from '../../domain/permissions.ts'
import { openReadCache } from '../../domain/read-cache.ts'
import { errcode } from '../../domain/refusal.ts'
import { singleFlight } from '../../domain/single-flight.ts'
import type { RegistryRequest } from '../../groups/access.ts'
import { registryUrl } from '../../groups/repositories.ts'
import {
  type FoundDocument,
  type FoundRoot,
  listAnyDocuments,
  listFilterDocuments,
  listPackageDocuments,
  listRootDocuments,
  type WantedDocument,
} from '../../packages/documents/documents.ts'
import { emptyFilterText, emptyRootText } from '../../packages/documents/packages-json.ts'
import { refreshRoot } from '../../packages/documents/render.ts'
import { rerenderPackage, rerenderRoot } from '../../packages/documents/rerender.ts'
import { withWarning } from '../../upstreams/documents/offer.ts'
import type { HiddenDocument, MirrorDocument } from '../../upstreams/mirror.ts'
import { listMirrorBytes, type WantedBytes } from '../../upstreams/tables/mirrored-documents.ts'
import { hasTag, tagOf } from '../conditional-requests.ts'
import {
  jsonType,
  param,
  type RegistryContext,
  readRegistryRequest,
  sendRegistryJson,
  setDocumentCaching,
} from './http.ts'

/**
 * How many bytes of documents the cache keeps. Responses to clients that read slowly share its buffers. They can hold
 * documents that the cache has evicted beyond that. Unlike archives, these are not limited.
 */
const maxCachedBytes = 64 * 1024 * 1024

/** Reads a document's bytes from the database in a content coding. Null when the document does not exist. */
type ReadBytes = (encoding: Encoding) => Promise<DocumentBytes | null>

/**
 * packages.json, filter.json and p2 (COMPOSER A2, A3, A5, A8). Each request runs one indexed statement that checks the
 * permission and finds the document. The bytes come from a cache, whose key has the document, its revision and the hash of
 * its content. Concurrent requests share one read of bytes that are not cached.
 */
export async function metadataRoutes(app: FastifyInstance, context: RegistryContext) {
  const { config, changes, requireAccess, mirror } = context
  const db = context.pools.pull
  const { baseUrl } = config
  const terms = { baseUrl, freshSeconds: config.upstreams.freshSeconds }

  const keyOf = ({ target }: WantedDocument) => target.key
  const findRoot = shareStatements((targets: RegistryRequest[]) => listRootDocuments(db, targets, baseUrl), {
    keyOf: ({ key }) => key,
  })
  /** A document is rendered once for all requests that wait for it. */
  const renderings = singleFlight<void>()
  /** The base URL of the server that had started last when this one started. */
  let formerBaseUrl: string | undefined
  app.addHook('onReady', async () => {
    // Without the database, no document is sent either. The server starts, and says what is wrong.
    const former = await findServerUrls(context.db).catch(() => null)
    formerBaseUrl = former?.baseUrl
  })
  const findFilter = shareStatements(listFilterDocuments.bind(null, db), { keyOf: ({ key }) => key })
  const findPackage = shareStatements(
    (wanted: WantedDocument[]) => listPackageDocuments(db, wanted, baseUrl),
    { keyOf },
  )
  const findAny = shareStatements((wanted: WantedDocument[]) => listAnyDocuments(db, wanted, terms), {
    keyOf,
  })
  /** Paths of repositories that had upstreams at their last request. They only choose between two correct statements. */
  const withUpstreams = new LRUCache<string, true>({ max: 10_000 })
  const findMirrorBytes = shareStatements((wanted: WantedBytes[]) => listMirrorBytes(db, wanted))
  const cache = openReadCache<SentDocument, ReadBytes>({
    maxSize: maxCachedBytes,
    sizeOf: ({ bytes }) => bytes.length + 1,
    read: async (key, read) => {
      const stored = await read(key.split(' ')[0] as Encoding)
      return stored ? { ...validatorsOf(stored), bytes: stored.bytes } : undefined
    },
  })

  app.get('/packages.json', async (request, reply) => {
    const target = readRegistryRequest(request)
    const { found, repositoryId } = await findCurrentRoot(target)
    const emptyText = () => emptyRootText(registryUrl(baseUrl, `${target.group}/${target.name}`))
    const read: ReadBytes = (encoding) => findRootBytes(db, repositoryId, encoding)
    const subject = `root ${repositoryId}`
    return sendDocument(request, reply, found, {
      visibility: found.access.visibility,
      subject,
      read,
      emptyText,
    })
  })

  app.get('/filter.json', async (request, reply) => {
    const target = readRegistryRequest(request)
    const found = await findFilter(target)
    const { repositoryId } = requireAccess(target, found.access, 'pull')
    const read = async (encoding: Encoding) => {
      const plain = await findFilterBytes(db, repositoryId)
      return plain && { ...plain, bytes: await compress(plain.bytes, encoding) }
    }
    // Never send 404. Composer treats a 404 as an error and installs nothing (COMPOSER A8).
    const { visibility } = found.access
    const subject = `filter ${repositoryId}`
    return sendDocument(request, reply, found, {
      visibility,
      subject,
      read,
      emptyText: () => emptyFilterText,
    })
  })

  app.get('/p2/:vendor/:file', async (request, reply) => {
    const target = readRegistryRequest(request)
    const wanted = readDocumentName(param(request, 'vendor'), param(request, 'file'))
    const path = `${target.group}/${target.name}`
    const known = withUpstreams.has(path) ? await findAny({ target, ...wanted }) : null
    let found = known ?? (await findPackage({ target, ...wanted }))
    const { repositoryId, actor } = requireAccess(target, found.access, 'pull')
    const packageId = found.subjectId
    if (packageId !== null && found.isMisdirected && (await isLatestServer())) {
      await renderings
        .share(`package ${packageId}`, () => rerenderPackage(changes, packageId, baseUrl))
        .catch(
          // The stored document is better than none.
          (error: unknown) => request.log.error({ err: error }, 'a document could not be rendered again'),
        )
      found = await findPackage({ target, ...wanted })
    }
    if ('mayMirror' in found ? found.mayMirror : found.verdict !== null) {
      withUpstreams.set(path, true)
      const author = { accountId: actor?.accountId ?? null, token: actor, ip: request.ip }
      const state = known?.verdict ? known : undefined
      const document = await mirror.findDocument({ repositoryId, ...wanted }, author, state)
      return sendMirrored(request, reply, document, wanted)
    }
    const read = (encoding: Encoding) =>
      findPackageBytes(db, found.subjectId as string, encoding, wanted.isDev)
    const subject = `package ${found.subjectId} ${wanted.isDev}`
    return sendDocument(request, reply, found, { visibility: found.access.visibility, subject, read })
  })

  /** Finds packages.json. If names or BASE_URL have changed after it was stored, it is rendered again first. */
  async function findCurrentRoot(
    target: RegistryRequest,
  ): Promise<{ found: FoundRoot; repositoryId: string }> {
    let found = await findRoot(target)
    const wanted = BigInt(found.listingRevision ?? 0)
    for (let attempt = 0; ; attempt += 1) {
      const { repositoryId } = requireAccess(target, found.access, 'pull')
      const isCurrent =
        BigInt(found.revision ?? 0) >= wanted && !(found.isMisdirected && (await isLatestServer()))
      // A rendering that was already running may be too old for this request, but the next one is not.
      if (isCurrent || attempt === 3) return { found, repositoryId }
      const render = found.isMisdirected ? rerenderRoot : refreshRoot
      await renderings.share(`root ${repositoryId}`, () => render(db, repositoryId, baseUrl))
      found = await findRoot(target)
    }
  }

  /**
   * Returns whether no server with another base URL has started after this one. During a restart with another BASE_URL,
   * old and new processes would otherwise take turns at rendering the same documents.
   */
  async function isLatestServer(): Promise<boolean> {
    const latest = (await findServerUrls(db))?.baseUrl
    return latest === baseUrl || latest === formerBaseUrl
  }

  /** Sends the document of a package that comes from an upstream, or errcode 5. */
  async function sendMirrored(
    request: FastifyRequest,
    reply: FastifyReply,
    found: MirrorDocument | HiddenDocument | null,
    { packageName, isDev }: { packageName: string; isDev: boolean },
  ): Promise<FastifyReply> {
    if (!found) return sendNoPackage(reply)
    if ('isHidden' in found) {
      setDocumentCaching(reply, 'private')
      return sendRegistryJson(reply, 200, { warning: found.warning, packages: { [packageName]: [] } })
    }
    const { packageId, revision, contentTag, lastModified, encoded } = found
    const subject = `mirror ${packageId} ${isDev}`
    const read: ReadBytes = async (encoding) =>
      encoded
        ? { revision, contentTag, lastModified, bytes: encoded[encoding] }
        : findMirrorBytes({ packageId, isDev, encoding })
    // Shared caches must not store this response, because an administrator may deny the package at any moment.
    if (found.warning === null)
      return sendDocument(request, reply, found, { visibility: 'private', subject, read })
    const stored = await read('identity')
    if (!stored) return sendNoPackage(reply)
    // Send no validators, so that clients fetch the document again when the upstream works again.
    setDocumentCaching(reply, 'private')
    const text = withWarning(stored.bytes.toString(), found.warning)
    return reply.header('content-type', jsonType).send(Buffer.from(text))
  }

  /**
   * Sends a stored document. When none is stored, sends the empty text, or errcode 5 when there is no such text.
   */
  async function sendDocument(
    request: FastifyRequest,
    reply: FastifyReply,
    { revision, contentTag, lastModified }: DocumentState,
    { visibility, subject, read, emptyText }: SentAs,
  ): Promise<FastifyReply> {
    if (revision === null && !emptyText) return sendNoPackage(reply)
    setDocumentCaching(reply, visibility)
    if (revision === null && emptyText) {
      const bytes = Buffer.from(emptyText())
      const empty = { state: '', etag: `W/${tagOf(bytes)}`, lastModified: lastModified.toUTCString() }
      if (isUnchanged(request, empty)) return setValidators(reply, empty).code(304).send()
      return sendBytes(reply, { ...empty, bytes }, 'identity')
    }
    const current = validatorsOf({ revision: revision ?? '', contentTag, lastModified })
    if (isUnchanged(request, current)) return setValidators(reply, current).code(304).send()
    const encoding = chooseEncoding(request.headers['accept-encoding'])
    const key = `${encoding} ${subject} ${current.state}`
    const stored = await cache.fetch(key, { context: read })
    if (!stored) return sendNoPackage(reply)
    // The document changed after it was found. Another request may look for the former state: after a restore, revisions
    // come again.
    if (stored.state !== current.state) cache.delete(key)
    return sendBytes(reply, stored, encoding)
  }
}

/** Reads a file name such as `lib.json` or `lib~dev.json`. An invalid name gets the same response as an unknown one. */
function readDocumentName(vendor: string, file: string): { packageName: string; isDev: boolean } {
  const [, name, dev] = /^([^~]+)(~dev)?\.json$/.exec(file) ?? []
  return { packageName: name === undefined ? '' : `${vendor}/${name}`, isDev: dev !== undefined }
}

/** Sends errcode 5. Shared caches must not store this response, because the name can be published at any moment. */
function sendNoPackage(reply: FastifyReply): FastifyReply {
  setDocumentCaching(reply, 'private')
  return sendRegistryJson(reply, 404, { errcode: errcode.notFound, errmsg: 'package not found' })
}

/** A document as it was found. */
type DocumentState = Pick<FoundDocument, 'revision' | 'contentTag' | 'lastModified'>

/** How a document is sent. */
interface SentAs {
  visibility: Visibility
  /** The kind of the document, and the ids of what it describes. */
  subject: string
  read: ReadBytes
  /** Returns the content when no document is stored. */
  emptyText?: () => string
}

/** The values that identify a state of a document. */
interface Validators {
  /** Revision, content and time. No other state of the same document has the same ones, not even after a restore. */
  state: string
  /** Null for a document that an earlier release rendered. */
  etag: string | null
  /** The text of the header. */
  lastModified: string
}

/** Returns the values that identify a state of a document. The entity tag is weak: it is the same in every coding. */
function validatorsOf({
  revision,
  contentTag,
  lastModified,
}: DocumentState & { revision: string }): Validators {
  const time = lastModified.toUTCString()
  const prefix = `${revision}-`
  // A process of the previous release changes the revision, but not the tag.
  const hash = contentTag?.startsWith(prefix) ? contentTag.slice(prefix.length) : null
  return {
    state: `${revision} ${hash ?? ''} ${time}`,
    etag: hash === null ? null : `W/"${hash}"`,
    lastModified: time,
  }
}

/** A document's bytes in one content coding, as they are sent. */
interface SentDocument extends Validators {
  bytes: Buffer
}

/**
 * Returns whether the client has the current document. Composer sends the exact text of Last-Modified, and no entity
 * tags. Comparing with "not later than" would be wrong for a restored document. An entity tag takes precedence (RFC
 * 9110 §13.2.2).
 */
function isUnchanged({ headers }: FastifyRequest, current: Validators): boolean {
  const tags = headers['if-none-match']
  if (tags !== undefined) return current.etag === null ? tags.trim() === '*' : hasTag(tags, current.etag)
  const since = headers['if-modified-since']
  return since !== undefined && since === current.lastModified
}

function setValidators(reply: FastifyReply, current: Validators): FastifyReply {
  if (current.etag !== null) reply.header('etag', current.etag)
  return reply.header('last-modified', current.lastModified)
}

function sendBytes(reply: FastifyReply, stored: SentDocument, encoding: Encoding): FastifyReply {
  setValidators(reply, stored).header('content-type', jsonType)
  if (encoding !== 'identity') reply.header('content-encoding', encoding)
  return reply.send(stored.bytes)
}
