import { expect, it } from 'vitest'
import { chooseEncoding } from '../../../src/registry/documents/encodings.ts'

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
