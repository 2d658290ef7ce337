import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { openUpstreamClient } from '../../src/upstreams/client/fetch.ts'
import { addUpstream, setUpstream } from '../../src/upstreams/configure.ts'
import { anAccount, anAdminToken } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-test-auth-'))
const authFile = join(folder, 'auth.json')
writeFileSync(authFile, '{}')
const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test', UPSTREAM_AUTH_FILE: authFile })
const upstream = useUpstream()
beforeAll(() => writeFileSync(authFile, JSON.stringify({ bearer: { [upstream.host]: 's3cret' } })))
afterAll(() => rmSync(folder, { recursive: true }))

/** Returns the Authorization headers that the upstream gets during the work. */
async function sent(work: () => Promise<unknown>): Promise<(string | undefined)[]> {
  const before = upstream.authorizations.length
  await work()
  return [...new Set(upstream.authorizations.slice(before))]
}

/** Requests the metadata and the archive of a package. Returns the Authorization headers that the upstream gets. */
async function pull(caller: Awaited<ReturnType<typeof aCaller>>, name: string) {
  upstream.offer(name, ['1.0.0'])
  upstream.put('/moved.zip', upstream.read(`/archives/${name}/1.0.0.zip`) as Buffer)
  upstream.fail(`/archives/${name}/1.0.0.zip`, (_, response) =>
    response.writeHead(302, { location: '/moved.zip' }).end(),
  )
  return sent(async () => {
    const [entry] = expand((await caller.ask(`p2/${name}.json`)).body, name)
    const { url } = { ...(entry?.['dist'] as object) } as { url: string }
    const archive = await caller.ask(url.slice(`http://svc.test${caller.path}`.length))
    expect(archive.statusCode).toBe(200)
  })
}

/** Adds an upstream like `svc upstream add`. */
async function addByCommand(repositoryId: string, name: string) {
  const client = openUpstreamClient(t.config)
  try {
    return await addUpstream(t, client, { repositoryId, by: operator }, { url: `${upstream.url}/`, name })
  } finally {
    await client.close()
  }
}

describe('the credentials of UPSTREAM_AUTH_FILE', () => {
  it('are not sent for the upstream of an admin of a group', async () => {
    const caller = await aCaller(t)
    const headers = await sent(async () => {
      const url = `/api/repositories/${caller.repository.path}/upstreams`
      const refused = await callApi(t, caller.token, 'POST', url, { url: upstream.url, name: 'mine' })
      // It is on this machine, and only upstreams of operators reach private hosts.
      expect([refused.statusCode, refused.json().errmsg]).toEqual([
        400,
        expect.stringContaining('no public IP'),
      ])
    })
    expect(headers).toEqual([])
    const { id } = caller.repository
    await addByCommand(id, 'mine')
    const change = { repositoryId: id, by: operator }
    await setUpstream(t.db, change, 'mine', { usesCredentials: false })
    expect(await pull(caller, 'outside/lib')).toEqual([undefined])
    const wrong = await caller.call('PATCH', '/upstreams/mine', { uses_credentials: true })
    expect(wrong.statusCode).toBe(400)
    const changed = await caller.call('PATCH', '/upstreams/mine', { minimum_age_hours: 1 })
    expect(changed.json()).toMatchObject({ uses_credentials: false, minimum_age_hours: 1 })
  })

  it('are sent for the upstream of a command, its archives and its redirects', async () => {
    const caller = await aCaller(t)
    const { id } = caller.repository
    expect(await sent(() => addByCommand(id, 'ours'))).toEqual(['Bearer s3cret'])
    expect(await pull(caller, 'inside/lib')).toEqual(['Bearer s3cret'])
    const changed = await caller.call('PATCH', '/upstreams/ours', { position: 2 })
    expect(changed.json()).toMatchObject({ uses_credentials: true })
    await setUpstream(t.db, { repositoryId: id, by: operator }, 'ours', { usesCredentials: false })
    expect(await pull(caller, 'inside/other')).toEqual([undefined])
    await setUpstream(t.db, { repositoryId: id, by: operator }, 'ours', { reachesPrivateHosts: false })
    upstream.offer('inside/private', ['1.0.0'])
    expect((await caller.ask('p2/inside/private.json')).statusCode).toBe(503)
  })

  it('are sent for the upstream of a site administrator', async () => {
    const caller = await aCaller(t)
    const account = await anAccount(t.db, { isAdmin: true })
    const token = await anAdminToken(t.db, account, { scopes: ['registry-manage:rw'] })
    const url = `/api/repositories/${caller.repository.path}/upstreams`
    const added = await callApi(t, token, 'POST', url, { url: upstream.url, name: 'ours' })
    expect([added.statusCode, added.json().uses_credentials]).toEqual([201, true])
    expect(await pull(caller, 'admin/lib')).toEqual(['Bearer s3cret'])
  })

  it('are not sent to a URL that another upstream has named', async () => {
    const caller = await aCaller(t)
    const { id } = caller.repository
    upstream.put('/evil/packages.json', { packages: [], 'metadata-url': '/evil/%package%.json' })
    const dist = { type: 'zip', url: `${upstream.url}/moved.zip`, reference: 'abcdef1' }
    upstream.put('/evil/bait/lib.json', {
      packages: { 'bait/lib': [{ name: 'bait/lib', version: '9.0.0', dist }] },
    })
    await caller.call('POST', '/upstreams', { url: `${upstream.url}/evil`, name: 'evil' })
    expect((await caller.ask('p2/bait/lib.json')).statusCode).toBe(200)
    expect((await caller.call('DELETE', '/upstreams/evil?release=true')).statusCode).toBe(204)
    await addByCommand(id, 'ours')
    expect(await pull(caller, 'bait/lib')).toEqual(['Bearer s3cret'])
    const headers = await sent(async () => {
      expect((await caller.ask('dist/bait/lib/9.0.0/abcdef1.zip')).statusCode).toBe(404)
    })
    expect(headers).toEqual([])
  })
})
