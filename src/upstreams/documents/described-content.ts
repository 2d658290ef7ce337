import { compareNormalized, stabilityOf } from '../../composer/composer-version.ts'
import type { JsonObject } from '../../composer/manifest-json.ts'
import { readPatterns } from './patterns.ts'
import { malwareFlags, type UpstreamContent, type UpstreamVersion } from './read-document.ts'
import { readConstraint } from './satisfies.ts'

/** What people want to know about a document of a mirrored package. */
export interface ContentQuestion {
  packageName: string
  allow: readonly string[]
  deny: readonly string[]
  /** A constraint on the versions that the upstream's summary flags as malware. Null without such versions. */
  flagged: string | null
  /** The keys of the versions that are held back until they are old enough. */
  held: readonly string[]
  /** The version whose entry is wanted. Null for the latest one. */
  version: string | null
  /** The index of the first version that is listed, and how many are. */
  from: number
  limit: number
}

/** A version of a mirrored package. */
export interface DescribedMirrorVersion {
  version: string
  normalized: string
  isDev: boolean
  /** `denied` by a rule of the upstream, `flagged` as malware, or `held` back until it is old enough. */
  state: 'offered' | 'held' | 'denied' | 'flagged'
  /** Why it is flagged. */
  reason: string | null
  /** In ISO format. Null when the upstream does not say it. */
  publishedAt: string | null
  /** Identifies the version and its content within the package. */
  key: string
  /** Its archive in URLs of this registry. Null for a metapackage. */
  archive: { versionPath: string; reference: string; type: string } | null
}

/** What a document of an upstream contains, for people. */
export interface DescribedContent {
  count: number
  versions: DescribedMirrorVersion[]
  /** Null when the document does not have the version. */
  shown: { about: DescribedMirrorVersion; manifest: JsonObject } | null
  /** The latest version before the shown one; the latest one of all when the document does not have the version. */
  previous: string | null
}

/** The parts of an entry that pages show. The others can be long. */
const shownKeys = [
  ...['description', 'type', 'license', 'keywords', 'authors', 'homepage', 'support'],
  ...['require', 'require-dev', 'suggest', 'provide', 'replace', 'conflict', 'abandoned'],
]
/** A longer manifest is not shown. */
const maxManifestCharacters = 64 * 1024

/** Describes the versions of a document in their order, and one of them: the wanted one, or the latest. */
export function describeContent(content: UpstreamContent, question: ContentQuestion): DescribedContent {
  const { packageName, allow, deny, flagged, held, version, from, limit } = question
  const known = malwareFlags(content.extra).map(({ constraint, reason }) => ({ constraint, reason }))
  const flags = [...known, ...(flagged === null ? [] : [{ constraint: flagged, reason: '' }])].map(
    ({ constraint, reason }) => ({ reason, isFlagged: readConstraint(constraint) }),
  )
  const [isAllowed, isDenied] = [readPatterns(allow, packageName), readPatterns(deny, packageName)]
  const waiting = new Set(held)
  const describe = (one: UpstreamVersion): DescribedMirrorVersion => {
    const { normalized, dist, publishedAt } = one
    const flag = flags.find(({ isFlagged }) => isFlagged(normalized))
    const isPermitted = (allow.length === 0 || isAllowed(normalized)) && !isDenied(normalized)
    const key = dist === null ? normalized : `${dist.versionPath}/${dist.reference}`
    const hidden = flag ? 'flagged' : isPermitted ? null : 'denied'
    return {
      version: one.version,
      normalized,
      isDev: stabilityOf(normalized) === 'dev',
      state: hidden ?? (waiting.has(key) ? 'held' : 'offered'),
      reason: flag?.reason || null,
      publishedAt,
      key,
      archive: dist && { versionPath: dist.versionPath, reference: dist.reference, type: dist.type },
    }
  }
  const all = content.versions.map((one) => ({ one, about: describe(one) }))
  const chosen = version === null ? latestOf(all) : all.find(({ one }) => one.version === version)
  const isBefore = ({ about }: (typeof all)[number]) =>
    !chosen || compareNormalized(about.normalized, chosen.about.normalized) < 0
  return {
    count: all.length,
    versions: all.slice(from, from + limit).map(({ about }) => about),
    shown: chosen ? { about: chosen.about, manifest: manifestOf(chosen.one) } : null,
    previous: latestOf(all.filter(isBefore))?.about.version ?? null,
  }
}

/** Returns the version that Composer chooses by default. When none is offered, the highest one. */
function latestOf<One extends { about: DescribedMirrorVersion }>(all: readonly One[]): One | undefined {
  const offered = all.filter(({ about }) => about.state === 'offered')
  const stable = offered.filter(({ about }) => stabilityOf(about.normalized) === 'stable')
  const candidates = [stable, offered, all].find(({ length }) => length > 0) ?? []
  return candidates.toSorted((a, b) => compareNormalized(b.about.normalized, a.about.normalized))[0]
}

function manifestOf({ entry }: UpstreamVersion): JsonObject {
  const manifest = Object.fromEntries(
    shownKeys.flatMap((key) => (entry[key] === undefined ? [] : [[key, entry[key]]])),
  )
  return JSON.stringify(manifest).length <= maxManifestCharacters ? manifest : {}
}
