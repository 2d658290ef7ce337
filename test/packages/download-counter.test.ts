import { describe, expect, it } from 'vitest'
import { maxPerNetworkAndHour, openDownloadCounter } from '../../src/packages/download-counter.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useApp } from '../support/app.ts'
import { downloadDays } from '../support/download-rows.ts'
import { countWaiting, whileLocked, whileTableIsGone } from '../support/locks.ts'
import { aPublisher, type Publisher } from '../support/registry-actors.ts'

const t = useApp()

function lib({ repository }: Publisher, packageName = 'acme/lib') {
  return { repositoryId: repository.id, packageName, normalized: '1.0.0.0' }
}

async function days({ repository }: Publisher): Promise<{ name: string; count: number }[]> {
  return (await downloadDays(t.db, repository)).map(({ name, count }) => ({ name, count }))
}

describe('the download counter', () => {
  const counter = () => openDownloadCounter(t.db, openLog('silent'))

  it('adds many reports of one version into one row', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const downloads = counter()
    for (let i = 0; i < 1000; i += 1) downloads.count([lib(publisher)], '192.0.2.1')
    expect(await days(publisher)).toEqual([])
    await downloads.flush()
    expect(await days(publisher)).toEqual([{ name: 'acme/lib', count: 1000 }])
    await downloads.flush()
    expect(await days(publisher)).toEqual([{ name: 'acme/lib', count: 1000 }])
  })

  it('bounds what one network adds in an hour, and leaves others alone', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const downloads = counter()
    const thousand = Array.from({ length: 1000 }, () => lib(publisher))
    for (let i = 0; i < 30; i += 1) downloads.count(thousand, `2001:db8::${i}`)
    downloads.count([lib(publisher)], '192.0.2.1')
    await downloads.flush()
    expect(await days(publisher)).toEqual([{ name: 'acme/lib', count: maxPerNetworkAndHour + 1 }])
  })

  it('gathers a bounded number of different versions', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const downloads = counter()
    for (let i = 0; i < 10; i += 1) {
      const unknown = Array.from({ length: 1000 }, (_, n) => lib(publisher, `acme/unknown${i}-${n}`))
      downloads.count(unknown, '192.0.2.1')
    }
    downloads.count([lib(publisher)], '192.0.2.2')
    await downloads.flush()
    expect(await days(publisher)).toEqual([])
    downloads.count([lib(publisher)], '192.0.2.2')
    await downloads.flush()
    expect(await days(publisher)).toHaveLength(1)
  })

  it('keeps the counts that could not be written', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const downloads = counter()
    downloads.count([lib(publisher)], '192.0.2.1')
    await whileTableIsGone(t.db, 'package_download', () => downloads.flush())
    downloads.count([lib(publisher)], '192.0.2.1')
    await downloads.flush()
    expect(await days(publisher)).toEqual([{ name: 'acme/lib', count: 2 }])
  })

  it('lets counters of many processes write the same packages at once', async () => {
    const publisher = await aPublisher(t)
    const names = Array.from({ length: 5 }, (_, i) => `acme/lib${i}`)
    for (const name of names) await publisher.push('1.0.0', { name })
    const counters = Array.from({ length: 8 }, counter)
    for (let round = 0; round < 10; round += 1) {
      for (const [i, one] of counters.entries()) {
        const order = i % 2 === 0 ? names : names.toReversed()
        one.count(
          order.map((name) => lib(publisher, name)),
          '192.0.2.1',
        )
      }
      await Promise.all(counters.map((one) => one.flush()))
    }
    expect((await days(publisher)).map(({ count }) => count)).toEqual(Array(5).fill(80))
  })
})

describe('POST downloads', () => {
  it('never takes a connection from pulls, however slow counting is', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const downloads = [{ name: 'Acme/Lib', version: '1.0.0.0' }]
    const pull = await whileLocked(t.db, 'package_download', async (tx) => {
      for (let i = 0; i < 100; i += 1) {
        const payload = JSON.stringify({ downloads })
        expect((await publisher.ask('downloads', { method: 'POST', payload })).statusCode).toBe(200)
      }
      await expect.poll(() => countWaiting(tx)).toBe(1)
      // Only this transaction. The last uses of tokens are written now and then, and that ends.
      await expect.poll(() => t.db.totalCount - t.db.idleCount).toBe(1)
      return publisher.ask('p2/acme/lib.json')
    })
    expect(pull.statusCode).toBe(200)
    await expect.poll(() => days(publisher)).toEqual([{ name: 'acme/lib', count: 100 }])
  })
})
