import { statfs } from 'node:fs/promises'

/** The size of a disk, in bytes. */
export interface DiskSpace {
  freeBytes: number
  allBytes: number
}

/** Measures the disk of a folder. Null when the file system does not report its size: some network volumes do not. */
export async function measureDisk(folder: string): Promise<DiskSpace | null> {
  const { blocks, bavail, bsize } = await statfs(folder)
  return blocks === 0 ? null : { freeBytes: bavail * bsize, allBytes: blocks * bsize }
}
