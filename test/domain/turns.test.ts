import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { openTurns } from '../../src/domain/turns.ts'

/** Turns, and tasks that run until they are ended by name. */
function someTurns(limits = { atOnce: 3, atOnceOfOwner: 2, waiting: 4, waitingOfOwner: 3 }) {
  const inTurn = openTurns(limits, (whose) => new Error(`too many: ${whose}`))
  const running: string[] = []
  const ends = new Map<string, () => void>()
  const start = (name: string) =>
    inTurn(name.charAt(0), async () => {
      running.push(name)
      await new Promise<void>((resolve) => ends.set(name, resolve))
      running.splice(running.indexOf(name), 1)
      return name
    })
  const end = async (name: string) => {
    ends.get(name)?.()
    await new Promise(setImmediate)
  }
  return { inTurn, running, start, end }
}

describe('turns', () => {
  it('run a bounded number of tasks at once, of each owner and in all', async () => {
    const { running, start, end } = someTurns()
    const all = ['a1', 'a2', 'a3', 'b1', 'b2'].map(start)
    expect(running).toEqual(['a1', 'a2', 'b1'])
    await end('b1')
    expect(running, 'a has two already').toEqual(['a1', 'a2', 'b2'])
    await end('a1')
    expect(running).toEqual(['a2', 'b2', 'a3'])
    for (const name of ['a2', 'a3', 'b2']) await end(name)
    expect(await Promise.all(all)).toEqual(['a1', 'a2', 'a3', 'b1', 'b2'])
  })

  it('refuse a task when too many wait, of its owner or in all, and take others later', async () => {
    const { running, start, end } = someTurns()
    for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) void start(name)
    await expect(start('a6')).rejects.toThrow('too many: owner')
    for (const name of ['b1', 'b2']) void start(name)
    await expect(start('c1')).rejects.toThrow('too many: all')
    await end('a1')
    void start('c2')
    expect(running).toEqual(['a2', 'b1', 'a3'])
  })

  it('refuse a task that has waited too long, and keep its place for others', async () => {
    const limits = { atOnce: 2, atOnceOfOwner: 1, waiting: 2, waitingOfOwner: 1, waitingSeconds: 0.01 }
    const { running, start, end } = someTurns(limits)
    for (const name of ['a1', 'b1']) void start(name)
    const late = await Promise.allSettled(['a2', 'c1'].map(start))
    expect(late.map((one) => one.status === 'rejected' && String(one.reason))).toEqual([
      'Error: too many: owner',
      'Error: too many: all',
    ])
    await end('a1')
    expect(running).toEqual(['b1'])
    void start('a3')
    expect(running).toEqual(['b1', 'a3'])
  })

  it('lose no task when the time of one passes whose turn has come', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const limits = { atOnce: 1, atOnceOfOwner: 1, waiting: 1, waitingOfOwner: 1, waitingSeconds: 10 }
    const { running, start, end } = someTurns(limits)
    const first = [start('a1'), start('a2')]
    await end('a1')
    vi.advanceTimersByTime(6000)
    const last = start('a3')
    vi.advanceTimersByTime(5000)
    expect(running).toEqual(['a2'])
    await end('a2')
    expect(running).toEqual(['a3'])
    await end('a3')
    expect(await Promise.all([...first, last])).toEqual(['a1', 'a2', 'a3'])
  })

  it('give the place of a task that throws to the next one', async () => {
    const { inTurn } = someTurns({ atOnce: 1, atOnceOfOwner: 1, waiting: 1, waitingOfOwner: 1 })
    const failing = inTurn('a', () => Promise.reject(new Error('broken')))
    const next = inTurn('b', async () => 'done')
    await expect(failing).rejects.toThrow('broken')
    expect(await next).toBe('done')
  })
})
