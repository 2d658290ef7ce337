import { describe, expect, it } from 'vitest'
import { aGroup, aRepository, groupOf } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { addPackages, markDeleted } from '../support/package-rows.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aVendorClaim } from '../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream({
  search: '/search.json?q=%query%&type=%type%',
  list: '/list.json',
  'providers-api': '/providers/%package%.json',
})

/** A repository with its own package, and an upstream. */
async function aMirror(vendor: string, about: Parameters<typeof aCaller>[1] = {}) {
  const caller = await aCaller(t, about)
  await caller.call('POST', '/upstreams', { url: upstream.url })
  await caller.push('1.0.0', { name: `${vendor}/secret` })
  const audit = (...names: string[]) =>
    caller.ask('security-advisories', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: new URLSearchParams(names.map((name) => ['packages[]', name])).toString(),
    })
  return { ...caller, audit }
}

describe('GET list.json with upstreams', () => {
  const listing = useUpstream({
    'available-packages': ['named/one', 'named/two', 'known/denied', 'named-own/lib'],
    'available-package-patterns': ['known/*', 'own/*'],
  })
  const inline = useUpstream({
    'metadata-url': undefined,
    packages: { 'inline/lib': { '1.0.0': { name: 'inline/lib', version: '1.0.0', type: 'metapackage' } } },
  })

  it('lists our names, those of packages that were served, and those that upstreams list in packages.json', async () => {
    const caller = await aCaller(t)
    for (const { url } of [listing, inline])
      await caller.call('POST', '/upstreams', { url, deny: ['known/denied'], name: url.slice(-4) })
    await caller.push('1.0.0', { name: 'listing/own' })
    for (const name of ['known/lib', 'known/late', 'own/ours']) {
      listing.offer(name, ['1.0.0'])
      expect((await caller.ask(`p2/${name}.json`)).statusCode).toBe(200)
    }
    // Ours since the upstream has served them.
    await addPackages(t.db, caller.repository, ['own/ours', 'named-own/lib'])
    const list = async (query = '') => (await caller.ask(`list.json${query}`)).json().packageNames
    const all = ['inline/lib', 'known/late', 'known/lib', 'listing/own', 'named/one', 'named/two']
    expect(await list()).toEqual(all)
    expect(await list('?after=known/lib')).toEqual(all.slice(3))
    expect(await list('?filter=*/l*')).toEqual(['inline/lib', 'known/late', 'known/lib'])
    expect(await list('?vendor=named')).toEqual(['named/one', 'named/two'])
    expect(await list('?filter=known_lib')).toEqual([])
  })

  it('filters the names of an upstream that ignores the filter', async () => {
    const { ask } = await aMirror('filtering')
    const packageNames = [
      ...Array.from({ length: 2000 }, (_, i) => `other/lib${i}`),
      'psr/log',
      'symfony/console',
      'symfony/psr',
      ...Array.from({ length: 2000 }, (_, i) => `others/lib${i}`),
    ]
    for (const path of ['filter=psr%2F*', 'vendor=symfony&filter=*psr'])
      upstream.put(`/list.json?${path}`, { packageNames })
    expect((await ask('list.json?filter=psr/*')).json()).toEqual({ packageNames: ['psr/log'] })
    expect((await ask('list.json?vendor=symfony&filter=*psr')).json()).toEqual({
      packageNames: ['symfony/psr'],
    })
  })
})

describe('search, list and providers with upstreams', () => {
  it('add allowed packages of upstreams, and none with a name of ours', async () => {
    const { ask } = await aMirror('acme')
    const results = [
      { name: 'psr/log', description: 'Logs' },
      { name: 'acme/evil', description: 'Not ours' },
      { name: 'Bad Name' },
    ]
    upstream.put('/search.json?q=log&type=', { results })
    upstream.put('/list.json?vendor=psr&filter=psr%2F*', { packageNames: ['psr/log', 'acme/evil', 7] })
    upstream.put('/providers/psr/log-implementation.json', {
      providers: [{ name: 'monolog/monolog', description: 'm', type: 'library' }, { name: 'acme/evil' }],
    })
    expect((await ask('search.json?q=log')).json()).toEqual({ results: [results[0]], total: 1 })
    expect((await ask('list.json?vendor=psr&filter=psr/*')).json()).toEqual({ packageNames: ['psr/log'] })
    expect((await ask('providers/psr/log-implementation.json')).json().providers).toMatchObject([
      { name: 'monolog/monolog' },
    ])
  })

  it('send no name and no vendor of ours upstream, in whatever form', async () => {
    const { ask } = await aMirror('hid-den')
    const queries = [
      'hid-den/secret',
      'hid-den',
      'HID-DEN secret',
      'x hid-den-thing',
      'x-hid-den',
      'hid-den/unpublished',
      '"hid-den/secret"',
      'x,hid-den/secret',
      '(hid-den)',
      'hid-den:secret',
      'hid-den\\secret',
      'vendor=hid-den&x',
    ]
    const filters = ['hid-den/*', 'hid-de*', '*den/secret', 'h*n/*', '"hid-den/x', 'x/hid-den', '"hid-d*\\']
    for (const query of queries)
      expect((await ask(`search.json?q=${encodeURIComponent(query)}`)).statusCode).toBe(200)
    for (const filter of filters)
      expect((await ask(`list.json?filter=${encodeURIComponent(filter)}`)).statusCode).toBe(200)
    await ask('list.json?vendor=hid-den')
    await ask('list.json?vendor=hid-d*')
    await ask('providers/hid-den/secret.json')
    const sent = upstream.requests.map((request) => decodeURIComponent(request).toLowerCase())
    expect(sent.filter((request) => /den|hid-d|h\*n/.test(request))).toEqual([])
  })

  it('send other names, also those of exceptions and of vendors that only look like ours', async () => {
    const { ask, repository } = await aMirror('exc')
    await aVendorClaim(t.db, await groupOf(t.db, repository), 'exc', ['exc/open-*'])
    await ask('search.json?q=exc/open-lib')
    await ask('search.json?q=exchange')
    await ask('list.json?filter=*/console')
    await ask('providers/exc/open-lib.json')
    expect(upstream.requests.map((request) => decodeURIComponent(request))).toEqual(
      expect.arrayContaining([
        expect.stringContaining('q=exc/open-lib'),
        expect.stringContaining('q=exchange'),
        expect.stringContaining('filter=*/console'),
        expect.stringContaining('providers/exc/open-lib'),
      ]),
    )
  })

  it('send no name of a package of the group upstream that matches an exception', async () => {
    const group = await aGroup(t.db)
    const repository = await aRepository(t.db, { group })
    const { ask, push, audit } = await aMirror('patched', { repository })
    await aVendorClaim(t.db, group, 'patched', ['patched/*'])
    const sibling = await aRepository(t.db, { group })
    await addPackages(t.db, sibling, ['patched/sib.ling'])
    expect((await push('1.0.0', { name: 'patched/gone' })).statusCode).toBe(201)
    await markDeleted(t.db, repository, { name: 'patched/gone' })
    const names = ['patched/secret', 'patched/sib.ling', 'patched/gone']
    for (const name of names) {
      for (const query of [name, `x ${name}`, `${name}:1.0`, `patched/free,${name}`, `"${name}`, `${name}-x`])
        await ask(`search.json?q=${encodeURIComponent(query)}`)
      await ask(`search.json?q=free&type=${encodeURIComponent(name)}`)
      await ask(`list.json?filter=${encodeURIComponent(name)}`)
      await ask(`providers/${name}.json`)
    }
    await ask('p2/patched/secret.json')
    await audit('patched/secret', 'patched/gone')
    await ask('search.json?q=patched/secrets')
    await ask('search.json?q=patched/sibxling')
    await ask('providers/patched/free.json')
    const sent = upstream.requests.map((request) => decodeURIComponent(request))
    expect(sent.filter((request) => request.includes('patched'))).toEqual([
      'GET /search.json?q=patched/secrets&type=',
      'GET /search.json?q=patched/sibxling&type=',
      'GET /providers/patched/free.json',
    ])
  })

  it('cut a long query between characters', async () => {
    const { ask } = await aMirror('cuts')
    const smile = encodeURIComponent('😀')
    for (const letters of [199, 200, 398, 399]) {
      const query = `${'a'.repeat(letters)}${smile}${smile}`
      expect((await ask(`search.json?q=${query}&type=${query}`)).statusCode).toBe(200)
      expect((await ask(`list.json?filter=${query}&vendor=${query}`)).statusCode).toBe(200)
    }
    const cut = `${'a'.repeat(199)}${smile}`
    expect(upstream.requests).toContain(`GET /search.json?q=${cut}&type=${cut}`)
    await ask(`search.json?q=${smile.repeat(300)}`)
    expect(upstream.requests).toContain(`GET /search.json?q=${smile.repeat(200)}&type=`)
  })

  it('contain nothing that PHP cannot read, and no control characters', async () => {
    const { ask } = await aMirror('php')
    const found = (description: string) => ({ name: 'psr/cut', description })
    const describe = async (description: string) => {
      upstream.put('/search.json?q=cut&type=', { results: [found(description)] })
      return (await ask('search.json?q=cut')).json().results[0].description
    }
    expect(await describe(`${'x'.repeat(499)}😀😀`)).toBe(`${'x'.repeat(499)}😀…`)
    expect(await describe('one\ud83d \u001b[31mline\nof text')).toBe('one line of text')
    upstream.put('/providers/psr/cut-implementation.json', { providers: [found('\ud83d'), found('good')] })
    expect((await ask('providers/psr/cut-implementation.json')).json()).toEqual({
      providers: [found('good')],
    })
  })

  it('continue to work while an upstream fails', async () => {
    const { ask } = await aMirror('works')
    upstream.fail('/search.json?q=secret&type=', 500)
    expect((await ask('search.json?q=secret')).json().results).toMatchObject([{ name: 'works/secret' }])
  })
})

describe('filter.json with upstreams', () => {
  it('contains the versions that the upstream flags', async () => {
    const { ask } = await aMirror('filtered')
    const flag = (constraint: string) => ({ constraint, reason: 'steals', id: 'x' })
    upstream.offer('mal/ware', ['1.1.0', '1.0.0'], {
      document: { filter: { malware: [flag('1.1.0'), flag('not a constraint !')] } },
    })
    await ask('p2/mal/ware.json')
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: { 'mal/ware': '1.1.0' } } })
  })

  it('flags no version of a package that has become our own', async () => {
    const { ask, push, repository } = await aMirror('flagged')
    upstream.offer('mal/own', ['1.0.0'], {
      document: { filter: { malware: [{ constraint: '*', reason: 'steals', id: 'x' }] } },
    })
    await ask('p2/mal/own.json')
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: { 'mal/own': '*' } } })
    await aVendorClaim(t.db, await groupOf(t.db, repository), 'mal', ['mal/*'])
    expect((await push('1.0.0', { name: 'mal/own' })).statusCode).toBe(201)
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: {} } })
  })
})
