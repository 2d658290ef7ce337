import type pg from 'pg'
import type { ArchiveStore, ReceivedArchive } from '../archives/archive-store.ts'
import { judgeArchive } from '../archives/judge-archive.ts'
import { discardArchive, keepNamedArchive, receiveArchive } from '../archives/local-store.ts'
import { errcode, RegistryError } from '../errors.ts'
import { readComposerJson, refuseMissingAutoload } from '../manifest/composer-json.ts'
import { compareNormalized, type PublishedVersion, readVersion } from '../manifest/composer-version.ts'
import { isPackageName, toLowerAscii } from '../manifest/package-name.ts'
import { publishVersion } from '../publish.ts'
import type { ReadmeRenderer } from '../readmes/render-readme.ts'
import { commandLine } from '../tables/events.ts'
import { findTakenVersion } from '../tables/versions.ts'
import { textOf } from './check-document.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { toReceiveError, UpstreamError } from './client/upstream-error.ts'
import { metadataUrlOf, parseObject, readRoot, rootUrlOf, type UpstreamRoot } from './client/upstream-root.ts'
import { judgeDocument, type UpstreamVersion } from './judge-document.ts'
import { matchesVersion } from './patterns.ts'

/** Bounds for a list of packages in parts. svc sends 10,000 names a part. Packagist has about 500,000 names. */
const maxListParts = 1000
const maxNames = 1_000_000

/** The result for a version of the other registry. */
export interface Imported {
  name: string
  version: string
  outcome: 'imported' | 'already there' | 'refused'
  reason: string | null
}

export interface ImportWish {
  repositoryId: string
  baseUrl: string
  url: string
  /** The packages to import, with optional constraints. If empty, all packages that the registry lists. */
  patterns: readonly string[]
  /** Whether `v1.0.0` is published as `1.0.0`. */
  mapsVTags: boolean
  /** Whether to publish nothing and only return the results. */
  isDryRun: boolean
  maxArchiveBytes: number
}

interface ImportContext {
  db: pg.Pool
  client: UpstreamClient
  archives: ArchiveStore
  readmes: Pick<ReadmeRenderer, 'render'>
  tell: (imported: Imported) => void
}

/**
 * Copies packages of another Composer registry into this repository, the oldest versions first, with their publication
 * dates. It skips existing versions, so an interrupted import can be repeated and continues where it stopped. Throws
 * `UpstreamError` when the registry itself cannot be read, and other errors when the archive store fails.
 */
export async function importPackages(context: ImportContext, wish: ImportWish): Promise<Imported[]> {
  const { client, tell } = context
  const { root, packages } = await readRoot(wish.url, await textOf(client, rootUrlOf(wish.url)), (url) =>
    textOf(client, url),
  )
  const names = await namesOf(client, root, [...packages.keys()], wish.patterns)
  const done: Imported[] = []
  const note = (imported: Imported) => {
    done.push(imported)
    tell(imported)
  }
  for (const name of names) {
    for (const version of await versionsOf(client, root, packages, name, note)) {
      if (wish.patterns.length > 0 && !wish.patterns.some((p) => matchesVersion(p, name, version.normalized)))
        continue
      note({ name, version: version.version, ...(await importVersion(context, wish, name, version)) })
    }
  }
  return done
}

/**
 * Returns the names to import: the listed names of the registry that match the patterns, or all of them without
 * patterns. If no pattern contains `*`, it returns the names in the patterns.
 */
async function namesOf(
  client: UpstreamClient,
  root: UpstreamRoot,
  inline: readonly string[],
  patterns: readonly string[],
): Promise<string[]> {
  const exact = patterns.map((pattern) => pattern.split(':')[0] ?? '').filter((name) => !name.includes('*'))
  const needsList = patterns.length === 0 || patterns.some((pattern) => pattern.split(':')[0]?.includes('*'))
  const listed = root.names ?? (inline.length > 0 ? inline : null)
  if (!needsList) return [...new Set(exact)]
  if (listed === null && root.listUrl === null) {
    throw new UpstreamError('the registry does not list its packages: give their names')
  }
  const all = listed ?? (await listedNames(client, root.listUrl as string))
  return all
    .filter((name) => patterns.length === 0 || patterns.some((p) => matchesVersionName(p, name)))
    .sort()
}

function matchesVersionName(pattern: string, name: string): boolean {
  return matchesVersion(pattern.split(':')[0] ?? '', name, '')
}

/**
 * Returns the names of a list, from all its parts. Throws `UpstreamError` when a part cannot be read, or when the list
 * is too long: an import of only some names would look complete.
 */
async function listedNames(client: UpstreamClient, listUrl: string): Promise<string[]> {
  const names = new Set<string>()
  let url: string | null = listUrl
  for (let part = 1; url !== null; part += 1) {
    if (part > maxListParts)
      throw new UpstreamError(`the list of packages has more than ${maxListParts} parts`)
    const fetched = await client.fetchDocument(url)
    if (fetched.kind !== 'found') throw new UpstreamError(`${url} does not exist`)
    const { packageNames } = parseObject(fetched.text, 'the list of packages')
    if (!Array.isArray(packageNames)) throw new UpstreamError('the list of packages has another format')
    for (const given of packageNames) {
      const name = typeof given === 'string' ? toLowerAscii(given) : ''
      if (isPackageName(name)) names.add(name)
    }
    if (names.size > maxNames) throw new UpstreamError(`the list of packages has more than ${maxNames} names`)
    url = fetched.next === null ? null : nextPart(url, fetched.next)
  }
  return [...names]
}

/** Resolves the link to the next part. The registry must not choose other hosts for the requests of svc. */
function nextPart(url: string, link: string): string {
  const next = URL.canParse(link, url) ? new URL(link, url) : null
  if (!next) throw new UpstreamError('the list of packages continues at an invalid URL')
  if (next.origin === new URL(url).origin) return next.href
  throw new UpstreamError(
    `the list of packages continues at another origin, ${next.origin}: import from that one`,
  )
}

async function versionsOf(
  client: UpstreamClient,
  root: UpstreamRoot,
  packages: ReadonlyMap<string, unknown>,
  name: string,
  note: (imported: Imported) => void,
): Promise<UpstreamVersion[]> {
  const documents =
    root.metadataUrl === null
      ? [{ packages: { [name]: packages.get(name) } } as Parameters<typeof judgeDocument>[0]]
      : await Promise.all(
          [false, true].map((isDev) => document(client, root.metadataUrl as string, name, isDev)),
        )
  const versions: UpstreamVersion[] = []
  for (const one of documents) {
    const judged = one && judgeDocument(one, name)
    for (const reason of judged?.dropped ?? []) {
      const [version = ''] = reason.split(':')
      note({ name, version, outcome: 'refused', reason })
    }
    versions.push(...(judged?.content.versions ?? []))
  }
  return versions.sort((a, b) => compareNormalized(a.normalized, b.normalized))
}

async function document(client: UpstreamClient, template: string, name: string, isDev: boolean) {
  const fetched = await client.fetchDocument(metadataUrlOf(template, name, isDev))
  return fetched.kind === 'found' ? parseObject(fetched.text, `the metadata of ${name}`) : null
}

async function importVersion(
  context: ImportContext,
  wish: ImportWish,
  packageName: string,
  theirs: UpstreamVersion,
): Promise<Pick<Imported, 'outcome' | 'reason'>> {
  const { db, archives, readmes } = context
  const { repositoryId, baseUrl } = wish
  let received: ReceivedArchive | null = null
  try {
    const version = versionOf(theirs, wish)
    const taken = await findTakenVersion(db, repositoryId, packageName, version.normalized)
    if (taken) return { outcome: 'already there', reason: taken.isDeleted ? 'it was deleted here' : null }
    if (theirs.dist?.type !== 'zip') return { outcome: 'refused', reason: 'it has no zip archive' }
    if (wish.isDryRun) return { outcome: 'imported', reason: null }
    received = await receive(context, theirs.dist, wish.maxArchiveBytes)
    const judged = await judgeArchive(received.path)
    const { metadata } = readComposerJson(judged.manifest, packageName, version)
    refuseMissingAutoload(metadata, judged.tree)
    await archives.keep(received)
    const published = theirs.publishedAt ?? theirs.entry['time']
    const outcome = await publishVersion(db, {
      repositoryId,
      packageName,
      version,
      metadata,
      readme: await readmes.render(judged.readme),
      archive: received,
      author: commandLine,
      baseUrl,
      publishedAt: pastDate(published),
    })
    await keepNamedArchive(archives, received)
    return { outcome: outcome === 'published' ? 'imported' : 'already there', reason: null }
  } catch (error) {
    if (error instanceof UpstreamError) return { outcome: 'refused', reason: error.message }
    if (!(error instanceof RegistryError) || isStoreFailure(error)) throw error
    const reason = [error.errmsg, ...error.details.slice(0, 1)].join(': ')
    return { outcome: error.errcode === errcode.alreadyExists ? 'already there' : 'refused', reason }
  } finally {
    if (received) await discardArchive(received)
  }
}

/** Returns whether the archive store is full or unavailable. Then every other version would fail too. */
function isStoreFailure({ errcode: code, status }: RegistryError): boolean {
  return code === errcode.unavailable || status === 507
}

function versionOf({ version }: UpstreamVersion, { mapsVTags }: ImportWish): PublishedVersion {
  return readVersion(mapsVTags ? version.replace(/^v(?=\d)/i, '') : version)
}

async function receive(
  { client, archives }: ImportContext,
  { url, shasum }: NonNullable<UpstreamVersion['dist']>,
  maxBytes: number,
): Promise<ReceivedArchive> {
  const { body } = await client.fetchArchive(url)
  let received: ReceivedArchive
  try {
    received = await receiveArchive(archives, body, { maxBytes })
  } catch (error) {
    throw toReceiveError(error, body, url)
  } finally {
    body.destroy()
  }
  if (shasum === null || shasum === received.sha1) return received
  await discardArchive(received)
  throw new UpstreamError(`its archive has the SHA-1 ${received.sha1}, but the registry announces ${shasum}`)
}

/**
 * Returns the publication date in the other registry. Null when it is invalid, before 1970, or in the future. Neither
 * PostgreSQL nor PHP can read every date of JavaScript.
 */
function pastDate(text: unknown): Date | null {
  const date = typeof text === 'string' ? new Date(text) : null
  return date && date.getTime() >= 0 && date.getTime() < Date.now() ? date : null
}
