import { quarantineList } from '../../composer/filter-list.ts'
import type { Advisory, QuarantinedVersion } from '../tables/package-warnings.ts'

/**
 * Returns the warnings of a p2 document, as the inside of a JSON object (COMPOSER A8). An empty list of advisories
 * tells Composer that the package has none, so that Composer asks no other repository.
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

/** Returns an advisory in Composer's format. All keys are present, because `composer audit` fails without them. */
export function composerAdvisory(advisory: Advisory): object {
  const { advisoryId, packageName, affectedVersions, title, cve, link, reportedAt, severity, osvId } =
    advisory
  return {
    advisoryId,
    packageName,
    affectedVersions,
    title,
    cve,
    link,
    reportedAt: reportedAt.toISOString().replace('T', ' ').slice(0, 19),
    // Projects ignore an advisory by any of these ids.
    sources: [
      { name: 'svc', remoteId: advisoryId },
      ...(osvId === null ? [] : [{ name: 'OSV', remoteId: osvId }]),
    ],
    severity,
  }
}

function filterEntry({ id, composer, reason }: QuarantinedVersion, packageUrl: string): object {
  return { constraint: `==${composer}`, reason, id: `quarantine-${id}`, url: packageUrl, source: 'svc' }
}
