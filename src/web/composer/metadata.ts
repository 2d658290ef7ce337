import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { findServerUrls } from '../../database/installation.ts'
import { chooseEncoding } from '../../documents/encodings.ts'
import {
  openDocumentCache,
  type StoredDocument,
  type Validators,
  validatorsOf,
} from '../../documents/stored-documents.ts'
import type { Visibility } from '../../domain/permissions.ts'
import { errcode } from '../../domain/refusal.ts'
import { singleFlight } from '../../domain/single-flight.ts'
import { findAccess, maySee, type RegistryRequest } from '../../groups/access.ts'
import { registryUrl } from '../../groups/repositories.ts'
import {
  type FoundPackageDocument,
  type FoundRoot,
  openDocumentFinder,
  type WantedDocument,
} from '../../packages/documents/find-documents.ts'
import { emptyFilterText, emptyRootText, stagedRootText } from '../../packages/documents/packages-json.ts'
import { renderRoot } from '../../packages/documents/render.ts'
import { rerenderPackage, rerenderRoot } from '../../packages/documents/rerender.ts'
import { stageRegistryUrl } from '../../packages/stages/describe-stage.ts'
import { renderStage } from '../../packages/stages/document.ts'
import { findStageOf, type Stage } from '../../packages/tables/staged-versions.ts'
import { withWarning } from '../../upstreams/documents/offer.ts'
import type { HiddenDocument, MirrorDocument } from '../../upstreams/mirror.ts'
import { isUnchanged, tagOf } from '../conditional-requests.ts'
import {
  jsonType,
  param,
  type RegistryContext,
  readRegistryRequest,
  registryNotFound,
  sendRegistryJson,
  sendRegistryText,
  setDocumentCaching,
} from './http.ts'

/**
 * packages.json, filter.json and p2 (COMPOSER A2, A3, A5, A8). Each request runs one indexed statement that checks the
 * permission and finds the document. Its bytes come from the cache, or from a second statement that concurrent requests
 * share.
 */
export async function metadataRoutes(app: FastifyInstance, context: RegistryContext) {
  const { config, changes, requireAccess, mirror } = context
  const db = context.pools.pull
  const { baseUrl } = config
  const finder = openDocumentFinder(db, { baseUrl, freshSeconds: config.upstreams.freshSeconds })
  const cache = openDocumentCache(db)
  /** A document is rendered once for all requests that wait for it. */
  const renderings = singleFlight<void>()
  /** The base URL of the server that had started last when this one started. */
  let formerBaseUrl: string | undefined
  app.addHook('onReady', async () => {
    // Without the database, no document is sent either. The server starts, and says what is wrong.
    const former = await findServerUrls(context.db).catch(() => null)
    formerBaseUrl = former?.baseUrl
  })

  app.get('/packages.json', async (request, reply) => {
    const target = readRegistryRequest(request)
    const { access, document, createdAt } = await findCurrentRoot(target)
    if (document) return sendDocument(request, reply, document, access.visibility)
    const empty = emptyRootText(registryUrl(baseUrl, `${target.group}/${target.name}`))
    return sendText(request, reply, empty, { lastModified: createdAt, visibility: access.visibility })
  })

  app.get('/filter.json', async (request, reply) => {
    const target = readRegistryRequest(request)
    const { access, document, createdAt } = await finder.findFilter(target)
    requireAccess(target, access, 'pull')
    if (document) return sendDocument(request, reply, document, access.visibility)
    // Never send 404. Composer treats a 404 as an error and installs nothing (COMPOSER A8).
    return sendText(request, reply, emptyFilterText, {
      lastModified: createdAt,
      visibility: access.visibility,
    })
  })

  app.get('/p2/:vendor/:file', async (request, reply) => sendPackage(request, reply, wantedBy(request)))

  // The Composer repository of a stage: the staged version, and everything that the repository offers.
  for (const url of ['/stages/:id/', '/stages/:id/packages.json']) {
    app.get(url, async (request, reply) => {
      const target = readRegistryRequest(request)
      const stage = await stageOf(request, target)
      const { document } = await findCurrentRoot(target)
      const path = `${target.group}/${target.name}`
      const stored = document && (await cache.read(document, 'identity'))
      const text = stored?.bytes.toString() ?? emptyRootText(registryUrl(baseUrl, path))
      return sendRegistryText(reply, stagedRootText(text, stageRegistryUrl(baseUrl, path, stage), stage))
    })
  }

  app.get('/stages/:id/p2/:vendor/:file', async (request, reply) => {
    const wanted = wantedBy(request)
    const stage = await stageOf(request, wanted.target)
    const { packageName, isDev } = wanted
    const isWaiting = stage.state === 'staged'
    if (!isWaiting || packageName !== stage.packageName || isDev !== stage.isDev)
      return sendPackage(request, reply, wanted, 'private')
    const path = `${wanted.target.group}/${wanted.target.name}`
    return sendRegistryText(reply, await renderStage(changes, stage, { path, baseUrl }))
  })

  /** Returns the stage of the URL. Throws 404 for everybody who may not push, in a public repository, too. */
  async function stageOf(request: FastifyRequest, target: RegistryRequest): Promise<Stage> {
    const access = await findAccess(db, target)
    const { repositoryId } = requireAccess(target, access, 'pull')
    const stage = maySee(access, 'stage') ? await findStageOf(db, repositoryId, param(request, 'id')) : null
    if (!stage || !maySee(access, 'stage', { packageName: stage.packageName })) throw registryNotFound()
    if (stage.state === 'rejected' || stage.state === 'expired') throw registryNotFound()
    return stage
  }

  /** Sends the document of a package. `caching` says which caches may store it, if that is not for all who may pull. */
  async function sendPackage(
    request: FastifyRequest,
    reply: FastifyReply,
    wanted: WantedDocument,
    caching?: 'private',
  ): Promise<FastifyReply> {
    const { target } = wanted
    const found = await finder.findPackage(wanted)
    const about = { packageName: wanted.packageName }
    const { repositoryId, by } = requireAccess(target, found.access, 'pull', about)
    if (found.mirror) {
      const { packageName, isDev } = wanted
      const mirrored = await mirror.findDocument({ repositoryId, packageName, isDev }, by, found.mirror)
      return sendMirrored(request, reply, mirrored, packageName)
    }
    const document = found.isMisdirected ? await rerendered(request, wanted, found) : found.document
    return document
      ? sendDocument(request, reply, document, caching ?? found.access.visibility)
      : sendNoPackage(reply)
  }

  /** Finds packages.json. If names or BASE_URL have changed after it was stored, it is rendered again first. */
  async function findCurrentRoot(target: RegistryRequest): Promise<FoundRoot> {
    let found = await finder.findRoot(target)
    const wanted = BigInt(found.listingRevision ?? 0)
    for (let attempt = 0; ; attempt += 1) {
      const { repositoryId } = requireAccess(target, found.access, 'pull')
      const isCurrent =
        BigInt(found.document?.revision ?? 0) >= wanted && !(found.isMisdirected && (await isLatestServer()))
      // A rendering that was already running may be too old for this request, but the next one is not.
      if (isCurrent || attempt === 3) return found
      const render = found.isMisdirected ? rerenderRoot : renderRoot
      await renderings.share(`root ${repositoryId}`, () => render(db, repositoryId, baseUrl))
      found = await finder.findRoot(target)
    }
  }

  /** Renders the document of a package again, whose links have another base URL, and returns it. */
  async function rerendered(
    request: FastifyRequest,
    wanted: WantedDocument,
    { document }: FoundPackageDocument,
  ): Promise<StoredDocument | null> {
    if (!document || !(await isLatestServer())) return document
    const { ownerId } = document
    await renderings
      .share(`package ${ownerId}`, () => rerenderPackage(changes, ownerId, baseUrl))
      // The stored document is better than none.
      .catch((error: unknown) => request.log.error({ err: error }, 'a document could not be rendered again'))
    const found = await finder.findPackage(wanted)
    return found.document
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
    packageName: string,
  ): Promise<FastifyReply> {
    if (!found) return sendNoPackage(reply)
    // Shared caches must not store these responses, because an administrator may deny the package at any moment.
    if ('hidden' in found) {
      const { hidden, warning } = found
      if (hidden === 'unapproved') return sendNoPackage(reply, warning)
      setDocumentCaching(reply, 'private')
      return sendRegistryJson(reply, 200, { warning, packages: { [packageName]: [] } })
    }
    const { document, warning, isAllHeldBack } = found
    if (warning === null) {
      // Composer prints no warning of a document that it gets as 304.
      if (isAllHeldBack) delete request.headers['if-modified-since']
      return sendDocument(request, reply, document, 'private')
    }
    const stored = await cache.read(document, 'identity')
    if (!stored) return sendNoPackage(reply)
    // Send no validators, so that clients fetch the document again when the upstream works again.
    setDocumentCaching(reply, 'private')
    const text = withWarning(stored.bytes.toString(), warning)
    return reply.header('content-type', jsonType).send(Buffer.from(text))
  }

  /** Sends a stored document, or 304 if the client has it. */
  async function sendDocument(
    request: FastifyRequest,
    reply: FastifyReply,
    document: StoredDocument,
    visibility: Visibility,
  ): Promise<FastifyReply> {
    setDocumentCaching(reply, visibility)
    const current = validatorsOf(document)
    if (isUnchanged(request.headers, current)) return setValidators(reply, current).code(304).send()
    const encoding = chooseEncoding(request.headers['accept-encoding'])
    const stored = await cache.read(document, encoding)
    if (!stored) return sendNoPackage(reply)
    if (encoding !== 'identity') reply.header('content-encoding', encoding)
    return setValidators(reply, stored).header('content-type', jsonType).send(stored.bytes)
  }
}

/** Sends the text of a document that is not stored, or 304 if the client has it. */
function sendText(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string,
  { lastModified, visibility }: { lastModified: Date; visibility: Visibility },
): FastifyReply {
  setDocumentCaching(reply, visibility)
  const bytes = Buffer.from(text)
  const current = { etag: `W/${tagOf(bytes)}`, lastModified: lastModified.toUTCString() }
  setValidators(reply, current)
  if (isUnchanged(request.headers, current)) return reply.code(304).send()
  return reply.header('content-type', jsonType).send(bytes)
}

/** Reads the document that a URL names. */
function wantedBy(request: FastifyRequest): WantedDocument {
  const target = readRegistryRequest(request)
  return { target, ...readDocumentName(param(request, 'vendor'), param(request, 'file')) }
}

/** Reads a file name such as `lib.json` or `lib~dev.json`. An invalid name gets the same response as an unknown one. */
function readDocumentName(vendor: string, file: string): { packageName: string; isDev: boolean } {
  const [, name, dev] = /^([^~]+)(~dev)?\.json$/.exec(file) ?? []
  return { packageName: name === undefined ? '' : `${vendor}/${name}`, isDev: dev !== undefined }
}

/** Sends errcode 5. Shared caches must not store this response, because the name can be published at any moment. */
function sendNoPackage(reply: FastifyReply, warning?: string): FastifyReply {
  setDocumentCaching(reply, 'private')
  const body = { errcode: errcode.notFound, errmsg: 'package not found' }
  return sendRegistryJson(reply, 404, warning === undefined ? body : { ...body, warning })
}

function setValidators(reply: FastifyReply, { etag, lastModified }: Omit<Validators, 'state'>): FastifyReply {
  if (etag !== null) reply.header('etag', etag)
  return reply.header('last-modified', lastModified)
}
