import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ReceivedArchive } from '../../archives/archive-store.ts'
import { openChecks } from '../../archives/check-upload.ts'
import type { CheckedZip } from '../../archives/check-zip.ts'
import { discardArchive, receiveArchive } from '../../archives/local-store.ts'
import { type PublishedVersion, readVersion } from '../../composer/composer-version.ts'
import { readPackageName, toLowerAscii } from '../../composer/package-name.ts'
import { isSourcePart, readSource } from '../../composer/package-source.ts'
import { scopesOf } from '../../domain/permissions.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { findAccess, type RegistryRequest } from '../../groups/access.ts'
import { registryUrl } from '../../groups/repositories.ts'
import { distUrl } from '../../packages/documents/entry.ts'
import { checkManifest, publishArchive } from '../../packages/publish.ts'
import { describeNewStage } from '../../packages/stages/describe-stage.ts'
import { maxAttestationBytes, verifyAttestations } from '../../publishers/attestations.ts'
import { refuseMirroredVendor } from '../../upstreams/claims.ts'
import { requireUploadRate } from '../client-errors.ts'
import { param, type RegistryContext, readRegistryRequest, sendRegistryJson } from './http.ts'
import { isMultipart, receiveMultipart } from './multipart.ts'

/** Publishing a version, or staging it until a developer releases it. */
type UploadAct = 'push' | 'stage'

/** An upload whose checks have passed. Its body may be read. */
interface AdmittedUpload {
  act: UploadAct
  target: RegistryRequest
  packageName: string
  version: PublishedVersion
  contentType: string | undefined
  /** The parts of `source` from the query, and later from the form. */
  sourceParts: Map<string, string>
  /** The fields `attestations` of the form. */
  attestations: string[]
  /** The client IP. After a disconnect the socket no longer has it. */
  ip: string
}

/** How many bytes a form may add to the archive. */
const formBytes = maxAttestationBytes + 64 * 1024

/**
 * The URLs of an upload, and what each does. curl appends the file name to a URL that ends with a slash. The push plugins
 * append `packages/upload/…` to the registry URL.
 */
const uploadUrls = [
  { start: '/upload', act: 'push' },
  { start: '/packages/upload', act: 'push' },
  { start: '/stage', act: 'stage' },
].flatMap(({ start, act }) => [
  { url: `${start}/:vendor/:package/:version`, act } as const,
  { url: `${start}/:vendor/:package/:version/:fileName`, act } as const,
]) as { url: string; act: UploadAct }[]

/**
 * Package upload (SPEC 4.4), and staging a version. svc accepts POST, and PUT because curl -T sends it.
 * Credentials, permission, name and version are checked in onRequest, before the client sends its archive.
 */
export async function uploadRoutes(app: FastifyInstance, context: RegistryContext) {
  app.removeAllContentTypeParsers()
  // The body is the archive, with any content type or none. It is never held in memory.
  app.addContentTypeParser('*', async (_request: unknown, body: unknown) => body)
  app.decorateRequest('upload', null)
  const check = openChecks()
  for (const { url, act } of uploadUrls) {
    app.route({
      method: ['PUT', 'POST'],
      url,
      config: { scopes: scopesOf(act) },
      onRequest: async (request) => request.setDecorator('upload', await admitUpload(request, act, context)),
      handler: async (request, reply) => {
        const upload = request.getDecorator<AdmittedUpload>('upload')
        requireUploadRate(request.raw)
        const archive = await receive(request, upload, context)
        try {
          const zip = await check(upload.ip, archive.path)
          const { published, warnings } = await publish(upload, archive, zip, context)
          const { outcome } = published
          const { version } = upload.version
          const { baseUrl } = context.config
          const path = `${upload.target.group}/${upload.target.name}`
          if (outcome === 'staged') {
            const staged = describeNewStage(published.stage, path, baseUrl)
            return sendRegistryJson(reply, 202, {
              ...staged,
              ...(warnings.length > 0 && { details: warnings }),
            })
          }
          const query = new URLSearchParams({ version })
          return sendRegistryJson(reply, outcome === 'published' ? 201 : 200, {
            errcode: 0,
            errmsg: 'ok',
            name: upload.packageName,
            version,
            sha256: archive.sha256,
            shasum: archive.sha1,
            size: archive.size,
            url: distUrl(registryUrl(baseUrl, path), upload.packageName, version, archive.sha256),
            page_url: `${baseUrl}/${path}/packages/${upload.packageName}?${query}`,
            ...(warnings.length > 0 && { details: warnings }),
          })
        } finally {
          await discardArchive(archive)
        }
      },
    })
  }
}

async function admitUpload(
  request: FastifyRequest,
  act: UploadAct,
  { config, db, room, requireAccess }: RegistryContext,
): Promise<AdmittedUpload> {
  const target = readRegistryRequest(request)
  const { ip } = request
  const access = await findAccess(db, target)
  const sentName = `${param(request, 'vendor')}/${param(request, 'package')}`
  const { repositoryId } = requireAccess(target, access, act, { packageName: toLowerAscii(sentName) })
  const packageName = readPackageName(sentName)
  const version = readVersion(param(request, 'version'))
  await refuseMirroredVendor(db, repositoryId, packageName)
  await room.requireDatabaseRoom()
  const contentType = request.headers['content-type']
  const maxBytes = config.maxArchiveBytes + (isMultipart(contentType) ? formBytes : 0)
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
    const errmsg = `archive too large: more than ${config.maxArchiveBytes} bytes`
    throw new Refusal(errcode.resourceExhausted, errmsg, { status: 413 })
  }
  const sourceParts = new Map(
    Object.entries(request.query as Record<string, unknown>).flatMap(([name, value]) =>
      isSourcePart(name) && typeof value === 'string' ? [[name, value] as const] : [],
    ),
  )
  readSource(sourceParts)
  // Fastify would refuse an unknown content type. For an upload, only the content type of a form matters.
  delete request.raw.headers['content-type']
  return { act, target, packageName, version, contentType, sourceParts, attestations: [], ip }
}

function receive(
  request: FastifyRequest,
  { contentType, sourceParts, attestations }: AdmittedUpload,
  { config, archives }: RegistryContext,
): Promise<ReceivedArchive> {
  const options = { maxBytes: config.maxArchiveBytes }
  if (isMultipart(contentType)) {
    const textField = 'attestations'
    const onField = (name: string, value: string) => {
      if (isSourcePart(name)) sourceParts.set(name, value)
      else if (name === textField) attestations.push(value)
    }
    return receiveMultipart(
      archives,
      { request: request.raw, contentType },
      { ...options, textField, onField },
    )
  }
  return receiveArchive(
    archives,
    request.body instanceof Readable ? request.body : Readable.from([]),
    options,
  )
}

/** Reads the manifest and publishes or stages the version. */
async function publish(
  { act, target, packageName, version, sourceParts, attestations }: AdmittedUpload,
  archive: ReceivedArchive,
  zip: CheckedZip,
  context: RegistryContext,
) {
  const source = readSource(sourceParts)
  const manifest = checkManifest(zip, { packageName, version })
  if (source !== null) manifest.metadata = { ...manifest.metadata, source }
  // The upload may have taken minutes. Check the permission again, because it may have been revoked.
  const access = await findAccess(context.db, target)
  const { repositoryId, by } = context.requireAccess(target, access, act, { packageName })
  const wanted = { repositoryId, packageName, version }
  const release = act === 'stage' ? 'reviewed' : 'direct'
  const provenance =
    attestations.length > 0
      ? await verifyAttestations(context, attestations, { sha256: archive.sha256, by })
      : null
  const published = await publishArchive(context, wanted, archive, { zip, manifest, by, release, provenance })
  // A client that repeats an upload has already seen the warnings.
  const isNew = published.outcome === 'staged' ? published.isNew : published.outcome === 'published'
  return { published, warnings: isNew ? manifest.warnings : [] }
}
