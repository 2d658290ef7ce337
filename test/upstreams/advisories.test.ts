import { afterEach, describe, expect, it, vi } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { type Fault, upstreamsHere, useUpstream } from '../support/upstream.ts'
import { forgetRootKey, padDocument } from '../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const root = { 'security-advisories': { metadata: true, 'api-url': '/advisories' } }
const upstream = useUpstream(root)
const second = useUpstream({ ...root, 'available-package-patterns': ['un/*', 'pub/*'] })
const plain = useUpstream()
const inDocuments = useUpstream({ 'security-advisories': { metadata: true } })

afterEach(() => {
  vi.restoreAllMocks()
})

/** A repository with its own package, and upstreams. */
async function aMirror(vendor: string, ...upstreams: (typeof upstream)[]) {
  const caller = await aCaller(t)
  for (const [i, { url }] of (upstreams.length === 0 ? [upstream] : upstreams).entries())
    expect((await caller.call('POST', '/upstreams', { url, name: `up${i}` })).statusCode).toBe(201)
  await caller.push('1.0.0', { name: `${vendor}/secret` })
  const audit = async (...names: string[]) => {
    const response = await caller.ask('security-advisories', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: new URLSearchParams(names.map((name) => ['packages[]', name])).toString(),
    })
    return response.statusCode === 200 ? response.json().advisories : response.statusCode
  }
  return { ...caller, audit }
}

const advisory = (name: string, id = `PKSA-${name}`) => ({
  advisoryId: id,
  packageName: name,
  affectedVersions: '<2',
  title: 'Bad',
  cve: null,
  link: 'https://example.com',
  reportedAt: '2026-01-01 00:00:00',
  sources: [],
})

/** The date of an advisory without one. */
const none = '1970-01-01 00:00:00'

const largeAdvisory = (name: string, id: string, characters: number) => ({
  ...advisory(name, id),
  title: 'x'.repeat(characters),
})

/** Makes an upstream respond with the advisories. Returns the names of each request. */
function advise(at: typeof upstream, advisories: unknown): string[][] {
  const sent: string[][] = []
  const respond: Fault = (request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString()
    })
    request.on('end', () => {
      sent.push(new URLSearchParams(body).getAll('packages[]').toSorted())
      response.end(JSON.stringify({ advisories }))
    })
  }
  at.fail('/advisories', respond)
  return sent
}

/** Makes the advisories in memory too old, or lets some seconds pass. */
function wait(seconds = 6 * 60) {
  const later = Date.now() + seconds * 1000
  vi.spyOn(Date, 'now').mockReturnValue(later)
}

describe('POST security-advisories with upstreams', () => {
  it('merges our advisories with those of the upstream, and sends it no names of ours', async () => {
    const { audit, ask } = await aMirror('ours')
    upstream.offer('pub/lib', ['1.0.0'])
    await ask('p2/pub/lib.json')
    const advisories = {
      'pub/lib': [advisory('pub/lib'), 'nonsense'],
      'ours/secret': [advisory('ours/secret')],
      'pub/other': [advisory('pub/other')],
    }
    const sent = advise(upstream, advisories)
    expect(await audit('pub/lib', 'ours/secret', 'ours/other', 'un/known', 'No Name')).toEqual({
      'ours/secret': [],
      'pub/lib': [advisory('pub/lib')],
    })
    expect(sent).toEqual([['pub/lib', 'un/known']])

    upstream.fail('/advisories', 500)
    const known = { 'pub/lib': [advisory('pub/lib')] }
    expect(await audit('pub/lib'), 'from memory').toEqual(known)
    wait()
    expect(await audit('pub/lib'), 'the last ones').toEqual(known)
  })

  it('is 503 while an upstream without stored advisories fails, because an empty list would mean "no advisories"', async () => {
    const { audit, ask } = await aMirror('ours2')
    upstream.offer('pub/other', ['1.0.0'])
    await ask('p2/pub/other.json')
    upstream.fail('/advisories', 500)
    expect(await audit('pub/other')).toBe(503)
    expect(await audit('un/bound')).toBe(503)
    expect(await audit('ours2/secret')).toEqual({ 'ours2/secret': [] })
  })

  it('are waited for no longer than Composer waits for svc, so that it prints which one fails', async () => {
    const { audit } = await aMirror('ours13')
    upstream.fail('/advisories', (_request, response) => {
      setTimeout(() => response.end(JSON.stringify({ advisories: {} })), 9_000)
    })
    expect(await audit('un/late')).toBe(503)
  })

  it('are not asked again about a name for 30 seconds after a failure', async () => {
    const { audit } = await aMirror('ours5')
    upstream.fail('/advisories', 500)
    const count = () => upstream.requests.filter((request) => request === 'POST /advisories').length
    const before = count()
    for (let i = 0; i < 3; i += 1) expect(await audit('un/failed')).toBe(503)
    expect(count() - before).toBe(1)
    advise(upstream, { 'un/failed': [advisory('un/failed')] })
    expect(await audit('un/failed')).toBe(503)
    wait(31)
    expect(await audit('un/failed')).toEqual({ 'un/failed': [advisory('un/failed')] })
    upstream.fail('/advisories', 500)
    wait()
    const failing = count()
    for (let i = 0; i < 3; i += 1)
      expect(await audit('un/failed'), 'the last ones').toEqual({ 'un/failed': [advisory('un/failed')] })
    expect(count() - failing).toBe(1)
  })

  it('asks all upstreams that may have a name about one that is not bound yet', async () => {
    const { audit, ask, call } = await aMirror('ours3', upstream, second)
    await call('PATCH', '/upstreams/up1', { deny: ['un/denied'] })
    await call('PATCH', '/upstreams/up0', { deny: ['un/denied', 'un/second'] })
    upstream.offer('pub/bound', ['1.0.0'])
    await ask('p2/pub/bound.json')
    const one = advise(upstream, {
      'un/locked': [advisory('un/locked', 'A')],
      'un/denied': [advisory('un/denied')],
      'elsewhere/x': { 1: advisory('elsewhere/x') },
    })
    const two = advise(second, {
      'un/locked': [advisory('un/locked', 'A'), advisory('un/locked', 'B')],
      'un/second': [advisory('un/second')],
      'pub/bound': [advisory('pub/bound')],
    })
    const names = ['un/locked', 'un/clean', 'un/denied', 'un/second', 'elsewhere/x', 'pub/bound']
    const expected = {
      'un/locked': [advisory('un/locked', 'A'), advisory('un/locked', 'B')],
      'un/second': [advisory('un/second')],
      'elsewhere/x': [advisory('elsewhere/x')],
      'pub/bound': [],
    }
    expect(await audit(...names, 'ours3/secret', 'ours3/other')).toEqual({ 'ours3/secret': [], ...expected })
    expect(await audit(...names), 'from memory').toEqual(expected)
    expect(one).toEqual([['elsewhere/x', 'pub/bound', 'un/clean', 'un/locked']])
    expect(two).toEqual([['un/clean', 'un/locked', 'un/second']])
  })

  it('sends no name that waits for an approval', async () => {
    const { audit, call } = await aMirror('ours4')
    await call('PATCH', '/upstreams/up0', { mode: 'approved' })
    await call('POST', '/mirrored-packages/approve', { packages: ['un/approved'] })
    const sent = advise(upstream, { 'un/approved': [advisory('un/approved')] })
    expect(await audit('un/approved', 'un/waiting')).toEqual({ 'un/approved': [advisory('un/approved')] })
    expect(sent).toEqual([['un/approved']])
  })

  it.each([
    ['404', 404],
    ['410', 410],
    ['no advisories', (_: unknown, response: { end: (text: string) => void }) => response.end('{}')],
    [
      'a list',
      (_: unknown, response: { end: (text: string) => void }) => response.end('{"advisories":["x"]}'),
    ],
  ])('keeps the last advisories when the upstream returns %s', async (_, fault) => {
    const { audit } = await aMirror('keeps')
    const known = { 'pub/kept': [advisory('pub/kept')] }
    advise(upstream, known)
    expect(await audit('pub/kept')).toEqual(known)
    upstream.fail('/advisories', fault as Fault | number)
    wait()
    expect(await audit('pub/kept')).toEqual(known)
    expect(await audit('pub/new')).toBe(503)
    // PHP writes an object without keys like this.
    advise(upstream, [])
    wait()
    expect(await audit('pub/kept')).toEqual({})
  })

  it('drops and replaces what ends composer audit with an error', async () => {
    const { audit } = await aMirror('malformed')
    const id = 'A1'
    const sources = [{ name: 'GitHub', remoteId: 'GHSA-1' }]
    const minimal = { advisoryId: id, affectedVersions: '<2', title: id, sources: [], reportedAt: none }
    const cases: [object, object[]][] = [
      [{ affectedVersions: 'no constraint !' }, []],
      [{ affectedVersions: '' }, []],
      [{ affectedVersions: ['<2'] }, []],
      [{}, [minimal]],
      ...['yesterday?', '2026-13-01 00:00:00', '2026-01-01 25:00:00', '2026-01-01T00:00:00+25:00', '', 1].map(
        (reportedAt): [object, object[]] => [{ reportedAt }, [minimal]],
      ),
      ...[
        '2026-01-01',
        '2026-01-31 23:59:59',
        '2026-01-31T23:59:59.123456Z',
        '2026-01-31T23:59:59+02:00',
      ].map((reportedAt): [object, object[]] => [{ reportedAt }, [{ ...minimal, reportedAt }]]),
      [{ cve: 1, link: ['https://example.com'], severity: {} }, [minimal]],
      [
        { cve: 'CVE-2026-1', link: null, severity: 'high' },
        [{ ...minimal, cve: 'CVE-2026-1', link: null, severity: 'high' }],
      ],
      [{ sources: ['GitHub', null, { name: 'x' }, ...sources] }, [{ ...minimal, sources }]],
      [{ sources: { 0: sources[0] } }, [minimal]],
    ]
    const named = cases.map(([keys, expected], i) => ({ name: `pub/case${i}`, keys, expected }))
    advise(
      upstream,
      Object.fromEntries(
        named.map(({ name, keys }) => [name, [{ advisoryId: id, affectedVersions: '<2', ...keys }]]),
      ),
    )
    const said = await audit(...named.map(({ name }) => name))
    for (const { name, keys, expected } of named) expect([keys, said[name] ?? []]).toEqual([keys, expected])
  })

  it('leaves them out of documents, too, because composer update reads those', async () => {
    const { ask } = await aMirror('rendered', inDocuments)
    const good = advisory('doc/rendered')
    const listed = { 1: { ...good, affectedVersions: 'no constraint !' }, 3: good, 4: 'nonsense' }
    const documentWith = async (name: string, advisories: unknown) => {
      inDocuments.offer(name, ['1.0.0'], { document: { 'security-advisories': advisories } })
      return (await ask(`p2/${name}.json`)).json()['security-advisories']
    }
    expect(await documentWith('doc/rendered', listed)).toEqual([good])
    expect(await documentWith('doc/odd', 'nonsense')).toBe('nonsense')
  })

  it.each([
    [
      'all but id and versions',
      { title: undefined, sources: undefined, reportedAt: undefined, link: undefined },
    ],
    ['its title', { title: undefined }],
    ['its sources', { sources: { 0: 'no list' } }],
    ['a readable date', { reportedAt: 'yesterday?' }],
  ])('stay partial in documents without %s, so that Composer asks the API for the CVE', async (_, keys) => {
    const { ask, audit } = await aMirror('partial')
    const name = 'pub/partial'
    const full = { ...advisory(name), cve: 'CVE-2026-1' }
    upstream.offer(name, ['1.0.0'], { document: { 'security-advisories': [{ ...full, ...keys }] } })
    const partial = { advisoryId: full.advisoryId, affectedVersions: full.affectedVersions }
    expect((await ask(`p2/${name}.json`)).json()['security-advisories']).toEqual([partial])
    advise(upstream, { [name]: [full] })
    expect(await audit(name)).toEqual({ [name]: [full] })
  })

  it('keeps the last advisories when those of a name are too large, and is 503 without them', async () => {
    const { audit } = await aMirror('bounds')
    const known = { 'pub/grows': [advisory('pub/grows')] }
    advise(upstream, known)
    expect(await audit('pub/grows')).toEqual(known)
    const more = Array.from({ length: 11 }, (_, i) => largeAdvisory('pub/grows', `A${i}`, 100_000))
    advise(upstream, { 'pub/grows': more, 'pub/huge': more })
    wait()
    expect(await audit('pub/grows')).toEqual(known)
    expect(await audit('pub/huge')).toBe(503)
    advise(upstream, { 'pub/grows': more.slice(0, 10) })
    wait()
    expect(await audit('pub/grows')).toEqual({ 'pub/grows': more.slice(0, 10) })
  })

  it('keeps a limited size of advisories in memory, and returns all of a larger response', async () => {
    const { audit } = await aMirror('many')
    const names = Array.from({ length: 12 }, (_, i) => `pub/lib${i + 10}`)
    const sent = advise(
      upstream,
      Object.fromEntries(names.map((name) => [name, [largeAdvisory(name, name, 1_000_000)]])),
    )
    expect(Object.keys(await audit(...names)).toSorted()).toEqual(names.toSorted())
    const [first, last] = [names[0] ?? '', names.at(-1) ?? '']
    for (const name of [last, first]) expect(Object.keys(await audit(name))).toEqual([name])
    expect(
      sent.map(({ length }) => length),
      'the last one is in memory',
    ).toEqual([12, 1])
    expect(sent.at(-1)).toEqual([first])
  })

  it('takes them from documents when the upstream has them only there, and completes them for Composer', async () => {
    const { audit, ask } = await aMirror('stored', inDocuments)
    const full = advisory('doc/lib')
    const offer = (name: string, advisories: unknown[], isDev = false) =>
      inDocuments.offer(name, [isDev ? 'dev-main' : '1.0.0'], {
        isDev,
        document: { 'security-advisories': advisories },
      })
    offer('doc/lib', [full, { advisoryId: 'PART', affectedVersions: '<1' }, { advisoryId: 'NO-VERSIONS' }])
    offer('doc/dev', [advisory('doc/dev')], true)
    offer('doc/clean', [])
    offer('doc/unbound', [advisory('doc/unbound')])
    for (const path of ['doc/lib', 'doc/lib~dev', 'doc/dev~dev', 'doc/clean']) await ask(`p2/${path}.json`)
    expect(await audit('doc/lib', 'doc/dev', 'doc/clean', 'doc/unbound')).toEqual({
      'doc/lib': [
        full,
        {
          advisoryId: 'PART',
          affectedVersions: '<1',
          title: 'PART',
          sources: [],
          reportedAt: none,
        },
      ],
      'doc/dev': [advisory('doc/dev')],
    })
  })

  it('takes them from the document of a name that became bound after its last audit', async () => {
    const { audit, ask } = await aMirror('late', inDocuments)
    inDocuments.offer('doc/late', ['1.0.0'], { document: { 'security-advisories': [advisory('doc/late')] } })
    expect(await audit('doc/late')).toEqual({})
    await ask('p2/doc/late.json')
    expect(await audit('doc/late')).toEqual({ 'doc/late': [advisory('doc/late')] })
  })

  it('takes none from documents when packages.json does not announce them there', async () => {
    const { audit, ask } = await aMirror('silent', plain)
    plain.offer('plain/lib', ['1.0.0'], { document: { 'security-advisories': [advisory('plain/lib')] } })
    await ask('p2/plain/lib.json')
    expect(await audit('plain/lib')).toEqual({})
  })

  it('takes them from documents after packages.json that an earlier release has read is read again', async () => {
    const { audit, ask, repository } = await aMirror('earlier', inDocuments)
    await forgetRootKey(t.db, repository, 'hasAdvisoriesInDocuments')
    inDocuments.offer('doc/early', ['1.0.0'], {
      document: { 'security-advisories': [advisory('doc/early')] },
    })
    await ask('p2/doc/early.json')
    expect(await audit('doc/early')).toEqual({ 'doc/early': [advisory('doc/early')] })
  })

  it('takes none from a document that is too large', async () => {
    const { audit, ask } = await aMirror('large', inDocuments)
    for (const name of ['doc/large', 'doc/small']) {
      inDocuments.offer(name, ['1.0.0'], { document: { 'security-advisories': [advisory(name)] } })
      await ask(`p2/${name}.json`)
    }
    // A reader of gzip ignores zeros at the end.
    await padDocument(t.db, 'doc/large', 4 * 1024 * 1024)
    expect(await audit('doc/large', 'doc/small')).toEqual({ 'doc/small': [advisory('doc/small')] })
  })
})
