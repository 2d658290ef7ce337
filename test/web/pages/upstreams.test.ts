import { describe, expect, it } from 'vitest'
import type { Role } from '../../../src/domain/permissions.ts'
import { operator } from '../../../src/domain/principal.ts'
import { insertEvent } from '../../../src/events/events.ts'
import {
  aGroup,
  aGroupMember,
  aMember,
  anAccount,
  aRepository,
  csrfTokenIn,
  post,
  signIn,
} from '../../support/actors.ts'
import { aCaller, asOperator } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import {
  aMirroredArchive,
  aMirroredPackage,
  markMirroredPackage,
  mirroredPackages,
} from '../../support/mirrored-rows.ts'
import { addPackages } from '../../support/package-rows.ts'
import { countRows } from '../../support/rows.ts'
import { askUpstreams, raiseAlarm, upstreamsHere, useUpstream } from '../../support/upstream.ts'
import { ageRoots, upstreamRows } from '../../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()
const look = (url: string, cookie = '') => t.app.inject({ url, headers: { cookie } })

/** A member of a repository, or of its whole group, on its page of upstreams. */
async function aVisitor(
  role: Role,
  { group = null as { id: string; name: string } | null, isOfGroup = false } = {},
) {
  const account = await anAccount(t.db)
  const own = group ?? (await aGroup(t.db))
  const repository = await aRepository(t.db, { group: own })
  if (isOfGroup) await aGroupMember(t.db, account, own, role)
  else await aMember(t.db, account, repository, role)
  return { account, group: own, repository, ...(await onPage(account, repository)) }
}

async function onPage(account: { id: string; username: string }, repository: { path: string }) {
  const url = `/${repository.path}/-/upstreams`
  const cookie = await signIn(t.app, account as Parameters<typeof signIn>[1])
  const csrf_token = csrfTokenIn(await look('/settings/account', cookie))
  const send = (below: string, form: Record<string, string>) => {
    const sent = () => post(t.app, url + below, cookie, { csrf_token, ...form })
    // Of this page, only upstreams of site administrators may be on this machine.
    return form['url'] === upstream.url && below === '/new' ? asOperator(t, account.id, sent) : sent()
  }
  return { url, cookie, send, open: (below = '') => look(url + below, cookie) }
}

const draft = () => ({ url: upstream.url, name: 'public', mode: 'automatic' })
const upstreamsOf = async (repository: { id: string }) =>
  (await upstreamRows(t.db, repository)).flatMap(
    ({ isRemoved, minimumAgeHours: age, keepsSource: source, ...row }) => {
      const { name, mode, allow, deny, exempt, position } = row
      return isRemoved ? [] : [{ name, mode, allow, deny, exempt, age, position, source }]
    },
  )
const lastEvent = async () => {
  const columns = ['action', 'actorId', 'package', 'details', 'repositoryId', 'groupId'] as const
  const last = (await eventsOf(t.db, {}, columns)).findLast((event) => event.repositoryId ?? event.groupId)
  return (
    last && { action: last.action, accountId: last.actorId, package: last.package, details: last.details }
  )
}
describe('/<group>/<name>/-/upstreams', () => {
  it('shows everyone who may pull where a package comes from, and its settings to admins only', async () => {
    const caller = await aCaller(t)
    upstream.offer('seen/lib', [
      { version: '1.0.0', description: 'Counts <things>' },
      { version: '0.9.0', dist: null },
    ])
    await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public', minimum_age_hours: 72 })
    await caller.ask('p2/seen/lib.json')
    await markMirroredPackage(t.db, 'seen/lib', { approvedAt: new Date('2026-01-02T03:04Z') })
    await raiseAlarm(t.db, 'seen/lib')
    const guest = await anAccount(t.db)
    await aMember(t.db, guest, caller.repository, 'guest')
    const { body } = await (await onPage(guest, caller.repository)).open()
    for (const shown of ['seen/lib', 'public', 'First seen', 'Last checked', 'approved', '1 left out']) {
      expect(body).toContain(shown)
    }
    expect(body).toContain('The changed archive of 1.0.0 is not served: other bytes.')
    expect(body).toContain(
      'An admin of this repository can look into it, and forget the stored archive if the change is right.',
    )
    expect(body).not.toContain('/forget"')
    expect(body).not.toContain(upstream.url)
    expect(body).not.toContain('New upstream')
    const others = await onPage(guest, caller.repository)
    for (const tab of ['/list', '/new', '/set?name=public', '/approve', '/claim'])
      expect((await others.open(tab)).statusCode).toBe(403)
    const admin = await onPage(caller.account, caller.repository)
    expect((await admin.open()).body).toContain(`href="${admin.url}/new">New upstream</a>`)
    const list = (await admin.open('/list')).body
    for (const shown of [upstream.url, '72 hours', `${admin.url}/new`, `${admin.url}/set?name=public`])
      expect(list).toContain(shown)
    expect((await admin.open('/set?name=public')).body).toContain('value="72"')
    expect((await admin.open('?q=SEEN')).body).toContain('/packages/seen/lib">seen/lib</a></th>')
    const nothing = (await admin.open('?q=nothing')).body
    expect(nothing).toContain('No package from an upstream matches “nothing”.')
    expect(nothing).toContain('href="/docs/packages#packages-from-other-registries">All reasons</a>')
  })

  it('pages through more packages than fit on one page', async () => {
    const { repository, open } = await aVisitor('guest')
    const names = Array.from({ length: 120 }, (_, i) => `many/p${String(i + 1).padStart(3, '0')}`)
    await aMirroredPackage(t.db, repository, names, { isSeen: true })
    const first = await open('?q=many')
    const [, query = ''] = /upstreams(\?[^"]+)">More packages/.exec(first.body) ?? []
    const second = await open(query.replaceAll('&amp;', '&'))
    const count = (body: string) => body.match(/<th scope="row"><a [^>]*>many\//g)?.length
    expect([count(first.body), count(second.body)]).toEqual([100, 20])
    expect(second.body).not.toContain('More packages')
  })

  it('lists a package once that is mirrored and waits for approval', async () => {
    const { repository, open } = await aVisitor('admin')
    await aMirroredPackage(t.db, repository, 'twice/waits', { isSeen: true, isRequested: true })
    await aMirroredPackage(t.db, repository, 'twice/done', {
      isSeen: true,
      isRequested: true,
      isApproved: true,
    })
    await aMirroredPackage(t.db, repository, 'twice/seen', { isSeen: true })
    await aMirroredPackage(t.db, repository, 'twice/asked', { isRequested: true })
    for (const query of ['', '?q=twice']) {
      const { body } = await open(query)
      const names = [...body.matchAll(/<th scope="row"><a [^>]*>(twice\/\w+)</g)].map(([, name]) => name)
      expect(names).toEqual(['twice/asked', 'twice/waits', 'twice/done', 'twice/seen'])
    }
    expect((await open('?q=waits')).body).not.toContain('No package from an upstream')
    expect((await open('?q=done')).body).not.toContain('twice/waits')
  })

  it('is public with its repository, hidden with it, and leads a visitor to the sign-in', async () => {
    const open = await aRepository(t.db, { visibility: 'public' })
    expect((await look(`/${open.path}/-/upstreams`)).statusCode).toBe(200)
    expect((await look(`/${open.path}`)).body).toContain(`href="/${open.path}/-/upstreams"`)
    const { path } = await aRepository(t.db)
    expect((await look(`/${path}/-/upstreams`)).headers.location).toMatch(/^\/login/)
    const stranger = await onPage(await anAccount(t.db), { path })
    expect((await stranger.open()).statusCode).toBe(404)
    expect((await stranger.send('/request', { package: 'a/b' })).statusCode).toBe(404)
  })

  const forms: [string, Record<string, string>][] = [
    ['/new', { url: 'https://example.com', mode: 'off' }],
    ['/set', { name: 'public', mode: 'off' }],
    ['/remove', { name: 'public' }],
    ['/approve', { packages: 'a/b' }],
    ['/allow', { package: 'a/b' }],
    ['/forget', { package: 'a/b', version: '1.0.0' }],
    ['/decide', { package: 'a/b', upstream: 'public' }],
    ['/claim', { vendor: 'acme' }],
    ['/release', { vendor: 'acme' }],
  ]

  it.each(forms)('refuses the form “%s” to developers, and without its token', async (below, form) => {
    const developer = await aVisitor('developer')
    expect((await developer.send(below, form)).statusCode).toBe(403)
    const admin = await aVisitor('admin', { isOfGroup: true })
    expect((await post(t.app, admin.url + below, admin.cookie, form)).statusCode).toBe(403)
    expect(await upstreamsOf(admin.repository)).toEqual([])
    expect(await countRows(t.db, 'vendor_claim', { groupId: admin.group.id })).toBe(0)
  })
})

describe('versions that are too young', () => {
  it('are counted with their time, and an admin allows them with one click', async () => {
    const caller = await aCaller(t)
    upstream.offer('young/lib', [
      { version: '1.1.0', 'published-time': undefined },
      { version: '1.0.0', 'published-time': undefined },
    ])
    await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public', minimum_age_hours: 72 })
    await caller.ask('p2/young/lib.json')
    const guest = await anAccount(t.db)
    await aMember(t.db, guest, caller.repository, 'guest')
    const shown = (await (await onPage(guest, caller.repository)).open()).body
    expect(shown).toMatch(/2 versions are held back until \d+ \w+ \d{4}, \d\d:\d\d UTC: 1\.1\.0, 1\.0\.0\./)
    expect(shown).toContain('An admin of this repository can allow them now.')
    const admin = await onPage(caller.account, caller.repository)
    expect((await admin.open()).body).toContain(`action="${admin.url}/allow"`)
    const allowed = await admin.send('/allow', { package: 'young/lib' })
    expect(allowed.statusCode).toBe(303)
    expect((await admin.open()).body).not.toContain('held back')
    expect((await caller.ask('p2/young/lib.json')).json().packages['young/lib']).toHaveLength(2)
    expect(await lastEvent()).toMatchObject({ action: 'allow-versions', package: 'young/lib' })
  })
})

describe('requests and approvals', () => {
  it('let a guest request a package and an admin approve it, each with its event', async () => {
    const admin = await aVisitor('admin')
    await admin.send('/new', { ...draft(), mode: 'approved' })
    const account = await anAccount(t.db)
    await aMember(t.db, account, admin.repository, 'guest')
    const guest = await onPage(account, admin.repository)
    expect((await guest.open()).body).toContain(`${guest.url}/request"`)
    const requested = await guest.send('/request', { package: 'wanted/lib' })
    expect([requested.statusCode, requested.headers.location]).toEqual([303, guest.url])
    expect(await lastEvent()).toMatchObject({
      action: 'request-package',
      accountId: account.id,
      package: 'wanted/lib',
    })
    const waiting = (await admin.open()).body
    expect(waiting).toContain('id="waiting"')
    expect(waiting).toContain(`Requested by ${account.username}`)
    const badge = '<span class="badge caution">1<span class="hidden"> waits for a decision</span></span>'
    expect(waiting.split(badge)).toHaveLength(3)
    expect((await look(`/${admin.repository.path}`, admin.cookie)).body).toContain(badge)
    expect((await look(`/${admin.repository.path}`, guest.cookie)).body).not.toContain('waits for a decision')
    expect((await admin.send('/approve', { packages: 'wanted/lib\r\nother/lib' })).statusCode).toBe(303)
    expect(await lastEvent()).toMatchObject({ action: 'approve-package', accountId: admin.account.id })
    const approved = (await mirroredPackages(t.db, admin.repository)).filter(({ isApproved }) => isApproved)
    expect(approved.map(({ name }) => name)).toEqual(['other/lib', 'wanted/lib'])
    expect((await guest.open()).body).not.toContain('id="waiting"')
  })

  it('offer no request where no upstream needs an approval', async () => {
    const admin = await aVisitor('admin')
    await admin.send('/new', draft())
    const account = await anAccount(t.db)
    await aMember(t.db, account, admin.repository, 'guest')
    expect((await (await onPage(account, admin.repository)).open()).body).not.toContain('/request"')
  })

  it.each([
    ['/request', { package: 'no name' }],
    ['/request', { package: '' }],
    ['/approve', { packages: 'good/one <bad>' }],
    ['/approve', { packages: Array.from({ length: 1001 }, (_, i) => `a/b${i}`).join('\n') }],
  ])('refuse %s of %j at the form', async (below, form) => {
    const { send } = await aVisitor('admin')
    const refused = await send(below, form as Record<string, string>)
    expect([refused.statusCode, refused.body.includes('role="alert"')]).toEqual([400, true])
  })
})

describe('the alarm of a name that two upstreams have', () => {
  it('has a form for each of them, with which admins decide, and tells others whom to ask', async () => {
    const name = 'contested/lib'
    const caller = await aCaller(t)
    upstream.offer(name, ['1.0.0'])
    await caller.call('POST', '/upstreams', draft())
    await caller.ask(`p2/${name}.json`)
    await caller.call('POST', '/upstreams', { url: `${upstream.url}/`, name: 'private' })
    await caller.call('PATCH', '/upstreams/private', { position: 1 })
    await caller.call('PATCH', '/upstreams/public', { position: 2 })
    await askUpstreams(t)
    const { open, url, cookie } = await onPage(
      caller.account as Parameters<typeof onPage>[0],
      caller.repository,
    )
    const { body } = await open()
    expect(body).toContain('class="badge caution">contested<')
    expect(body).toContain(`${name} is not offered: public has served it, and private, which comes before it`)
    const forms = body.split(`<form method="post" action="${url}/decide">`).slice(1)
    const fields = forms.map((form) =>
      Object.fromEntries(
        [...form.slice(0, form.indexOf('</form>')).matchAll(/name="(\w+)" value="([^"]*)"/g)].map(
          ([, field = '', value = '']) => [field, value],
        ),
      ),
    )
    expect(fields).toMatchObject([
      { package: name, upstream: 'private' },
      { package: name, upstream: 'public' },
    ])
    const guest = await anAccount(t.db)
    await aMember(t.db, guest, caller.repository, 'guest')
    const seen = (await (await onPage(guest, caller.repository)).open()).body
    expect([seen.includes('/decide"'), seen.includes('An admin of this repository must decide')]).toEqual([
      false,
      true,
    ])

    const decided = await post(t.app, `${url}/decide`, cookie, fields[1] ?? {})
    expect([decided.statusCode, decided.headers.location]).toEqual([303, url])
    expect(await lastEvent()).toMatchObject({
      action: 'decide-package',
      accountId: caller.account.id,
      package: name,
      details: { upstream: 'public', not_from: ['private'] },
    })
    expect((await open()).body).not.toContain('contested<')
    const again = await post(t.app, `${url}/decide`, cookie, fields[1] ?? {})
    expect([again.statusCode, again.body]).toEqual([
      400,
      expect.stringContaining('there is nothing to decide'),
    ])
  })
})

describe('the alarm of a changed archive', () => {
  it('has a form for admins, with which they forget the stored archive', async () => {
    const name = 'alarm/lib'
    const caller = await aCaller(t)
    upstream.offer(name, ['1.0.0'])
    await caller.call('POST', '/upstreams', draft())
    await caller.ask(`p2/${name}.json`)
    await raiseAlarm(t.db, name, 'other <bytes>')
    const { open, send, url, cookie } = await onPage(
      caller.account as Parameters<typeof onPage>[0],
      caller.repository,
    )
    const { body } = await open()
    expect(body).toContain('The changed archive of 1.0.0 is not served: other &lt;bytes&gt;.')
    const [, form = ''] = body.split(`<form method="post" action="${url}/forget">`)
    expect(form).toContain('Forget the stored archive')
    const fields = Object.fromEntries(
      [...form.slice(0, form.indexOf('</form>')).matchAll(/name="(\w+)" value="([^"]*)"/g)].map(
        ([, field = '', value = '']) => [field, value],
      ),
    )
    expect(fields).toMatchObject({ package: name, version: '1.0.0' })

    const refused = await send('/forget', { package: name, version: '2.0.0' })
    expect([refused.statusCode, refused.body]).toEqual([
      404,
      expect.stringContaining('Nothing was changed: no upstream has offered an archive of alarm/lib 2.0.0.'),
    ])
    const forgotten = await post(t.app, `${url}/forget`, cookie, fields)
    expect([forgotten.statusCode, forgotten.headers.location]).toEqual([303, url])
    expect(await lastEvent()).toMatchObject({
      action: 'forget-archive',
      accountId: caller.account.id,
      package: name,
      details: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), alarm: 'other <bytes>' },
    })
    expect((await open()).body).not.toContain('is not served')
    const again = await send('/forget', { package: name, version: '1.0.0' })
    expect([again.statusCode, again.body]).toEqual([400, expect.stringContaining('svc has no bytes')])
  })

  it('is shown for each version, at most 20 of a package', async () => {
    const { repository, open } = await aVisitor('admin')
    await aMirroredPackage(t.db, repository, 'alarm/many', { isSeen: true })
    for (let i = 0; i < 50; i += 1)
      await aMirroredArchive(t.db, 'alarm/many', {
        version: `1.${i % 25}`,
        reference: `a${i}`,
        alarm: `change ${i}`,
        alarmedHoursAgo: i,
      })
    const { body } = await open()
    const shown = [...body.matchAll(/changed archive of (\S+) is not served: change (\d+)\./g)]
    expect(shown).toHaveLength(20)
    expect(shown.slice(0, 2).map(([, version, change]) => [version, change])).toEqual([
      ['1.0', '0'],
      ['1.1', '1'],
    ])
  })
})

describe('the forms of upstreams', () => {
  it('add, change and remove an upstream, each with its event', async () => {
    const { repository, account, url, send, open } = await aVisitor('admin')
    const added = await send('/new', {
      ...draft(),
      deny: 'evil/*\r\n\r\nold/lib:^1 || ^2',
      minimum_age_hours: '24',
    })
    expect([added.statusCode, added.headers.location]).toEqual([303, `${url}/list`])
    const before = { name: 'public', mode: 'automatic', allow: [], exempt: [], age: 24, source: false }
    expect(await upstreamsOf(repository)).toMatchObject([{ ...before, deny: ['evil/*', 'old/lib:^1 || ^2'] }])
    expect(await lastEvent()).toMatchObject({ action: 'add-upstream', accountId: account.id })

    const change = {
      name: 'public',
      mode: 'approved',
      allow: 'symfony/*',
      exempt: 'symfony/*',
      position: '7',
      keeps_source: 'true',
    }
    expect((await send('/set', change)).statusCode).toBe(303)
    expect(await upstreamsOf(repository)).toEqual([
      {
        name: 'public',
        mode: 'approved',
        allow: ['symfony/*'],
        deny: [],
        exempt: ['symfony/*'],
        age: 0,
        position: 7,
        source: true,
      },
    ])
    expect(await lastEvent()).toMatchObject({ action: 'set-upstream', accountId: account.id })

    const question = await open('/remove?name=public&release=true')
    expect(question.body).toContain('Remove the upstream public?')
    expect(question.body).toContain('name="release" value="true"')
    expect(await upstreamsOf(repository)).toHaveLength(1)
    expect((await open('/remove?name=other')).statusCode).toBe(404)
    await send('/remove', { name: 'public', release: 'true' })
    expect(await upstreamsOf(repository)).toEqual([])
    expect(await lastEvent()).toMatchObject({
      action: 'remove-upstream',
      details: { upstream: 'public', released: true },
    })
    expect((await send('/remove', { name: 'public' })).statusCode).toBe(404)
  })

  it.each([
    ['/new', { url: 'ftp://example.com' }, 'must be https or http'],
    ['/new', { url: 'http://10.1.2.3/' }, 'cannot be used'],
    ['/new', { name: 'Not Good' }, 'role="alert"'],
    ['/new', { deny: 'no pattern' }, 'no pattern is not a valid pattern'],
    ['/new', { position: '9999' }, 'role="alert"'],
    ['/new', { mode: 'sometimes' }, 'has a value that is not allowed'],
    ['/new', { minimum_age_hours: '-1' }, 'has a value that is not allowed'],
    ['/set', { name: 'missing' }, 'Nothing was changed: upstream not found.'],
  ])('reject “%s” %j with the reason, and keep the entered values', async (below, wrong, reason) => {
    const { send, repository } = await aVisitor('admin')
    const refused = await send(below, { ...draft(), exempt: 'kept/*', ...(wrong as Record<string, string>) })
    expect(refused.statusCode).toBeGreaterThanOrEqual(400)
    expect(refused.statusCode).toBeLessThan(500)
    expect(refused.body).toContain(reason)
    if (refused.body.includes('upstream-url')) expect(refused.body).toContain('kept/*')
    expect(await upstreamsOf(repository)).toEqual([])
  })

  it('shows a refused change in its own form', async () => {
    const { send } = await aVisitor('admin')
    await send('/new', draft())
    const refused = await send('/set', { name: 'public', mode: 'automatic', allow: 'Wrong <b>' })
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toMatch(/Change public<\/h2>[\s\S]*role="alert"[\s\S]*Wrong &lt;b&gt;/)
    const added = await send('/new', { ...draft(), name: 'Not Good' })
    expect(added.body).toMatch(/New upstream<\/h2>\s*<p class="problem" role="alert" id="problem">/)
  })
})

describe('the forms of vendors', () => {
  it('claim and release a vendor of the group, each with its event', async () => {
    const { group, account, send, open } = await aVisitor('admin', { isOfGroup: true })
    await send('/claim', { vendor: 'ours', exceptions: 'ours/open-*' })
    expect(await lastEvent()).toMatchObject({
      action: 'claim-vendor',
      accountId: account.id,
      details: { vendor: 'ours', exceptions: ['ours/open-*'] },
    })
    const { body } = await open('/vendors')
    expect(body).toContain('claimed by hand')
    expect(body).toContain('<code>ours/open-*</code>')
    expect((await open('/release?vendor=ours')).body).toContain('Release the vendor ours?')
    expect((await send('/release', { vendor: 'ours' })).statusCode).toBe(303)
    expect(await lastEvent()).toMatchObject({ action: 'release-vendor', details: { vendor: 'ours' } })
    expect(await countRows(t.db, 'vendor_claim', { groupId: group.id })).toBe(0)
    expect((await send('/release', { vendor: 'ours' })).statusCode).toBe(404)
  })

  it('release no vendor of packages that the group has published', async () => {
    const { group, repository, send } = await aVisitor('admin', { isOfGroup: true })
    await send('/claim', { vendor: 'ours' })
    await addPackages(t.db, repository, ['ours/lib'])
    const refused = await send('/release', { vendor: 'ours' })
    expect([refused.statusCode, refused.body]).toEqual([
      400,
      expect.stringContaining('the group has published packages of ours'),
    ])
    expect(await countRows(t.db, 'vendor_claim', { groupId: group.id })).toBe(1)
  })

  it('claim no vendor of mirrored packages that no exception matches, unless forced', async () => {
    const { group, repository, send, open } = await aVisitor('admin', { isOfGroup: true })
    await send('/new', draft())
    const [row] = await upstreamRows(t.db, repository)
    await aMirroredPackage(t.db, repository, 'public/lib', { upstreamId: row?.id ?? '' })
    expect((await open('/vendors')).body).toMatch(/>public<\/a><\/th>\s*<td data-label="From">public</)
    const refused = await send('/claim', { vendor: 'public', exceptions: 'public/typo' })
    expect([refused.statusCode, refused.body]).toEqual([
      400,
      expect.stringContaining('would become unavailable'),
    ])
    expect(await countRows(t.db, 'vendor_claim', { groupId: group.id })).toBe(0)
    expect((await send('/claim', { vendor: 'public', exceptions: 'public/l*' })).statusCode).toBe(303)
    expect((await send('/claim', { vendor: 'public', exceptions: 'public/typo' })).statusCode).toBe(400)
    const forced = await send('/claim', { vendor: 'public', exceptions: 'public/typo', force: 'yes' })
    expect(forced.statusCode).toBe(303)
  })

  it('are in the activity by name, and packages from upstreams lead to the list of them', async () => {
    const { account, repository, cookie, send } = await aVisitor('admin', { isOfGroup: true })
    await send('/new', draft())
    await send('/claim', { vendor: 'ours' })
    const about = { repositoryId: repository.id, packageName: 'psr/log' }
    const by = { ...operator, accountId: account.id }
    const alarm = { ...about, version: '1.0.0' }
    await insertEvent(t.db, by, { ...about, action: 'approve-package' })
    await insertEvent(t.db, operator, {
      ...alarm,
      action: 'archive-alarm',
      details: { reason: 'other bytes' },
    })
    // The former release wrote the second one.
    for (const action of ['forget-archive', 'accept-archive'] as const) {
      await insertEvent(t.db, by, { ...alarm, action, details: { upstream: 'public', alarm: 'other bytes' } })
    }
    const { body } = await look(`/${repository.path}/-/activity`, cookie)
    const told = body.slice(body.indexOf('<tbody>')).replaceAll(/<[^>]*>/g, '')
    for (const sentence of ['Added the upstream public', 'Approved psr/log']) {
      expect(told).toContain(sentence)
    }
    // A vendor belongs to the group.
    const [groupName] = repository.path.split('/')
    const ofGroup = await look(`/${groupName}/-/activity`, cookie)
    const toldGroup = ofGroup.body.slice(ofGroup.body.indexOf('<tbody>')).replaceAll(/<[^>]*>/g, '')
    expect(toldGroup).toContain('Claimed the vendor ours')
    expect(told).toContain('Saw that an archive has changed psr/log 1.0.0 other bytes')
    for (const act of ['Accepted the new', 'Forgot the stored']) {
      expect(told).toContain(`${act} bytes of an archive psr/log 1.0.0 public, the alarm was: other bytes`)
    }
    expect(body.match(/href="[^"]*psr[^"]*"/g)).toEqual(
      Array(4).fill(`href="/${repository.path}/packages/psr/log"`),
    )
  })

  it('belong to admins of the group, and reject an invalid vendor', async () => {
    const ofRepository = await aVisitor('admin')
    expect((await ofRepository.open('/vendors')).body).not.toContain('id="vendors"')
    expect((await ofRepository.send('/claim', { vendor: 'ours' })).statusCode).toBe(403)
    const ofGroup = await aVisitor('admin', { isOfGroup: true })
    const refused = await ofGroup.send('/claim', { vendor: 'No/Vendor', exceptions: 'no/open-*' })
    expect(refused.body).toContain('>no/open-*</textarea>')
    expect([refused.statusCode, refused.body.includes('value="No/Vendor"')]).toEqual([400, true])
  })
})

it('the time of the last failed attempt to read an upstream is shown until one succeeds', async () => {
  const caller = await aCaller(t)
  expect((await caller.call('POST', '/upstreams', draft())).statusCode).toBe(201)
  const { open } = await onPage(caller.account as Parameters<typeof onPage>[0], caller.repository)
  let names = 0
  const read = async () => {
    await ageRoots(t.db, 1)
    names += 1
    await caller.ask(`p2/some/package${names}.json`)
    return (await caller.call('GET', '/upstreams')).json()[0]
  }
  expect(await read()).toMatchObject({ failure: null, failed_at: null })
  upstream.fail('/packages.json', 500)
  const { failure, failed_at } = await read()
  expect(failure).toContain('did not respond as expected')
  expect((await open('/list')).body).toContain(`<time datetime="${failed_at}">`)
  upstream.fail('/packages.json', null)
  expect(await read()).toMatchObject({ failure: null, failed_at: null })
})
