import type { VersionPublisher } from './tables/versions.ts'

/** Describes who published a version, for the API and commands. Null when a command did, such as an import. */
export function describePublisher({ uploader, deployToken, run }: VersionPublisher) {
  if (run !== null) {
    const { provider, project, workflow, ref, commit, url } = run
    if (provider === 'git') return { type: 'source' as const, url: project, ref, commit }
    return { type: 'publisher' as const, provider, project, workflow, ref, commit, run_url: url }
  }
  if (uploader !== null) return { type: 'account' as const, username: uploader }
  return deployToken === null ? null : { type: 'token' as const, name: deployToken }
}
