import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Ajv } from 'ajv'
import formats from 'ajv-formats'
import { describe, expect, it } from 'vitest'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { jobs } from '../../src/web/server/jobs.ts'
import { verifyEmail } from '../support/account-rows.ts'
import { aDeployToken, aGroup, aGroupMember, anAccount, aPersonalToken, groupOf } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useAnotherProcess, useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { lockRow, openTransaction, untilWaiting } from '../support/locks.ts'
import { sendMails, useMailServer } from '../support/mail-server.ts'
import {
  addFinding,
  addLockedVersions,
  ageLockedPackages,
  countLockedPackages,
  fillEnvironments,
} from '../support/project-rows.ts'
import { latestId } from '../support/rows.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aVendorClaim } from '../support/upstream-rows.ts'

const mails = await useMailServer()
const t = useApp({ ...upstreamsHere, ...mails.environment })
const other = useAnotherProcess(t)
const upstream = useUpstream({ 'security-advisories': { metadata: true, 'api-url': '/advisories' } })

const schemas = resolve('node_modules/@cyclonedx/cyclonedx-library/res/schema')
const readSchema = (name: string) => JSON.parse(readFileSync(join(schemas, name), 'utf8'))
const ajv = new Ajv({ strict: false, validateFormats: true })
// The types of this package do not know that its default export is the function.
;(formats as unknown as typeof formats.default)(ajv)
for (const format of ['iri-reference', 'idn-email']) ajv.addFormat(format, true)
for (const name of ['spdx', 'jsf-0.82', 'cryptography-defs']) {
  const file = `${name}.SNAPSHOT.schema.json`
  const { $id: _, ...schema } = readSchema(file)
  ajv.addSchema(schema, `http://cyclonedx.org/schema/${file}`)
}
const validateSbom = ajv.compile(readSchema('bom-1.6.SNAPSHOT.schema.json'))

/** A lock file with these packages. */
function aLock(packages: Record<string, string>, dev: Record<string, string> = {}): string {
  const list = (some: Record<string, string>) =>
    Object.entries(some).map(([name, version]) => ({
      name,
      version,
      type: 'library',
      license: ['MIT'],
      dist: {
        type: 'zip',
        url: `https://user:secret@dist.example.com/${name}.zip?token=secret`,
        reference: 'abc',
        shasum: 'a'.repeat(40),
      },
      require: { php: '>=8.1', 'acme/lib': '^1.0' },
      'unknown-member': { anything: [1, 2, 3] },
    }))
  return JSON.stringify({
    'content-hash': 'x',
    packages: list(packages),
    'packages-dev': list(dev),
    aliases: [],
  })
}

/** A group with a repository that has the versions of acme/lib, and its admin. */
async function aCompany(...versions: string[]) {
  const caller = await aCaller(t)
  for (const version of versions) await caller.push(version)
  const group = await groupOf(t.db, caller.repository)
  await aGroupMember(t.db, caller.account, group, 'admin')
  const url = `/api/groups/${group.name}/projects`
  const post = (
    project: string,
    lock: string | Buffer | Readable,
    { query = '', token = caller.token, app = t.app } = {},
  ) =>
    app.inject({
      method: 'POST',
      url: `${url}/${project}/lock${query}`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-www-form-urlencoded' },
      payload: lock,
    })
  const list = (query = '', token = caller.token) => callApi(t, token, 'GET', `${url}${query}`)
  return { ...caller, group, url, post, list }
}

/** A company that mirrors pub/lib from an upstream with these advisories. */
async function aMirror(advisoriesOf: (name: string) => unknown[] | Promise<unknown[]>) {
  const company = await aCompany('1.0.0')
  await company.call('POST', '/upstreams', { url: upstream.url, name: 'up' })
  upstream.offer('pub/lib', ['1.0.0', '2.0.0'])
  await company.ask('p2/pub/lib.json')
  upstream.fail('/advisories', async (_request, response) => {
    response.end(JSON.stringify({ advisories: { 'pub/lib': await advisoriesOf('pub/lib') } }))
  })
  return company
}

async function checkProjects(): Promise<void> {
  const due = jobs.filter(({ name }) => name === 'check-projects' || name === 'check-all-projects')
  await runDueJobs({ config: t.config, db: t.db }, due, t.app.log)
}

const leak = { title: 'It leaks', affected_versions: '<1.2' }

describe('POST …/projects/<project>/lock', () => {
  it('stores the lock file of each environment, and names what is wrong with its packages', async () => {
    const { post, list, call } = await aCompany('1.0.0', '1.2.0')
    const made = await call('POST', '/packages/acme/lib/advisories', leak)
    const { advisory_id } = made.json()
    const first = await post('shop', aLock({ 'acme/lib': '1.0.0', 'other/lib': 'v3.1.0' }), {
      query: '?commit=abc',
    })
    expect(first.statusCode).toBe(201)
    const finding = {
      package: 'acme/lib',
      version: '1.0.0',
      reason: 'advisory',
      advisory: advisory_id,
      title: 'It leaks',
    }
    expect(first.json()).toEqual({ project: 'shop', packages: 2, affected: [finding] })
    const staging = await post('shop', aLock({}, { 'acme/lib': '1.2.0' }), { query: '?environment=staging' })
    expect(staging.json()).toEqual({ project: 'shop', packages: 1, affected: [] })
    const [shop] = (await list()).json()
    expect(shop.locks).toEqual([
      {
        environment: 'production',
        commit: 'abc',
        posted_at: expect.any(String),
        posted_by: expect.any(String),
        packages: 2,
        version: null,
        problems: 1,
        affected: [finding],
      },
      expect.objectContaining({ environment: 'staging', commit: null, packages: 1, affected: [] }),
    ])
    // The next lock of the environment resolves it.
    expect((await post('shop', aLock({ 'acme/lib': '1.2.0' }))).json().affected).toEqual([])
    const actions = await eventsOf(
      t.db,
      { action: ['create-project', 'affect-project', 'resolve-project'] },
      ['action'],
    )
    expect(actions.map(({ action }) => action)).toEqual([
      'create-project',
      'affect-project',
      'resolve-project',
    ])
  })

  it.each([
    ['', 'it is no JSON'],
    ['[]', 'it has no list "packages"'],
    ['{"packages": {}}', 'it has no list "packages"'],
    ['{"packages": [1]}', '"packages" must be a list of packages'],
    [
      '{"packages": [{"name": "php", "version": "1"}]}',
      'each package needs a name such as vendor/package, not "php"',
    ],
    ['{"packages": [{"name": "acme/lib"}]}', 'acme/lib needs a version, not nothing'],
    [aLock({ 'acme/lib': '1.0.0' }, { 'acme/lib': '1.0.0' }), 'the lock file names acme/lib twice'],
    [Buffer.from([0xff, 0xfe]), 'it is no JSON'],
    [Buffer.alloc(16 * 1024 * 1024 + 1, 'x'), 'at most 16 MiB'],
    [`{"packages": ${'['.repeat(5_000_000)}`, 'it is no JSON'],
  ])('refuses %.40s', async (lock, reason) => {
    const { post } = await aCompany()
    const refused = await post('shop', lock)
    expect([400, 413]).toContain(refused.statusCode)
    expect(refused.json().errmsg).toContain(reason)
  })

  it.each([
    ['.hidden', ''],
    ['a'.repeat(101), ''],
    ['shop', '?environment=%20'],
    ['shop', `?commit=${'c'.repeat(101)}`],
    ['shop', '?commit=%0a'],
  ])('refuses the place %s %s', async (project, query) => {
    const { post } = await aCompany()
    expect((await post(project, aLock({}), { query })).statusCode).toBe(400)
  })

  it('lets a project have 100 environments, also when two come at once', async () => {
    const { post, group } = await aCompany('1.0.0')
    const colleague = await anAccount(t.db)
    await aGroupMember(t.db, colleague, group, 'admin')
    const token = await aPersonalToken(t.db, colleague, { scopes: ['registry-package:rw'] })
    expect((await post('full', aLock({}))).statusCode).toBe(201)
    const project = { id: await latestId(t.db, 'project') }
    await fillEnvironments(t.db, project, 99)
    const first = await openTransaction(t.db)
    await lockRow(first.tx, 'project', project)
    await fillEnvironments(first.tx, project, 100)
    const second = post('full', aLock({}), { query: '?environment=another' })
    await Promise.race([second, untilWaiting(t.db)])
    // Only a new environment waits. In one process, a group stores one lock file at a time, and so does an account.
    const known = await post('full', aLock({}), { app: other.app, token })
    await first.commit()
    expect(known.json()).toMatchObject({ project: 'full' })
    expect((await second).json()).toEqual({
      errcode: 8,
      errmsg: 'a project can have at most 100 environments',
    })
  })

  it('is for developers of the group, and deploy tokens that may report', async () => {
    const { post, list, group } = await aCompany()
    const lock = aLock({ 'acme/lib': '1.0.0' })
    const statusOf = async (token: string) => (await post('shop', lock, { token })).statusCode
    const ofMember = async (role: 'guest' | 'developer') => {
      const account = await anAccount(t.db)
      await aGroupMember(t.db, account, group, role)
      return aPersonalToken(t.db, account, { scopes: ['registry-package:r'] })
    }
    expect(await statusOf(await ofMember('developer'))).toBe(201)
    const ofGuest = await ofMember('guest')
    expect(await statusOf(ofGuest)).toBe(403)
    expect((await list('', ofGuest)).statusCode).toBe(200)
    const reporting = await aDeployToken(t.db, group, { right: 'report' })
    expect(await statusOf(reporting)).toBe(201)
    expect((await list('', reporting)).statusCode).toBe(404)
    expect(await statusOf(await aDeployToken(t.db, group, { right: 'read' }))).toBe(403)
    expect(await statusOf(await aDeployToken(t.db, await aGroup(t.db), { right: 'report' }))).toBe(404)
    const stranger = await aPersonalToken(t.db, await anAccount(t.db))
    expect(await statusOf(stranger)).toBe(404)
    expect((await list('', stranger)).statusCode).toBe(404)
  })

  it('does not wait for lock files that arrive slowly, also of the same group and network', async () => {
    const { post } = await aCompany()
    const slow = Array.from({ length: 5 }, () => new PassThrough())
    const answers = slow.map((body, index) => {
      body.write('{"packages": [')
      return post(`slow-${index}`, body)
    })
    while (slow.some((body) => body.readableLength > 0)) await sleep(5)
    expect((await post('quick', aLock({}))).statusCode).toBe(201)
    for (const body of slow) body.end(']}')
    expect((await Promise.all(answers)).map(({ statusCode }) => statusCode)).toEqual(Array(5).fill(201))
  })

  it('is refused while too many large lock files of its group arrive, and taken after that', async () => {
    const { post } = await aCompany()
    const slow = Array.from({ length: 4 }, () => new PassThrough())
    const answers = slow.map((body, index) => {
      body.write(Buffer.alloc(16 * 1024 * 1024, ' '))
      return post(`large-${index}`, body)
    })
    while (slow.some((body) => body.readableLength > 0)) await sleep(5)
    expect((await post('quick', aLock({}))).statusCode).toBe(503)
    for (const body of slow) body.end()
    await Promise.all(answers)
    expect((await post('quick', aLock({}))).statusCode).toBe(201)
  })

  it('keeps no secret of the lock file, and one row for each package version', async () => {
    const { post } = await aCompany()
    const before = await countLockedPackages(t.db)
    for (const project of ['one', 'two', 'two'])
      await post(project, aLock({ 'once/lib': '1.0.0', 'once/other': '2.0.0' }))
    expect(await countLockedPackages(t.db)).toBe(before + 2)
    expect(await countLockedPackages(t.db, 'secret')).toBe(0)
  })

  it('takes an empty text for not abandoned, as Composer does', async () => {
    const { post } = await aCompany()
    const lock = JSON.stringify({ packages: [{ name: 'a/b', version: '1.0.0', abandoned: '' }] })
    expect((await post('shop', lock)).json().affected).toEqual([])
  })

  it('decides one of twenty locks that arrive at once', async () => {
    const { post, list } = await aCompany()
    const sent = await Promise.all(
      Array.from({ length: 20 }, (_, i) => post('race', aLock({ 'race/lib': `1.0.${i}` }))),
    )
    expect(sent.map(({ statusCode }) => statusCode)).toEqual(Array(20).fill(201))
    const [{ locks }] = (await list('?package=race/lib')).json()
    expect(locks).toEqual([
      expect.objectContaining({ packages: 1, version: expect.stringMatching(/^1\.0\.\d+$/) }),
    ])
  })
})

describe('GET …/projects', () => {
  it('answers who has a version of a package, page by page', async () => {
    const { post, list, url } = await aCompany()
    for (const [project, version] of [
      ['a', '1.0.0'],
      ['b', '1.9.0'],
      ['c', '2.0.0'],
    ] as const)
      await post(project, aLock({ 'who/has': version }))
    const named = async (query: string) =>
      (await list(query)).json().map(({ project }: { project: string }) => project)
    expect(await named('?package=who/has&constraint=<2.0')).toEqual(['a', 'b'])
    expect(await named('?package=who/has')).toEqual(['a', 'b', 'c'])
    expect(await named('?package=Who/Has')).toEqual(['a', 'b', 'c'])
    expect(await named('?package=no/body')).toEqual([])
    const first = await list('?package=who/has&limit=2')
    const [, next = ''] = /<[^>]*(\?[^>]*)>; rel="next"/.exec(first.headers['link'] as string) ?? []
    expect(await named(next)).toEqual(['c'])
    expect((await list('?constraint=<2')).json().errmsg).toContain('a constraint needs a package')
    expect((await list('?package=who/has&constraint=%5Enope!')).statusCode).toBe(400)
    expect(url).toContain('/projects')
  })
})

describe('GET …/projects for a package of which others have sent many versions', () => {
  it('answers for the projects of the group', async () => {
    const { post, list } = await aCompany()
    await addLockedVersions(t.db, 'many/versions', 20_000)
    await post('shop', aLock({ 'many/versions': '1.0.0' }))
    expect((await list('?package=many/versions&constraint=<2')).json()).toMatchObject([{ project: 'shop' }])
  })
})

describe('GET …/projects/<project>/sbom', () => {
  it('is CycloneDX 1.6 that its schema accepts, with licences, hashes and where packages come from', async () => {
    const { post, url, token } = await aCompany()
    await post('shop', aLock({ 'acme/lib': '1.0.0', 'other/lib': 'v3.1.0' }, { 'dev/tool': 'dev-main' }), {
      query: '?environment=staging&commit=abc',
    })
    const response = await callApi(t, token, 'GET', `${url}/shop/sbom?environment=staging`)
    expect(response.headers['content-type']).toBe('application/vnd.cyclonedx+json; version=1.6')
    const sbom = response.json()
    expect(validateSbom(sbom), JSON.stringify(validateSbom.errors)).toBe(true)
    expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' })
    expect(sbom.metadata.component).toMatchObject({ name: 'shop', version: 'abc', type: 'application' })
    expect(sbom.components.map(({ purl, scope }: Record<string, string>) => [purl, scope])).toEqual([
      ['pkg:composer/acme/lib@1.0.0', 'required'],
      ['pkg:composer/dev/tool@dev-main', 'optional'],
      ['pkg:composer/other/lib@v3.1.0', 'required'],
    ])
    expect(sbom.components[0]).toMatchObject({
      licenses: [{ license: { id: 'MIT' } }],
      hashes: [{ alg: 'SHA-1', content: 'a'.repeat(40) }],
      externalReferences: [
        { type: 'distribution', url: 'https://dist.example.com/acme/lib.zip', comment: 'abc' },
      ],
    })
    expect(sbom.dependencies).toContainEqual({ ref: 'other/lib', dependsOn: ['acme/lib'] })
    expect((await callApi(t, token, 'GET', `${url}/shop/sbom`)).statusCode).toBe(404)
  })
})

describe('what is learned later', () => {
  it('affects locked packages, tells the admins once, and is resolved when it ends', async () => {
    const { post, list, call, group } = await aCompany('1.0.0', '1.1.0')
    const admin = await anAccount(t.db, { email: 'admin@acme.example' })
    await aGroupMember(t.db, admin, group, 'admin')
    await verifyEmail(t.db, admin)
    await post('shop', aLock({ 'acme/lib': '1.0.0' }))
    await post('blog', aLock({ 'acme/lib': '1.1.0' }))
    await sendMails(t)
    const sentBefore = mails.received.length
    const reasons = async () => {
      await checkProjects()
      const affected = (await list('?affected=true')).json() as {
        project: string
        locks: { affected: { reason: string }[] }[]
      }[]
      return affected.map(({ project, locks }) => [
        project,
        ...locks.flatMap((lock) => lock.affected.map(({ reason }) => reason)),
      ])
    }
    const { advisory_id } = (await call('POST', '/packages/acme/lib/advisories', leak)).json()
    await call('POST', '/packages/acme/lib/1.0.0/quarantine', { reason: 'stolen token' })
    expect(await reasons()).toEqual([
      ['blog', 'advisory'],
      ['shop', 'advisory', 'quarantined'],
    ])
    await call('PATCH', '/packages/acme/lib', { abandoned: true })
    expect(await reasons()).toEqual([
      ['blog', 'abandoned', 'advisory'],
      ['shop', 'abandoned', 'advisory', 'quarantined'],
    ])
    await sendMails(t)
    const told = mails.received
      .slice(sentBefore)
      .filter(({ text }) => text.includes(`/${group.name}/-/projects?affected=1`))
    expect(told).toHaveLength(1)
    expect(told[0]?.text).toContain('acme/lib 1.0.0: It leaks')
    await call('DELETE', `/packages/acme/lib/advisories/${advisory_id}`)
    await call('DELETE', '/packages/acme/lib/1.0.0/quarantine')
    await call('PATCH', '/packages/acme/lib', { abandoned: false })
    expect(await reasons()).toEqual([])
  })

  it('stays open, and is told nobody again, while each next version has the same advisory', async () => {
    const { post, call, group } = await aCompany('1.0.0', '1.1.0', '1.2.0')
    await call('POST', '/packages/acme/lib/advisories', leak)
    await call('PATCH', '/packages/acme/lib', { abandoned: true })
    await call('POST', '/packages/acme/lib/1.0.0/quarantine', { reason: 'stolen token' })
    const locked = async (version: string) => {
      const { affected } = (await post('shop', aLock({ 'acme/lib': version }))).json()
      return (affected as { version: string; reason: string }[]).map((one) => `${one.version} ${one.reason}`)
    }
    const events = async () =>
      (
        await eventsOf(t.db, { groupId: group.id, action: ['affect-project', 'resolve-project'] }, [
          'action',
          'details',
        ])
      ).map(({ action, details }) => [
        action,
        ...(details['findings'] as { version: string; reason: string }[]).map(
          ({ version, reason }) => `${version} ${reason}`,
        ),
      ])
    const begun = ['affect-project', '1.0.0 abandoned', '1.0.0 advisory', '1.0.0 quarantined']
    expect(await locked('1.0.0')).toEqual(begun.slice(1))
    expect(await events()).toEqual([begun])
    // Only the quarantine was about the one version.
    expect(await locked('1.1.0')).toEqual(['1.1.0 abandoned', '1.1.0 advisory'])
    const left = ['resolve-project', '1.0.0 quarantined']
    expect(await events()).toEqual([begun, left])
    await checkProjects()
    expect(await events()).toEqual([begun, left])
    await call('PATCH', '/packages/acme/lib', { abandoned: false })
    await checkProjects()
    const kept = ['resolve-project', '1.1.0 abandoned']
    expect(await events()).toEqual([begun, left, kept])
    expect(await locked('1.2.0')).toEqual([])
    expect(await events()).toEqual([begun, left, kept, ['resolve-project', '1.1.0 advisory']])
    // It is news again when it comes back.
    expect(await locked('1.1.0')).toEqual(['1.1.0 advisory'])
    expect(await events()).toHaveLength(5)
  })

  it('comes from upstreams, too, and stays while they do not respond', async () => {
    const { post, call, ask } = await aCompany()
    await call('POST', '/upstreams', { url: upstream.url, name: 'up' })
    upstream.offer('pub/lib', ['1.0.0', '2.0.0'])
    await ask('p2/pub/lib.json')
    const advisory = {
      advisoryId: 'PKSA-1',
      packageName: 'pub/lib',
      affectedVersions: '<2',
      title: 'Bad',
      cve: null,
    }
    const told = { ...advisory, link: null, reportedAt: '2026-01-01 00:00:00', sources: [], severity: null }
    upstream.fail('/advisories', (_request, response) =>
      response.end(JSON.stringify({ advisories: { 'pub/lib': [told] } })),
    )
    const affected = [
      { package: 'pub/lib', version: '1.0.0', reason: 'advisory', advisory: 'PKSA-1', title: 'Bad' },
    ]
    expect((await post('shop', aLock({ 'pub/lib': '1.0.0' }))).json().affected).toEqual(affected)
    // The other process knows nothing of the upstream.
    upstream.fail('/advisories', (_request, response) => response.writeHead(500).end())
    const fromOther = async (project: string, version: string) =>
      (await post(project, aLock({ 'pub/lib': version }), { app: other.app })).json().affected
    expect(await fromOther('blog', '1.0.0')).toEqual([])
    expect(await fromOther('shop', '1.0.0')).toEqual(affected)
    expect(await fromOther('shop', '2.0.0')).toEqual([])
  })

  it('is stored as text of a bounded length, whatever an upstream writes', async () => {
    const { post } = await aMirror((name) =>
      Array.from({ length: 150 }, (_, i) => ({
        advisoryId: i === 0 ? `0\0${'x'.repeat(5000)}` : `PKSA-${i}`,
        packageName: name,
        affectedVersions: '*',
        title: `${'a'.repeat(498)}😀😀 a\0`,
      })),
    )
    const posted = await post('shop', aLock({ 'pub/lib': '1.0.0' }))
    expect(posted.statusCode).toBe(201)
    const { affected } = posted.json()
    expect(affected).toHaveLength(100)
    expect(affected[0].title).toBe(`${'a'.repeat(498)}😀…`)
    expect(affected[0].advisory).toBe(`0${'x'.repeat(198)}…`)
  })

  it('meets a lock file that is being stored: judged before the warning or after it', async () => {
    const { post, list, call, group } = await aCompany('1.0.0')
    const bad = JSON.stringify({
      packages: [
        { name: 'acme/lib', version: '1.0.0' },
        { name: 'old/lib', version: '1.0.0', abandoned: true },
      ],
    })
    // The first lock file of the group waits before it is judged.
    const before = await openTransaction(t.db)
    await lockRow(before.tx, 'repository_group', group)
    const first = post('first', bad)
    await untilWaiting(t.db)
    await call('POST', '/packages/acme/lib/1.0.0/quarantine', { reason: 'stolen token' })
    const checked = checkProjects()
    await untilWaiting(t.db, 2)
    await before.commit()
    const reasons = [{ reason: 'quarantined' }, { reason: 'abandoned' }]
    expect((await first).json()).toMatchObject({ affected: reasons })
    await checked
    // Another one waits after it was judged, to store what it has found.
    await call('DELETE', '/packages/acme/lib/1.0.0/quarantine')
    await checkProjects()
    await post('first', aLock({}))
    const after = await openTransaction(t.db)
    const finding = { environment: 'staging', packageName: 'old/lib', version: '1.0.0', reason: 'abandoned' }
    await addFinding(after.tx, group, { project: 'first', ...finding })
    const second = post('first', bad, { query: '?environment=staging' })
    await untilWaiting(t.db)
    await call('POST', '/packages/acme/lib/1.0.0/quarantine', { reason: 'stolen token' })
    const checkedAgain = checkProjects()
    await untilWaiting(t.db, 2)
    await after.rollback()
    expect((await second).json()).toMatchObject({ affected: [{ reason: 'abandoned' }] })
    await checkedAgain
    const [{ locks }] = (await list('?affected=true')).json()
    expect(locks).toMatchObject([{ environment: 'staging', affected: reasons }])
  })

  it('comes from upstreams for packages that no repository has, unless their vendor is claimed', async () => {
    const { post, call, group } = await aCompany()
    await call('POST', '/upstreams', { url: upstream.url, name: 'up' })
    const asked: string[] = []
    upstream.fail('/advisories', (request, response) => {
      let sent = ''
      request.on('data', (chunk: Buffer) => {
        sent += chunk.toString()
      })
      request.on('end', () => {
        const names = new URLSearchParams(sent).getAll('packages[]')
        asked.push(...names)
        const advisoryOf = (name: string) => ({
          advisoryId: `PKSA-${name}`,
          packageName: name,
          affectedVersions: '*',
          title: 'Bad',
        })
        response.end(
          JSON.stringify({ advisories: Object.fromEntries(names.map((n) => [n, [advisoryOf(n)]])) }),
        )
      })
    })
    await aVendorClaim(t.db, group, 'secret')
    const lock = aLock({ 'direct/lib': '1.0.0', 'secret/lib': '1.0.0' })
    expect((await post('shop', lock)).json().affected).toMatchObject([
      { package: 'direct/lib', reason: 'advisory', advisory: 'PKSA-direct/lib' },
    ])
    expect(asked).toEqual(['direct/lib'])
  })

  it('does not resolve what a lock has that arrives during a comparison', async () => {
    const bad = JSON.stringify({ packages: [{ name: 'old/lib', version: '1.0.0', abandoned: true }] })
    let arrive = async () => {}
    const { post, list, call } = await aMirror(async () => {
      await arrive()
      return []
    })
    await post('shop', aLock({ 'pub/lib': '1.0.0' }))
    arrive = async () => {
      // This lock file asks the upstream, too.
      arrive = async () => {}
      await post('late', bad)
    }
    await call('POST', '/packages/acme/lib/1.0.0/quarantine', { reason: 'stolen token' })
    await checkProjects()
    expect((await list('?affected=true')).json()).toMatchObject([{ project: 'late' }])
  })
})

describe('the sweep of locked packages', () => {
  it('deletes a month later those that no lock names', async () => {
    const { post } = await aCompany()
    await post('sweep', aLock({ 'sweep/old': '1.0.0' }))
    await post('sweep', aLock({ 'sweep/new': '1.0.0' }))
    await ageLockedPackages(t.db, 31)
    const due = jobs.filter(({ name }) => name === 'delete-expired-rows')
    await due[0]?.run({ config: t.config, db: t.db, log: t.app.log }, undefined, new AbortController().signal)
    expect(await countLockedPackages(t.db, 'sweep/old')).toBe(0)
    expect(await countLockedPackages(t.db, 'sweep/new')).toBe(1)
  })
})
