import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { expand } from '../../support/registry-actors.ts'
import { addAdvisories } from '../../support/version-rows.ts'

const t = useApp()
const lib = '/packages/acme/lib'
const leak = { title: 'It leaks', affected_versions: '>=1.0,<1.2' }

/** A caller whose package acme/lib has these versions. */
async function aPackage(...versions: string[]) {
  const caller = await aCaller(t)
  for (const version of versions) await caller.push(version)
  const document = async (file = 'acme/lib.json') => (await caller.ask(`p2/${file}`)).json()
  const askAdvisories = (form: string) =>
    caller.ask('security-advisories', {
      method: 'POST',
      payload: form,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
  return { ...caller, document, askAdvisories }
}

describe('POST and DELETE …/advisories', () => {
  it('publish and withdraw an advisory, in both documents and with all fields (COMPOSER A8)', async () => {
    const { call, document } = await aPackage('1.0.0')
    expect((await document())['security-advisories']).toEqual([])
    const about = { cve: 'CVE-2026-1234', link: 'https://acme.example/1', severity: 'critical' }
    const made = await call('POST', `${lib}/advisories`, { ...leak, ...about })
    expect(made.statusCode).toBe(201)
    expect(made.json()).toEqual({
      advisory_id: expect.stringMatching(/^SVC-[a-z2-7]{4}-[a-z2-7]{4}-[a-z2-7]{4}$/),
      package: 'acme/lib',
      ...leak,
      ...about,
      reported_at: expect.any(String),
    })
    const { advisory_id } = made.json()
    for (const file of ['acme/lib.json', 'acme/lib~dev.json']) {
      expect((await document(file))['security-advisories']).toEqual([
        {
          advisoryId: advisory_id,
          packageName: 'acme/lib',
          affectedVersions: '>=1.0,<1.2',
          title: 'It leaks',
          ...about,
          reportedAt: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/),
          sources: [{ name: 'svc', remoteId: advisory_id }],
        },
      ])
    }
    expect((await call('GET', `${lib}/advisories`)).json()).toEqual([made.json()])
    expect((await call('DELETE', `${lib}/advisories/${advisory_id}`)).statusCode).toBe(204)
    expect((await document())['security-advisories']).toEqual([])
    expect((await call('DELETE', `${lib}/advisories/${advisory_id}`)).statusCode).toBe(404)
  })

  it('allow 500 advisories of a package, also when two are published at once', async () => {
    const { call, repository } = await aPackage('1.0.0')
    await addAdvisories(t.db, repository, 499)
    const made = await Promise.all([1, 2].map(() => call('POST', `${lib}/advisories`, leak)))
    expect(made.filter(({ statusCode }) => statusCode === 201)).toHaveLength(1)
    expect(made.find(({ statusCode }) => statusCode === 409)?.json()).toEqual({
      errcode: 9,
      errmsg: 'the package has 500 advisories, which is the maximum: withdraw one first',
    })
    await call('DELETE', `${lib}/advisories/SVC-full-1`)
    expect((await call('POST', `${lib}/advisories`, leak)).statusCode).toBe(201)
  })

  it('keep the advisories when a version is published after them', async () => {
    const { call, push, document } = await aPackage('1.0.0')
    await call('POST', `${lib}/advisories`, leak)
    await push('1.1.0')
    expect((await document())['security-advisories']).toHaveLength(1)
  })

  it.each([
    {},
    { ...leak, title: '' },
    { ...leak, title: 'a\u001b[31mb' },
    { ...leak, title: 'x'.repeat(256) },
    { ...leak, affected_versions: 'not a version!!' },
    { ...leak, affected_versions: 'dev-\ud800' },
    { ...leak, affected_versions: 'dev-\u202e' },
    { ...leak, title: 'It\u2028leaks' },
    { ...leak, affected_versions: '' },
    { ...leak, affected_versions: '1.0 '.repeat(2000) },
    { ...leak, cve: '2026-1' },
    { ...leak, link: 'javascript:alert(1)' },
    { ...leak, severity: 'awful' },
  ])('refuse %j: a broken one would break every project', async (body) => {
    const { call, document } = await aPackage('1.0.0')
    const response = await call('POST', `${lib}/advisories`, body)
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
    expect((await document())['security-advisories']).toEqual([])
  })

  it('withdraw only advisories of the package', async () => {
    const { call, push } = await aPackage('1.0.0')
    await push('1.0.0', { name: 'acme/other' })
    const { advisory_id } = (await call('POST', `${lib}/advisories`, leak)).json()
    expect((await call('DELETE', `/packages/acme/other/advisories/${advisory_id}`)).statusCode).toBe(404)
    expect((await call('POST', '/packages/acme/none/advisories', leak)).statusCode).toBe(404)
  })
})

describe('POST security-advisories (COMPOSER A8)', () => {
  it('returns the advisories of the requested packages, an empty list for clean ones, nothing for others', async () => {
    const { call, push, askAdvisories, ask, path } = await aPackage('1.0.0')
    await push('1.0.0', { name: 'acme/clean' })
    await call('POST', `${lib}/advisories`, leak)
    const root = (await ask('packages.json')).json()
    expect(root['security-advisories']).toEqual({
      metadata: true,
      'api-url': `http://svc.test${path}security-advisories`,
    })
    const response = await askAdvisories(
      'packages%5B0%5D=acme%2Fclean&packages[]=Acme/Lib&packages[7]=monolog/monolog',
    )
    expect([response.statusCode, response.headers['content-type']]).toEqual([200, 'application/json'])
    expect(response.json()).toEqual({
      advisories: {
        'acme/clean': [],
        'acme/lib': [expect.objectContaining({ affectedVersions: '>=1.0,<1.2', title: 'It leaks' })],
      },
    })
  })

  it('accepts any body, and refuses more packages than the limit', async () => {
    const { askAdvisories } = await aPackage('1.0.0')
    for (const form of [
      '',
      'packages=acme/lib',
      'x',
      '%',
      'packages[]=%00',
      '{"packages":[]}',
      'packages[]=%ff',
    ]) {
      expect((await askAdvisories(form)).json()).toEqual({ advisories: {} })
    }
    const many = (count: number) =>
      Array.from({ length: count }, (_, i) => `packages[${i}]=acme/p${i}`).join('&')
    expect((await askAdvisories(many(1000))).statusCode).toBe(200)
    const response = await askAdvisories(many(1001))
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
    expect((await askAdvisories('x'.repeat(600_000))).statusCode).toBe(413)
  })

  it('needs the permission to pull', async () => {
    const { ask } = await aPackage('1.0.0')
    const response = await ask('security-advisories', {
      method: 'POST',
      headers: { authorization: undefined },
    })
    expect(response.statusCode).toBe(401)
  })
})

describe('POST and DELETE …/<version>/quarantine (COMPOSER A8)', () => {
  it('remove a version from the metadata, and make a current Composer reject it', async () => {
    const { call, document, ask, path } = await aPackage('1.0.0', '1.1.0-beta.2', '1.2.0')
    const before = await document()
    const root = async () => (await ask('packages.json')).body
    const rootBefore = await root()
    const reason = 'steals passwords'
    const response = await call('POST', `${lib}/1.1.0-beta.2/quarantine`, { reason })
    expect([response.statusCode, response.json()]).toEqual([
      200,
      { version: '1.1.0-beta.2', quarantine_reason: reason },
    ])
    const during = await document()
    expect(expand(JSON.stringify(during)).map(({ version }) => version)).toEqual(['1.2.0', '1.0.0'])
    const filter = {
      malware: [
        {
          constraint: '==1.1.0-beta.2',
          reason,
          id: expect.stringMatching(/^quarantine-\d+$/),
          url: `http://svc.test${path.replace('/-/packages/', '')}/packages/acme/lib`,
          source: 'svc',
        },
      ],
    }
    expect([during.filter, (await document('acme/lib~dev.json')).filter]).toEqual([filter, filter])
    expect((await call('GET', `${lib}/1.1.0-beta.2`)).json()).toMatchObject({
      quarantined_at: expect.any(String),
      quarantine_reason: reason,
    })

    expect((await call('DELETE', `${lib}/1.1.0-beta.2/quarantine`)).statusCode).toBe(204)
    expect(await document()).toEqual(before)
    // Composer caches packages.json for minutes, so its content must not depend on quarantines.
    expect(await root()).toBe(rootBefore)
    const again = await call('DELETE', `${lib}/1.1.0-beta.2/quarantine`)
    expect([again.statusCode, again.json().errcode]).toEqual([409, 9])
  })

  it('name the version as uploaded, because Composer normalizes the constraint again', async () => {
    const { call, document } = await aPackage('1.0.0-STABLE', '1.0.0')
    await call('POST', `${lib}/1.0.0-STABLE/quarantine`)
    // Normalised once, this version is 1.0.0.0-stable. Normalised twice, it is 1.0.0.0.
    const { filter } = (await document()) as { filter?: { malware: { constraint: string }[] } }
    expect(filter?.malware.map(({ constraint }) => constraint)).toEqual(['==1.0.0-STABLE'])
  })

  it('outlive deletion, restore and purge', async () => {
    const { call, document } = await aPackage('1.0.0')
    await call('POST', `${lib}/1.0.0/quarantine`)
    await call('DELETE', `${lib}/1.0.0`)
    await call('POST', `${lib}/1.0.0/restore`)
    expect((await document()).packages['acme/lib']).toEqual([])
    await call('DELETE', `${lib}/1.0.0?purge=true`)
    expect((await document()).filter.malware).toHaveLength(1)
  })

  it('write a dev- version as Composer’s constraint has it', async () => {
    const { call, document } = await aPackage('1.0.0-foo')
    await call('POST', `${lib}/1.0.0-foo/quarantine`)
    expect((await document('acme/lib~dev.json')).filter.malware[0].constraint).toBe('==dev-1.0.0-foo')
  })

  it.each([{ reason: '' }, { reason: 'x'.repeat(501) }, { reason: 'a\nb' }, { reason: 1 }])(
    'refuse %j',
    async (body) => {
      const { call } = await aPackage('1.0.0')
      expect((await call('POST', `${lib}/1.0.0/quarantine`, body)).statusCode).toBe(400)
    },
  )

  it('respond with 404 for a version that is not there', async () => {
    const { call } = await aPackage('1.0.0')
    for (const method of ['POST', 'DELETE'] as const) {
      expect((await call(method, `${lib}/3.0.0/quarantine`)).statusCode).toBe(404)
    }
  })
})

describe('GET filter.json (COMPOSER A8)', () => {
  async function aFilter(...versions: string[]) {
    const caller = await aPackage(...versions)
    const ask = (since?: string) =>
      caller.ask('filter.json', { headers: since === undefined ? {} : { 'if-modified-since': since } })
    return { ...caller, ask, of: async () => (await ask()).json() }
  }

  it('exists before the first quarantine, and names each quarantined version of each package', async () => {
    const { call, push, ask, of } = await aFilter('1.0.0', '1.1.0', '2.0.0-foo')
    await push('1.0.0', { name: 'acme/other' })
    const response = await ask()
    expect([response.statusCode, response.headers['content-type']]).toEqual([200, 'application/json'])
    expect(response.json()).toEqual({ filter: { malware: {} } })
    for (const version of ['2.0.0-foo', '1.1.0']) await call('POST', `${lib}/${version}/quarantine`)
    await call('POST', '/packages/acme/other/1.0.0/quarantine')
    expect(await of()).toEqual({
      filter: { malware: { 'acme/lib': '==1.1.0 || ==dev-2.0.0-foo', 'acme/other': '==1.0.0' } },
    })
    await call('DELETE', `${lib}/1.1.0/quarantine`)
    await call('DELETE', '/packages/acme/other')
    expect(await of()).toEqual({
      filter: { malware: { 'acme/lib': '==dev-2.0.0-foo', 'acme/other': '==1.0.0' } },
    })
  })

  it('responds with 304 until a quarantine changes, and then has a later date', async () => {
    const { call, ask } = await aFilter('1.0.0')
    const dates: string[] = []
    for (const method of [undefined, 'POST', 'DELETE', 'POST'] as const) {
      if (method) await call(method, `${lib}/1.0.0/quarantine`)
      const { headers, statusCode } = await ask(dates.at(-1))
      expect(statusCode).toBe(200)
      dates.push(String(headers['last-modified']))
      const same = await ask(dates.at(-1))
      expect([same.statusCode, same.body]).toEqual([304, ''])
      // A different reason does not change this document.
      if (method === 'POST') await call('POST', `${lib}/1.0.0/quarantine`, { reason: 'another' })
      expect((await ask(dates.at(-1))).statusCode).toBe(304)
    }
    const times = dates.map((date) => Date.parse(date))
    expect(times).toEqual([...new Set(times)].sort((a, b) => a - b))
  })

  it('is compressed for clients that accept it', async () => {
    const { call, ask } = await aPackage('1.0.0')
    await call('POST', `${lib}/1.0.0/quarantine`)
    const response = await ask('filter.json', { headers: { 'accept-encoding': 'gzip' } })
    expect(response.headers['content-encoding']).toBe('gzip')
    expect(gunzipSync(response.rawPayload).toString()).toBe((await ask('filter.json')).body)
  })

  it('requires the permission to pull, also with If-Modified-Since', async () => {
    const { ask, path } = await aFilter('1.0.0')
    const since = String((await ask()).headers['last-modified'])
    const stranger = await aCaller(t)
    for (const [authorization, status] of [
      [undefined, 401],
      [stranger.authorization, 404],
    ] as const) {
      const headers = { 'if-modified-since': since, ...(authorization && { authorization }) }
      expect((await t.app.inject({ url: `${path}filter.json`, headers })).statusCode).toBe(status)
    }
  })

  it('misses none of the quarantines that are set at the same time', async () => {
    const versions = Array.from({ length: 8 }, (_, i) => i)
    const { call, push, of } = await aFilter('1.0.0')
    for (const i of versions) await push('1.0.0', { name: `acme/p${i}` })
    await Promise.all(versions.map((i) => call('POST', `/packages/acme/p${i}/1.0.0/quarantine`)))
    expect(Object.keys((await of()).filter.malware)).toHaveLength(8)
  })
})

describe('the archive of a version in quarantine', () => {
  it('is refused with 410, and a warning that Composer prints', async () => {
    const { call, push, ask } = await aPackage()
    const { url, sha256 } = (await push('1.0.0')).json()
    const dist = url.slice(url.indexOf('dist/'))
    expect((await ask(dist)).statusCode).toBe(200)
    await call('POST', `${lib}/1.0.0/quarantine`, { reason: 'steals passwords' })
    for (const headers of [{}, { 'if-none-match': `"${sha256}"` }, { range: 'bytes=0-9' }]) {
      const refused = await ask(dist, { headers })
      expect([refused.statusCode, refused.headers['content-type']]).toEqual([410, 'application/json'])
      expect(refused.headers['cache-control']).toBe('no-store')
      expect(refused.json()).toEqual({
        errcode: 9,
        errmsg: 'version 1.0.0 is in quarantine',
        warning: 'acme/lib 1.0.0 is in quarantine and cannot be installed: steals passwords',
      })
    }
    await call('DELETE', `${lib}/1.0.0`)
    expect((await ask(dist)).statusCode).toBe(410)
    await call('DELETE', `${lib}/1.0.0/quarantine`)
    expect((await ask(dist)).statusCode).toBe(200)
  })
})

describe('making a package less safe again (CONTRACT 6.5)', () => {
  it.each([
    ['a developer with every scope', 'developer', undefined],
    ['an admin whose token lacks registry-manage:rw', 'admin', ['registry-package:rw', 'registry-manage:r']],
  ] as const)('is not for %s, who may warn', async (_, role, scopes) => {
    const { push, call, ask } = await aCaller(t, { role, ...(scopes && { scopes: [...scopes] }) })
    await push('1.0.0')
    expect((await call('POST', `${lib}/1.0.0/quarantine`)).statusCode).toBe(200)
    const advisory = await call('POST', `${lib}/advisories`, leak)
    expect(advisory.statusCode).toBe(201)
    for (const below of [`${lib}/1.0.0/quarantine`, `${lib}/advisories/${advisory.json().advisory_id}`]) {
      const refused = await call('DELETE', below)
      expect([refused.statusCode, refused.json().errcode]).toEqual([403, 7])
    }
    expect((await ask('p2/acme/lib.json')).json()).toMatchObject({
      filter: { malware: [expect.anything()] },
      'security-advisories': [expect.objectContaining({ title: 'It leaks' })],
    })
  })

  it('names the scope that is missing', async () => {
    const { push, call } = await aCaller(t, { scopes: ['registry-package:rw'] })
    await push('1.0.0')
    await call('POST', `${lib}/1.0.0/quarantine`)
    const refused = await call('DELETE', `${lib}/1.0.0/quarantine`)
    expect(refused.headers['www-authenticate']).toContain(
      'error="insufficient_scope", scope="registry-manage:rw"',
    )
  })
})
