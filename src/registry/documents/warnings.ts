import type { Advisory } from '../tables/advisories.ts'
import type { QuarantinedVersion } from '../tables/version-states.ts'
import { quarantineList } from './root.ts'

/**
 * What a p2 document warns of, as the inside of a JSON object (COMPOSER A8). The advisories are there also when there
 * are none: Composer then knows the package as clean, and asks nobody else about it.
 */
export function warningsOf(
  advisories: readonly Advisory[],
  quarantined: readonly QuarantinedVersion[],
  packageUrl: string,
): string {
  const members = {
    'security-advisories': advisories.map(composerAdvisory),
    ...(quarantined.length > 0 && {
      filter: { [quarantineList]: quarantined.map((version) => filterEntry(version, packageUrl)) },
    }),
  }
  return JSON.stringify(members).slice(1, -1)
}

/** An advisory as Composer reads it: always in full, for `composer audit` fails on less. */
export function composerAdvisory(advisory: Advisory): object {
  const { advisoryId, packageName, affectedVersions, title, cve, link, reportedAt, severity } = advisory
  return {
    advisoryId,
    packageName,
    affectedVersions,
    title,
    cve,
    link,
    reportedAt: reportedAt.toISOString().replace('T', ' ').slice(0, 19),
    sources: [{ name: 'svc', remoteId: advisoryId }],
    severity,
  }
}

function filterEntry({ id, composer, reason }: QuarantinedVersion, packageUrl: string): object {
  return { constraint: `==${composer}`, reason, id: `quarantine-${id}`, url: packageUrl, source: 'svc' }
}
