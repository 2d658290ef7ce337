import type { Parts } from '../app.ts'
import type { admit } from './access.ts'
import type { ArchiveVolume } from './archive-volume.ts'
import type { DocumentCache } from './document-cache.ts'

/** What the registry's endpoints are built from. */
export interface RegistryParts extends Parts {
  volume: ArchiveVolume
  cache: DocumentCache
  /** `admit` of access.ts, which also notes that the token was used. */
  admit: typeof admit
}
