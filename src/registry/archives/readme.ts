import { fromRandomAccessReaderPromise } from 'yauzl'
import { type ArchiveEntry, readArchiveEntry } from './archive-entry.ts'
import { type ArchiveVolume, openArchive } from './archive-volume.ts'
import { inflateEntry } from './zip-contents.ts'
import { ZipReader } from './zip-reader.ts'

/** A longer README is shown up to here. */
const maxBytes = 64 * 1024

const markdownName = /\.(?:md|markdown)$/i

/** A README's text, and whether its name says that it is Markdown. */
export interface Readme {
  text: string
  isMarkdown: boolean
}

/** The README beside an archive's composer.json; null when there is none, or the archive is gone. */
export async function readReadme(volume: ArchiveVolume, sha256: string): Promise<Readme | null> {
  const archive = await openArchive(volume, sha256)
  if (!archive) return null
  try {
    const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false }
    const reader = new ZipReader(archive.file)
    const zip = await fromRandomAccessReaderPromise(reader, archive.size, options)
    const nearTop: ArchiveEntry[] = []
    for await (const header of zip.eachEntry()) {
      const entry = readArchiveEntry(header)
      if (/^(?:[^/]+\/)?(?:readme(?:\.\w+)?|composer\.json)$/i.test(entry.name)) nearTop.push(entry)
    }
    const readme = findReadme(nearTop)
    if (!readme) return null
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of inflateEntry(zip, reader, readme)) {
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxBytes) break
    }
    const text = Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8')
    return { text, isMarkdown: markdownName.test(readme.name) }
  } finally {
    await archive.file.close()
  }
}

/** The file by the manifest; of several, the one in Markdown. */
function findReadme(entries: ArchiveEntry[]): ArchiveEntry | null {
  const manifest = entries.find(({ name }) => name === 'composer.json') ?? entries.find(isManifest)
  const root = manifest?.name.slice(0, -'composer.json'.length) ?? ''
  const found = entries.filter(
    ({ name, kind }) => kind === 'file' && name.startsWith(root) && /^readme/i.test(name.slice(root.length)),
  )
  return found.find(({ name }) => markdownName.test(name)) ?? found[0] ?? null
}

function isManifest({ name }: ArchiveEntry): boolean {
  return name.endsWith('/composer.json')
}
