import { matchesGlob } from './glob.ts'

/** What a trusted publisher gives its tokens, the strongest first: each right contains those after it. */
export const publisherRightNames = ['publish', 'stage', 'read'] as const
export type PublisherRightName = (typeof publisherRightNames)[number]

/** A right of a token of a trusted publisher, with the patterns of the packages that it is for. */
export interface PublisherRight {
  right: PublisherRightName
  packages: readonly string[]
}

/**
 * The CI job that got a token of a trusted publisher. Null: the issuer does not say. For a version of a Git source, the
 * provider is `git`, and the project is its URL.
 */
export interface PublisherRun {
  provider: string
  project: string | null
  workflow: string | null
  ref: string | null
  commit: string | null
  /** The page of the run. */
  url: string | null
}

/** The names of CIs, by the providers of publishers. */
const ciNames: Readonly<Record<string, string>> = {
  github: 'GitHub Actions',
  gitlab: 'GitLab CI',
  forgejo: 'Forgejo Actions',
  git: 'Git',
}

/** A part of a description of a CI job. */
export interface RunPart {
  text: string
  /** The page of it at the CI's site. Null when it is not known. */
  url: string | null
}

/** Describes a CI job in parts, such as `GitHub Actions: acme/lib`, `release.yml`, `v1.2.3`, `commit abc1234` and `run`. */
export function partsOfRun(run: PublisherRun): RunPart[] {
  const { provider, project, workflow, ref, commit, url } = run
  // The pages of a run and of a commit have the page of their project in front.
  const [, site = null, folder = ''] = /^(.+?)(\/-)?\/(?:actions\/runs|pipelines)\/\d+$/.exec(url ?? '') ?? []
  const isCommit = /^[\da-f]{7,64}$/i.test(commit ?? '')
  const parts = [
    { text: [ciNames[provider] ?? 'CI', project ?? ''].filter((text) => text !== '').join(': '), url: site },
    { text: workflow, url: null },
    { text: ref?.replace(/^refs\/(?:tags|heads)\//, '') ?? null, url: null },
    {
      text: commit === null ? null : `commit ${isCommit ? commit.slice(0, 7) : commit}`,
      url: site !== null && isCommit ? `${site}${folder}/commit/${commit}` : null,
    },
    { text: url === null ? null : 'run', url },
  ]
  return parts.filter((part): part is RunPart => part.text !== null)
}

/** Describes a CI job in one line. */
export function describeRun(run: PublisherRun): string {
  return partsOfRun({ ...run, url: null })
    .map(({ text }) => text)
    .join(', ')
}

/** Returns the patterns of the packages for which one of the rights is, or contains, the needed one. */
export function patternsFor(rights: readonly PublisherRight[], needed: PublisherRightName): string[] {
  return rights.flatMap(({ right, packages }) =>
    publisherRightNames.indexOf(right) <= publisherRightNames.indexOf(needed) ? packages : [],
  )
}

/** Returns whether one of the rights is, or contains, the needed one for a package. A null name is any package. */
export function coversPackage(
  rights: readonly PublisherRight[],
  needed: PublisherRightName,
  packageName: string | null,
): boolean {
  return patternsFor(rights, needed).some(
    (pattern) => packageName === null || matchesGlob(pattern, packageName),
  )
}
