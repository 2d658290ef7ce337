import type { AppContext } from '../context.ts'
import type { admit } from './access.ts'
import type { ArchiveVolume } from './archives/archive-volume.ts'
import type { DownloadCounter } from './download-counter.ts'
import type { ByteCache } from './protocol/byte-cache.ts'

/** What the registry's endpoints are built from. */
export interface RegistryContext extends AppContext {
  volume: ArchiveVolume
  /** By coding and path, each as it was at a revision. */
  documentCache: ByteCache<{ revision: string; bytes: Buffer }>
  /** Small archives by their SHA-256. */
  archiveCache: ByteCache<{ bytes: Buffer }>
  downloads: DownloadCounter
  /** `admit` of access.ts, which also notes that the token was used. */
  admit: typeof admit
}
