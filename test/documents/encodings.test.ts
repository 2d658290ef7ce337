import { randomBytes } from 'node:crypto'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { chooseEncoding, encodeDocument } from '../../src/documents/encodings.ts'

it.each([
  [undefined, 'identity'],
  ['', 'identity'],
  ['deflate, gzip, br, zstd', 'br'],
  ['GZIP', 'gzip'],
  ['gzip;q=0.5, br;q=0.1', 'br'],
  ['br;q=0, gzip;q=1.0', 'gzip'],
  ['br;q=0.000, gzip; q=0', 'identity'],
  ['*', 'br'],
  ['*;q=0', 'identity'],
  ['br;q=0, *', 'gzip'],
  ['zstd', 'identity'],
  ['identity', 'identity'],
])('chooses for Accept-Encoding: %s the coding %s (RFC 9110 §12.5.3)', (header, encoding) => {
  expect(chooseEncoding(header)).toBe(encoding)
})

it.each([0, 1, 1024, 16 * 1024, 200 * 1024])('compresses %i bytes into every coding', async (size) => {
  const bytes = Buffer.from(randomBytes(size).toString('hex').slice(0, size))
  const { identity, gzip, br } = await encodeDocument(bytes)
  expect(
    [identity, gunzipSync(gzip), brotliDecompressSync(br)].map((decoded) => decoded.equals(bytes)),
  ).toEqual([true, true, true])
})
