import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { ArchiveStore, ReceivedArchive } from '../archives/archive-store.ts'
import { keepArchive, keepIfMissing } from '../archives/keep-archive.ts'
import { discardArchive, receiveArchive } from '../archives/local-store.ts'
import { transaction } from '../database/database.ts'
import { shareStatements } from '../database/shared-statements.ts'
import type { Log } from '../domain/log.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { singleFlight } from '../domain/single-flight.ts'
import type { StorageRoom } from '../groups/storage-room.ts'
import { raiseAlarms } from './archive-alarms.ts'
import { startBytes } from './archive-start.ts'
import { inTime, late, ReadingClient } from './arriving-archive.ts'
import { fileStartsLikeArchive, findDifference, refuseDenied } from './check-archive.ts'
import type { UpstreamClient } from './client/fetch.ts'
import { toReceiveError, UpstreamError } from './client/upstream-error.ts'
import {
  endFetchTurn,
  extendFetchTurn,
  type FetchedArchive,
  findFetchState,
  findMirroredArchives,
  type MirroredArchive,
  noteArchiveUses,
  saveFetchedArchives,
  takeFetchTurns,
  type WantedArchive,
} from './tables/mirrored-archives.ts'

/** How long a request waits for the first bytes, or while another request fetches the archive. Composer waits 300 s. */
export const patienceMilliseconds = 240_000
const pollMilliseconds = 100
const extendMilliseconds = 20_000

/**
 * An archive that can be served, either from the store or while it arrives. `bytes` are those of a small archive that was
 * just stored.
 */
export type ServedArchive =
  | { kind: 'stored'; sha256: string; size: number; bytes: Buffer | null }
  | { kind: 'arriving'; body: Readable; size: number | null }

/** Fetches archives of upstreams and keeps them. */
export interface ArchiveMirror {
  /**
   * Returns the archive of a registry URL. Null when no document of an upstream has contained it. Throws errcode 9 with
   * 410 when it is denied, 8 with 413 when it is too large, 14 when the upstream fails, and 15 when the upstream serves
   * other bytes than before. `found` is the archive, if the request has read it.
   */
  serve: (wanted: WantedArchive, found?: MirroredArchive) => Promise<ServedArchive | null>
  /**
   * Returns the same as `serve`, but fetches nothing. It is for HEAD requests. `absent` means that the upstream offers
   * the archive and nobody has requested it yet. Throws errcode 9 with 410 when it is denied.
   */
  peek: (
    wanted: WantedArchive,
    found?: MirroredArchive,
  ) => Promise<Extract<ServedArchive, { kind: 'stored' }> | 'absent' | null>
  /** Fetches an archive into the store, unless it is already stored. Throws the same errors as `serve`. */
  store: (archive: MirroredArchive) => Promise<'fetched' | 'known'>
  /** Resolves when no fetch runs. */
  settle: () => Promise<void>
}

export interface ArchiveMirrorContext {
  db: pg.Pool
  client: UpstreamClient
  archives: ArchiveStore
  room: StorageRoom
  maxArchiveBytes: number
  /** How many milliseconds a request waits. Only tests shorten it. */
  patience?: number
  /** How often a running fetch extends its turn, in milliseconds. */
  extendEvery?: number
  /** Counts a fetch by its outcome, and its bytes. */
  note?: (archive: MirroredArchive, outcome: 'fetched' | 'failed' | 'alarm', bytes: number) => void
}

/**
 * Opens the archive mirror of a process (UPSTREAMS 9, 10). All processes together run one fetch of an archive at a
 * time.
 */
export function openArchiveMirror(context: ArchiveMirrorContext, log: Log): ArchiveMirror {
  const { db, client, archives, room, maxArchiveBytes, note = () => {} } = context
  const { patience = patienceMilliseconds, extendEvery = extendMilliseconds } = context
  const fetches = singleFlight<ReceivedArchive>()
  const findArchive = shareStatements((wanted: WantedArchive[]) => findMirroredArchives(db, wanted))
  const takeTurn = shareStatements((ids: string[]) => takeFetchTurns(db, ids))
  const saveFetched = shareStatements((fetched: FetchedArchive[]) => saveFetchedArchives(db, fetched), {
    maxStatements: 1,
  })
  const noteUse = shareStatements(async (ids: string[]) => {
    await noteArchiveUses(db, ids)
    return ids
  })

  /** The story of a pull. The functions below come in the order in which it needs them. */
  async function serve(wanted: WantedArchive, given?: MirroredArchive): Promise<ServedArchive | null> {
    const archive = await find(wanted, given)
    if (!archive) return null
    const stored = await useStored(archive)
    if (stored) return stored
    // Do not fetch packages that are now claimed or no longer approved. Stored archives stay, for lock files.
    if (archive.verdict !== 'upstream') return null
    try {
      const deadline = Date.now() + patience
      const reader = await begin(archive, true, deadline)
      if (reader && (await reader.hasBegun(archive, deadline))) {
        return { kind: 'arriving', body: reader.body, size: reader.size }
      }
      const received = await reader?.flight
      if (received) {
        const { sha256, size, bytes } = received
        return { kind: 'stored', sha256, size, bytes }
      }
    } catch (error) {
      throw readable(error)
    }
    const fetched = await find(wanted)
    const used = fetched && (await useStored(fetched))
    if (!used) throw readable(new UpstreamError('the archive was removed'))
    return used
  }

  async function find(wanted: WantedArchive, given?: MirroredArchive): Promise<MirroredArchive | null> {
    const archive = given ?? (await findArchive(wanted))
    if (archive) refuseDenied(archive)
    return archive
  }

  /** Returns an archive that is stored, and stores that it was used today. Null for one that is not stored. */
  async function useStored({ id, sha256, size, isStored, isUsedToday }: MirroredArchive) {
    if (!isStored || sha256 === null || size === null) return null
    if (!isUsedToday) await noteUse(id)
    return { kind: 'stored' as const, sha256, size, bytes: null }
  }

  /**
   * Starts a fetch, or joins the running one. Returns null when there is nothing to read along: the archive is stored, the
   * fetch of another request has ended, or the archive is no longer known. Throws `UpstreamError`
   * when it did not arrive until `deadline`.
   */
  async function begin(
    archive: MirroredArchive,
    isDownload: boolean,
    deadline = Date.now() + patience,
  ): Promise<ReadingClient | null> {
    for (; Date.now() < deadline; await sleep(pollMilliseconds)) {
      const running = fetches.running(archive.id)
      if (running) {
        await inTime(running, archive, deadline)
        return null
      }
      if (await takeTurn(archive.id)) {
        const reader = new ReadingClient()
        // A failed fetch gives its turn back before it ends, so another one can still run.
        const flight = fetches.start(archive.id, () => fetchArchive(archive, reader, isDownload))
        flight.catch(() => {})
        reader.flight = flight
        return reader
      }
      const state = await findFetchState(db, archive.id)
      if (state === null || state.isStored) return null
    }
    throw late(archive)
  }

  /**
   * Fetches an archive. `reader` may read the bytes as they arrive, but the last chunk only after the verification.
   */
  async function fetchArchive(
    archive: MirroredArchive,
    reader: ReadingClient,
    isDownload: boolean,
  ): Promise<ReceivedArchive> {
    const extending = setInterval(
      () =>
        void extendFetchTurn(db, archive.id).catch((error) =>
          log.warn({ err: error }, 'a fetch lost its turn'),
        ),
      extendEvery,
    )
    let received: ReceivedArchive | null = null
    // Before that, the client gets nothing of it.
    let isArchive = false
    try {
      await room.requireDatabaseRoom()
      await room.requireGroupRoom(archive.repositoryId, 0)
      const { body, size } = await client.for(archive.rights).fetchArchive(archive.url)
      reader.size = size
      try {
        if (size !== null) await room.requireGroupRoom(archive.repositoryId, size)
        received = await receiveArchive(archives, body, {
          maxBytes: maxArchiveBytes,
          size,
          async onWritten(path, written) {
            if (!isArchive && written >= startBytes)
              isArchive = await fileStartsLikeArchive(path, archive.type)
            if (isArchive) await reader.advance(path, written)
          },
        })
      } catch (error) {
        throw toReceiveError(error, body, archive.url)
      } finally {
        body.destroy()
      }
      await verify(archive, received, isDownload)
      note(archive, 'fetched', received.size)
      reader.finish()
      return received
    } catch (error) {
      try {
        // On success, save_fetched_archives has ended the turn.
        await endFetchTurn(db, archive.id)
      } finally {
        // A client that repeats its request at once must start a new fetch, not join the failed one.
        fetches.forget(archive.id)
        reader.fail(error as Error)
      }
      // An alarm is counted as such, and a full disk is not a failure of the upstream.
      if (!(error instanceof Refusal) || error.status === 413) note(archive, 'failed', 0)
      throw error
    } finally {
      clearInterval(extending)
      if (received) await discardArchive(received)
    }
  }

  /** Verifies received bytes and stores them. */
  async function verify(
    archive: MirroredArchive,
    received: ReceivedArchive,
    isDownload: boolean,
  ): Promise<void> {
    const difference = await findDifference(archive, received)
    if (difference !== null) throw await alarm(archive, difference)
    await room.storing(archive.repositoryId, received.size, () =>
      keepArchive(db, archives, received, async () => {
        if (!(await saveFetched({ ...received, id: archive.id, isDownload })))
          throw await alarm(
            archive,
            'its bytes differ from those of the first fetch, or from a newer checksum',
          )
        await keepIfMissing(archives, received)
      }),
    )
  }

  /** Stores an alarm. Returns the error for the client. */
  async function alarm(archive: MirroredArchive, reason: string): Promise<Error> {
    const { id, packageName, version, sha256 } = archive
    const isCurrent = await transaction(
      db,
      async (tx) =>
        (await raiseAlarms(tx, [{ ...archive, reason }])) > 0 || (await findFetchState(tx, id)) !== null,
    )
    // An admin has forgotten the archive, or the upstream has released the name.
    if (!isCurrent) return new UpstreamError('the archive was removed or replaced while svc fetched it')
    note(archive, 'alarm', 0)
    const advice =
      sha256 === null
        ? ''
        : ' An admin of the repository can look into it. After the stored bytes are forgotten, svc fetches the new ones.'
    return new Refusal(errcode.dataLoss, 'the archive of the upstream has changed', {
      status: 502,
      warning: `The archive of ${packageName} ${version} is not served: ${reason}.${advice}`,
    })
  }

  return {
    serve,
    async peek(wanted, given) {
      const archive = await find(wanted, given)
      if (!archive) return null
      const { sha256, size, isStored, verdict } = archive
      if (isStored && sha256 !== null && size !== null) return { kind: 'stored', sha256, size, bytes: null }
      return verdict === 'upstream' ? 'absent' : null
    },

    async store(archive) {
      refuseDenied(archive)
      if (archive.isStored) return 'known'
      if (archive.verdict !== 'upstream') throw readable(new UpstreamError('no upstream may offer it now'))
      try {
        const reader = await begin(archive, false)
        reader?.detach()
        await reader?.flight
        return reader ? 'fetched' : 'known'
      } catch (error) {
        throw readable(error)
      }
    },

    settle: fetches.settle,
  }
}

/** Returns an error that the client may read. Composer retries after a 503. */
function readable(error: unknown): unknown {
  if (!(error instanceof UpstreamError)) return error
  if (error.status === 404 || error.status === 410) {
    return new Refusal(errcode.notFound, 'archive not found', {
      warning: `${error.message}.`,
      cause: error,
    })
  }
  return new Refusal(errcode.unavailable, 'the upstream is unavailable', {
    warning: `${error.message}. Try again later.`,
    cause: error,
  })
}
