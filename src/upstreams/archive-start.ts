/** How many bytes of an archive `startsLikeArchive` needs: the header of a tar archive. */
export const startBytes = 512

const magic: Record<string, readonly number[][]> = {
  zip: [
    [0x50, 0x4b, 0x03, 0x04],
    [0x50, 0x4b, 0x05, 0x06],
  ],
  gzip: [[0x1f, 0x8b]],
  xz: [[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]],
  rar: [[0x52, 0x61, 0x72, 0x21, 0x1a, 0x07]],
  // Composer also unpacks tar archives that are compressed with gzip or bzip2.
  tar: [
    [0x1f, 0x8b],
    [0x42, 0x5a, 0x68],
  ],
}

/**
 * Returns whether bytes start like an archive of this type of Composer's. Other bytes are not served: a document can name
 * any URL that this machine can read.
 */
export function startsLikeArchive(type: string, start: Buffer): boolean {
  const isMagic = (magic[type] ?? []).some((bytes) =>
    start.subarray(0, bytes.length).equals(Buffer.from(bytes)),
  )
  return isMagic || (type === 'tar' && isTarHeader(start))
}

/** Checks the sum of a tar header, which is the only mark that all versions of the format have. */
function isTarHeader(start: Buffer): boolean {
  if (start.length < startBytes) return false
  const said = Number.parseInt(start.subarray(148, 156).toString('latin1').replaceAll('\0', ' ').trim(), 8)
  const header = Buffer.from(start.subarray(0, startBytes)).fill(' ', 148, 156)
  return header.reduce((sum, byte) => sum + byte, 0) === said
}
