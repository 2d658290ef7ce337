import { gunzipSync, gzipSync } from 'node:zlib'
import { isJsonObject, type Json } from '../../composer/manifest-json.ts'
import { type EncodedDocument, encodeDocument } from '../../documents/encodings.ts'
import { UpstreamError } from '../client/upstream-error.ts'
import { type Offer, type OfferRules, offer } from './offer.ts'
import { textOf } from './parse-object.ts'
import {
  affectedConstraints,
  type MalwareFlag,
  malwareFlags,
  type UpstreamContent,
  type UpstreamDist,
  type UpstreamDocument,
} from './read-document.ts'

/** The maximum number of names that the versions of a package replace or provide. Each one is looked up. */
const maxReplaced = 10_000
/** How many of the latest versions have their licences listed, if not all versions have the same. */
const maxLicensed = 200
/** More licences, or a longer one, are not read. No rule names them. */
const maxLicenses = 10
const maxLicenseCharacters = 1000
/** The maximum size of stored content. Earlier releases have stored up to 128 MiB. */
const maxContentBytes = 128 * 1024 * 1024
/** The maximum size of a rendered document. It contains a URL of this registry for each version. */
const maxRenderedBytes = 32 * 1024 * 1024

/** The parts of a document's content that the database needs. They have the bytes of JSON where they can be long. */
export interface ContentSummary {
  description: string | null
  flags: MalwareFlag[]
  licenses: LicensedVersions[]
  /** The names that versions replace or provide. */
  replaced: string[]
  /** The archives of the versions: a JSON list of `ListedArchive`. */
  archives: Uint8Array
  /** The normalized versions without an archive and without a publication time: a JSON list. */
  metapackages: Uint8Array
  /** Whether a version with an archive has no publication time. */
  hasUndatedArchives: boolean
}

/** Versions with the same licences: the normalized ones, or null for all versions of the document. */
export interface LicensedVersions {
  licenses: string[]
  versions: string[] | null
}

/** A row of `ContentSummary.archives`. */
type ListedArchive = {
  version: string
  normalized: string
  type: string
  url: string
  shasum: string | null
  version_path: string
  reference: string
  is_undated: boolean
}

/** The content of a document in its stored form, gzipped JSON, and its summary. */
export interface PackedContent {
  packed: Uint8Array
  summary: ContentSummary
}

/** A document of an upstream that was read. `dropped` has the versions that were left out, each with the reason. */
export interface PackedDocument extends PackedContent {
  /** The size of the content in bytes. */
  size: number
  dropped: string[]
}

/** The rules of a repository for one package of an upstream, in a form that can be sent to a thread. */
export interface PackedRules
  extends Omit<OfferRules, 'ownNames' | 'firstSeenAt' | 'keyOf' | 'early' | 'shasumOf' | 'distUrl'> {
  ownNames: readonly string[]
  early: readonly string[]
  /** JSON: the times at which versions were first seen, in milliseconds, by `versionKey`. */
  firstSeen: string
  /** The shasums that the document must announce instead of the upstream's, by `archiveKey`. */
  shasums: Readonly<Record<string, string>>
  registryUrl: string
}

/** A rendered document. `dueAt` is the time at which it must be rendered again. */
export interface EncodedOffer extends EncodedDocument, Omit<Offer, 'text'> {}

/** Returns the stored form of a document. Throws `UpstreamError` when it replaces too many names. */
export function packDocument({ content, dropped }: UpstreamDocument): PackedDocument {
  const text = Buffer.from(JSON.stringify(content))
  return { packed: gzipSync(text, { level: 4 }), summary: summarize(content), size: text.length, dropped }
}

/** Returns content from its stored form. */
export function unpackContent(packed: Uint8Array): UpstreamContent {
  return JSON.parse(textOf(gunzipSync(packed, { maxOutputLength: maxContentBytes }))) as UpstreamContent
}

/** Returns the parts of content that the database needs. Throws `UpstreamError` when it replaces too many names. */
export function summarize(content: UpstreamContent): ContentSummary {
  const { versions, extra } = content
  const replaced = replacedNames(content)
  if (replaced.length > maxReplaced)
    throw new UpstreamError(`the metadata replaces and provides more than ${maxReplaced} names`)
  const archives = versions.flatMap(({ version, normalized, dist, publishedAt }): ListedArchive[] => {
    if (dist === null) return []
    const { versionPath, reference, type, url, shasum } = dist
    const is_undated = publishedAt === null
    return [{ version, normalized, type, url, shasum, version_path: versionPath, reference, is_undated }]
  })
  const metapackages = versions.filter(({ dist, publishedAt }) => dist === null && publishedAt === null)
  const description = versions[0]?.entry['description']
  return {
    description: typeof description === 'string' ? description.replaceAll('\0', '').slice(0, 500) : null,
    flags: malwareFlags(extra),
    licenses: licensesOf(versions),
    replaced,
    archives: jsonBytes(archives),
    metapackages: jsonBytes(metapackages.map(({ normalized }) => normalized)),
    hasUndatedArchives: archives.some(({ is_undated }) => is_undated),
  }
}

/** Returns the licences of all versions, or of the latest ones if they differ. */
function licensesOf(versions: UpstreamContent['versions']): LicensedVersions[] {
  const groups = new Map<string, { licenses: string[]; versions: string[] }>()
  for (const { entry, normalized } of versions) {
    const licenses = readLicenses(entry['license'])
    const key = JSON.stringify(licenses)
    const group = groups.get(key) ?? { licenses, versions: [] }
    groups.set(key, group)
    group.versions.push(normalized)
  }
  if (groups.size <= 1) return [...groups.values()].map(({ licenses }) => ({ licenses, versions: null }))
  const latest = new Set(versions.slice(0, maxLicensed).map(({ normalized }) => normalized))
  return [...groups.values()]
    .map((group) => ({ ...group, versions: group.versions.filter((one) => latest.has(one)) }))
    .filter((group) => group.versions.length > 0)
}

/** Composer reads one licence as a list of one. */
function readLicenses(license: Json | undefined): string[] {
  const named = Array.isArray(license) ? license : [license]
  return named
    .filter((one) => typeof one === 'string')
    .map((one) => one.replaceAll('\0', '').trim())
    .filter((one) => one !== '' && one.length <= maxLicenseCharacters)
    .slice(0, maxLicenses)
}

function jsonBytes(rows: readonly unknown[]): Uint8Array {
  return Buffer.from(JSON.stringify(rows))
}

/** Returns the names that the versions replace or provide. */
function replacedNames({ versions }: UpstreamContent): string[] {
  const names = new Set<string>()
  for (const { entry } of versions) {
    for (const links of [entry['replace'], entry['provide']]) {
      if (!isJsonObject(links)) continue
      for (const name of Object.keys(links)) names.add(name.toLowerCase())
    }
  }
  return [...names]
}

/** Renders the document that is served. Throws `UpstreamError` when it is too large. */
export async function renderContent(content: UpstreamContent, rules: PackedRules): Promise<EncodedOffer> {
  const { ownNames, early, firstSeen, shasums, registryUrl, packageName, now } = rules
  const seen = JSON.parse(firstSeen) as Record<string, number>
  const { text, ...about } = offer(content, {
    ...rules,
    ownNames: new Set(ownNames),
    early: new Set(early),
    keyOf: ({ dist, normalized }) => versionKey(dist, normalized),
    firstSeenAt: ({ dist, normalized }) => new Date(seen[versionKey(dist, normalized)] ?? now),
    shasumOf: ({ dist }) => (dist === null ? undefined : shasums[archiveKey(dist)]),
    distUrl: ({ dist }) =>
      `${registryUrl}dist/${packageName}/${dist?.versionPath}/${dist?.reference}.${dist?.type}`,
  })
  const bytes = Buffer.from(text)
  if (bytes.length > maxRenderedBytes) throw new UpstreamError(`the metadata of ${packageName} is too large`)
  return { ...(await encodeDocument(bytes)), ...about }
}

function versionKey(dist: UpstreamDist | null, normalized: string): string {
  return dist === null ? normalized : urlOfArchive(dist)
}

/** Returns the part of an archive's URL that identifies it within its package. */
export function urlOfArchive({
  versionPath,
  reference,
}: Pick<UpstreamDist, 'versionPath' | 'reference'>): string {
  return `${versionPath}/${reference}`
}

/** Returns those of the archives, each named by `urlOfArchive`, that content has. */
export function offeredArchives({ versions }: UpstreamContent, archives: readonly string[]): string[] {
  const offered = new Set(versions.flatMap(({ dist }) => (dist === null ? [] : [urlOfArchive(dist)])))
  return archives.filter((archive) => offered.has(archive))
}

/** Returns the key of an archive within its document, which may contain an archive twice. */
export function archiveKey(dist: Pick<UpstreamDist, 'versionPath' | 'reference' | 'shasum'>): string {
  return `${urlOfArchive(dist)}/${dist.shasum ?? ''}`
}

/** Returns the length of all constraints that are compared with versions, for all versions together. */
export function comparedCharacters(
  { versions, extra }: UpstreamContent,
  rules: Pick<PackedRules, 'allow' | 'deny' | 'flagged'> & { exempt?: readonly string[] },
): number {
  const flags = malwareFlags(extra).map(({ constraint }) => constraint)
  const compared = [
    flags,
    affectedConstraints(extra),
    rules.allow,
    rules.deny,
    rules.exempt ?? [],
    rules.flagged ?? '',
  ]
  return versions.length * compared.flat().reduce((sum, { length }) => sum + length, 0)
}
