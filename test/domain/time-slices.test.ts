import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { afterPatience, limitConcurrency } from '../../src/domain/time-slices.ts'

describe('limitConcurrency', () => {
  it('runs at most the given number of tasks at once, in the order of their calls, also after failures', async () => {
    const inTurn = limitConcurrency(2)
    let running = 0
    let most = 0
    const started: number[] = []
    const task = (i: number) => async () => {
      started.push(i)
      running += 1
      most = Math.max(most, running)
      await setImmediate()
      running -= 1
      if (i % 3 === 0) throw new Error('failed')
      return i
    }
    const all = await Promise.allSettled(Array.from({ length: 10 }, (_, i) => inTurn(task(i))))
    expect(most).toBe(2)
    expect(started).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(all.filter(({ status }) => status === 'rejected')).toHaveLength(4)
    expect(await inTurn(task(11))).toBe(11)
  })
})

describe('afterPatience', () => {
  it('lets bytes come first that have arrived while the process paused', async () => {
    const server = createServer()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const [peer] = (await once(server, 'connection')) as [Socket]
    const arrived = once(client, 'data').then(() => 'arrived')
    const first = Promise.race([arrived, afterPatience(100, 'silence')])
    peer.write('x')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
    expect(await first).toBe('arrived')
    expect(await Promise.race([once(client, 'data'), afterPatience(100, 'silence')])).toBe('silence')
    client.destroy()
    server.close()
  })
})
