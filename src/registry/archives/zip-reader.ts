import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { RandomAccessReader } from 'yauzl'

const WINDOW_BYTES = 65_536

/**
 * A file as yauzl reads it. yauzl asks for a few dozen bytes at a time, each of them a trip through the thread
 * pool; an archive of 45,000 small files took 25 s. Headers and small contents lie side by side, so this reader
 * fetches a window of 64 KiB, and answers from it what it can.
 */
export class ZipReader extends RandomAccessReader {
  readonly #file: FileHandle
  #window: Buffer = Buffer.alloc(0)
  #windowStart = 0

  /** Reads a file that remains the caller's to close. */
  constructor(file: FileHandle) {
    super()
    this.#file = file
  }

  /** The bytes [start, end); fewer where the file ends before. Later calls leave them as they are. */
  async bytes(start: number, end: number): Promise<Buffer> {
    if (start < this.#windowStart || end > this.#windowStart + this.#window.length) {
      this.#window = await readAt(this.#file, start, Math.max(end, start + WINDOW_BYTES))
      this.#windowStart = start
    }
    return this.#window.subarray(start - this.#windowStart, end - this.#windowStart)
  }

  /** As yauzl asks for headers. */
  override read(
    target: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    this.bytes(position, position + length).then((bytes) => {
      bytes.copy(target, offset)
      callback(bytes.length < length ? new Error('unexpected end of file') : null)
    }, callback)
  }

  /** As yauzl asks for contents. */
  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(this.#chunks(start, end), { objectMode: false })
  }

  async *#chunks(start: number, end: number): AsyncGenerator<Buffer, void, void> {
    for (let at = start; at < end; ) {
      const chunk = await this.bytes(at, Math.min(end, at + WINDOW_BYTES))
      if (chunk.length === 0) return
      yield chunk
      at += chunk.length
    }
  }
}

/** Reads [start, end) of a file; fewer bytes where the file ends before. */
export async function readAt(file: FileHandle, start: number, end: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(end - start)
  let length = 0
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, start + length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return buffer.subarray(0, length)
}
