import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { isPlainText } from '../domain/plain-text.ts'
import { escapeMarkup } from './escape-markup.ts'

/** What has a picture, each with its own shape in a square of 32 units. */
const shapes = {
  account: '<circle cx="16" cy="16" r="16"',
  group: '<rect width="32" height="32" rx="7"',
  package: '<path d="M16 0 30 8v16L16 32 2 24V8z"',
  application: '<rect width="32" height="32" rx="12"',
} as const

/** The kinds of things that have a picture. */
export type PictureKind = keyof typeof shapes

/**
 * The colors of pictures. White letters on them have a contrast of 5 : 1, and they have 3.4 : 1 or more to the light and
 * the dark page (WCAG 1.4.3, 1.4.11). None is the red of dangerous buttons.
 */
export const pictureColors = [
  '#9d6125',
  '#72721b',
  '#4c7b1d',
  '#1e801e',
  '#1e7e4e',
  '#1d7b7b',
  '#2b71b7',
  '#6060da',
  '#904bd5',
  '#ba2cba',
  '#c82f7c',
] as const

/** Names of packages are the longest: 150 characters. */
const maxNameCharacters = 200

/** Returns the URL path of a thing's picture. */
export function pictureUrl(kind: PictureKind, name: string): string {
  return `/assets/pictures/${kind}/${encodeURIComponent(name)}.svg`
}

/** Returns the picture of a thing as HTML. The name is beside it, so it has no text of its own. */
export function pictureOf(kind: PictureKind, name: string, size = 32): string {
  const url = escapeMarkup(pictureUrl(kind, name))
  return `<img class="avatar" src="${url}" alt="" width="${size}" height="${size}" loading="lazy">`
}

/**
 * `/assets/pictures/<kind>/<name>.svg`: pictures of accounts, groups, packages and applications. A picture is drawn from
 * the name alone, so its URL tells nothing about what exists, and browsers keep it.
 */
export async function pictureRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Params: { kind: string; file: string } }>(
    '/assets/pictures/:kind/:file',
    async (request, reply) => {
      const { kind, file } = request.params
      const name = file.replace(/\.svg$/, '')
      const isName = name !== file && name !== '' && Array.from(name).length <= maxNameCharacters
      if (!isKind(kind) || !isName || !isPlainText(name)) return reply.callNotFound()
      return reply
        .type('image/svg+xml')
        .headers({
          'cache-control': 'public, max-age=604800, immutable',
          'content-security-policy': "default-src 'none'; sandbox",
          'x-content-type-options': 'nosniff',
        })
        .send(Buffer.from(drawPicture(kind, name)))
    },
  )
}

function isKind(text: string): text is PictureKind {
  return Object.hasOwn(shapes, text)
}

function drawPicture(kind: PictureKind, name: string): string {
  const [byte = 0] = createHash('sha256').update(name).digest()
  const color = pictureColors[byte % pictureColors.length]
  const letters = initialsOf(name)
  const size = letters.length > 1 ? 13 : 16
  const font = `font-family="system-ui,sans-serif" font-weight="600" font-size="${size}"`
  const place = 'x="16" y="16" text-anchor="middle" dominant-baseline="central"'
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${shapes[kind]} fill="${color}"/><text ${place} fill="#fff" ${font}>${escapeMarkup(letters)}</text></svg>`
}

/** Returns the first letters of the first two words of a name, without the vendor of a package. */
function initialsOf(name: string): string {
  const words = (name.split('/').at(-1) ?? '').match(/[\p{L}\p{N}]+/gu) ?? []
  return words
    .slice(0, 2)
    .map((word) => Array.from(word)[0]?.toUpperCase() ?? '')
    .join('')
}
