import type { PublisherRun } from './publisher.ts'

/** What an attestation of a version says. It was verified when the version was uploaded. */
export interface Attested {
  /** The kind of its statement: a URL, such as `https://slsa.dev/provenance/v1`. */
  predicateType: string
  /** The CI job that signed it, as its certificate says. */
  run: PublisherRun
  /** Its entry in the transparency log. Null when the log has no URL for entries. */
  logUrl: string | null
}

/** The verified attestations of a version. */
export interface Provenance {
  /** The provenance object of PEP 740, as JSON text. */
  document: string
  attested: Attested[]
}

/** The kinds of statements that have a name. */
const predicateNames: Readonly<Record<string, string>> = {
  'https://slsa.dev/provenance/v1': 'Build provenance',
  'https://docs.pypi.org/attestations/publish/v1': 'Publication',
  'https://spdx.dev/Document/v2.3': 'SBOM (SPDX)',
  'https://cyclonedx.org/bom': 'SBOM (CycloneDX)',
}

/** Names the kind of a statement, such as `Build provenance`. An unknown one has its URL as its name. */
export function predicateName({ predicateType }: Pick<Attested, 'predicateType'>): string {
  return predicateNames[predicateType] ?? predicateType
}
