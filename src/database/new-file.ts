import { randomBytes } from 'node:crypto'
import { link, open, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Gives a complete file its name. Throws EEXIST when the name is taken. Unlike a rename, a link never replaces a file
 * that another process has just written. Only on volumes without links it is a rename. The caller removes the old name.
 */
export async function nameNewFile(partial: string, path: string): Promise<void> {
  try {
    await link(partial, path)
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'ENOSYS'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    await rename(partial, path)
  }
}

/**
 * Writes a file that does not exist yet. Throws EEXIST when it exists. A full disk or a kill leaves no part of it behind
 * under its name, and no other process ever reads a part. The file survives a power cut.
 */
export async function writeNewFile(path: string, content: string): Promise<void> {
  // In containers, two processes may have the same id.
  const partial = `${path}.${randomBytes(4).toString('hex')}.partial`
  try {
    await writeFile(partial, content, { flag: 'wx', flush: true })
    await nameNewFile(partial, path)
    await syncFolder(dirname(path))
  } finally {
    await rm(partial, { force: true }).catch(() => {})
  }
}

/** Syncs a folder, so that the names of its files survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
