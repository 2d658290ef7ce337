import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { claimVendorByHand, releaseVendorByHand } from '../../src/upstreams/claims.ts'
import { aRepository } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import {
  ageRoots,
  aVendorClaim,
  comparePatterns,
  forgetRootKey,
  markStale,
  originOf,
  setRules,
} from '../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()
const other = useUpstream()

/** An admin of a repository with upstreams, in this order. */
async function aMirror(...upstreams: { url: string; name?: string; mode?: string; allow?: string[] }[]) {
  const group = (await aRepository(t.db)).group
  const repository = await aRepository(t.db, { group })
  const caller = await aCaller(t, { repository })
  for (const one of upstreams.length > 0 ? upstreams : [{ url: upstream.url, name: 'public' }]) {
    expect((await caller.call('POST', '/upstreams', one)).statusCode).toBe(201)
  }
  const versions = async (name: string) => {
    const response = await caller.ask(`p2/${name}.json`)
    return response.statusCode === 200
      ? expand(response.body, name).map(({ version }) => version)
      : response.statusCode
  }
  const claim = (vendor: string, exceptions?: string[]) => aVendorClaim(t.db, group, vendor, exceptions)
  return { ...caller, group, repository, versions, claim }
}

const leaked = (word: string) =>
  [...upstream.requests, ...other.requests].filter((request) => request.includes(word))

describe('a package of our own', () => {
  it('is never taken from an upstream that offers a higher version', async () => {
    const { push, versions } = await aMirror()
    upstream.offer('acme/secret', ['99.0.0'])
    expect((await push('1.0.0', { name: 'acme/secret' })).statusCode).toBe(201)
    expect(await versions('acme/secret')).toEqual(['1.0.0'])
    expect(await versions('acme/secret~dev')).toEqual([])
    expect(leaked('acme/secret')).toEqual([])
  })

  it.each([
    ['dele/ted', ''],
    ['pur/ged', '?purge=true'],
  ])('stays ours when its versions, or all of it, are deleted or purged: %s', async (name, query) => {
    const { push, call, versions, repository, group } = await aMirror()
    upstream.offer(name, ['99.0.0'])
    await push('1.0.0', { name })
    await push('1.1.0', { name })
    // Without the exception, the claim of the vendor would protect the name too.
    await aVendorClaim(t.db, group, name.split('/')[0] ?? '', [name])
    expect((await call('DELETE', `/packages/${name}/1.0.0${query}`)).statusCode).toBe(204)
    expect(await versions(name)).toEqual(['1.1.0'])
    expect((await call('DELETE', `/packages/${name}/1.1.0${query}`)).statusCode).toBe(204)
    expect(await versions(name)).toEqual([])
    await call('DELETE', `/packages/${name}${query}`)
    expect(await versions(name)).toEqual([])
    expect(await versions(`${name}~dev`)).toEqual([])
    expect(leaked(name)).toEqual([])
    // The stored document of the package hides a wrong verdict. Archives of upstreams have only the verdict.
    expect(await originOf(t.db, repository, name)).toBe('own')
  })

  it('is not found in upper case, or under an invalid name', async () => {
    const { push, ask } = await aMirror()
    await push('1.0.0', { name: 'cased/secret' })
    const names = [
      'Cased/secret',
      'cased/SECRET',
      'cased%2fsecret/x',
      '../x',
      'cased/secret.json',
      'a/b/c',
      'cased/%E2%84%AAey',
    ]
    for (const name of names) {
      upstream.put(`/p2/${name}.json`, { packages: { [name]: [] } })
      expect((await ask(`p2/${name}.json`)).statusCode, name).toBe(404)
    }
    expect(leaked('ased')).toEqual([])
  })

  it('is not replaced or provided by a mirrored one', async () => {
    const { push, ask } = await aMirror()
    await push('1.0.0', { name: 'ours/secret' })
    const replace = { 'ours/secret': '*', 'Ours/Other': '*', 'evil/other': '*' }
    upstream.offer('evil/lib', [{ version: '1.0.0', replace, provide: { 'ours/secret': '99.0' } }])
    const [entry] = expand((await ask('p2/evil/lib.json')).body, 'evil/lib')
    expect([entry?.['replace'], entry?.['provide']]).toEqual([{ 'evil/other': '*' }, {}])
  })

  it('is not replaced by one that was mirrored before it was published', async () => {
    const { push, ask } = await aMirror()
    upstream.offer('evil/early', [{ version: '1.0.0', replace: { 'later/secret': '*' } }])
    const entry = async () => expand((await ask('p2/evil/early.json')).body, 'evil/early')[0]
    expect(await entry()).toMatchObject({ replace: { 'later/secret': '*' } })
    await push('1.0.0', { name: 'later/secret' })
    expect(await entry()).toMatchObject({ replace: {} })
  })
})

describe('a vendor of our own', () => {
  it('is claimed for the whole group by publishing, also for names that nobody published', async () => {
    const { push, group } = await aMirror()
    await push('1.0.0', { name: 'corp/lib' })
    const sibling = await aCaller(t, { repository: await aRepository(t.db, { group }) })
    await sibling.call('POST', '/upstreams', { url: upstream.url })
    upstream.offer('corp/other', ['1.0.0'])
    expect((await sibling.ask('p2/corp/other.json')).statusCode).toBe(404)
    expect(leaked('corp/')).toEqual([])
  })

  it('stays claimed when the repository that published is deleted', async () => {
    const { group, versions } = await aMirror()
    const gone = await aCaller(t, { repository: await aRepository(t.db, { group }) })
    await gone.push('1.0.0', { name: 'left/lib' })
    expect((await gone.call('DELETE')).statusCode).toBe(204)
    upstream.offer('left/lib', ['99.0.0'])
    expect(await versions('left/lib')).toBe(404)
    expect(leaked('left/')).toEqual([])
  })

  it('can be claimed by hand, with exceptions by name', async () => {
    const { claim, versions } = await aMirror()
    await claim('symfony', ['symfony/con*'])
    upstream.offer('symfony/console', ['7.0.0'])
    upstream.offer('symfony/yaml', ['7.0.0'])
    expect(await versions('symfony/console')).toEqual(['7.0.0'])
    expect(await versions('symfony/yaml')).toBe(404)
    expect(leaked('symfony/yaml')).toEqual([])
  })

  it('blocks upstreams only in the group that claimed it', async () => {
    const owner = await aMirror()
    const another = await aMirror()
    await owner.claim('shared')
    upstream.offer('shared/lib', ['1.0.0'])
    expect(await owner.versions('shared/lib')).toBe(404)
    expect(await another.versions('shared/lib')).toEqual(['1.0.0'])
  })

  it('must be claimed before publishing when an upstream serves it', async () => {
    const { push, versions, claim } = await aMirror()
    upstream.offer('monolog/monolog', ['3.0.0'])
    upstream.offer('monolog/other', ['1.0.0'])
    expect(await versions('monolog/monolog')).toEqual(['3.0.0'])
    const refused = await push('1.0.0', { name: 'monolog/patched' })
    expect([refused.statusCode, refused.json()]).toMatchObject([
      409,
      { errcode: 9, warning: expect.stringContaining('svc vendor claim') },
    ])
    await claim('monolog', ['monolog/*'])
    expect((await push('3.0.1', { name: 'monolog/monolog' })).statusCode).toBe(201)
    expect(await versions('monolog/monolog')).toEqual(['3.0.1'])
    expect(await versions('monolog/other')).toEqual(['1.0.0'])
  })

  const listing = (keys: object) => ({ 'metadata-url': '/p2/%package%.json', ...keys })
  const patterns = (...list: unknown[]) => listing({ 'available-package-patterns': list })

  it.each([
    ['a name of the vendor', listing({ 'available-packages': ['other/lib', 'Listed/lib'] }), {}, 409],
    ['only a longer vendor', listing({ 'available-packages': ['listed-too/lib'] }), {}, 201],
    ['a pattern for the vendor', patterns('other/*', 'listed/*'), {}, 409],
    ['a pattern for vendors like it', patterns('list*/lib'), {}, 409],
    ['a pattern without a slash', patterns('listed*'), {}, 409],
    ['patterns for all vendors and others', patterns('*/*', '*', '*/lib', 'l_sted/*', 'list\\', ''), {}, 201],
    [
      'an inline package',
      { packages: { 'listed/lib': [{ name: 'listed/lib', version: '1.0.0' }] } },
      {},
      409,
    ],
    [
      'an inline package beside others',
      listing({ packages: { 'listed/lib': [{ name: 'listed/lib', version: '1.0.0' }] } }),
      {},
      409,
    ],
    ['only other inline packages', { packages: { 'other/lib': [{ version: '1.0.0' }] } }, {}, 201],
    ['names, but may not offer them', patterns('listed/*'), { deny: ['listed/*'] }, 201],
    ['names, and may offer some', patterns('listed/*'), { deny: ['listed/a*', 'listed/*:^1'] }, 409],
    ['names, but may offer others only', patterns('listed/*'), { allow: ['other/*'] }, 201],
    ['names, and may offer one', patterns('listed/*'), { allow: ['other/*', 'listed/lib:^2'] }, 409],
    ['names, but is off', patterns('listed/*'), { mode: 'off' }, 201],
  ])('of an upstream that lists %s, needs a claim as it should', async (_, root, settings, status) => {
    const unasked = other.requests.length
    other.put('/packages.json', root)
    const { push, repository, group } = await aMirror({ url: other.url, name: 'listing' })
    await setRules(t.db, repository, settings)
    expect((await push('1.0.0', { name: 'listed/private' })).statusCode).toBe(status)
    const sibling = await aCaller(t, { repository: await aRepository(t.db, { group }) })
    expect((await sibling.push('1.0.0', { name: 'listed/sibling' })).statusCode).toBe(status)
    expect(other.requests.slice(unasked)).toEqual(['GET /packages.json'])
    other.put('/packages.json', listing({}))
  })

  it('is known from inline packages of an upstream that an earlier release has added', async () => {
    other.put('/packages.json', { packages: { 'inline/lib': [{ name: 'inline/lib', version: '1.0.0' }] } })
    const { push, versions, repository } = await aMirror({ url: other.url, name: 'inline' })
    await forgetRootKey(t.db, repository, 'vendors')
    await ageRoots(t.db, 1, repository)
    await versions('any/name')
    expect((await push('1.0.0', { name: 'inline/private' })).statusCode).toBe(409)
    other.put('/packages.json', listing({}))
  })

  it('that was claimed by mistake serves its other packages again after a claim with exceptions', async () => {
    const { push, versions, group } = await aMirror()
    upstream.offer('mistaken/lib', ['1.0.0'])
    upstream.offer('mistaken/ours', ['99.0.0'])
    expect((await push('1.0.0', { name: 'mistaken/ours' })).statusCode).toBe(201)
    expect(await versions('mistaken/lib')).toBe(404)
    await expect(releaseVendorByHand(t.db, operator, group, 'mistaken')).rejects.toThrow(
      'claim it with the exception mistaken/*',
    )
    const claim = { vendor: 'mistaken', exceptions: ['mistaken/*'], force: false }
    await claimVendorByHand(t.db, operator, group, claim)
    expect(await versions('mistaken/lib')).toEqual(['1.0.0'])
    expect(await versions('mistaken/ours')).toEqual(['1.0.0'])
    expect(leaked('mistaken/ours')).toEqual([])
  })
})

describe('the order of upstreams', () => {
  const both = () => [
    { url: upstream.url, name: 'first' },
    { url: other.url, name: 'second' },
  ]

  it('decides who serves a name, and later changes of it do not', async () => {
    upstream.offer('or/der', ['1.0.0'])
    other.offer('or/der', ['99.0.0'])
    const { versions, call } = await aMirror(...both())
    expect(await versions('or/der')).toEqual(['1.0.0'])
    await call('PATCH', '/upstreams/second', { position: 1 })
    await call('PATCH', '/upstreams/first', { position: 2 })
    expect(await versions('or/der')).toEqual(['1.0.0'])
    expect(other.requests.filter((request) => request.includes('or/der'))).toEqual([])
  })

  it('is kept when the upstream of a name fails, loses the name, denies it, or is removed', async () => {
    upstream.offer('bo/und', ['1.0.0'])
    other.offer('bo/und', ['99.0.0'])
    const { versions, call } = await aMirror(...both())
    expect(await versions('bo/und')).toEqual(['1.0.0'])
    upstream.put('/p2/bo/und.json', null)
    await markStale(t.db, 'bo/und')
    expect(await versions('bo/und')).toEqual(['1.0.0'])
    await call('PATCH', '/upstreams/first', { deny: ['bo/*'] })
    expect(await versions('bo/und')).toBe(404)
    await call('DELETE', '/upstreams/first')
    expect(await versions('bo/und')).toBe(404)
    expect(other.requests.filter((request) => request.includes('bo/und'))).toEqual([])
  })

  it('starts again for names that an administrator releases with their upstream', async () => {
    upstream.offer('re/leased', ['1.0.0'])
    other.offer('re/leased', ['2.0.0'])
    const { versions, call } = await aMirror(...both())
    expect(await versions('re/leased')).toEqual(['1.0.0'])
    await call('DELETE', '/upstreams/first?release=true')
    expect(await versions('re/leased')).toEqual(['2.0.0'])
  })

  it('starts again for names that an administrator releases after their upstream was removed', async () => {
    upstream.offer('re/leased-later', ['1.0.0'])
    other.offer('re/leased-later', ['2.0.0'])
    for (const which of ['first', encodeURIComponent(upstream.url)]) {
      const { versions, call } = await aMirror(...both())
      const release = async () => (await call('DELETE', `/upstreams/${which}?release=true`)).statusCode
      expect(await versions('re/leased-later')).toEqual(['1.0.0'])
      expect((await call('DELETE', '/upstreams/first')).statusCode).toBe(204)
      expect(await versions('re/leased-later')).toBe(404)
      expect(await release()).toBe(204)
      expect(await versions('re/leased-later')).toEqual(['2.0.0'])
      expect(await release(), 'no name is left').toBe(404)
    }
  })

  it('is as before when a removed upstream is added again, whatever its name and rules are', async () => {
    upstream.offer('ag/ain', ['1.1.0', '1.0.0'])
    upstream.offer('ag/ain', ['dev-main'], { isDev: true })
    other.offer('ag/ain', ['99.0.0'])
    const { versions, call, ask } = await aMirror(...both())
    const lastModified = async () =>
      Date.parse(String((await ask('p2/ag/ain.json')).headers['last-modified']))
    expect(await versions('ag/ain')).toEqual(['1.1.0', '1.0.0'])
    expect(await versions('ag/ain~dev')).toEqual([])
    const before = await lastModified()
    expect((await call('DELETE', '/upstreams/first')).statusCode).toBe(204)
    expect(await versions('ag/ain')).toBe(404)
    const added = await call('POST', '/upstreams', {
      url: upstream.url,
      name: 'back',
      deny: ['ag/ain:1.1.0'],
    })
    expect(added.statusCode).toBe(201)
    expect(await versions('ag/ain')).toEqual(['1.0.0'])
    expect(await lastModified()).toBeGreaterThan(before)
    const [event] = (await call('GET', '/events')).json()
    expect(event).toMatchObject({ action: 'add-upstream', details: { packages_taken_over: 1 } })
    const names = (await call('GET', '/upstreams')).json().map(({ name }: { name: string }) => name)
    expect(names, 'the order').toEqual(['back', 'second'])

    upstream.offer('ag/ain', ['1.2.0', '1.0.0'])
    await markStale(t.db, 'ag/ain')
    await expect.poll(() => versions('ag/ain')).toEqual(['1.2.0', '1.0.0'])
    expect(other.requests.filter((request) => request.includes('ag/ain'))).toEqual([])
  })

  it('is not changed by a new upstream with another URL, or in another repository', async () => {
    upstream.offer('st/ays', ['1.0.0'])
    other.offer('st/ays', ['99.0.0'])
    const { versions, call } = await aMirror({ url: upstream.url, name: 'first' })
    await versions('st/ays')
    await call('DELETE', '/upstreams/first')
    await call('POST', '/upstreams', { url: other.url, name: 'first' })
    await aMirror({ url: upstream.url, name: 'first' })
    expect(await versions('st/ays')).toBe(404)
  })

  it('is kept while the first upstream fails, because the second could belong to an attacker', async () => {
    upstream.fail('/p2/fail/ing.json', 500)
    other.offer('fail/ing', ['99.0.0'])
    const { versions } = await aMirror(...both())
    expect(await versions('fail/ing')).toBe(503)
    expect(other.requests.filter((request) => request.includes('fail/ing'))).toEqual([])
  })

  it('does not use the next upstream for a name that the first one would offer after approval', async () => {
    other.offer('wait/ing', ['99.0.0'])
    const { versions } = await aMirror(
      { url: upstream.url, name: 'first', mode: 'approved' },
      { url: other.url, name: 'x' },
    )
    expect(await versions('wait/ing')).toBe(404)
    expect(leaked('wait/ing')).toEqual([])
  })

  it('skips an upstream whose allowed patterns leave out the name', async () => {
    upstream.offer('pass/over', ['1.0.0'])
    other.offer('pass/over', ['2.0.0'])
    const { versions } = await aMirror(
      { url: upstream.url, name: 'first', allow: ['acme/*'] },
      { url: other.url, name: 'x' },
    )
    expect(await versions('pass/over')).toEqual(['2.0.0'])
  })
})

describe('patterns of allow and deny', () => {
  it.each([
    ['acme/lib', ['acme/*'], true, true],
    ['acme/lib', ['other/*', 'acme/lib'], true, true],
    ['acme/library', ['acme/lib'], false, false],
    ['acme/lib', ['*/lib'], true, true],
    // `_` is no wildcard.
    ['a_b/lib', ['a_b/*'], true, true],
    ['axb/lib', ['a_b/*'], false, false],
    // Only deny distinguishes them: a pattern with a constraint denies no whole package.
    ['acme/lib', ['acme/*:^6 || ^7'], true, false],
    ['acme/lib', ['acme/*:^6', 'acme/lib'], true, true],
    ['acme/lib', ['acme/lib', 'acme/*:^6'], true, true],
    ['acme/lib', [], false, false],
  ])('compare %s with %j', async (name, patterns, matches, isDenied) => {
    expect(await comparePatterns(t.db, name, patterns)).toEqual({ matches, isDenied })
  })
})
