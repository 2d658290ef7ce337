import type { Config } from '../../config.ts'
import type { ArchiveStore } from './archive-store.ts'
import { openLocalStore } from './local-store.ts'
import { openS3Store } from './s3-store.ts'

/** The settings of the archive store. */
export type StoreSettings = Pick<Config, 'dataDir' | 'archiveStore' | 'archiveDelivery'>

/** Opens the archive store of this configuration. */
export async function openArchiveStore(settings: StoreSettings): Promise<ArchiveStore> {
  const { dataDir, archiveStore, archiveDelivery } = settings
  if (archiveStore === null) return openLocalStore(dataDir)
  return openS3Store(dataDir, archiveStore, { isLinked: archiveDelivery === 'redirect' })
}
