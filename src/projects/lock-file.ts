import { createHash } from 'node:crypto'
import { normalizeVersion } from '../composer/composer-version.ts'
import { isJsonObject, type Json, type JsonObject } from '../composer/manifest-json.ts'
import { isPackageName, toLowerAscii } from '../composer/package-name.ts'
import { isPlainText } from '../domain/plain-text.ts'

/** How many packages a lock file may name. The largest known one names about 800. */
const maxPackages = 5_000
/** How many licences and requirements of an entry are kept. */
const maxParts = 200
const maxText = 1_000

/** What is kept of the entry of a package: what an SBOM needs. What is missing in the lock file is missing here. */
export interface LockedEntry {
  type?: string
  description?: string
  homepage?: string
  licenses?: string[]
  /** URLs have no credentials, no query and no fragment. */
  source?: { type?: string; url?: string; reference?: string }
  dist?: { type?: string; url?: string; reference?: string; shasum?: string }
  /** The packages of the same lock file that it requires. */
  requires?: string[]
  abandoned?: true | string
}

/** A package of a lock file. */
export interface LockFilePackage {
  name: string
  version: string
  /** Empty when Composer cannot read the version. */
  normalized: string
  isDev: boolean
  entry: LockedEntry
  /** SHA-256 of name, version and entry, in hex: the same package of another lock file has the same. */
  digest: string
}

/** A text that is no lock file, with a sentence for its sender. */
export class LockFileError extends Error {
  override readonly name = 'LockFileError'
}

/**
 * Reads a composer.lock: the packages of `packages` and `packages-dev`, by name. Everything else in it is ignored. Throws
 * LockFileError. It runs in a thread, because a stranger sends the text.
 */
export function readLockFile(bytes: Uint8Array): LockFilePackage[] {
  const lock = parse(bytes)
  const listed = (['packages', 'packages-dev'] as const).flatMap((member) =>
    readList(lock, member).map((entry) => ({ entry, isDev: member === 'packages-dev' })),
  )
  if (listed.length > maxPackages)
    throw new LockFileError(`the lock file names more than ${maxPackages} packages`)
  const names = new Set(listed.map(({ entry }) => nameOf(entry)))
  const packages = new Map<string, LockFilePackage>()
  for (const { entry, isDev } of listed) {
    const name = nameOf(entry)
    if (packages.has(name)) throw new LockFileError(`the lock file names ${name} twice`)
    packages.set(name, readEntry(name, entry, { names, isDev }))
  }
  return [...packages.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1))
}

function parse(bytes: Uint8Array): JsonObject {
  let content: unknown
  try {
    content = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new LockFileError('the body must be a composer.lock: it is no JSON')
  }
  if (!isJsonObject(content as Json) || !Array.isArray((content as JsonObject)['packages']))
    throw new LockFileError('the body must be a composer.lock: it has no list "packages"')
  return content as JsonObject
}

function readList(lock: JsonObject, member: string): JsonObject[] {
  const list = lock[member] ?? []
  if (!Array.isArray(list) || !list.every(isJsonObject))
    throw new LockFileError(`"${member}" must be a list of packages`)
  return list
}

function nameOf({ name }: JsonObject): string {
  const lower = typeof name === 'string' ? toLowerAscii(name) : ''
  if (!isPackageName(lower))
    throw new LockFileError(`each package needs a name such as vendor/package, not ${quote(name)}`)
  return lower
}

function readEntry(
  name: string,
  entry: JsonObject,
  { names, isDev }: { names: ReadonlySet<string>; isDev: boolean },
): LockFilePackage {
  const version = textOf(entry['version'], 255)
  if (version === undefined || version === '')
    throw new LockFileError(`${name} needs a version, not ${quote(entry['version'])}`)
  const kept = keep(entry, names)
  const digest = createHash('sha256')
    .update(JSON.stringify([name, version, kept]))
    .digest('hex')
  return { name, version, normalized: normalizeVersion(version) ?? '', isDev, entry: kept, digest }
}

function keep(entry: JsonObject, names: ReadonlySet<string>): LockedEntry {
  const requires = Object.keys(isJsonObject(entry['require']) ? entry['require'] : {})
    .map(toLowerAscii)
    .filter((name) => names.has(name))
    .toSorted()
    .slice(0, maxParts)
  const { abandoned } = entry
  return withoutMissing({
    type: textOf(entry['type'], 100),
    description: textOf(entry['description'], maxText),
    homepage: webAddressOf(entry['homepage']),
    licenses: licensesOf(entry['license']),
    source: placeOf(entry['source'], ['type', 'reference']),
    dist: placeOf(entry['dist'], ['type', 'reference', 'shasum']),
    requires: requires.length > 0 ? requires : undefined,
    // Composer takes an empty text for false.
    abandoned: abandoned === true ? true : textOf(abandoned, 150) || undefined,
  })
}

function licensesOf(license: Json | undefined): string[] | undefined {
  const licenses = [license ?? []]
    .flat()
    .flatMap((one) => textOf(one, 200) ?? [])
    .slice(0, maxParts)
  return licenses.length > 0 ? licenses : undefined
}

/** Reads `source` or `dist`. */
function placeOf(place: Json | undefined, members: readonly string[]) {
  if (!isJsonObject(place)) return undefined
  const texts = members.map((member) => [member, textOf(place[member], 255)] as const)
  return withoutMissing({ ...Object.fromEntries(texts), url: webAddressOf(place['url']) })
}

/** Returns a URL without credentials, query and fragment: they can contain secrets. */
function webAddressOf(url: Json | undefined): string | undefined {
  const text = textOf(url, 2_000)
  if (text === undefined || !URL.canParse(text)) return undefined
  const { protocol, host, pathname } = new URL(text)
  return ['https:', 'http:', 'ssh:', 'git:'].includes(protocol)
    ? `${protocol}//${host}${pathname}`
    : undefined
}

/** Returns a text that is short enough and has no control characters. */
function textOf(value: Json | undefined, maxLength: number): string | undefined {
  return typeof value === 'string' && value.length <= maxLength && isPlainText(value) ? value : undefined
}

function withoutMissing<Members extends object>(
  members: Members,
): { [M in keyof Members]?: NonNullable<Members[M]> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [M in keyof Members]?: NonNullable<Members[M]>
  }
}

function quote(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 100)
}
