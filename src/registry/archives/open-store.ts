import type { Config } from '../../config.ts'
import type { ArchiveStore } from './archive-store.ts'
import { openLocalStore } from './local-store.ts'
import { openS3Store } from './s3-store.ts'

/** The settings that say where archives are. */
export type StoreSettings = Pick<Config, 'dataDir' | 'archiveStore' | 'archiveDelivery'>

/** Opens the archives of this installation, wherever the configuration says that they are. */
export async function openArchiveStore(settings: StoreSettings): Promise<ArchiveStore> {
  const { dataDir, archiveStore, archiveDelivery } = settings
  if (archiveStore === null) return openLocalStore(dataDir)
  return openS3Store(dataDir, archiveStore, { isLinked: archiveDelivery === 'redirect' })
}
