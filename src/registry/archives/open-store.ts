import type { Config } from '../../config.ts'
import type { ArchiveStore } from './archive-store.ts'
import { openLocalStore } from './local-store.ts'

/** The settings that say where archives are. */
export type StoreSettings = Pick<Config, 'dataDir'>

/** Opens the archives of this installation, wherever the configuration says that they are. */
export async function openArchiveStore({ dataDir }: StoreSettings): Promise<ArchiveStore> {
  return openLocalStore(dataDir)
}
