import { describe, expect, it } from 'vitest'
import {
  aDeployToken,
  anAccount,
  anAdminToken,
  aPersonalToken,
  aRepository,
  signIn,
} from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { aPackageZip, aPublisher, basic, expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()
const svc = useCommands(t)

interface Found {
  repository: string
  version: string
  state: string
}

/** One archive in a private and in a public repository, and mirrored in another private one. */
async function aScene() {
  const payload = aPackageZip('acme/lib', { description: Math.random().toString() })
  const [own, open] = [await aCaller(t), await aPublisher(t, { visibility: 'public' })]
  const { sha256 } = (await own.push('1.0.0', { payload })).json<{ sha256: string }>()
  await open.push('2.0.0', { payload })
  const mirroring = await aCaller(t)
  await mirroring.call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  upstream.put('/archives/acme/lib/3.0.0.zip', payload)
  upstream.offer('acme/lib', ['3.0.0'])
  const [entry] = expand((await mirroring.ask('p2/acme/lib.json')).body)
  const { url } = { ...(entry?.['dist'] as object) } as { url: string }
  await mirroring.ask(url.slice(`http://svc.test${mirroring.path}`.length))
  return { own, open, mirroring, sha256 }
}

const find = async (token: string, sha256: string) => {
  const headers = { authorization: `Bearer ${token}` }
  const response = await t.app.inject({ url: `/api/archives/${sha256}`, headers })
  return response.statusCode === 200 ? response.json<Found[]>() : response.statusCode
}

describe('the search of an archive by its SHA-256', () => {
  it('finds the versions in all repositories from which a token may pull, and all with an admin token', async () => {
    const { own, open, mirroring, sha256 } = await aScene()
    const size = expect.any(Number)
    const stored_at = expect.any(String)
    const found = (repository: string, version: string, state = 'listed') => ({
      ...{ repository, package: 'acme/lib', version, state, size, stored_at },
    })
    const [ownOne, openOne] = [found(own.repository.path, '1.0.0'), found(open.repository.path, '2.0.0')]
    const mirrored = found(mirroring.repository.path, '3.0.0', 'mirrored')
    expect(await find(own.token, sha256.toUpperCase())).toEqual([ownOne, openOne])
    expect(await find(mirroring.token, sha256)).toEqual([openOne, mirrored])
    const [stranger, admin] = [await anAccount(t.db), await anAccount(t.db, { isAdmin: true })]
    const scopes = ['registry-package:r']
    expect(await find(await aPersonalToken(t.db, stranger, { scopes }), sha256)).toEqual([openOne])
    expect(await find(await aPersonalToken(t.db, admin, { scopes }), sha256)).toEqual([openOne])
    expect(await find(await anAdminToken(t.db, admin, { scopes }), sha256)).toEqual([
      ownOne,
      openOne,
      mirrored,
    ])
    const other = await aRepository(t.db)
    const specified = await aPersonalToken(t.db, own.account, {
      scopes,
      resourceScope: 'specified',
      repositoryIds: [other.id],
    })
    expect(await find(specified, sha256)).toEqual([openOne])
    expect(await find(await aPersonalToken(t.db, stranger, { scopes: ['account-profile:r'] }), sha256)).toBe(
      403,
    )
    expect(await find(own.token, sha256.slice(1))).toBe(400)
    expect(await find(own.token, '0'.repeat(64))).toEqual([])

    const command = await svc.json<{ items: Found[]; next: string }>(
      'archives',
      'find',
      sha256,
      '--limit',
      '2',
    )
    expect(command.items).toEqual([ownOne, openOne])
    const rest = await svc.json<{ items: Found[] }>('archives', 'find', sha256, '--after', command.next)
    expect(rest.items).toEqual([mirrored])
    expect(await svc.fail('archives', 'find', 'abc')).toContain('64 hexadecimal digits')
  })

  it('finds deleted, purged and quarantined versions too, and the page shows them to those who may pull', async () => {
    const { own, open, sha256 } = await aScene()
    const stateOf = async () => ((await find(own.token, sha256)) as Found[])[0]?.state
    await own.call('POST', '/packages/acme/lib/1.0.0/quarantine', { reason: 'bad' })
    expect(await stateOf()).toBe('quarantined')
    await own.call('DELETE', '/packages/acme/lib/1.0.0')
    expect(await stateOf()).toBe('deleted')
    await own.call('DELETE', '/packages/acme/lib/1.0.0?purge=true')
    expect(await stateOf()).toBe('purged')

    const page = async (cookie: string) =>
      (await t.app.inject({ url: `/search?q=${sha256}`, headers: { cookie } })).body
    const [mine, others] = [await page(await signIn(t.app, own.account)), await page('')]
    expect(mine).toContain(`/${own.repository.path}/packages/acme/lib"`)
    expect(mine).toContain('>purged<')
    for (const body of [mine, others]) {
      expect(body).toContain(`/${open.repository.path}/packages/acme/lib?version=2.0.0`)
    }
    expect(others).not.toContain(own.repository.path)
  })

  it('finds what a deploy token may pull', async () => {
    const repository = await aRepository(t.db)
    const publisher = await aPublisher(t, { repository })
    const { sha256 } = (await publisher.push('1.0.0', { manifest: { description: 'of a group' } })).json<{
      sha256: string
    }>()
    const token = await aDeployToken(t.db, repository.group)
    expect(await find(token, sha256)).toMatchObject([{ repository: repository.path, version: '1.0.0' }])
    expect(
      (await publisher.ask('packages.json', { headers: { authorization: basic(token) } })).statusCode,
    ).toBe(200)
  })
})
