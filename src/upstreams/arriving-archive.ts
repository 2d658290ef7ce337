import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ReceivedArchive } from '../archives/archive-store.ts'
import { UpstreamError } from './client/upstream-error.ts'

/** The number of bytes that are read at once. */
const oneReadBytes = 256 * 1024

/**
 * A client that reads an archive while it arrives. It reads the temporary file at its own speed, so a slow client delays
 * neither the fetch nor other clients. It gets the last chunk after the whole archive is verified.
 */
export class ReadingClient {
  readonly body: Readable
  size: number | null = null
  /** The fetch. Resolves when the archive is stored. */
  flight: Promise<ReceivedArchive | null> = Promise.resolve(null)
  #file: FileHandle | null = null
  /** How many bytes the file has, how many of them the client may read, and how many it has read. */
  #written = 0
  #released = 0
  #read = 0
  #isComplete = false
  #isWaiting = false
  #isAttached = true
  #begin: () => void = () => {}
  readonly #begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  constructor() {
    this.body = new Readable({
      highWaterMark: oneReadBytes,
      read: () => void this.#readMore(),
      destroy: (error, done) => {
        this.detach()
        Promise.resolve(this.#file?.close()).then(() => done(error), done)
      },
    })
    this.body.on('error', () => {})
  }

  /**
   * Resolves with true when there are bytes to read, and with false when the whole archive was stored before that. When
   * neither happens until the deadline, the client leaves, and the fetch continues without it.
   */
  async hasBegun(archive: { packageName: string }, deadline: number): Promise<boolean> {
    const begun = Promise.race([this.#begun.then(() => true), this.flight.then(() => false)])
    try {
      return await inTime(begun, archive, deadline)
    } catch (error) {
      this.body.destroy()
      throw error
    }
  }

  /** Opens no file for the client any more. The fetch continues. */
  detach(): void {
    this.#isAttached = false
  }

  /** Lets the client read all bytes of the file but those of the last chunk. `size` is the number of bytes in the file. */
  async advance(path: string, size: number): Promise<void> {
    const ready = this.#written
    this.#written = size
    if (!this.#isAttached || ready === 0) return
    try {
      await this.#openOnce(path)
      this.#release(ready)
      this.#begin()
    } catch (error) {
      this.body.destroy(error as Error)
    }
  }

  /** Lets the client read the rest. Call it after the archive is verified. */
  finish(): void {
    this.#isComplete = true
    this.#release(this.#written)
  }

  fail(error: Error): void {
    this.body.destroy(error)
  }

  /** The file may be renamed or removed later. An open file stays readable. */
  async #openOnce(path: string): Promise<void> {
    if (this.#file) return
    const file = await open(path, 'r')
    // The client may have disconnected in the meantime.
    if (this.#isAttached) this.#file = file
    else await file.close()
  }

  #release(size: number): void {
    this.#released = size
    if (!this.#isWaiting) return
    this.#isWaiting = false
    void this.#readMore()
  }

  async #readMore(): Promise<void> {
    const length = Math.min(oneReadBytes, this.#released - this.#read)
    if (length === 0 || !this.#file) {
      if (this.#isComplete) this.body.push(null)
      else this.#isWaiting = true
      return
    }
    try {
      const buffer = Buffer.allocUnsafe(length)
      const { bytesRead } = await this.#file.read(buffer, 0, length, this.#read)
      if (bytesRead === 0) throw new Error('a temporary file is shorter than what was written to it')
      this.#read += bytesRead
      this.body.push(buffer.subarray(0, bytesRead))
    } catch (error) {
      this.body.destroy(error as Error)
    }
  }
}

/** Returns what `work` returns. Throws `UpstreamError` when that takes longer than until the deadline. */
export async function inTime<T>(
  work: Promise<T>,
  archive: { packageName: string },
  deadline: number,
): Promise<T> {
  const ended = new AbortController()
  const waiting = sleep(Math.max(0, deadline - Date.now()), null, ended).then(() => {
    throw late(archive)
  })
  try {
    return await Promise.race([work, waiting])
  } finally {
    ended.abort()
  }
}

/** Returns the error for an archive for which a request has waited too long. */
export function late({ packageName }: { packageName: string }): UpstreamError {
  return new UpstreamError(`the archive of ${packageName} did not arrive in time`)
}
