/**
 * Returns the media type of an image from its first bytes. Null for other formats. The SQL function `image_type` is the
 * same rule for logos, which the database checks and describes without sending them.
 */
export function imageTypeOf(bytes: Buffer): string | null {
  const start = bytes.toString('latin1', 0, 12)
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (/^GIF8[79]a/.test(start)) return 'image/gif'
  if (/^RIFF.{4}WEBP$/s.test(start)) return 'image/webp'
  return null
}
