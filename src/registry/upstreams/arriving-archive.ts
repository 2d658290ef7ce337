import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import type { ArchiveDigest } from '../tables/versions.ts'

/** A client that reads nothing for this time is disconnected, so that it does not delay the fetch for others. */
const consumerMilliseconds = 10_000

/** A client that reads an archive while it arrives. It gets the last chunk after the whole archive is verified. */
export class Consumer {
  readonly body = new PassThrough({ highWaterMark: 1024 * 1024 })
  size: number | null = null
  /** The fetch. Resolves when the archive is stored. */
  flight: Promise<ArchiveDigest | null> = Promise.resolve(null)
  #held: Buffer | null = null
  #isAttached = true
  #begin: () => void = () => {}
  readonly #begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  constructor() {
    this.body.on('close', () => this.detach())
    this.body.on('error', () => {})
  }

  /** Resolves with true when there are bytes to read, and with false when the whole archive was stored before that. */
  async hasBegun(): Promise<boolean> {
    return Promise.race([this.#begun.then(() => true), this.flight.then(() => false)])
  }

  /** Stops passing bytes to the client. The fetch continues. */
  detach(): void {
    this.#isAttached = false
  }

  async take(chunk: Buffer): Promise<void> {
    const ready = this.#held
    this.#held = chunk
    if (ready !== null) await this.#write(ready)
  }

  async finish(): Promise<void> {
    if (this.#held !== null && this.#isAttached) this.body.write(this.#held)
    this.body.end()
  }

  fail(error: Error): void {
    this.body.destroy(error)
  }

  async #write(chunk: Buffer): Promise<void> {
    if (!this.#isAttached) return
    this.#begin()
    if (this.body.write(chunk)) return
    const signal = AbortSignal.timeout(consumerMilliseconds)
    await Promise.race([once(this.body, 'drain', { signal }), once(this.body, 'close', { signal })]).catch(
      () => {
        this.body.destroy(new Error('the consumer is too slow'))
      },
    )
  }
}

/** Yields the chunks of a body, and also passes each chunk to the consumer. */
export async function* tee(body: Readable, consumer: Consumer): AsyncGenerator<Buffer> {
  for await (const chunk of body as AsyncIterable<Buffer>) {
    await consumer.take(chunk)
    yield chunk
  }
}
