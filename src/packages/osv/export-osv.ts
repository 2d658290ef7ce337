import type { Queryable } from '../../database/database.ts'
import { makePause } from '../../domain/time-slices.ts'
import { registryUrl } from '../../groups/repositories.ts'
import { readComparisons, readConstraint } from '../../upstreams/documents/satisfies.ts'
import { type ExportedAdvisory, listExported, listNamedVersions } from '../tables/imported-advisories.ts'

/** The version of the OSV schema that records follow. */
export const osvVersion = '1.7.5'
const advisoriesAtOnce = 100

/** A repository whose advisories are exported. */
export interface ExportedRepository {
  id: string
  path: string
  baseUrl: string
}

/** Reads all advisories of a repository as records in OSV form, also those that were withdrawn, the oldest first. */
export async function* exportOsv(db: Queryable, repository: ExportedRepository): AsyncGenerator<OsvRecord> {
  for (let after: string | null = null; ; ) {
    const part = await listExported(db, repository.id, { after, limit: advisoriesAtOnce })
    yield* await describeAll(db, repository, part)
    if (part.length < advisoriesAtOnce) return
    after = part.at(-1)?.id ?? null
  }
}

/** Describes advisories as records in OSV form. */
export async function describeAll(
  db: Queryable,
  repository: ExportedRepository,
  advisories: readonly ExportedAdvisory[],
): Promise<OsvRecord[]> {
  const pause = makePause()
  const versionsOf = new Map<string, Awaited<ReturnType<typeof listNamedVersions>>>()
  const records: OsvRecord[] = []
  for (const advisory of advisories) {
    const { packageId, affectedVersions } = advisory
    const all = versionsOf.get(packageId) ?? (await listNamedVersions(db, packageId))
    versionsOf.set(packageId, all)
    const isAffected = readConstraint(affectedVersions)
    const versions: string[] = []
    for (const { composer, normalized } of all) {
      await pause()
      if (isAffected(normalized)) versions.push(composer)
    }
    records.push(describeOsv(advisory, versions, repository))
  }
  return records
}

/** Returns an advisory as a record in OSV form, with the published versions that it affects. */
function describeOsv(advisory: ExportedAdvisory, versions: string[], { path, baseUrl }: ExportedRepository) {
  const { advisoryId, osvId, cve, packageName, affectedVersions, link, severity, withdrawnAt } = advisory
  const registry = registryUrl(baseUrl, path).slice(0, -1)
  return {
    schema_version: osvVersion,
    // The prefix of a database that others do not know.
    id: `x_${advisoryId}`,
    modified: advisory.modifiedAt.toISOString(),
    published: advisory.reportedAt.toISOString(),
    ...(withdrawnAt && { withdrawn: withdrawnAt.toISOString() }),
    aliases: [...new Set([osvId, cve, ...advisory.aliases])].filter((id): id is string => id !== null),
    summary: advisory.title,
    affected: [
      {
        package: {
          ecosystem: `Packagist:${registry}`,
          name: packageName,
          purl: `pkg:composer/${packageName}?repository_url=${encodeURIComponent(registry)}`,
        },
        ranges: rangesOf(affectedVersions).map((events) => ({ type: 'ECOSYSTEM', events })),
        versions,
        // The constraint itself: some constraints are no ranges.
        database_specific: { affected_versions: affectedVersions },
      },
    ],
    references: link === null ? [] : [{ type: 'ADVISORY', url: link }],
    ...(severity && {
      database_specific: { severity: severity === 'medium' ? 'MODERATE' : severity.toUpperCase() },
    }),
  }
}

/** A record in OSV form. */
export type OsvRecord = ReturnType<typeof describeOsv>

type RangeEvent = { introduced: string } | { fixed: string } | { last_affected: string }

/**
 * Returns the alternatives of a constraint as events of ranges. One that is no range is left out, such as `!=1.2` and
 * `dev-main`: the versions of the record contain what it affects.
 */
export function rangesOf(constraint: string): RangeEvent[][] {
  return (readComparisons(constraint) ?? []).flatMap((comparisons) => {
    const isBranch = comparisons.some(([, bound]) => bound.startsWith('dev-'))
    const lower = comparisons.filter(([operator]) => operator === '>=')
    const upper = comparisons.filter(([operator]) => operator === '<' || operator === '<=')
    if (isBranch || lower.length + upper.length < comparisons.length || lower.length > 1 || upper.length > 1)
      return []
    const events: RangeEvent[] = [{ introduced: lower[0] ? nameOf(lower[0][1]) : '0' }]
    if (upper[0]) {
      const [operator, bound] = upper[0]
      events.push(operator === '<' ? { fixed: nameOf(bound) } : { last_affected: nameOf(bound) })
    }
    return [events]
  })
}

/** Returns a bound as people write it: 1.2.3 for 1.2.3.0-dev, where the range begins or ends with its first pre-release. */
function nameOf(bound: string): string {
  return bound.replace(/-dev$/, '').replace(/^(\d+\.\d+\.\d+)\.0(?=$|-)/, '$1')
}
