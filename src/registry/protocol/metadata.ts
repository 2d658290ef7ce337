import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { shareStatements } from '../../database/shared-statements.ts'
import { registryUrl } from '../../repositories/repositories.ts'
import type { RegistryContext } from '../context.ts'
import {
  type FoundDocument,
  listPackageDocuments,
  listRootDocuments,
  type WantedDocument,
} from '../documents/documents.ts'
import { chooseEncoding, type Encoding } from '../documents/encodings.ts'
import { emptyRootText } from '../documents/root.ts'
import { errcode } from '../errors.ts'
import { jsonType, sendJson } from './answers.ts'
import { param, readDoor } from './door.ts'

const noPackage = { errcode: errcode.notFound, errmsg: 'package not found' }

/** packages.json and p2: one indexed read, access included; the bytes stand ready (COMPOSER A2, A3, A5). */
export async function metadataRoutes(
  app: FastifyInstance,
  { config, db, documentCache, admit }: RegistryContext,
) {
  const findRoot = shareStatements(listRootDocuments.bind(null, db))
  const findPackage = shareStatements(listPackageDocuments.bind(null, db))

  app.get('/packages.json', async (request, reply) => {
    const door = readDoor(request)
    const path = `${door.group}/${door.name}`
    const document = await readDocument(request, documentCache, path, (bytes) => findRoot({ door, ...bytes }))
    admit(door, document, 'pull')
    setCaching(reply)
    if (document.revision !== null) return sendDocument(request, reply, document)
    const text = emptyRootText(registryUrl(config.baseUrl, path))
    return reply.header('content-type', jsonType).send(Buffer.from(text))
  })

  app.get('/p2/:vendor/:file', async (request, reply) => {
    const door = readDoor(request)
    const wanted = readDocumentName(param(request, 'vendor'), param(request, 'file'))
    const path = `${door.group}/${door.name}/${wanted.packageName}${wanted.isDev ? '~dev' : ''}`
    const document = await readDocument(request, documentCache, path, (bytes) =>
      findPackage({ door, ...wanted, ...bytes }),
    )
    admit(door, document, 'pull')
    setCaching(reply)
    if (document.revision === null) return sendJson(reply, 404, noPackage)
    return sendDocument(request, reply, document)
  })
}

/** `lib.json` or `lib~dev.json`. A name that no package can have is simply not found. */
function readDocumentName(vendor: string, file: string): { packageName: string; isDev: boolean } {
  const [, name, dev] = /^([^~]+)(~dev)?\.json$/.exec(file) ?? []
  return { packageName: name === undefined ? '' : `${vendor}/${name}`, isDev: dev !== undefined }
}

/** A document with its bytes, from memory where the database says that they are still the same. */
async function readDocument(
  request: FastifyRequest,
  cache: RegistryContext['documentCache'],
  path: string,
  find: (bytes: Omit<WantedDocument, 'door'>) => Promise<FoundDocument>,
) {
  const encoding = chooseEncoding(request.headers['accept-encoding'])
  const key = `${encoding} ${path}`
  const known = cache.get(key)
  const found = await find({ encoding, knownRevision: known?.revision ?? null })
  if (found.revision !== null && found.bytes !== null) {
    cache.set(key, { revision: found.revision, bytes: found.bytes })
  }
  return { ...found, encoding, bytes: found.bytes ?? known?.bytes }
}

function sendDocument(
  request: FastifyRequest,
  reply: FastifyReply,
  { lastModified, bytes, encoding }: { lastModified: Date; bytes: Buffer | undefined; encoding: Encoding },
): FastifyReply {
  const date = lastModified.toUTCString()
  reply.header('last-modified', date)
  // As a string, for that is how clients keep it; "not later than" would miss a document that was put back.
  if (request.headers['if-modified-since'] === date) return reply.code(304).send()
  reply.header('content-type', jsonType)
  if (encoding !== 'identity') reply.header('content-encoding', encoding)
  return reply.send(bytes)
}

/** The registry is the unit of permission: behind one address every token sees the same. */
function setCaching(reply: FastifyReply): void {
  reply.header('cache-control', 'private, no-cache').header('vary', 'Authorization, Accept-Encoding')
}
