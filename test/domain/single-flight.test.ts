import { describe, expect, it } from 'vitest'
import { singleFlight } from '../../src/domain/single-flight.ts'

/** Work that waits until the test ends it, and how often it was started. */
function aWork() {
  const started: { end: (result: string) => void; fail: (error: Error) => void }[] = []
  const work = () => new Promise<string>((end, fail) => started.push({ end, fail }))
  return { started, work }
}

describe('the work of a key', () => {
  it('runs once for all that ask while it runs, and again after that', async () => {
    const flights = singleFlight<string>()
    const { started, work } = aWork()
    const calls = [flights.share('a', work), flights.share('a', work)]
    expect(started).toHaveLength(1)
    expect(flights.running('a')).toBeDefined()
    started[0]?.end('first')
    expect(await Promise.all(calls)).toEqual(['first', 'first'])
    expect(flights.running('a')).toBeUndefined()
    const later = flights.share('a', work)
    started[1]?.end('second')
    expect(await later).toBe('second')
  })

  it('runs beside that of another key', () => {
    const flights = singleFlight<string>()
    const { started, work } = aWork()
    void flights.share('a', work)
    void flights.share('b', work)
    expect(started).toHaveLength(2)
  })

  it('fails for all that wait for it, and starts again for the next one', async () => {
    const flights = singleFlight<string>()
    const { started, work } = aWork()
    const calls = [flights.share('a', work), flights.share('a', work)]
    started[0]?.fail(new Error('down'))
    const outcomes = await Promise.allSettled(calls)
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const later = flights.share('a', work)
    started[1]?.end('up')
    expect(await later).toBe('up')
  })

  it('is not shared when it is refused before it starts', async () => {
    const flights = singleFlight<string>()
    const refuse = () => {
      throw new Error('over budget')
    }
    expect(() => flights.share('a', refuse)).toThrow('over budget')
    expect(await flights.share('a', async () => 'done')).toBe('done')
  })

  it('starts anew after it is forgotten, and its end does not forget the new one', async () => {
    const flights = singleFlight<string>()
    const { started, work } = aWork()
    const first = flights.share('a', work)
    flights.forget('a')
    const second = flights.share('a', work)
    expect(started).toHaveLength(2)
    started[0]?.end('first')
    expect(await first).toBe('first')
    expect(flights.running('a')).toBe(second)
  })

  it('is replaced by work that starts in its place', async () => {
    const flights = singleFlight<string>()
    const { started, work } = aWork()
    void flights.share('a', work)
    const second = flights.start('a', work)
    expect(started).toHaveLength(2)
    expect(flights.share('a', work)).toBe(second)
  })

  it('has ended when everything is settled, also when it failed', async () => {
    const flights = singleFlight<string>()
    const { started, work } = aWork()
    const call = flights.share('a', work).catch(() => 'failed')
    const settled = flights.settle()
    started[0]?.fail(new Error('down'))
    await settled
    expect(flights.running('a')).toBeUndefined()
    expect(await call).toBe('failed')
  })
})
