import type { Parts } from '../parts.ts'
import type { admit } from './access.ts'
import type { ArchiveVolume } from './archives/archive-volume.ts'
import type { DocumentCache } from './documents/document-cache.ts'

/** What the registry's endpoints are built from. */
export interface RegistryParts extends Parts {
  volume: ArchiveVolume
  cache: DocumentCache
  /** `admit` of access.ts, which also notes that the token was used. */
  admit: typeof admit
}
