import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { has } from './requires.ts'

export const hasStrace = has('strace')

/**
 * Runs Node under strace, and returns the paths of the files and folders that it synced, in their order. A power cut
 * cannot be tested, so tests observe these calls.
 */
export async function syncedBy(words: string[], environment: Record<string, string> = {}): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-strace-'))
  try {
    const log = join(folder, 'log')
    const trace = ['-f', '-y', '-s', '4096', '-e', 'trace=fsync,fdatasync', '-o', log]
    const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], ...environment }
    await promisify(execFile)('strace', [...trace, process.execPath, ...words], { env })
    const calls = await readFile(log, 'utf8')
    // A path that was removed since its file was opened ends with "(deleted)".
    return [...calls.matchAll(/f(?:data)?sync\(\d+<([^>]*)>/g)].map(([, path = '']) => path)
  } finally {
    await rm(folder, { recursive: true })
  }
}
