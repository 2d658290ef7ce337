import { describe, expect, it } from 'vitest'
import { byteaArray, shareStatements } from '../../src/database/shared-statements.ts'
import { useDatabase } from '../support/database.ts'

/** A statement that returns its calls in capitals when the test lets it, and the calls it received so far. */
function aStatement(options?: Parameters<typeof shareStatements<string, string>>[1]) {
  const asked: string[][] = []
  const ends: (() => void)[] = []
  const ask = shareStatements(
    (calls: string[]) =>
      new Promise<string[]>((resolve, reject) => {
        asked.push(calls)
        ends.push(() =>
          calls.includes('bad')
            ? reject(new Error('refused'))
            : calls.includes('lost')
              ? reject(new Error('Connection terminated'))
              : resolve(calls.map((one) => one.toUpperCase())),
        )
      }),
    options,
  )
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  /** Waits until the gathered calls have begun. */
  const begin = async () => {
    await turn()
    await turn()
  }
  return { asked, ask, turn, begin, end: (i: number) => ends[i]?.() }
}

describe('statements that calls share (CONTRACT 5.5)', () => {
  it('runs the calls of two turns of the event loop together, and returns to each its own result', async () => {
    const { asked, ask, turn, begin, end } = aStatement()
    const first = ['a', 'b'].map(ask)
    await turn()
    const results = Promise.all([...first, ask('c')])
    expect(asked).toEqual([])
    await begin()
    expect(asked).toEqual([['a', 'b', 'c']])
    end(0)
    expect(await results).toEqual(['A', 'B', 'C'])
  })

  it('never adds a call to a statement that has begun', async () => {
    const { asked, ask, begin } = aStatement()
    void ask('a')
    await begin()
    void ask('b')
    await begin()
    expect(asked).toEqual([['a'], ['b']])
  })

  it('collects calls that arrive while two statements run, for the next one', async () => {
    const { asked, ask, begin, end } = aStatement()
    for (const call of ['a', 'b', 'c', 'd']) {
      void ask(call)
      await begin()
    }
    expect(asked).toEqual([['a'], ['b']])
    end(1)
    await begin()
    await begin()
    expect(asked).toEqual([['a'], ['b'], ['c', 'd']])
  })

  it('puts at most 32 calls on one statement, and forgets none', async () => {
    const { asked, ask, begin, end } = aStatement()
    const names = Array.from({ length: 100 }, (_, i) => `n${i}`)
    const results = Promise.all(names.map(ask))
    for (let i = 0; i < 4; i += 1) {
      await begin()
      await begin()
      end(i)
    }
    expect(await results).toEqual(names.map((name) => name.toUpperCase()))
    expect(asked.map((calls) => calls.length)).toEqual([32, 32, 32, 4])
  })

  it('fails the calls of a statement whose connection is lost, and no others', async () => {
    const { ask, begin, end } = aStatement()
    const failing = ['a', 'lost'].map((call) => ask(call).catch((error: Error) => error.message))
    await begin()
    end(0)
    expect(await Promise.all(failing)).toEqual(['Connection terminated', 'Connection terminated'])
    const later = ask('c')
    await begin()
    end(1)
    expect(await later).toBe('C')
  })

  it('repeats the calls of a failed statement one by one, so that a bad one fails alone', async () => {
    const { asked, ask, begin, end } = aStatement()
    const results = ['a', 'bad', 'b'].map((call) => ask(call).catch((error: Error) => error.message))
    for (let i = 0; i < 4; i += 1) {
      await begin()
      end(i)
    }
    expect(await Promise.all(results)).toEqual(['A', 'refused', 'B'])
    expect(asked).toEqual([['a', 'bad', 'b'], ['a'], ['bad'], ['b']])
  })

  it('puts calls on one statement only up to their size together, and a larger call on its own', async () => {
    const { asked, ask, begin, end } = aStatement({ sizeOf: ({ length }) => length, maxSize: 4 })
    const calls = ['aa', 'bb', 'c', 'large', 'd', 'ee']
    const results = Promise.all(calls.map(ask))
    for (let i = 0; i < 4; i += 1) {
      await begin()
      await begin()
      end(i)
    }
    expect(await results).toEqual(calls.map((call) => call.toUpperCase()))
    expect(asked).toEqual([['aa', 'bb'], ['c'], ['large'], ['d', 'ee']])
  })

  it('also runs waiting calls when the statements before have failed', async () => {
    const { ask, begin, end } = aStatement()
    const results: Promise<string>[] = []
    for (const call of ['bad', 'bad', 'c']) {
      results.push(ask(call).catch((error: Error) => error.message))
      await begin()
    }
    end(0)
    end(1)
    await begin()
    await begin()
    end(2)
    expect(await Promise.all(results)).toEqual(['refused', 'refused', 'C'])
  })

  it('merges waiting calls with the same key into one, and gives each of them its result', async () => {
    const { asked, ask, begin, end } = aStatement({ keyOf: (call) => call })
    const results = Promise.all(['a', 'b', 'a', 'a'].map(ask))
    await begin()
    expect(asked).toEqual([['a', 'b']])
    end(0)
    expect(await results).toEqual(['A', 'B', 'A', 'A'])
  })

  it('merges calls with the same key that wait for the same statement, even when it is full', async () => {
    const { asked, ask, begin, end } = aStatement({ keyOf: (call) => call })
    const names = Array.from({ length: 32 }, (_, i) => `n${i}`)
    // The second `n0` shares the full statement. After `next`, another statement waits, and it gets its own `n0`.
    const calls = [...names, 'n0', 'next', 'n0']
    const results = Promise.all(calls.map(ask))
    for (const i of [0, 1]) {
      await begin()
      await begin()
      end(i)
    }
    expect(asked).toEqual([names, ['next', 'n0']])
    expect(await results).toEqual(calls.map((call) => call.toUpperCase()))
  })

  it('never merges a call with one of the same key whose statement has begun', async () => {
    const { asked, ask, begin, end } = aStatement({ keyOf: (call) => call })
    const first = ask('a')
    await begin()
    const second = ask('a')
    await begin()
    expect(asked).toEqual([['a'], ['a']])
    end(0)
    end(1)
    expect(await Promise.all([first, second])).toEqual(['A', 'A'])
  })

  it('fails all calls that share a refused one', async () => {
    const { ask, begin, end } = aStatement({ keyOf: (call) => call })
    const failing = ['bad', 'bad'].map((call) => ask(call).catch((error: Error) => error.message))
    await begin()
    end(0)
    expect(await Promise.all(failing)).toEqual(['refused', 'refused'])
    const later = ask('bad').catch((error: Error) => error.message)
    await begin()
    end(1)
    expect(await later).toBe('refused')
  })
})

describe('an array of bytes as a parameter', () => {
  const database = useDatabase()

  it.each([
    ['no element', []],
    ['a hash', [Buffer.alloc(32, 0xff)]],
    [
      'elements of every length',
      [Buffer.alloc(0), Buffer.from([0]), Buffer.from('{"\\x,NULL'), Buffer.alloc(70_000, 7)],
    ],
  ])('arrives as it was sent: %s', async (_title, elements) => {
    const { rows } = await database.db.query('select $1::bytea[] as elements', [byteaArray(elements)])
    expect(rows).toEqual([{ elements }])
  })
})
