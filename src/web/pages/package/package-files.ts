import { basename, extname } from 'node:path/posix'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser } from '../../../archives/archive-files.ts'
import type { ArchiveFile, AtPath, DirectoryEntry } from '../../../archives/archive-tasks.ts'
import { decodeText } from '../../../archives/text-diff.ts'
import { imageTypeOf } from '../../../domain/image-type.ts'
import { revealText } from '../../../domain/plain-text.ts'
import { openReadCache } from '../../../domain/read-cache.ts'
import type { ListedVersion } from '../../../packages/tables/listed-versions.ts'
import { escapeMarkup } from '../../escape-markup.ts'
import { readQuery, text } from '../../forms.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { nobody, page } from '../../pages.ts'
import type { PagesContext } from '../permit.ts'
import {
  type AnyPackage,
  type AnyVersion,
  chooseVersion,
  findAnyPackage,
  findAnyVersion,
  type OfferedVersion,
} from './any-package.ts'
import type { ShownArchive } from './mirror-view.ts'
import { type PackageRoute, packagePath, readingArchive } from './package-view.ts'

/** The maximum number of names of a directory on a page. */
const namesPerPage = 300
/** Larger files are not shown. */
const maxTextBytes = 1024 * 1024
const maxImageBytes = 2 * 1024 * 1024
/** The maximum size of the escaped text of a file on a page. */
const maxShownBytes = 72 * 1024
/** The bytes that a page adds to each line, for its number and a link. */
const lineBytes = 80

/** The size of the coloured code in memory. */
const maxCachedBytes = 16 * 1024 * 1024

/** Lines of HTML with colours. */
interface ColouredCode {
  lines: string[]
}

/** A line of a file. */
interface ShownLine {
  number: number
  /** Escaped, with colours if the language is known. */
  html: string
}

/** A file with the values that its page shows. */
interface ShownFile {
  size: number
  kind: ArchiveFile['kind']
  /** Null for a file that is not text, is too large, or cannot be read. The target of a link has one line. */
  lines: ShownLine[] | null
  isImage: boolean
  /** The number of the first line that is shown. */
  line: number
  /** The first line of the next page. Null on the last page. */
  nextLine: number | null
}

/** What is at a path of an archive, for a page. */
interface ShownFiles {
  /** The path of the file or directory; '' for the root. */
  filePath: string
  entries: DirectoryEntry[]
  nextName: number | null
  file: ShownFile | null
  maxTextBytes: number
}

const filesPage = page<
  AnyPackage &
    Partial<ShownFiles> & {
      shown: AnyVersion | null
      offered: OfferedVersion[]
      archive: ShownArchive
    }
>('pages/files')

/** An archive with the version that it belongs to. */
interface OpenedArchive {
  version: string
  sha256: string
}

const noVersion: ShownArchive = { state: 'none', why: 'The package has no version here.' }

const FilesQuery = z.object({
  version: text,
  path: text,
  line: z.coerce.number().int().min(1).max(10_000_000).default(1),
  from: z.coerce.number().int().min(0).max(100_000).default(0),
})
const RawQuery = z.object({ version: text, path: text })

/**
 * `…/-/files`: the files of a version's archive. Text is always escaped into a page. Only images have their own URL,
 * `…/-/files/image`. They are sandboxed, so no file of an archive runs in the origin of this server.
 */
export async function fileRoutes(
  app: FastifyInstance,
  context: PagesContext & { archives: ArchiveBrowser; heavy: HeavyPages },
): Promise<void> {
  const { archives, readmes, heavy } = context
  const coloured = openReadCache<ColouredCode, { content: string; language: string }>({
    maxSize: maxCachedBytes,
    sizeOf: ({ lines }) => lines.reduce((sum, line) => sum + line.length * 2 + 32, 1),
    // Without colours, because the thread was busy: the next request tries again.
    read: async (_file, { content, language }) => {
      const lines = await readmes.highlight(content, language)
      return lines ? { lines } : undefined
    },
  })

  const showFiles = heavy<PackageRoute>(async (request, reply) => {
    const view = await findAnyPackage(context, request)
    const query = readQuery(FilesQuery, request)
    const { shown, offered } = await chooseVersion(context, view, query.version)
    const archive = (await shown?.openArchive()) ?? noVersion
    const files =
      shown && archive.state === 'stored'
        ? await filesAt({ version: shown.version, sha256: archive.sha256 }, query)
        : {}
    return filesPage(reply, view.session ?? nobody, { ...view, shown, offered, archive, ...files })
  })
  app.get<PackageRoute>(`${packagePath}/-/files`, showFiles)

  /** Throws 404 when there is nothing at the path. */
  async function filesAt(
    archive: OpenedArchive,
    { path, line, from }: z.output<typeof FilesQuery>,
  ): Promise<ShownFiles> {
    const found = await foundIn(archives, archive, path, { from, limit: namesPerPage })
    if (!found) throw pageNotFound()
    const { file = null, entries = [] } = found
    return {
      filePath: path,
      entries,
      nextName: found.entries && found.isContinued ? from + namesPerPage : null,
      file: file ? await show(archive, file, line) : null,
      maxTextBytes,
    }
  }

  /** Returns the archive whose image a request wants, and whether everybody may see it. */
  async function archiveOfImage(
    request: FastifyRequest<PackageRoute>,
    version: string,
  ): Promise<{ archive: OpenedArchive; isPublic: boolean }> {
    const view = await findAnyPackage(context, request)
    const shown = await findAnyVersion(context, view, version)
    const archive = await shown?.openArchive()
    if (!shown || archive?.state !== 'stored') throw pageNotFound()
    return { archive: { version: shown.version, sha256: archive.sha256 }, isPublic: archive.isPublic }
  }

  const sendImage = heavy<PackageRoute>(async (request, reply) => {
    const { version, path } = readQuery(RawQuery, request)
    const { archive, isPublic } = await archiveOfImage(request, version)
    const found = (await foundIn(archives, archive, path))?.file
    const file = found?.kind === 'file' ? found : undefined
    const bytes = file && (await readingArchive(() => archives.read(archive.sha256, file, maxImageBytes)))
    const type = bytes && contentTypeOf(path, bytes)
    if (!type) throw pageNotFound()
    return reply
      .headers({
        'content-security-policy': "sandbox; default-src 'none'",
        'cross-origin-resource-policy': 'same-origin',
        'cache-control': isPublic ? 'public, max-age=3600' : 'private, max-age=300',
        etag: `"${archive.sha256.slice(0, 32)}-${file?.crc32.toString(16)}"`,
      })
      .type(type)
      .send(bytes)
  })
  app.get<PackageRoute>(`${packagePath}/-/files/image`, sendImage)

  async function show({ sha256 }: OpenedArchive, file: ArchiveFile, line: number): Promise<ShownFile> {
    const { size, kind, path } = file
    const bytes = await readingArchive(() => archives.read(sha256, file, maxTextBytes))
    const content = bytes && decodeText(bytes)
    const isImage = /\.(?:png|jpe?g|gif|webp|svg)$/i.test(path) && size <= maxImageBytes && kind === 'file'
    if (content === null) return { size, kind, lines: null, isImage, line, nextLine: null }
    const language = kind === 'file' ? languageOf(path) : null
    const key = `${sha256} ${path}`
    const code = language && (await coloured.fetch(key, { context: { content, language } }))
    const part = code ? partOf(code.lines, line) : partOf(content.split('\n'), line, escapeMarkup)
    return { size, kind, isImage, line, ...part }
  }
}

/**
 * Returns what is at a path of a version: a file, or a part of a directory. Null when there is nothing. Throws 404 when the
 * archive store does not have the archive.
 */
export async function foundIn(
  archives: ArchiveBrowser,
  { sha256, version }: Pick<ListedVersion, 'sha256' | 'version'>,
  path: string,
  part?: { from: number; limit: number },
): Promise<AtPath | null> {
  const found = await readingArchive(() => archives.look(sha256, path, part))
  if (found === 'missing')
    throw new PageError(404, `The archive of version ${version} is no longer stored. Choose another version.`)
  return found
}

/**
 * Returns as many whole lines of HTML as fit on a page, beginning with `firstLine`. A line that is too long for a page
 * is cut.
 */
function partOf(
  lines: readonly string[],
  firstLine: number,
  toHtml = (line: string) => line,
): Pick<ShownFile, 'lines' | 'nextLine'> {
  const shown: ShownLine[] = []
  let bytes = 0
  for (let number = firstLine; number <= lines.length; number += 1) {
    // Bidirectional controls can make code look different from what PHP runs.
    const html = revealText(toHtml(lines[number - 1] ?? ''))
    bytes += Buffer.byteLength(html) + lineBytes
    if (bytes <= maxShownBytes) shown.push({ number, html })
    else if (shown.length > 0) return { lines: shown, nextLine: number }
    else
      return { lines: [{ number, html: cutLine(html) }], nextLine: number < lines.length ? number + 1 : null }
  }
  // A newline ends the last line.
  if (shown.at(-1)?.html === '') shown.pop()
  return { lines: shown, nextLine: null }
}

/** Returns the beginning of a line, without colours and without a cut entity. */
function cutLine(html: string): string {
  const text = html.replaceAll(/<[^>]*>/g, '').slice(0, maxShownBytes / 4)
  return `${text.replace(/&[^;]*$/, '')}…`
}

/** The extensions of files that get colours, by language. */
const extensions: Record<string, string[]> = {
  php: ['php', 'phtml', 'inc'],
  json: ['json', 'lock'],
  xml: ['xml', 'html', 'svg', 'xlf', 'xsd'],
  javascript: ['js', 'mjs', 'cjs', 'jsx'],
  typescript: ['ts', 'tsx'],
  yaml: ['yml', 'yaml', 'neon'],
  bash: ['sh', 'bash'],
  python: ['py'],
  css: ['css'],
  sql: ['sql'],
  twig: ['twig'],
  ini: ['ini'],
  diff: ['diff', 'patch'],
}

/** Returns the language of a file by its name: `php` for `src/A.php`, `xml` for `phpunit.xml.dist`. Null for others. */
function languageOf(path: string): string | null {
  if (basename(path) === 'Dockerfile') return 'dockerfile'
  const extension = extname(path.replace(/\.dist$/, ''))
    .slice(1)
    .toLowerCase()
  return Object.keys(extensions).find((language) => extensions[language]?.includes(extension)) ?? null
}

/** The images that are served, by extension. */
const imageTypes: Record<string, string> = {
  '.png': 'image/png',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.svg': 'image/svg+xml',
}

/** Returns the content type of an image of an archive. Null for other extensions, and for bytes of another type. */
function contentTypeOf(path: string, bytes: Buffer): string | null {
  const type = imageTypes[extname(path).toLowerCase()]
  // An SVG in a page runs no scripts. When it is opened directly, the policy of the response sandboxes it.
  const isSvg = /^\ufeff?\s*</.test(bytes.toString('utf8', 0, 100))
  return type !== undefined && type === (isSvg ? 'image/svg+xml' : imageTypeOf(bytes)) ? type : null
}
