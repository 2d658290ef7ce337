import { describe, expect, it } from 'vitest'
import { operator, type Principal } from '../../src/domain/principal.ts'
import { maxPerNetwork, openUnknownNames } from '../../src/upstreams/unknown-names.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { upstreamDocuments } from '../support/upstream-rows.ts'

const t = useApp({ ...upstreamsHere, TRUST_PROXY: 'true' })
const upstream = useUpstream()
const other = useUpstream()

const requestsFor = (prefix: string) => upstream.requests.filter((request) => request.includes(prefix)).length
const rowsFor = async (prefix: string) => (await upstreamDocuments(t.db, new RegExp(`^${prefix}`))).length

/** A public repository with an upstream. `pull` requests a document without a token, from a network. */
async function aPublicMirror() {
  const caller = await aCaller(t, { visibility: 'public' })
  await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  const pull = (name: string, network = '192.0.2.1') =>
    t.app.inject({ url: `${caller.path}p2/${name}.json`, headers: { 'x-forwarded-for': network } })
  return { ...caller, pull }
}

describe('names that no upstream has', () => {
  it('cost a network a bounded number of requests to upstreams, and no row', async () => {
    const { pull, ask } = await aPublicMirror()
    upstream.offer('known/lib', ['1.0.0'])
    await pull('known/lib')
    const statuses = new Map<number, number>()
    const started = performance.now()
    for (let start = 0; start < 1000; start += 50) {
      const names = Array.from({ length: 50 }, (_, i) => `invented/lib${start + i}`)
      for (const { statusCode } of await Promise.all(names.map((name) => pull(name))))
        statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
    }
    expect(Object.fromEntries(statuses)).toEqual({ 404: maxPerNetwork, 429: 1000 - maxPerNetwork })
    expect(requestsFor('/p2/invented/')).toBe(maxPerNetwork)
    expect(await rowsFor('invented/')).toBe(0)

    const refused = await pull('invented/last')
    expect([refused.statusCode, refused.json().errcode]).toEqual([429, 8])
    // The rest of ten minutes since the first of these names.
    const passedSeconds = (performance.now() - started) / 1000
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(599 - passedSeconds)
    expect((await pull('invented/lib0')).statusCode, 'a remembered name costs nothing').toBe(404)
    expect((await pull('known/lib')).statusCode).toBe(200)
    expect((await pull('invented/last', '192.0.2.2')).statusCode, 'another network').toBe(404)
    expect((await ask('p2/invented/more.json')).statusCode, 'a client with a token').toBe(404)
    const elsewhere = await aPublicMirror()
    expect((await elsewhere.pull('invented/last')).statusCode, 'another repository').toBe(404)
  })

  it('are asked for once by concurrent requests, and remembered', async () => {
    const { pull } = await aPublicMirror()
    const statuses = await Promise.all(
      Array.from({ length: 10 }, async () => (await pull('once/lib')).statusCode),
    )
    expect(new Set(statuses)).toEqual(new Set([404]))
    await pull('once/lib')
    expect(requestsFor('/p2/once/lib')).toBe(1)
    expect(await rowsFor('once/')).toBe(0)
  })

  it('are asked for in both documents only when another upstream could serve the name', async () => {
    const { pull, call } = await aPublicMirror()
    await pull('both/lib')
    expect(requestsFor('/p2/both/lib~dev')).toBe(0)
    await call('POST', '/upstreams', { url: other.url, name: 'second' })
    upstream.offer('both/dev', ['dev-main'], { isDev: true })
    other.offer('both/dev', ['99.0.0'])
    expect((await pull('both/dev')).statusCode).toBe(404)
    expect((await pull('both/dev~dev')).statusCode).toBe(200)
    expect(other.requests.filter((request) => request.includes('both/dev'))).toEqual([])
  })
})

describe('the memory of unknown names', () => {
  const fromNetwork: Principal = { ...operator, via: 'api', ip: '192.0.2.1' }

  it('ends after ten minutes', () => {
    let now = 1000
    const names = openUnknownNames({ now: () => now })
    names.add('a')
    expect(names.has('a')).toBe(true)
    now += 10 * 60_000 + 1
    expect(names.has('a')).toBe(false)
  })

  it('lets a network ask again ten minutes after its first name, and gives back the names that an upstream has', () => {
    let now = 1000
    const names = openUnknownNames({ now: () => now })
    const giveBack = names.take('1', fromNetwork)
    now += 5 * 60_000
    for (let i = 1; i < maxPerNetwork; i += 1) names.take('1', fromNetwork)
    const refused = expect.objectContaining({ errcode: 8, status: 429, retryAfterSeconds: 300 })
    expect(() => names.take('1', fromNetwork)).toThrow(refused)
    giveBack()
    names.take('1', fromNetwork)
    expect(() => names.take('1', fromNetwork)).toThrow(refused)
    now += 5 * 60_000 + 1
    names.take('1', fromNetwork)
  })

  it('bounds the networks of an IPv6 site together: it cannot use up the budget of all', () => {
    const names = openUnknownNames()
    const from = (n: number) => ({ ...fromNetwork, ip: `2001:db8:1:${n.toString(16)}::1` })
    for (let n = 0; n < 4 * maxPerNetwork; n += 1) names.take('1', from(n))
    expect(() => names.take('1', from(0xffff))).toThrow('too many unknown packages')
    names.take('1', { ...fromNetwork, ip: '2001:db8:2::1' })
  })

  it('bounds all networks of a repository together, but no command', () => {
    const names = openUnknownNames()
    for (let i = 0; i < 3000; i += 1) names.take('1', { ...fromNetwork, ip: `10.0.${i >> 8}.${i & 255}` })
    expect(() => names.take('1', { ...fromNetwork, ip: '192.0.2.9' })).toThrow('too many unknown packages')
    names.take('2', fromNetwork)
    for (let i = 0; i < 4000; i += 1) names.take('1', { ...fromNetwork, ip: null })
  })
})
