import { describe, expect, it } from 'vitest'
import { countFailure, findBlock, forgetFailures, networkOf } from '../../src/http/failure-limit.ts'
import { useDatabase } from '../support/database.ts'

describe('the failure limit', () => {
  const t = useDatabase()
  const limit = (subject: string) => ({ subject, failures: 3, windowSeconds: 60 })

  it('bears the failures below the limit, then blocks until the window ends', async () => {
    const alice = [limit('alice')]
    expect(await countFailure(t.db, alice)).toBe(0)
    expect(await countFailure(t.db, alice)).toBe(0)
    expect(await findBlock(t.db, alice)).toBe(0)
    expect(await countFailure(t.db, alice)).toBeGreaterThan(50)
    expect(await findBlock(t.db, alice)).toBeGreaterThan(50)
    expect(await findBlock(t.db, [limit('bob')])).toBe(0)
  })

  it('counts anew once the window has ended', async () => {
    const carol = [limit('carol')]
    for (let i = 0; i < 3; i++) await countFailure(t.db, carol)
    await t.db.query(`update auth_failure set window_ends_at = now() - interval '1 second'`)
    expect(await findBlock(t.db, carol)).toBe(0)
    expect(await countFailure(t.db, carol)).toBe(0)
  })

  it('blocks when one of several subjects is over its limit', async () => {
    const from = (network: string) => [limit('dave'), { ...limit(network), failures: 100 }]
    for (let i = 0; i < 3; i++) await countFailure(t.db, from('192.0.2.1'))
    expect(await findBlock(t.db, from('192.0.2.2'))).toBeGreaterThan(0)
    expect(await findBlock(t.db, [{ ...limit('192.0.2.1'), failures: 100 }])).toBe(0)
  })

  it('forgets', async () => {
    const erin = [limit('erin')]
    for (let i = 0; i < 3; i++) await countFailure(t.db, erin)
    await forgetFailures(t.db, erin)
    expect(await findBlock(t.db, erin)).toBe(0)
  })

  it('counts every one of many failures at once, in whatever order they name their subjects', async () => {
    const subjects = ['first', 'second', 'third', 'fourth'].map(limit)
    const work = Array.from({ length: 40 }, (_, i) =>
      countFailure(t.db, i % 2 ? subjects : subjects.toReversed()),
    )
    await Promise.all(work)
    const { rows } = await t.db.query(
      'select count(*)::integer as keys from auth_failure where failures = 40',
    )
    expect(rows).toEqual([{ keys: 4 }])
  })
})

describe('networkOf', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:DB8::6', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
  ])('of %s is %s', (address, network) => {
    expect(networkOf(address)).toBe(network)
  })
})
