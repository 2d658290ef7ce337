import type pg from 'pg'
import type { AppContext } from '../context.ts'
import type { requireAccess } from './access.ts'
import type { ArchiveStore } from './archives/archive-store.ts'
import type { DownloadCounter } from './download-counter.ts'
import type { ReadmeRenderer } from './readmes/render-readme.ts'
import type { ArchiveMirror } from './upstreams/archives.ts'
import type { Mirror } from './upstreams/mirror.ts'
import type { UpstreamQueries } from './upstreams/queries.ts'

/** The parts that the registry's endpoints need. */
export interface RegistryContext extends AppContext {
  readmes: ReadmeRenderer
  /** A separate small pool for publishing, which waits for the lock of a package. */
  changes: pg.Pool
  archives: ArchiveStore
  downloads: DownloadCounter
  mirror: Mirror
  archiveMirror: ArchiveMirror
  upstreamQueries: UpstreamQueries
  /** `requireAccess` of access.ts. It also stores that the token was used. */
  requireAccess: typeof requireAccess
}
