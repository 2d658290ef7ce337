import { describe, expect, it } from 'vitest'
import { aRepository } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { forgetFiles } from '../support/mirrored-rows.ts'
import { anAccessToken, anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { aPackageZip, expand } from '../support/registry-actors.ts'
import { askUpstreams, upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aVendorClaim, markStale, upstreamDocuments } from '../support/upstream-rows.ts'

const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test' })
const earlier = useUpstream()
const later = useUpstream()

/** A repository with a private upstream before a public one, and a package that only the public one had. */
async function aServedName(name: string, settings: object = {}) {
  const group = (await aRepository(t.db)).group
  const caller = await aCaller(t, { repository: await aRepository(t.db, { group }) })
  const { call, ask, path } = caller
  await call('POST', '/upstreams', { url: earlier.url, name: 'private', ...settings })
  await call('POST', '/upstreams', { url: later.url, name: 'public' })
  later.offer(name, ['1.0.0'])
  const document = async (file = name) => (await ask(`p2/${file}.json`)).json()
  const versions = async (file?: string) =>
    expand(JSON.stringify(await document(file)), name).map(({ version }) => version)
  expect(await versions()).toEqual(['1.0.0'])
  const urlOfDist = async () => {
    const [entry = {}] = expand((await ask(`p2/${name}.json`)).body, name)
    return (entry['dist'] as { url: string }).url.slice(`http://svc.test${path}`.length)
  }
  const url = await urlOfDist()
  const dist = async () => ask(url)
  const events = async (action: string) =>
    (await call('GET', '/events')).json().filter((event: { action: string }) => event.action === action)
  const contestedBy = async () => (await call('GET', '/mirrored-packages')).json()[0].contested_by
  const decide = (upstream: string) => call('POST', '/mirrored-packages/decide', { package: name, upstream })
  const check = () => markStale(t.db, name)
  return { ...caller, group, name, document, versions, dist, events, contestedBy, decide, check, urlOfDist }
}

/** The same, after the private upstream has published another package of that name, and the alarm. */
async function aContest(name: string) {
  const contest = await aServedName(name)
  expect((await contest.dist()).statusCode).toBe(200)
  earlier.offer(name, ['0.1.0'])
  await askUpstreams(t)
  return contest
}

const askedFor = (name: string) => earlier.requests.filter((request) => request.includes(name))

describe('a name that an earlier upstream publishes after a later one', () => {
  it('is hidden after the scheduled question, with an alarm, and nothing of it is stored', async () => {
    const { name, document, versions, events, contestedBy } = await aContest('contest/tested')
    expect(await document()).toEqual({
      warning: expect.stringContaining('An admin of the repository must decide'),
      packages: { [name]: [] },
    })
    expect(await versions(`${name}~dev`)).toEqual([])
    expect(await contestedBy()).toEqual(['private'])
    expect(await events('contest-package')).toMatchObject([
      { package: name, details: { upstream: 'public', also_at: 'private' } },
    ])
    const documents = await upstreamDocuments(t.db, name)
    expect(documents.filter((row) => row.upstream === 'private' && row.hasContent)).toEqual([])
    // The alarm is raised once.
    await askUpstreams(t)
    expect(await events('contest-package')).toHaveLength(1)
  })

  it('is found when the later upstream is checked again', async () => {
    const { name, versions, check, events } = await aServedName('contest/refreshed')
    earlier.offer(name, ['0.1.0'])
    await check()
    await versions()
    await expect.poll(() => events('contest-package')).toHaveLength(1)
    expect(await versions()).toEqual([])
  })

  it('is found when only its development versions are published', async () => {
    const { name, contestedBy } = await aServedName('contest/dev')
    earlier.offer(name, ['dev-main'], { isDev: true })
    await askUpstreams(t)
    expect(await contestedBy()).toEqual(['private'])
  })

  it('is found in packages.json itself', async () => {
    const { name, contestedBy, call } = await aServedName('contest/inline')
    await call('DELETE', '/upstreams/private')
    const entry = { name, version: '0.1.0', dist: { type: 'zip', url: `${earlier.url}/x.zip` } }
    earlier.put('/inline/packages.json', { packages: { [name]: { '0.1.0': entry } } })
    await call('POST', '/upstreams', { url: `${earlier.url}/inline`, name: 'inline', position: 1 })
    await call('PATCH', '/upstreams/public', { position: 2 })
    await askUpstreams(t)
    expect(await contestedBy()).toEqual(['inline'])
  })

  it('is left alone while the earlier upstream fails, and while its document lacks the package', async () => {
    const { name, versions, contestedBy, call } = await aServedName('contest/failing')
    earlier.offer(name, ['0.1.0'])
    for (const fault of [500, 403] as const) {
      earlier.fail(`/p2/${name}.json`, fault)
      await askUpstreams(t)
      expect(await contestedBy(), `${fault}`).toEqual([])
    }
    earlier.fail(`/p2/${name}.json`, (_, response) => response.writeHead(200).end('<h1>Sign in</h1>'))
    await askUpstreams(t)
    expect(await contestedBy()).toEqual([])
    earlier.fail(`/p2/${name}.json`, (_, response) => response.writeHead(200).end('{"packages":{}}'))
    await askUpstreams(t)
    expect(await contestedBy()).toEqual([])
    expect(await versions()).toEqual(['1.0.0'])
    earlier.fail(`/p2/${name}.json`, null)
    await askUpstreams(t)
    expect(await contestedBy()).toEqual(['private'])
    await call('DELETE', '/upstreams/private')
  })

  it('keeps its stored archives for lock files, and fetches no others', async () => {
    const { name, dist } = await aContest('contest/archives')
    expect((await dist()).statusCode).toBe(200)
    await forgetFiles(t.db, name)
    expect((await dist()).statusCode).toBe(404)
  })

  it('is not sent to upstreams that may not offer it, wait for an approval, or come after the other', async () => {
    const { call, name, versions } = await aServedName('contest/denied', { deny: ['contest/denied'] })
    await askUpstreams(t)
    await call('PATCH', '/upstreams/private', { deny: [], mode: 'approved' })
    await askUpstreams(t)
    await call('PATCH', '/upstreams/private', { mode: 'off' })
    await askUpstreams(t)
    await call('PATCH', '/upstreams/private', { mode: 'automatic', position: 900 })
    await askUpstreams(t)
    expect(askedFor(name)).toEqual([])
    expect(await versions()).toEqual(['1.0.0'])
  })

  it('is not sent to upstreams when its vendor belongs to the group', async () => {
    const { name, group } = await aServedName('contest/claimed')
    const before = askedFor(name).length
    await aVendorClaim(t.db, group, 'contest')
    await askUpstreams(t)
    expect(askedFor(name)).toHaveLength(before)
  })

  it('is no longer contested when the order of the upstreams changes', async () => {
    const { call, versions, contestedBy } = await aContest('contest/moved')
    await call('PATCH', '/upstreams/private', { position: 900 })
    expect([await versions(), await contestedBy()]).toEqual([['1.0.0'], []])
    await call('PATCH', '/upstreams/private', { position: 1 })
    expect([await versions(), await contestedBy()]).toEqual([[], ['private']])
  })
})

describe('POST …/mirrored-packages/decide', () => {
  it('lets the earlier upstream serve the name', async () => {
    const { name, versions, decide, events, contestedBy, account, call } = await aContest('dec/earlier')
    expect((await decide('private')).statusCode).toBe(204)
    expect(await versions()).toEqual(['0.1.0'])
    expect(await contestedBy()).toEqual([])
    expect((await call('GET', '/mirrored-packages')).json()[0].upstream).toBe('private')
    expect(await events('decide-package')).toMatchObject([
      { package: name, account: account.username, details: { upstream: 'private', not_from: ['public'] } },
    ])
  })

  it('does not serve an archive of the other upstream as one of the chosen one', async () => {
    const { name, decide, ask, urlOfDist } = await aContest('dec/same')
    // The same version and the same reference, but other bytes.
    const bytes = aPackageZip(name, { description: 'ours' })
    earlier.put(`/archives/${name}/1.0.0.zip`, bytes)
    earlier.offer(name, ['1.0.0'])
    await decide('private')
    expect((await ask(await urlOfDist())).rawPayload.equals(bytes)).toBe(true)
  })

  it('lets the later upstream keep the name, and asks no more about it', async () => {
    const { name, versions, decide, contestedBy, check } = await aContest('dec/later')
    expect((await decide('public')).statusCode).toBe(204)
    expect([await versions(), await contestedBy()]).toEqual([['1.0.0'], []])
    const before = askedFor(name).length
    later.offer(name, ['1.1.0', '1.0.0'])
    await check()
    await askUpstreams(t)
    await expect.poll(() => versions()).toEqual(['1.1.0', '1.0.0'])
    expect(askedFor(name)).toHaveLength(before)
  })

  it('is refused without a contest, for another upstream, and for tokens of applications', async () => {
    const { name, account, decide, versions, path, call } = await aContest('dec/refused')
    const wrong = await decide('other')
    expect([wrong.statusCode, wrong.json().errmsg]).toEqual([
      400,
      'choose one of the upstreams that have it: public, private',
    ])
    const application = await anApplication(t.db, { scopes: ['registry-manage:rw'] })
    const authorization = await anAuthorization(t.db, account, application, {
      scopes: ['registry-manage:rw'],
    })
    const [, group, repository] = path.split('/')
    const url = `/api/repositories/${group}/${repository}/mirrored-packages/decide`
    const body = { package: name, upstream: 'public' }
    const token = await anAccessToken(t.db, authorization)
    expect((await callApi(t, token, 'POST', url, body)).statusCode).toBe(403)
    expect(await versions()).toEqual([])
    await decide('public')
    const again = await decide('public')
    expect([again.statusCode, again.json().errcode]).toEqual([400, 9])
    const unknown = await call('POST', '/mirrored-packages/decide', { package: 'no/one', upstream: 'public' })
    expect(unknown.statusCode).toBe(404)
  })

  it('of two racing requests decides once', async () => {
    const { decide, events } = await aContest('dec/race')
    const statuses = await Promise.all(['private', 'public', 'private', 'public'].map((one) => decide(one)))
    expect(statuses.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)).toEqual([
      204, 400, 400, 400,
    ])
    expect(await events('decide-package')).toHaveLength(1)
  })
})
