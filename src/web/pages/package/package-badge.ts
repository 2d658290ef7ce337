import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../../context.ts'
import { hasTag } from '../../conditional-requests.ts'
import { escapeMarkup } from '../../escape-markup.ts'
import { pageNotFound } from '../../page-error.ts'
import { readManifest } from '../manifest.ts'
import { findPackageView, findShownVersion, type PackageRoute, packagePath } from './package-view.ts'

/** Longer texts are cut. */
const maxCharacters = 40
/** The average width of a character at this size, in pixels. */
const characterWidth = 6.6

interface BadgeRoute {
  Params: PackageRoute['Params'] & { badge: string }
}

/**
 * `…/-/badge/{version,downloads,license}.svg`: images for READMEs on other sites. Other sites load them without
 * credentials, so only public repositories have them; private ones get 404.
 */
export async function badgeRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get<BadgeRoute>(`${packagePath}/-/badge/:badge`, async (request, reply) => {
    const view = await findPackageView(context, request)
    if (view.repository.visibility !== 'public') throw pageNotFound()
    const shown = await findShownVersion(context, view, '')
    const values = new Map<string, [label: string, value: string]>([
      ['version.svg', ['version', shown.version]],
      ['downloads.svg', ['downloads', formatCount(view.about.downloads)]],
      ['license.svg', ['license', readManifest(shown.metadata).licenses.join(', ') || 'none']],
    ])
    const badge = values.get(request.params.badge)
    if (!badge) throw pageNotFound()
    const svg = drawBadge(...badge)
    const tag = `"${createHash('sha256').update(svg).digest('hex').slice(0, 32)}"`
    reply.headers({
      'cache-control': 'public, max-age=300',
      'content-security-policy': "sandbox; default-src 'none'",
      'cross-origin-resource-policy': 'cross-origin',
      etag: tag,
    })
    if (hasTag(request.headers['if-none-match'], tag)) return reply.code(304).send()
    return reply.type('image/svg+xml').send(Buffer.from(svg))
  })
}

function formatCount(count: number): string {
  return new Intl.NumberFormat('en', { notation: 'compact' }).format(count)
}

function drawBadge(label: string, fullValue: string): string {
  const value = fullValue.length > maxCharacters ? `${fullValue.slice(0, maxCharacters - 1)}…` : fullValue
  const [left, right] = [label, value].map((text) => Math.ceil(text.length * characterWidth + 12)) as [
    number,
    number,
  ]
  const width = left + right
  const text = (x: number, content: string) => `<text x="${x}" y="14">${escapeMarkup(content)}</text>`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="20" role="img" aria-label="${escapeMarkup(`${label}: ${value}`)}">`,
    `<rect width="${width}" height="20" rx="4" fill="#2a55c9"/>`,
    `<path d="M4 0h${left - 4}v20H4a4 4 0 0 1-4-4V4a4 4 0 0 1 4-4z" fill="#3a3d45"/>`,
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">',
    text(left / 2, label),
    text(left + right / 2, value),
    '</g></svg>',
  ].join('')
}
