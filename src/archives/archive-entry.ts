import type { Entry } from 'yauzl'
import { isPlainText } from '../domain/plain-text.ts'
import { errcode, Refusal } from '../domain/refusal.ts'

/** Returns the error for an invalid archive: errcode 3, HTTP 400. `details` helps the publisher to fix it. */
export function archiveRefusal(why: string, details: string[] = []): Refusal {
  return new Refusal(errcode.invalidArgument, `invalid archive: ${why}`, { details })
}

/** Returns the error for an archive with an invalid entry. The message names the entry. */
export function entryRefusal(name: string, why: string, details: string[] = []): Refusal {
  return archiveRefusal(`${quoted(name)} ${why}`, details)
}

/** Returns the error for an archive that is too large to process: errcode 8, HTTP 413. */
export function oversizeRefusal(why: string): Refusal {
  return new Refusal(errcode.resourceExhausted, `archive too large: ${why}`, { status: 413 })
}

/** Formats a name for a message: in quotes, with escaped control characters, and with at most 200 characters. */
export function quoted(name: string): string {
  const json = JSON.stringify(name.length > 200 ? `${name.slice(0, 199)}…` : name)
  return json.replace(/[\p{Cc}\p{Bidi_C}\u2028\u2029]/gu, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/**
 * Awaits a parser of uploaded bytes. A parse error becomes a `Refusal` that names the entry. The error of a
 * system call is thrown unchanged, because a failing disk is not the publisher's fault.
 */
export async function parsing<T>(what: string, parsed: Promise<T>): Promise<T> {
  try {
    return await parsed
  } catch (error) {
    if (error instanceof Refusal || !(error instanceof Error) || 'syscall' in error) throw error
    throw archiveRefusal(`${what}: ${error.message}`)
  }
}

/** A file, directory or link in the central directory of the archive. */
export interface ArchiveEntry {
  /** Path segments separated by `/`. The trailing slash of a directory is removed. */
  name: string
  kind: 'file' | 'directory' | 'link'
  header: Entry
}

/**
 * The longest path segment that file systems allow. A path longer than the limit below leaves no room for the path of
 * the project.
 */
const MAX_SEGMENT_BYTES = 255
const MAX_NAME_BYTES = 1024
/** The deepest nesting. No real package is deeper, and Composer must create a directory for each level. */
const MAX_LEVELS = 64
const MAX_LINK_BYTES = 1024

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads an entry's name and kind. Refuses unsafe names, names that parsers read differently, and devices. */
export function readArchiveEntry(header: Entry): ArchiveEntry {
  const fullName = decodeUtf8(header.fileNameRaw)
  if (fullName === null)
    throw entryRefusal(header.fileNameRaw.toString('latin1'), 'is a name that is not UTF-8')
  const name = fullName.endsWith('/') ? fullName.slice(0, -1) : fullName
  const fault = nameFault(name)
  if (fault) throw entryRefusal(fullName, fault)
  return { name, kind: kindOf(header, fullName), header }
}

/** Returns the problem with a path, or null. */
function nameFault(name: string): string | null {
  if (name === '') return 'is an empty name'
  if (!isPlainText(name)) return 'has a control character in its name'
  if (name.includes('\\')) return 'has a backslash in its name; use "/" between directories'
  if (name.startsWith('/') || /^[a-z]:/i.test(name)) return 'has an absolute name'
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `has a name of more than ${MAX_NAME_BYTES} bytes`
  const segments = name.split('/')
  if (segments.length > MAX_LEVELS) return `is more than ${MAX_LEVELS} levels deep`
  for (const segment of segments) {
    if (segment === '..') return 'has ".." in its name'
    if (segment === '' || segment === '.') return 'has an empty or "." segment in its name'
    if (Buffer.byteLength(segment) > MAX_SEGMENT_BYTES)
      return `has a segment of more than ${MAX_SEGMENT_BYTES} bytes`
  }
  return null
}

/**
 * Returns the kind of an entry. The trailing slash of the name and the Unix mode must agree. The host byte is ignored,
 * because only some parsers read it.
 */
function kindOf(header: Entry, fullName: string): ArchiveEntry['kind'] {
  const isDirectory = fullName.endsWith('/')
  const isMarkedDirectory = (header.externalFileAttributes & 0x10) !== 0
  const type = (header.externalFileAttributes >>> 16) & 0o170000
  if (type === 0o120000) {
    if (isDirectory) throw entryRefusal(fullName, 'is a directory by its name and a link by its mode')
    return 'link'
  }
  if (![0, 0o100000, 0o040000].includes(type)) throw entryRefusal(fullName, 'is a device, pipe or socket')
  if (!isDirectory) {
    if (type === 0o040000 || isMarkedDirectory) {
      throw entryRefusal(fullName, 'is a directory by its attributes, but its name does not end in "/"')
    }
    return 'file'
  }
  if (header.uncompressedSize > 0) throw entryRefusal(fullName, 'is a directory with contents')
  return 'directory'
}

/**
 * Refuses a link whose target is outside the package. `root` is the package's root in the archive ('' or 'folder/').
 * Composer removes that folder. `..` is allowed only at the start of the target. After a name, `..` could start from
 * the target of another link.
 */
export function refuseEscape({ name }: ArchiveEntry, targetBytes: Buffer, root: string): void {
  const target = decodeUtf8(targetBytes)
  if (target === null || target === '' || !isPlainText(target) || target.includes('\\')) {
    throw entryRefusal(name, 'is a link with an unreadable target')
  }
  if (target.startsWith('/') || /^[a-z]:/i.test(target))
    throw entryRefusal(name, 'is a link to an absolute path')
  const segments = target.split('/').filter((segment) => segment !== '' && segment !== '.')
  const down = segments.findIndex((segment) => segment !== '..')
  const ups = down < 0 ? segments.length : down
  if (segments.lastIndexOf('..') >= ups) throw entryRefusal(name, 'is a link with ".." after a name')
  const depth = name.split('/').length - root.split('/').length
  if (ups > depth || !name.startsWith(root))
    throw entryRefusal(name, `is a link that leads out of the package`)
}

/** Refuses a link whose target is too long to be a path. */
export function refuseLongLink({ name, kind, header }: ArchiveEntry): void {
  if (kind === 'link' && header.uncompressedSize > MAX_LINK_BYTES) {
    throw entryRefusal(name, `is a link with a target of more than ${MAX_LINK_BYTES} bytes`)
  }
}

function decodeUtf8(bytes: Buffer): string | null {
  try {
    return utf8.decode(bytes)
  } catch {
    return null
  }
}
