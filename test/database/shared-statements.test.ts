import { describe, expect, it } from 'vitest'
import { byteaArray, shareStatements } from '../../src/database/shared-statements.ts'
import { useDatabase } from '../support/database.ts'

/** A statement that returns its calls in capitals when the test lets it, and the calls it received so far. */
function aStatement(options?: { keyOf: (call: string) => string }) {
  const asked: string[][] = []
  const ends: (() => void)[] = []
  const ask = shareStatements(
    (calls: string[]) =>
      new Promise<string[]>((resolve, reject) => {
        asked.push(calls)
        ends.push(() =>
          calls.includes('bad')
            ? reject(new Error('refused'))
            : resolve(calls.map((one) => one.toUpperCase())),
        )
      }),
    options,
  )
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  return { asked, ask, turn, end: (i: number) => ends[i]?.() }
}

describe('statements that calls share (DESIGN §5)', () => {
  it('runs the calls of one turn of the event loop together, and returns to each its own result', async () => {
    const { asked, ask, turn, end } = aStatement()
    const results = Promise.all(['a', 'b', 'c'].map(ask))
    expect(asked).toEqual([])
    await turn()
    expect(asked).toEqual([['a', 'b', 'c']])
    end(0)
    expect(await results).toEqual(['A', 'B', 'C'])
  })

  it('never adds a call to a statement that has begun', async () => {
    const { asked, ask, turn } = aStatement()
    void ask('a')
    await turn()
    void ask('b')
    await turn()
    expect(asked).toEqual([['a'], ['b']])
  })

  it('collects calls that arrive while two statements run, for the next one', async () => {
    const { asked, ask, turn, end } = aStatement()
    for (const call of ['a', 'b', 'c', 'd']) {
      void ask(call)
      await turn()
    }
    expect(asked).toEqual([['a'], ['b']])
    end(1)
    await turn()
    await turn()
    expect(asked).toEqual([['a'], ['b'], ['c', 'd']])
  })

  it('puts at most 32 calls on one statement, and forgets none', async () => {
    const { asked, ask, turn, end } = aStatement()
    const names = Array.from({ length: 100 }, (_, i) => `n${i}`)
    const results = Promise.all(names.map(ask))
    for (let i = 0; i < 4; i += 1) {
      await turn()
      await turn()
      end(i)
    }
    expect(await results).toEqual(names.map((name) => name.toUpperCase()))
    expect(asked.map((calls) => calls.length)).toEqual([32, 32, 32, 4])
  })

  it('fails the calls of a statement that fails, and no others', async () => {
    const { ask, turn, end } = aStatement()
    const failing = ['a', 'bad'].map((call) => ask(call).catch((error: Error) => error.message))
    await turn()
    end(0)
    expect(await Promise.all(failing)).toEqual(['refused', 'refused'])
    const later = ask('c')
    await turn()
    end(1)
    expect(await later).toBe('C')
  })

  it('also runs waiting calls when the statements before have failed', async () => {
    const { ask, turn, end } = aStatement()
    const results: Promise<string>[] = []
    for (const call of ['bad', 'bad', 'c']) {
      results.push(ask(call).catch((error: Error) => error.message))
      await turn()
    }
    end(0)
    end(1)
    await turn()
    await turn()
    end(2)
    expect(await Promise.all(results)).toEqual(['refused', 'refused', 'C'])
  })

  it('merges waiting calls with the same key into one, and gives each of them its result', async () => {
    const { asked, ask, turn, end } = aStatement({ keyOf: (call) => call })
    const results = Promise.all(['a', 'b', 'a', 'a'].map(ask))
    await turn()
    expect(asked).toEqual([['a', 'b']])
    end(0)
    expect(await results).toEqual(['A', 'B', 'A', 'A'])
  })

  it('never merges a call with one of the same key whose statement has begun', async () => {
    const { asked, ask, turn, end } = aStatement({ keyOf: (call) => call })
    const first = ask('a')
    await turn()
    const second = ask('a')
    await turn()
    expect(asked).toEqual([['a'], ['a']])
    end(0)
    end(1)
    expect(await Promise.all([first, second])).toEqual(['A', 'A'])
  })

  it('fails all calls that share a refused one', async () => {
    const { ask, turn, end } = aStatement({ keyOf: (call) => call })
    const failing = ['bad', 'bad', 'a'].map((call) => ask(call).catch((error: Error) => error.message))
    await turn()
    end(0)
    expect(await Promise.all(failing)).toEqual(['refused', 'refused', 'refused'])
    const later = ask('bad').catch((error: Error) => error.message)
    await turn()
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
