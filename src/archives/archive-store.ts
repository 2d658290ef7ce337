import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BucketLocation } from '../domain/bucket.ts'

/*
 * The storage of archives. Each archive is named by the SHA-256 of its bytes, so a stored archive never changes. An
 * upload is always received on local disk first:
 *
 *   tmp/<random>                     being received, or being removed
 *   archives/<2 hex>/<sha256>.zip    kept, below DATA_DIR or below the prefix of the bucket
 *
 * Several processes may share a store. After a kill -9 or a power cut, the store has one of these files for an upload:
 *   while receiving            a part of the body in tmp/, without a version
 *   received, not yet kept     the whole body in tmp/, without a version
 *   kept, not yet in the database    an archive without a version; a repeated upload finds it there
 *   in the database            the archive, because its bytes were stored durably first
 * No acknowledged upload is lost; only garbage remains. The database records each archive before it is kept, so the garbage
 * collection knows which ones it may remove.
 */

/** The local folder of an installation: DATA_DIR. Its `tmp/` receives uploads, for every kind of store. */
export interface ArchiveVolume {
  readonly directory: string
  /** The free space that received archives leave on the disk of the folder. */
  readonly reserveBytes: number
}

/** An upload that was received completely and is not kept yet. */
export interface ReceivedArchive {
  /** The temporary file. */
  path: string
  /** Lower-case hex. */
  sha256: string
  /** Lower-case hex. Composer checks it (`dist.shasum`). */
  sha1: string
  size: number
  /** All bytes of a small archive, so that nobody has to read the file again. Null for a larger one. */
  bytes: Buffer | null
}

/** A file and the time of its last use. */
export interface StoredFile {
  path: string
  size: number
  /** The time of the last write, or of the last `keep`. */
  touchedAt: Date
}

/** A kept archive. */
export interface StoredArchive extends Omit<StoredFile, 'path'> {
  sha256: string
}

/** How a client uses a URL to an archive. */
export interface ArchiveLink {
  method: 'GET' | 'HEAD'
  fileName: string
}

/**
 * Stores archives. Every method throws a `RangeError` for a hash that is not a SHA-256 in lower-case hex. `keep`, `replace`
 * and `has` throw 507 when the store is full, and 503 when it does not respond or cannot be written.
 */
export interface ArchiveStore extends ArchiveVolume {
  /** The name of the store in messages: a path or a URL. */
  readonly place: string
  /**
   * Keeps a received archive durably under its hash. This may move the temporary file, but call `discardArchive`
   * anyway. Returns `new`, `known` (the archive existed and its time was updated), or `damaged` (it replaced an archive
   * of another size).
   */
  keep(received: ReceivedArchive): Promise<'new' | 'known' | 'damaged'>
  /** Like `keep`, but also replaces an archive of the same size, because its bytes are damaged. */
  replace(received: ReceivedArchive): Promise<void>
  /** Returns whether the store has an archive with the hash and the size of a received one. */
  has(received: ReceivedArchive): Promise<boolean>
  /** Opens an archive, or its bytes from `start` to `end`, both included. Null when the archive is missing. */
  read(sha256: string, range?: { start: number; end: number }): Promise<OpenArchive | null>
  /** Opens an archive as a local file. Null when the archive is missing. The caller closes the file. */
  openFile(sha256: string): Promise<{ file: FileHandle; size: number } | null>
  /** The bucket of the store. Null for a folder. */
  readonly bucket: BucketLocation | null
  /**
   * Lets the service of the buckets copy an archive from another store, so that its bytes do not pass through this machine.
   * Returns `copied`, `unchecked` (copied, but the service has not compared the bytes with the hash), `damaged` (not
   * copied), or null when the stores are not buckets of one service.
   */
  copyFrom(from: ArchiveStore, archive: { sha256: string; size: number }): Promise<CopyOutcome | null>
  /** Returns the size and time of an archive. Null when it is missing. */
  stat(sha256: string): Promise<StoredArchive | null>
  /** Lists all archives, in no order. Archives that are added or removed during the listing may be missing. */
  list(): AsyncGenerator<StoredArchive, void, void>
  /** Removes an archive that was not touched since the given time. Returns whether it was removed. */
  remove(sha256: string, untouchedSince: Date): Promise<boolean>
  /** Whether clients get archives by links to the store. Otherwise this process sends them. */
  readonly isLinked: boolean
  /** Returns a URL that serves the archive for 15 minutes. */
  link(sha256: string, link: ArchiveLink): Promise<string>
  /** Returns the id of the database that the store belongs to. Null when the store has no id. */
  readOwner(): Promise<string | null>
  /** Writes the id, unless the store has one. */
  writeOwner(databaseId: string): Promise<void>
  /** Returns the text of the claim (`store-claim.ts`). Null when the store has none. */
  readClaim(): Promise<string | null>
  /** Replaces the claim. */
  writeClaim(text: string): Promise<void>
}

/** The outcome of a copy between two buckets of one service. */
export type CopyOutcome = 'copied' | 'unchecked' | 'damaged'

/** An archive that is being read. */
export interface OpenArchive {
  /** The size of the whole archive, in bytes. */
  size: number
  bytes: Readable
}

/**
 * A problem with a stored archive:
 * - `damaged`: its bytes do not match its hash, or the disk cannot read them;
 * - `missing`: it is needed, but it is not in the store;
 * - `wrong size`: its size differs from the size in the database.
 */
export type ProblemKind = 'damaged' | 'missing' | 'wrong size'

/** How to read an archive that nobody waits for. */
export interface ReadPace {
  bytesPerSecond?: number
  signal?: AbortSignal
}

/**
 * Returns whether an archive's bytes still match its hash. Null when the archive is missing. Throws when the store does
 * not respond, and the reason of the signal.
 */
export async function isArchiveIntact(
  store: ArchiveStore,
  sha256: string,
  { bytesPerSecond = Number.POSITIVE_INFINITY, signal }: ReadPace = {},
): Promise<boolean | null> {
  const archive = await store.read(sha256)
  if (!archive) return null
  const hash = createHash('sha256')
  try {
    for await (const chunk of archive.bytes as AsyncIterable<Buffer>) {
      hash.update(chunk)
      signal?.throwIfAborted()
      if (Number.isFinite(bytesPerSecond)) await sleep((chunk.length / bytesPerSecond) * 1000)
    }
  } catch (error) {
    // The disk has lost this part of the file. Other archives may be intact.
    if ((error as NodeJS.ErrnoException | null)?.code === 'EIO') return false
    throw error
  }
  return hash.digest('hex') === sha256
}
