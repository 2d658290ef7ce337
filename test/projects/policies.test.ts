import { describe, expect, it } from 'vitest'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { jobs } from '../../src/web/server/jobs.ts'
import { aDeployToken, aGroupMember, anAccount, aPersonalToken, groupOf } from '../support/actors.ts'
import { aCaller, callApi, type Method } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { setVisibility } from '../support/group-rows.ts'
import { forgetLicenses } from '../support/mirrored-rows.ts'
import { basic } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { ageDocuments } from '../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()

/** A group with a repository and its admin, who manages its rules and sends lock files. */
async function aCompany() {
  const caller = await aCaller(t, {
    scopes: ['registry-package:rw', 'registry-manage:rw', 'group-manage:rw', 'group-manage:r'],
  })
  const group = await groupOf(t.db, caller.repository)
  await aGroupMember(t.db, caller.account, group, 'admin')
  const url = `/api/groups/${group.name}/policies`
  const policies = (method: Method, below = '', payload?: object, token = caller.token) =>
    callApi(t, token, method, `${url}${below}`, payload)
  const add = async (kind: string, patterns: string[], reason = `no ${patterns[0]}`) => {
    const added = await policies('POST', '', { kind, patterns, reason })
    expect(added.statusCode, added.body).toBe(201)
    return String(added.json().id)
  }
  /** Sends a lock file: the licences of each version. Returns the reasons of what is wrong. */
  const lock = async (project: string, packages: Record<string, string[]>) => {
    const list = Object.entries(packages).map(([key, license]) => {
      const [name, version] = key.split(' ')
      return { name, version, license }
    })
    const url = `/api/groups/${group.name}/projects/${project}/lock`
    const posted = await callApi(t, caller.token, 'POST', url, { packages: list, 'packages-dev': [] })
    expect(posted.statusCode, posted.body).toBe(201)
    return posted.json().affected as Record<string, unknown>[]
  }
  const affected = async () => {
    const { body } = await callApi(t, caller.token, 'GET', `/api/groups/${group.name}/projects`)
    type Lock = { affected: Record<string, unknown>[] }
    return (JSON.parse(body) as { locks: Lock[] }[]).flatMap(({ locks }) =>
      locks.flatMap((one) => one.affected),
    )
  }
  /** What Composer sends about packages, and what it gets. */
  const composer = async (names: string[], { list = 'denied', headers = {} as object } = {}) => {
    const packages = names.map((name) => `pkg://composer/${name}`)
    return caller.ask(`policy/${list}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      payload: JSON.stringify({ packages, lists: ['acme'] }),
    })
  }
  const denied = async (names: string[], options = {}) => {
    const { filter } = (await composer(names, options)).json<{ filter: Record<string, string>[] }>()
    return filter.map(({ package: name, constraint, reason }) => `${name} ${constraint}: ${reason}`)
  }
  return { ...caller, group, policies, add, lock, affected, composer, denied }
}

async function checkProjects(): Promise<void> {
  const due = jobs.filter(({ name }) => name === 'check-projects')
  await runDueJobs({ config: t.config, db: t.db }, due, t.app.log)
}

describe('/api/groups/<group>/policies', () => {
  it('adds, lists, changes and removes rules of a group, with an event for each change', async () => {
    const { policies, account, group } = await aCompany()
    const made = await policies('POST', '', {
      kind: 'packages',
      patterns: [' Acme/Lib:<2.0 ', 'evil/*', 'evil/*'],
      reason: ' It is no longer supported. ',
    })
    const rule = {
      id: made.json().id,
      kind: 'packages',
      patterns: ['acme/lib:<2.0', 'evil/*'],
      reason: 'It is no longer supported.',
      made_by: account.username,
      created_at: expect.any(String),
      changed_at: expect.any(String),
    }
    expect([made.statusCode, made.json()]).toEqual([201, rule])
    const changed = await policies('PATCH', `/${rule.id}`, { reason: 'Update to 2.0.' })
    expect(changed.json()).toEqual({ ...rule, reason: 'Update to 2.0.' })
    const license = await policies('POST', '', {
      kind: 'licenses',
      patterns: ['gpl-3.0-only', 'none'],
      reason: 'x',
    })
    expect(license.json().patterns).toEqual(['GPL-3.0-only', 'NONE'])
    expect((await policies('GET')).json().map(({ id }: { id: number }) => id)).toEqual([
      rule.id,
      license.json().id,
    ])
    expect((await policies('GET', `/${rule.id}`)).json().reason).toBe('Update to 2.0.')
    expect((await policies('DELETE', `/${rule.id}`)).statusCode).toBe(204)
    for (const method of ['GET', 'PATCH', 'DELETE'] as const)
      expect((await policies(method, `/${rule.id}`, method === 'PATCH' ? {} : undefined)).statusCode).toBe(
        404,
      )
    const events = await eventsOf(
      t.db,
      { groupId: group.id, action: ['add-policy', 'change-policy', 'remove-policy'] },
      ['action', 'details'],
    )
    expect(events.map(({ action }) => action)).toEqual([
      'add-policy',
      'change-policy',
      'add-policy',
      'remove-policy',
    ])
    expect(events[1]?.['details']).toEqual({
      rule: rule.id,
      kind: 'packages',
      reason: 'Update to 2.0.',
      from: { reason: 'It is no longer supported.' },
    })
  })

  it.each<[string, string[], string, RegExp]>([
    ['packages', ['lib'], 'x', /"lib" is no pattern of packages/],
    ['packages', ['acme/lib:nonsense!'], 'x', /no pattern of packages/],
    ['packages', ['  '], 'x', /a rule needs 1 to 500 packages/],
    ['unapproved', ['acme/lib:^1'], 'x', /approved as a whole/],
    ['licenses', ['GPL3'], 'x', /"GPL3" is no licence of SPDX/],
    ['licenses', ['*'], 'x', /no licence of SPDX/],
    ['packages', ['acme/lib'], ' ', /the reason must be one line/],
    ['packages', ['acme/lib'], 'a\nb', /the reason must be one line/],
  ])('refuses a rule about %s with %j and the reason %j', async (kind, patterns, reason, message) => {
    const { policies } = await aCompany()
    const refused = await policies('POST', '', { kind, patterns, reason })
    expect(refused.statusCode).toBe(400)
    expect(refused.json().errmsg).toMatch(message)
    expect((await policies('GET')).json()).toEqual([])
  })

  it('refuses constraints of one name in a rule that are too long together', async () => {
    const { policies } = await aCompany()
    const patterns = Array.from({ length: 9 }, (_, i) => `acme/*:<1.0.${i}${' || <1.0.0'.repeat(45)}`)
    const add = (some: string[]) => policies('POST', '', { kind: 'packages', patterns: some, reason: 'x' })
    const refused = await add(patterns)
    expect(refused.statusCode, refused.body).toBe(400)
    expect(refused.json().errmsg).toContain('the constraints of "acme/*" have more than 4096 characters')
    const { id } = (await add(patterns.slice(1))).json()
    expect((await policies('PATCH', `/${id}`, { patterns })).statusCode).toBe(400)
  })

  it('refuses more rules and patterns than a group may have, also at the same time', async () => {
    const { policies } = await aCompany()
    const many = Array.from({ length: 500 }, (_, i) => `acme/p${i}`)
    const big = await Promise.all(
      [1, 2, 3, 4, 5, 6].map(() => policies('POST', '', { kind: 'packages', patterns: many, reason: 'x' })),
    )
    const countOf = (status: number) => big.filter(({ statusCode }) => statusCode === status).length
    expect([countOf(201), countOf(403)]).toEqual([4, 2])
    const { id } = (await policies('GET')).json()[0]
    expect((await policies('PATCH', `/${id}`, { patterns: ['acme/lib'] })).statusCode).toBe(200)
    expect((await policies('PATCH', `/${id}`, { patterns: [...many.slice(1), 'acme/lib'] })).statusCode).toBe(
      200,
    )
  })

  it('lets members read rules and admins change them', async () => {
    const { policies, add, group } = await aCompany()
    const id = await add('packages', ['acme/lib'])
    const tokenOf = async (role: 'guest' | 'developer' | null) => {
      const account = await anAccount(t.db)
      if (role) await aGroupMember(t.db, account, group, role)
      return aPersonalToken(t.db, account, { scopes: ['registry-package:r', 'group-manage:rw'] })
    }
    const [guest, developer, stranger] = await Promise.all([
      tokenOf('guest'),
      tokenOf('developer'),
      tokenOf(null),
    ])
    const draft = { kind: 'packages', patterns: ['a/b'], reason: 'x' }
    expect((await policies('GET', '', undefined, guest)).json()).toHaveLength(1)
    for (const [below, method, body] of [
      ['', 'POST', draft],
      ['?dry_run', 'POST', draft],
      [`/${id}`, 'PATCH', { reason: 'y' }],
      [`/${id}`, 'DELETE', undefined],
    ] as const)
      expect((await policies(method, below, body, developer)).statusCode).toBe(403)
    expect((await policies('GET', '', undefined, stranger)).statusCode).toBe(404)
    // Rules of another group.
    const other = await aCompany()
    expect((await other.policies('DELETE', `/${id}`)).statusCode).toBe(404)
  })

  it('says with dry_run what a rule would deny of the lock files, and adds nothing', async () => {
    const { policies, lock } = await aCompany()
    await lock('shop', { 'a/old 1.9.0': ['MIT'], 'a/new 2.0.0': ['MIT'], 'b/c 1.0.0': ['GPL-3.0-only'] })
    await lock('blog', { 'a/old 1.9.0': ['MIT'] })
    const check = async (kind: string, ...patterns: string[]) =>
      (await policies('POST', '?dry_run', { kind, patterns, reason: 'x' })).json()
    const old = { environment: 'production', package: 'a/old', version: '1.9.0' }
    expect(await check('packages', 'a/*:<2')).toEqual({
      projects: 2,
      count: 2,
      broken: [
        { project: 'blog', ...old },
        { project: 'shop', ...old },
      ],
    })
    expect(await check('licenses', 'GPL-3.0')).toMatchObject({
      projects: 1,
      count: 1,
      broken: [{ package: 'b/c' }],
    })
    expect(await check('unapproved', 'a/*')).toMatchObject({ projects: 1, broken: [{ package: 'b/c' }] })
    expect(await check('packages', 'none/*')).toEqual({ projects: 0, count: 0, broken: [] })
    expect((await policies('GET')).json()).toEqual([])
    expect(
      (await policies('POST', '?dry_run', { kind: 'licenses', patterns: ['x'], reason: 'x' })).statusCode,
    ).toBe(400)
  })
})

describe('POST policy/<list>', () => {
  it('names what rules about packages deny, with a reason, an id and the page of the rule', async () => {
    const { add, composer, group } = await aCompany()
    const id = await add('packages', ['acme/lib:<2.0', 'acme/lib:3.1.*', 'evil/*', 'other/lib'], 'Old.')
    const answer = await composer(['acme/lib', 'evil/one', 'good/lib', 'Other/Lib'])
    expect(answer.headers['content-type']).toBe('application/json')
    expect(answer.headers['cache-control']).toBe('private, no-cache')
    const about = {
      url: `${t.config.baseUrl}/${group.name}/-/policies/${id}`,
      reason: 'Old.',
      id: `policy-${id}`,
    }
    expect(answer.json()).toEqual({
      filter: [
        { package: 'acme/lib', constraint: '<2.0 || 3.1.*', ...about },
        { package: 'evil/one', constraint: '*', ...about },
        { package: 'other/lib', constraint: '*', ...about },
      ],
    })
  })

  it('names everything that is not approved', async () => {
    const { add, denied } = await aCompany()
    await add('unapproved', ['acme/*', 'psr/log', 'x/*-bundle'], 'Ask the platform team.')
    expect(await denied(['acme/lib', 'psr/log', 'psr/cache', 'x/a-bundle'])).toEqual([
      'psr/cache *: Ask the platform team.',
    ])
  })

  it('names the versions whose licences are denied, and all versions when each known one is', async () => {
    const { add, denied, lock, push } = await aCompany()
    await add('licenses', ['GPL-3.0'], 'No copyleft.')
    await push('1.0.0', { name: 'own/lib', manifest: { name: 'own/lib', license: 'GPL-3.0-or-later' } })
    await push('2.0.0', { name: 'own/lib', manifest: { name: 'own/lib', license: 'MIT' } })
    await lock('shop', {
      'a/gpl v1.2.3': ['GPL-3.0-only'],
      'a/choice 1.0.0': ['MIT', 'GPL-3.0-only'],
      'a/mit 1.0.0': ['MIT'],
    })
    // Another group knows other packages.
    const other = await aCompany()
    await other.lock('shop', { 'b/gpl 1.0.0': ['GPL-3.0-only'] })
    expect(await denied(['own/lib', 'a/gpl', 'a/choice', 'a/mit', 'b/gpl', 'unknown/lib'])).toEqual([
      'own/lib ==1.0.0.0: GPL-3.0-or-later: No copyleft.',
      'a/gpl *: GPL-3.0-only: No copyleft.',
    ])
    // The next lock file has another version, and the group still knows the former one.
    await lock('shop', { 'a/gpl 2.0.0': ['MIT'] })
    expect(await denied(['a/gpl'])).toEqual(['a/gpl ==1.2.3.0: GPL-3.0-only: No copyleft.'])
  })

  it('knows the licences of packages of upstreams: of all versions, or of the latest that differ', async () => {
    const { add, denied, call, ask, repository } = await aCompany()
    await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    await add('licenses', ['GPL-3.0', 'NONE'], 'No copyleft.')
    const gpl = Array.from({ length: 300 }, (_, i) => ({
      version: `${300 - i}.0.0`,
      license: ['GPL-3.0-only'],
    }))
    upstream.offer('up/gpl', gpl)
    const mixed = [{ version: '301.0.0', license: 'MIT' }, ...gpl, { version: '0.9.0' }]
    upstream.offer('up/mixed', mixed)
    upstream.offer('up/nothing', [{ version: '1.0.0', license: [7, ' '] }])
    upstream.offer('up/mit', [{ version: '1.0.0', license: ['MIT', 'GPL-3.0-only'] }])
    const names = ['up/gpl', 'up/mixed', 'up/nothing', 'up/mit']
    expect(await denied(names)).toEqual([])
    for (const name of names) await ask(`p2/${name}.json`)
    const latest = Array.from({ length: 199 }, (_, i) => `==${300 - i}.0.0.0`).join(' || ')
    const answer = [
      'up/gpl *: GPL-3.0-only: No copyleft.',
      `up/mixed ${latest}: GPL-3.0-only: No copyleft.`,
      'up/nothing *: no licence: No copyleft.',
    ]
    expect(await denied(names)).toEqual(answer)
    // An earlier release has stored the documents: they are rendered again when somebody pulls them.
    await forgetLicenses(t.db, repository)
    expect(await denied(names)).toEqual([])
    for (const name of names) await ask(`p2/${name}.json`)
    expect(await denied(names)).toEqual(answer)
    upstream.offer('up/gpl', [{ version: '301.0.0', license: ['MIT'] }, ...gpl.slice(0, 1)])
    await ageDocuments(t.db)
    await ask('p2/up/gpl.json')
    await expect.poll(() => denied(['up/gpl'])).toEqual(['up/gpl ==300.0.0.0: GPL-3.0-only: No copyleft.'])
  })

  it('has a list for each kind of rule, and one with all', async () => {
    const { add, denied, composer, lock } = await aCompany()
    await add('packages', ['a/b'], 'package')
    await add('licenses', ['MIT'], 'licence')
    await add('unapproved', ['x/*'], 'approval')
    await lock('shop', { 'a/b 1.0.0': ['MIT'] })
    expect(await denied(['a/b'])).toEqual(['a/b *: package', 'a/b *: MIT: licence', 'a/b *: approval'])
    expect(await denied(['a/b'], { list: 'denied-packages' })).toEqual(['a/b *: package'])
    expect(await denied(['a/b'], { list: 'denied-licenses' })).toEqual(['a/b *: MIT: licence'])
    expect(await denied(['a/b'], { list: 'unapproved' })).toEqual(['a/b *: approval'])
    for (const list of ['nothing', 'toString']) {
      const missing = await composer(['a/b'], { list })
      expect([missing.statusCode, missing.json().errcode]).toEqual([404, 5])
    }
  })

  it('answers everybody who may pull, and tells strangers nothing of lock files', async () => {
    const { add, composer, denied, lock, repository, group } = await aCompany()
    await add('packages', ['evil/lib'], 'Evil.')
    await add('licenses', ['GPL-*'], 'No copyleft.')
    await lock('shop', { 'secret/lib 1.0.0': ['GPL-3.0-only'] })
    const names = ['evil/lib', 'secret/lib']
    const anonymous = { headers: { authorization: undefined } }
    expect((await composer(names, anonymous)).statusCode).toBe(401)
    const headers = { authorization: basic(await aDeployToken(t.db, group, { right: 'read' }), 'ci') }
    expect(await denied(names, { headers })).toEqual([
      'evil/lib *: Evil.',
      'secret/lib *: GPL-3.0-only: No copyleft.',
    ])
    await setVisibility(t.db, repository, 'public')
    expect(await denied(names, anonymous)).toEqual(['evil/lib *: Evil.'])
  })

  it('refuses an answer of more than 8 MiB', async () => {
    const { add, composer } = await aCompany()
    const names = Array.from({ length: 5000 }, (_, i) => `acme/lib${i}`)
    for (let i = 0; i < 6; i++) await add('unapproved', ['psr/log'], `${i}`.repeat(300))
    const refused = await composer(names)
    expect([refused.statusCode, refused.json().errcode]).toEqual([400, 3])
    expect(refused.json().errmsg).toContain('longer than 8388608 characters: send fewer packages')
    expect((await composer(names.slice(0, 2500))).json().filter).toHaveLength(15_000)
  })

  it('refuses an answer of more than 8 MiB about few packages that match many patterns', async () => {
    const { add, composer } = await aCompany()
    const stars = Array.from({ length: 100 }, (_, i) => '*'.repeat(i + 1))
    const patterns = stars.map((some) => `acme/${some}:<1.0.0${' || <1.0.0'.repeat(35)}`)
    for (let i = 0; i < 4; i++) await add('packages', patterns, `${i}`)
    const refused = await composer(Array.from({ length: 200 }, (_, i) => `acme/lib${i}`))
    expect([refused.statusCode, refused.json().errcode]).toEqual([400, 3])
  })

  it('refuses too many packages before it asks who sends them', async () => {
    const { composer } = await aCompany()
    const names = Array.from({ length: 5001 }, (_, i) => `acme/lib${i}`)
    const refused = await composer(names, { headers: { authorization: undefined } })
    expect([refused.statusCode, refused.json().errcode]).toEqual([400, 3])
  })

  it.each([
    ['', 'must be JSON'],
    ['[1,', 'must be JSON'],
    ['{"packages":"acme/lib"}', 'must be JSON'],
    ['null', 'must be JSON'],
    [
      JSON.stringify({ packages: Array.from({ length: 5001 }, (_, i) => `pkg:composer/a/p${i}`) }),
      'at most 5000',
    ],
  ])('refuses the body %.30s', async (payload, message) => {
    const { ask } = await aCompany()
    const headers = { 'content-type': 'application/json' }
    const refused = await ask('policy/denied', { method: 'POST', headers, payload })
    expect([refused.statusCode, refused.json().errcode]).toEqual([400, 3])
    expect(refused.json().errmsg).toContain(message)
  })
})

describe('rules and lock files', () => {
  it('find denied packages and licences in a new lock file, also of packages that svc does not have', async () => {
    const { add, lock } = await aCompany()
    await add('packages', ['a/old:<2'], 'Too old.')
    await add('licenses', ['GPL-*'], 'No copyleft.')
    const found = await lock('shop', {
      'a/old 1.9.0': ['GPL-2.0-only'],
      'a/new 2.0.0': ['MIT or GPL-2.0-only'],
    })
    const about = { package: 'a/old', version: '1.9.0', advisory: null }
    expect(found).toEqual([
      { ...about, reason: 'denied', title: 'Too old.' },
      { ...about, reason: 'license', title: 'GPL-2.0-only: No copyleft.' },
    ])
    expect(await lock('shop', { 'a/old 2.0.0': ['MIT'] })).toEqual([])
  })

  it('find stored lock files by a job when a rule is added, and resolve them when it is removed', async () => {
    const { add, lock, policies, affected, group } = await aCompany()
    await lock('shop', { 'a/old 1.9.0': ['MIT'] })
    const id = await add('packages', ['a/old:<2'], 'Too old.')
    expect(await affected()).toEqual([])
    await checkProjects()
    expect(await affected()).toMatchObject([{ package: 'a/old', reason: 'denied', title: 'Too old.' }])
    await policies('PATCH', `/${id}`, { reason: 'Update to 2.0.' })
    await checkProjects()
    expect(await affected()).toMatchObject([{ title: 'Update to 2.0.' }])
    await policies('DELETE', `/${id}`)
    await checkProjects()
    expect(await affected()).toEqual([])
    const events = await eventsOf(
      t.db,
      { groupId: group.id, action: ['affect-project', 'resolve-project'] },
      ['action'],
    )
    expect(events.map(({ action }) => action)).toEqual(['affect-project', 'resolve-project'])
  })
})
