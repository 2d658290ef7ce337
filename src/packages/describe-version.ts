import type { Attested } from '../domain/provenance.ts'
import type { ListedVersion } from './tables/listed-versions.ts'
import type { PublishedBy } from './tables/versions.ts'

/** Describes a version, for the API and commands. */
export function describeVersion(listed: ListedVersion) {
  return {
    version: listed.version,
    composer_version: listed.composer,
    sha256: listed.sha256,
    shasum: listed.sha1,
    size: listed.size,
    uploader: listed.uploader,
    deploy_token: listed.deployToken,
    published_by: describePublishedBy(listed),
    attestations: describeAttested(listed.attested),
    downloads: listed.downloads,
    published_at: listed.publishedAt.toISOString(),
    deleted_at: listed.deletedAt?.toISOString() ?? null,
    purged_at: listed.purgedAt?.toISOString() ?? null,
    quarantined_at: listed.quarantinedAt?.toISOString() ?? null,
    quarantine_reason: listed.quarantineReason,
  }
}

/** Describes who published a version, for the API and commands. Null when a command did, such as an import. */
export function describePublishedBy({ uploader, deployToken, run }: PublishedBy) {
  if (run !== null) {
    const { provider, project, workflow, ref, commit, url } = run
    if (provider === 'git') return { type: 'source' as const, url: project, ref, commit }
    return { type: 'publisher' as const, provider, project, workflow, ref, commit, run_url: url }
  }
  if (uploader !== null) return { type: 'account' as const, username: uploader }
  return deployToken === null ? null : { type: 'token' as const, name: deployToken }
}

/** Describes the attestations of a version, for the API and commands. */
export function describeAttested(attested: readonly Attested[] | null) {
  return (attested ?? []).map(({ predicateType, run, logUrl }) => {
    const { provider, project, workflow, ref, commit, url } = run
    return {
      predicate_type: predicateType,
      provider,
      project,
      workflow,
      ref,
      commit,
      run_url: url,
      log_url: logUrl,
    }
  })
}

/** Returns the URL of the provenance object of a version. Null without attestations. `registry` ends with a slash. */
export function provenanceUrl(
  registry: string,
  packageName: string,
  { version, attested }: { version: string; attested: readonly Attested[] | null },
): string | null {
  return attested && `${registry}integrity/${packageName}/${encodeURIComponent(version)}/provenance`
}
