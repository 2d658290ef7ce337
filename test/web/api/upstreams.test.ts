import { describe, expect, it } from 'vitest'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { upstreamsHere, useUpstream } from '../../support/upstream.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()

describe('/api/repositories/<group>/<name>/upstreams', () => {
  it('adds, lists, changes and removes an upstream, and writes events', async () => {
    const { call, ask } = await aCaller(t)
    expect((await ask('packages.json')).json()).toHaveProperty('available-package-patterns')
    const added = await call('POST', '/upstreams', {
      url: `${upstream.url}/`,
      name: 'public',
      deny: ['evil/*'],
    })
    expect([added.statusCode, added.json()]).toMatchObject([
      201,
      {
        name: 'public',
        url: upstream.url,
        mode: 'automatic',
        deny: ['evil/*'],
        position: 1,
        minimum_age_hours: 0,
      },
    ])
    const root = (await ask('packages.json')).json()
    expect(root).not.toHaveProperty('available-packages')
    expect(root).not.toHaveProperty('available-package-patterns')

    const changed = await call('PATCH', '/upstreams/public', { mode: 'approved', minimum_age_hours: 48 })
    expect(changed.json()).toMatchObject({ mode: 'approved', minimum_age_hours: 48, deny: ['evil/*'] })
    expect((await call('GET', '/upstreams')).json()).toEqual([changed.json()])

    expect((await call('DELETE', '/upstreams/public')).statusCode).toBe(204)
    expect((await call('DELETE', '/upstreams/public')).statusCode).toBe(404)
    expect((await call('GET', '/upstreams')).json()).toEqual([])
    expect((await ask('packages.json')).json()).toHaveProperty('available-package-patterns')
    const events = (await call('GET', '/events')).json() as { action: string }[]
    expect(events.map(({ action }) => action)).toEqual(['remove-upstream', 'set-upstream', 'add-upstream'])
  })

  it.each([
    [{ url: 'ftp://example.com' }, 'must be https or http'],
    [{ url: 'https://ann:secret@example.com' }, 'UPSTREAM_AUTH_FILE'],
    [{ url: 'https://example.com/?a=1' }, 'must not have a query'],
    [{ url: 'http://10.255.0.1/' }, 'has no public IP'],
    [{ url: 'UPSTREAM/nothing' }, 'does not exist'],
    [{ url: 'UPSTREAM', allow: ['Symfony/*'] }, 'allow'],
    [{ url: 'UPSTREAM', deny: ['symfony/*:nonsense constraint'] }, 'deny'],
    [{ url: 'UPSTREAM', minimum_age_hours: -1 }, 'minimum_age_hours'],
    [{ url: 'UPSTREAM', name: 'Not Good' }, 'name'],
  ])('refuses %j', async (body, reason) => {
    const { call } = await aCaller(t)
    const refused = await call('POST', '/upstreams', {
      ...body,
      url: body.url.replace('UPSTREAM', upstream.url),
    })
    expect(refused.statusCode).toBe(400)
    expect(refused.json().errmsg).toContain(reason)
  })

  it.each([
    ['{"provider-includes":{"p/x.json":{}},"packages":[]}', 'Composer 1 only (provider-includes)'],
    ['{"packages":[],"providers-url":"/p/%package%$%hash%.json"}', 'Composer 1 only'],
    ['{}', 'neither metadata-url nor packages nor includes'],
    ['<html>', 'is not JSON'],
    ['[]', 'is not a JSON object'],
  ])('refuses an upstream whose packages.json is %s', async (content, reason) => {
    const { call } = await aCaller(t)
    upstream.put('/odd/packages.json', content)
    const refused = await call('POST', '/upstreams', { url: `${upstream.url}/odd` })
    expect(refused.json()).toMatchObject({ errcode: 9, errmsg: expect.stringContaining(reason) })
  })

  it('refuses a second upstream of one name', async () => {
    const { call } = await aCaller(t)
    await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    const again = await call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    expect([again.statusCode, again.json().errcode]).toEqual([409, 6])
  })

  it('is for admins with registry-manage only', async () => {
    const developer = await aCaller(t, { role: 'developer' })
    expect((await developer.call('GET', '/upstreams')).statusCode).toBe(403)
    expect((await developer.call('POST', '/upstreams', { url: upstream.url })).statusCode).toBe(403)
    const reader = await aCaller(t, { scopes: ['registry-manage:r'] })
    expect((await reader.call('GET', '/upstreams')).statusCode).toBe(200)
    expect((await reader.call('POST', '/upstreams', { url: upstream.url })).statusCode).toBe(403)
    expect((await reader.call('DELETE', '/upstreams/public')).statusCode).toBe(403)
  })
})

describe('/api/repositories/<group>/<name>/mirrored-packages', () => {
  it('accepts requests from everyone who may pull, and approvals from admins', async () => {
    const admin = await aCaller(t)
    const { repository } = admin
    const guest = await aCaller(t, { repository, role: 'guest', scopes: ['registry-package:r'] })
    const asked = await guest.call('POST', '/mirrored-packages/request', { package: 'monolog/monolog' })
    expect(asked.json()).toEqual({ state: 'requested' })
    const again = await guest.call('POST', '/mirrored-packages/request', { package: 'monolog/monolog' })
    expect(again.json()).toEqual({ state: 'known' })
    const approval = { packages: ['monolog/monolog'] }
    expect((await guest.call('POST', '/mirrored-packages/approve', approval)).statusCode).toBe(403)
    const approved = await admin.call('POST', '/mirrored-packages/approve', approval)
    expect(approved.json()).toEqual({ approved: ['monolog/monolog'] })
    const listed = (await guest.call('GET', '/mirrored-packages')).json()
    expect(listed).toMatchObject([
      { name: 'monolog/monolog', upstream: null, requester: guest.account.username },
    ])
    expect(listed[0].approved_at).not.toBeNull()
    const wrong = await admin.call('POST', '/mirrored-packages/approve', { packages: ['Not/Good'] })
    expect(wrong.statusCode).toBe(400)
  })
})
