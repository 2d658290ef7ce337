import { compareNormalized } from '../composer/composer-version.ts'
import type { Queryable } from '../database/database.ts'
import { makePause } from '../domain/time-slices.ts'
import { readConstraint } from '../upstreams/documents/satisfies.ts'
import { type ListedVersion, listStableVersions, type StableVersion } from './tables/listed-versions.ts'
import type { Advisory } from './tables/package-warnings.ts'

/** The advisories of a version. */
export interface AffectedVersion {
  advisories: Advisory[]
  /** The first later release that none of them affects. Null when there is none. */
  fixedIn: string | null
}

/** Among how many of the newest releases a fix is searched. */
const maxReleases = 500
/** How many fixes of an advisory are named: the newest ones. */
const maxFixes = 5
/** How many versions are compared with a bound of a constraint. 100,000 take 0.3 s, in slices. */
const maxComparisons = 100_000

/**
 * Finds which of the versions the advisories of their package affect, by the ids of the versions. Null when there is too
 * much to compare.
 */
export async function findAffectedVersions(
  db: Queryable,
  packageId: string,
  versions: readonly Pick<ListedVersion, 'id' | 'normalized' | 'isDev'>[],
  advisories: readonly Advisory[],
): Promise<Map<string, AffectedVersion> | null> {
  const found = new Map<string, AffectedVersion>()
  const judge = openJudge()
  let releases: StableVersion[] | undefined
  for (const { id, normalized, isDev } of versions) {
    const affecting: Advisory[] = []
    for (const advisory of advisories) if (await judge.affects(advisory, normalized)) affecting.push(advisory)
    if (affecting.length === 0) continue
    releases ??= await listStableVersions(db, packageId, maxReleases)
    let fixedIn: string | null = null
    for (const release of isDev ? [] : releasesAfter(releases, normalized)) {
      let isAffected = false
      for (const advisory of affecting) isAffected ||= await judge.affects(advisory, release.normalized)
      if (isAffected) continue
      fixedIn = release.version
      break
    }
    found.set(id, { advisories: affecting, fixedIn })
  }
  return judge.isSpent() ? null : found
}

/**
 * Finds the releases that fix each advisory, by the ids of the advisories: those that it does not affect after one that it
 * does, the newest ones first. Leaves out advisories that affect no release. Null when there is too much to compare.
 */
export async function findFixes(
  db: Queryable,
  packageId: string,
  advisories: readonly Advisory[],
): Promise<Map<string, string[]> | null> {
  const releases = advisories.length > 0 ? await listStableVersions(db, packageId, maxReleases) : []
  const judge = openJudge()
  const found = new Map<string, string[]>()
  for (const advisory of advisories) {
    const fixes: string[] = []
    let later: string | null = null
    let affectsAny = false
    for (const { version, normalized } of releases) {
      const isAffected = await judge.affects(advisory, normalized)
      if (isAffected && later !== null) fixes.push(later)
      later = isAffected ? null : version
      affectsAny ||= isAffected
    }
    if (affectsAny) found.set(advisory.advisoryId, fixes.slice(0, maxFixes))
  }
  return judge.isSpent() ? null : found
}

/** Returns the releases after a version, the next one first. None when the list may begin after the next one. */
function releasesAfter(releases: readonly StableVersion[], normalized: string): StableVersion[] {
  const before = releases.findIndex((release) => compareNormalized(release.normalized, normalized) <= 0)
  if (before < 0 && releases.length === maxReleases) return []
  return releases.slice(0, before < 0 ? releases.length : before).toReversed()
}

/** Opens a function that compares versions with advisories, until `maxComparisons` is spent. Then it returns false. */
function openJudge() {
  const pause = makePause()
  const rules = new Map<string, { matches: (normalized: string) => boolean; bounds: number }>()
  let spent = 0

  function ruleOf({ advisoryId, affectedVersions }: Advisory) {
    const known = rules.get(advisoryId)
    if (known) return known
    const rule = {
      matches: readConstraint(affectedVersions),
      bounds: affectedVersions.split(/[|, ]+/).length,
    }
    rules.set(advisoryId, rule)
    return rule
  }

  return {
    async affects(advisory: Advisory, normalized: string): Promise<boolean> {
      if (spent > maxComparisons) return false
      await pause()
      const { matches, bounds } = ruleOf(advisory)
      spent += bounds
      return matches(normalized)
    },
    isSpent: () => spent > maxComparisons,
  }
}
