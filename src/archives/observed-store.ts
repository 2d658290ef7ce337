import { observing, storeOperations } from '../domain/observations.ts'
import type { ArchiveStore } from './archive-store.ts'

/** Returns the same store. It reports the time and the outcome of each operation, and errors of bytes that it sends. */
export function observeStore(store: ArchiveStore): ArchiveStore {
  const observe = <Result>(what: string, operation: () => Promise<Result>) =>
    observing(storeOperations, what, operation)
  return {
    ...store,
    keep: (received) => observe('keep', () => store.keep(received)),
    replace: (received) => observe('keep', () => store.replace(received)),
    has: (received) => observe('stat', () => store.has(received)),
    stat: (sha256) => observe('stat', () => store.stat(sha256)),
    async read(sha256, range) {
      const archive = await observe('read', () => store.read(sha256, range))
      archive?.bytes.once('error', () =>
        storeOperations.publish({ what: 'read', outcome: 'error', seconds: 0 }),
      )
      return archive
    },
    openFile: (sha256) => observe('read', () => store.openFile(sha256)),
    remove: (sha256, untouchedSince) => observe('remove', () => store.remove(sha256, untouchedSince)),
    readOwner: () => observe('read', () => store.readOwner()),
    writeOwner: (databaseId) => observe('keep', () => store.writeOwner(databaseId)),
    readClaim: () => observe('read', () => store.readClaim()),
    writeClaim: (text) => observe('keep', () => store.writeClaim(text)),
  }
}
