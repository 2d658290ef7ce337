import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** The bytes of the longest path that the system accepts. */
const longestPath = process.platform === 'linux' ? 4095 : 1023

/**
 * Returns a folder that everybody may write, but in which nobody can create a file, neither root nor other users: with
 * its name, the path would be too long. It is removed at the end of the describe block.
 */
export function useUnwritableFolder(): string {
  const root = mkdtempSync(join(tmpdir(), 'svc-test-unwritable-'))
  afterAll(() => rmSync(root, { recursive: true }))
  let folder = root
  while (folder.length + 200 < longestPath) folder = join(folder, 'a'.repeat(99))
  const path = join(folder, 'a'.repeat(longestPath - 6 - folder.length))
  mkdirSync(path, { recursive: true })
  return path
}
