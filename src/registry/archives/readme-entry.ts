import { fromRandomAccessReaderPromise } from 'yauzl'
import { type ArchiveEntry, readArchiveEntry } from './archive-entry.ts'
import type { ArchiveStore } from './archive-store.ts'
import { ZipReader } from './zip-directory.ts'
import { inflateEntry } from './zip-entry.ts'

/** A longer README is cut at this size. */
export const maxReadmeBytes = 64 * 1024

const markdownName = /\.(?:md|markdown)$/i

/** The text of a README. `isMarkdown` depends on the file name. */
export interface Readme {
  text: string
  isMarkdown: boolean
}

/** Returns the README at the package's root ('' or 'folder/'), preferably a Markdown file. Null when there is none. */
export function findReadme(entries: readonly ArchiveEntry[], root: string): ArchiveEntry | null {
  const found = entries.filter(({ name, kind }) => {
    return (
      kind === 'file' && name.startsWith(root) && /^readme(?:\.\w{1,20})?$/i.test(name.slice(root.length))
    )
  })
  return found.find(({ name }) => markdownName.test(name)) ?? found[0] ?? null
}

/** Returns the README from the first bytes of its entry. */
export function toReadme({ name }: ArchiveEntry, chunks: readonly Buffer[]): Readme {
  const text = Buffer.concat(chunks).subarray(0, maxReadmeBytes).toString('utf8')
  return { text, isMarkdown: markdownName.test(name) }
}

/** Returns the README of a stored archive. Null when the archive has no README. */
export async function readReadme(
  store: ArchiveStore,
  sha256: string,
): Promise<Readme | null | 'archive missing'> {
  const archive = await store.openFile(sha256)
  if (!archive) return 'archive missing'
  try {
    const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false }
    const reader = new ZipReader(archive.file)
    const zip = await fromRandomAccessReaderPromise(reader, archive.size, options)
    const nearTop: ArchiveEntry[] = []
    for await (const header of zip.eachEntry()) {
      const entry = readArchiveEntry(header)
      if (/^(?:[^/]+\/)?(?:readme(?:\.\w+)?|composer\.json)$/i.test(entry.name)) nearTop.push(entry)
    }
    const readme = findReadme(nearTop, rootOf(nearTop))
    if (!readme) return null
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of inflateEntry(zip, reader, readme)) {
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxReadmeBytes) break
    }
    return toReadme(readme, chunks)
  } finally {
    await archive.file.close()
  }
}

/** Returns the directory of the manifest. The archive was checked when it was published. */
function rootOf(entries: readonly ArchiveEntry[]): string {
  const isAtTop = entries.some(({ name }) => name === 'composer.json')
  const manifest = isAtTop ? undefined : entries.find(({ name }) => name.endsWith('/composer.json'))
  return manifest?.name.slice(0, -'composer.json'.length) ?? ''
}
