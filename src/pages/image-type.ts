import { extname } from 'node:path/posix'

/** The images that are served, by extension: the content type and how the bytes begin. */
const types: Record<string, { type: string; begins: (bytes: Buffer) => boolean }> = {
  '.png': { type: 'image/png', begins: startsWith('\x89PNG\r\n\x1a\n') },
  '.gif': { type: 'image/gif', begins: (bytes) => /^GIF8[79]a$/.test(bytes.toString('latin1', 0, 6)) },
  '.webp': { type: 'image/webp', begins: (bytes) => /^RIFF.{4}WEBP$/s.test(bytes.toString('latin1', 0, 12)) },
  '.jpg': { type: 'image/jpeg', begins: startsWith('\xff\xd8\xff') },
  '.jpeg': { type: 'image/jpeg', begins: startsWith('\xff\xd8\xff') },
  // Images of pages run no scripts, and the policy of the response sandboxes an SVG that is opened by itself.
  '.svg': { type: 'image/svg+xml', begins: (bytes) => /^\ufeff?\s*</.test(bytes.toString('utf8', 0, 100)) },
}

/** Returns the content type of an image of an archive. Null for other extensions, and for bytes of another type. */
export function imageTypeOf(path: string, bytes: Buffer): string | null {
  const known = types[extname(path).toLowerCase()]
  return known?.begins(bytes) ? known.type : null
}

function startsWith(signature: string): (bytes: Buffer) => boolean {
  return (bytes) => bytes.toString('latin1', 0, signature.length) === signature
}
