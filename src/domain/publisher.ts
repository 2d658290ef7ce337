import { matchesGlob } from './glob.ts'

/** What a trusted publisher gives its tokens, the strongest first: each right contains those after it. */
export const publisherRightNames = ['publish', 'stage', 'read'] as const
export type PublisherRightName = (typeof publisherRightNames)[number]

/** A right of a token of a trusted publisher, with the patterns of the packages that it is for. */
export interface PublisherRight {
  right: PublisherRightName
  packages: readonly string[]
}

/** The CI job that got a token of a trusted publisher. Null: the issuer does not say. */
export interface PublisherRun {
  provider: string
  project: string | null
  workflow: string | null
  ref: string | null
  commit: string | null
  /** The page of the run. */
  url: string | null
}

/** Returns whether one of the rights is, or contains, the needed one for a package. A null name is any package. */
export function coversPackage(
  rights: readonly PublisherRight[],
  needed: PublisherRightName,
  packageName: string | null,
): boolean {
  return rights.some(
    ({ right, packages }) =>
      publisherRightNames.indexOf(right) <= publisherRightNames.indexOf(needed) &&
      (packageName === null || packages.some((pattern) => matchesGlob(pattern, packageName))),
  )
}
