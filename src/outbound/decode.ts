import { promisify } from 'node:util'
import { brotliDecompress, gunzip } from 'node:zlib'

/** The codings that `decode` knows, as the value of Accept-Encoding. */
export const acceptedCodings = 'gzip, br'

/** Decompresses a body. Throws the error of zlib, and `ERR_BUFFER_TOO_LARGE` above `maxBytes`: a small body can be a bomb. */
export async function decode(bytes: Buffer, coding: string | null, maxBytes: number): Promise<Buffer> {
  if (coding === 'gzip') return promisify(gunzip)(bytes, { maxOutputLength: maxBytes })
  if (coding === 'br') return promisify(brotliDecompress)(bytes, { maxOutputLength: maxBytes })
  return bytes
}
