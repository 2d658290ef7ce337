import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract } from 'tar-stream'
import type { ArchiveSource } from '../archives/repair-archives.ts'
import { readEntryName, type TarEntry } from './backup-file.ts'

/** Returns the archives of a backup. Reads the file once, up to the last wanted archive. */
export function sourceOfBackup(path: string): ArchiveSource {
  return async function* offer(wanted) {
    const tar = extract()
    const input = createReadStream(path, { highWaterMark: 2 ** 18 })
    const reading = pipeline(input, tar).catch(() => {})
    let isBackup = false
    try {
      for await (const entry of tar as AsyncIterable<TarEntry>) {
        const found = readEntryName(entry.header.name)
        isBackup ||= found?.kind === 'manifest'
        if (!found || !isBackup) throw new Error(`${entry.header.name} does not belong there`)
        // The archives come before the tables.
        if (found.kind === 'table' || wanted.size === 0) return
        if (found.kind === 'archive' && wanted.has(found.name)) {
          yield { sha256: found.name, place: path, size: entry.header.size, bytes: Readable.from(entry) }
        }
        entry.resume()
      }
    } catch (error) {
      throw new Error(`${path}: ${(error as Error).message}`)
    } finally {
      input.destroy()
      await reading
    }
  }
}
