import { registryUrl } from '../../groups/repositories.ts'
import { describeAttested, describePublishedBy } from '../describe-version.ts'
import type { ListedStage } from '../tables/staged-versions.ts'

/** Returns the URL of the page where a stage is reviewed. `path` is that of its repository. */
export function reviewUrl(baseUrl: string, path: string, { id }: Pick<ListedStage, 'id'>): string {
  return `${baseUrl}/${path}/-/stages/${id}`
}

/** Returns the URL of the Composer repository of a stage. It ends with a slash. */
export function stageRegistryUrl(baseUrl: string, path: string, { id }: Pick<ListedStage, 'id'>): string {
  return `${registryUrl(baseUrl, path)}stages/${id}/`
}

/** Describes a stage for the response of its upload. */
export function describeNewStage(stage: ListedStage, path: string, baseUrl: string) {
  return {
    id: stage.id,
    status: stage.state,
    name: stage.packageName,
    version: stage.version,
    sha256: stage.sha256,
    review_url: reviewUrl(baseUrl, path, stage),
    repository_url: stageRegistryUrl(baseUrl, path, stage),
    expires_at: stage.expiresAt.toISOString(),
  }
}

/** Describes a stage for the API and for commands. */
export function describeStage(stage: ListedStage, path: string, baseUrl: string) {
  return {
    ...describeNewStage(stage, path, baseUrl),
    size: stage.size,
    stager: stage.stager,
    deploy_token: stage.deployToken,
    staged_by: describeStager(stage),
    attestations: describeAttested(stage.attested),
    staged_at: stage.stagedAt.toISOString(),
    approver: stage.approver,
    decider: stage.decider,
    decided_at: stage.decidedAt?.toISOString() ?? null,
  }
}

/** Describes who staged a version, as `describePublishedBy` does for a published one. */
function describeStager({ stager, deployToken, by }: ListedStage) {
  return describePublishedBy({ uploader: stager, deployToken, run: by.token?.run ?? null })
}
