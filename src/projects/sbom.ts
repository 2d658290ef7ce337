import { Enums, Models, Serialize, SPDX, Spec } from '@cyclonedx/cyclonedx-library'
import type { LockedEntry } from './lock-file.ts'

/** A lock file to describe as a software bill of materials. */
export interface SbomSubject {
  /** The project, and the group that it belongs to. */
  project: string
  group: string
  commit: string | null
  /** When the lock file was sent, in milliseconds since 1970. */
  postedAt: number
  packages: { name: string; version: string; isDev: boolean; entry: LockedEntry }[]
}

/**
 * Describes a lock file as a CycloneDX 1.6 document in JSON: each package with licences, hash and where it comes from, and
 * which requires which. The same lock file gives the same document. It runs in a thread.
 */
export function renderSbom({ project, group, commit, postedAt, packages }: SbomSubject): string {
  const root = new Models.Component(Enums.ComponentType.Application, project, {
    group,
    bomRef: 'project',
    ...(commit !== null && { version: commit }),
  })
  const components = new Map(packages.map((one) => [one.name, componentOf(one)]))
  const required = new Set(packages.flatMap(({ entry }) => entry.requires ?? []))
  for (const { name, entry } of packages) {
    const component = components.get(name) as Models.Component
    for (const other of entry.requires ?? []) {
      const found = components.get(other)
      if (found && found !== component) component.dependencies.add(found.bomRef)
    }
    // The lock file does not say what the project requires itself: at least what nothing else requires.
    if (!required.has(name)) root.dependencies.add(component.bomRef)
  }
  const bom = new Models.Bom({
    metadata: new Models.Metadata({ component: root, timestamp: new Date(postedAt) }),
    components: new Models.ComponentRepository(components.values()),
  })
  const factory = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6)
  return new Serialize.JsonSerializer(factory).serialize(bom, { sortLists: true })
}

function componentOf({ name, version, isDev, entry }: SbomSubject['packages'][number]): Models.Component {
  const [vendor = '', own = ''] = name.split('/')
  const { source, dist, licenses = [], description, homepage } = entry
  const component = new Models.Component(Enums.ComponentType.Library, own, {
    group: vendor,
    version,
    bomRef: name,
    purl: `pkg:composer/${vendor}/${own}@${encodeURIComponent(version)}`,
    // Packages of require-dev do not reach the environment with --no-dev.
    scope: isDev ? Enums.ComponentScope.Optional : Enums.ComponentScope.Required,
    ...(description !== undefined && { description }),
  })
  for (const license of licenses) component.licenses.add(licenseOf(license))
  if (/^[0-9a-f]{40}$/.test(dist?.shasum ?? ''))
    component.hashes.set(Enums.HashAlgorithm['SHA-1'], dist?.shasum as string)
  const references = [
    [dist?.url, Enums.ExternalReferenceType.Distribution, dist?.reference],
    [source?.url, Enums.ExternalReferenceType.VCS, source?.reference],
    [homepage, Enums.ExternalReferenceType.Website, undefined],
  ] as const
  for (const [url, type, comment] of references)
    if (url !== undefined)
      component.externalReferences.add(
        new Models.ExternalReference(url, type, comment === undefined ? {} : { comment }),
      )
  return component
}

/** Composer writes SPDX ids, and people write anything. */
function licenseOf(text: string): Models.DisjunctiveLicense {
  const id = SPDX.fixupSpdxId(text)
  return id === undefined ? new Models.NamedLicense(text) : new Models.SpdxLicense(id)
}
