import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { cleanLine } from '../../domain/plain-text.ts'
import { describeRun } from '../../domain/publisher.ts'
import { siteResource } from '../../domain/resources.ts'
import { findAccess } from '../../groups/access.ts'
import { findRepository } from '../../groups/repositories.ts'
import {
  type FeedVersion,
  listFeedVersions,
  listFeedVersionsOf,
} from '../../packages/tables/feed-versions.ts'
import { hasTag, tagOf } from '../conditional-requests.ts'
import { escapeMarkup } from '../escape-markup.ts'
import { param, type RegistryContext, readRegistryRequest, registryNotFound } from './http.ts'

/** The maximum number of releases in a feed. Feed readers request a feed often, so it has only the latest releases. */
const maxReleases = 50

/** The URL paths of the feeds: of a repository, and of a package. */
const repositoryFeedPath = '/:group/:name/-/feed.atom'
const packageFeedPath = '/:group/:name/packages/:vendor/:package/-/feed.atom'

/**
 * Atom feeds of releases (RFC 4287), for people and programs that may pull. Everyone may read the feeds of a public
 * repository. The feeds of a private one need a token as the password.
 */
export async function feedRoutes(
  app: FastifyInstance,
  { config, db, requireAccess }: RegistryContext,
): Promise<void> {
  app.get(repositoryFeedPath, async (request, reply) => {
    const repositoryId = await permit(request)
    return send(request, reply, repositoryId, null, await listFeedVersions(db, repositoryId, maxReleases))
  })

  app.get(packageFeedPath, async (request, reply) => {
    const name = `${param(request, 'vendor')}/${param(request, 'package')}`
    const repositoryId = await permit(request, { packageName: name })
    const releases = await listFeedVersionsOf(db, repositoryId, name, maxReleases)
    if (!releases) throw registryNotFound('package not found')
    return send(request, reply, repositoryId, name, releases)
  })

  async function permit(request: FastifyRequest, about?: { packageName: string }): Promise<string> {
    const target = readRegistryRequest(request)
    // A feed is not below the URL of the registry.
    const access = await findAccess(db, { ...target, resource: siteResource })
    return requireAccess(target, access, 'pull', about).repositoryId
  }

  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    repositoryId: string,
    packageName: string | null,
    releases: FeedVersion[],
  ): Promise<FastifyReply> {
    const repository = await findRepository(db, repositoryId)
    if (!repository) throw registryNotFound('repository not found')
    const xml = renderFeed({ ...repository, baseUrl: config.baseUrl, packageName, releases })
    const etag = tagOf(xml)
    reply.headers({ etag, 'cache-control': 'private, no-cache', 'x-content-type-options': 'nosniff' })
    if (hasTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
    // Send a Buffer, because Fastify appends a charset to the content type of a string.
    return reply.type('application/atom+xml').send(Buffer.from(xml))
  }
}

interface Feed {
  id: string
  /** `acme/php`. */
  path: string
  createdAt: Date
  baseUrl: string
  /** Null for the feed of the repository. */
  packageName: string | null
  releases: FeedVersion[]
}

/**
 * Renders an Atom feed. The ids in the feed do not change when the repository is renamed, so that readers show no entry
 * twice.
 */
function renderFeed({ id, path, createdAt, baseUrl, packageName, releases }: Feed): string {
  const { hostname } = new URL(baseUrl)
  const page = `${baseUrl}/${path}${packageName === null ? '' : `/packages/${packageName}`}`
  const tag = (kind: string, key: string) => escapeXml(`tag:${hostname},2026:${kind}/${key}`)
  const entries = releases.map(
    (release) => `<entry>
<id>${tag('version', release.id)}</id>
<title>${escapeXml(`${release.packageName} ${release.version}`)}</title>
<updated>${release.publishedAt.toISOString()}</updated>
<link rel="alternate" type="text/html" href="${escapeXml(`${baseUrl}/${path}/packages/${release.packageName}?version=${encodeURIComponent(release.version)}`)}"/>
${authorOf(release, path)}
<summary>${escapeXml(release.description)}</summary>
</entry>
`,
  )
  return `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>${packageName === null ? tag('repository', id) : tag('package', `${id}/${packageName}`)}</id>
<title>${escapeXml(`Releases of ${packageName ?? path}`)}</title>
<updated>${(releases[0]?.publishedAt ?? createdAt).toISOString()}</updated>
<author><name>${escapeXml(path)}</name></author>
<link rel="self" type="application/atom+xml" href="${escapeXml(`${page}/-/feed.atom`)}"/>
<link rel="alternate" type="text/html" href="${escapeXml(page)}"/>
${entries.join('')}</feed>
`
}

/** Renders who published a release. It is the repository when nobody is known. `path` is that of the repository. */
function authorOf({ uploader, deployToken, run }: FeedVersion, path: string): string {
  const name = uploader ?? (run && describeRun(run)) ?? deployToken ?? path
  const uri = run?.url ? `<uri>${escapeXml(run.url)}</uri>` : ''
  return `<author><name>${escapeXml(name)}</name>${uri}</author>`
}

/** Escapes a text for XML. Removes the characters that XML 1.0 does not allow. */
function escapeXml(text: string): string {
  return escapeMarkup(cleanLine(text).replace(/[\ufffe\uffff]/g, ''))
}
