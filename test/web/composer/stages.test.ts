import { describe, expect, it } from 'vitest'
import { operator } from '../../../src/domain/principal.ts'
import { rejectStage, releaseStage } from '../../../src/packages/stages/release.ts'
import { findStage } from '../../../src/packages/tables/staged-versions.ts'
import { callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { aPublisher, expand } from '../../support/registry-actors.ts'

const t = useApp()

async function stageOf(id: string) {
  const stage = await findStage(t.db, id)
  if (!stage) throw new Error(`no stage ${id}`)
  return { stage, by: operator, baseUrl: t.config.baseUrl }
}

/** A repository with the versions 1.0.0 and 1.1.0, and the staged version 2.0.0. */
async function aStage(about: Parameters<typeof aPublisher>[1] = {}) {
  const publisher = await aPublisher(t, about)
  const { push, stage, ask, repository } = publisher
  await push('1.0.0', { manifest: { keywords: ['old'] } })
  await push('1.1.0', { manifest: { homepage: 'https://example.com/' } })
  await push('1.0.0', { name: 'acme/other' })
  const staged = (await stage('2.0.0', { manifest: { description: 'new' } })).json()
  const guest = await aPublisher(t, { repository, role: 'guest' })
  const below = (path: string) => `stages/${staged.id}/${path}`
  return { ...publisher, guest, staged, below, id: staged.id as string, ask }
}

describe('stages/<id>/packages.json', () => {
  it('offers the staged version and everything that the repository offers', async () => {
    const { ask, below, path, staged } = await aStage()
    const root = (await ask(below('packages.json'))).json()
    expect(root).toEqual((await ask(below(''))).json())
    expect(root).toMatchObject({
      'metadata-url': `http://svc.test${path}${below('p2/%package%.json')}`,
      'available-packages': ['acme/lib', 'acme/other'],
    })
    expect(root).not.toHaveProperty('notify-batch')
    const entries = expand((await ask(below('p2/acme/lib.json'))).body)
    const published = expand((await ask('p2/acme/lib.json')).body)
    expect(entries.slice(1)).toEqual(published)
    expect(entries[0]).toMatchObject({
      version: '2.0.0',
      description: 'new',
      dist: { url: `http://svc.test${path}dist/acme/lib/2.0.0/${staged.sha256}.zip` },
    })
    const other = await ask(below('p2/acme/other.json'))
    expect(other.json()).toEqual((await ask('p2/acme/other.json')).json())
  })

  it('offers a package that has no version yet, whose name nobody else sees', async () => {
    const { stage, ask } = await aPublisher(t)
    const { id } = (await stage('1.0.0')).json()
    expect((await ask(`stages/${id}/packages.json`)).json()['available-package-patterns']).toContain(
      'acme/lib',
    )
    expect(expand((await ask(`stages/${id}/p2/acme/lib.json`)).body)).toMatchObject([{ version: '1.0.0' }])
    expect((await ask('packages.json')).body).not.toContain('acme/lib')
  })

  it.each(['private', 'public'] as const)(
    'and its archive are 404 for everybody who may not push, in a %s repository',
    async (visibility) => {
      const { ask, below, guest, staged, path } = await aStage({ visibility })
      const archive = `dist/acme/lib/2.0.0/${staged.sha256}.zip`
      const urls = [below('packages.json'), below(''), below('p2/acme/lib.json'), below('p2/acme/other.json')]
      for (const url of [...urls, archive]) {
        const own = await ask(url)
        expect([url, own.statusCode]).toEqual([url, 200])
        expect(own.headers['cache-control']).toContain('private')
        expect((await guest.ask(url)).statusCode).toBe(404)
        const anonymous = await t.app.inject(path + url)
        expect(anonymous.statusCode).toBe(visibility === 'public' ? 404 : 401)
      }
    },
  )

  it('is gone when the stage is rejected, and goes on after its release', async () => {
    const rejected = await aStage()
    await rejectStage(t.db, { ...(await stageOf(rejected.id)), reason: '' })
    const released = await aStage()
    await releaseStage(t.db, await stageOf(released.id))
    for (const [{ ask, below, staged }, status] of [
      [rejected, 404],
      [released, 200],
    ] as const) {
      expect((await ask(below('packages.json'))).statusCode).toBe(status)
      expect((await ask(`dist/acme/lib/2.0.0/${staged.sha256}.zip`)).statusCode).toBe(status)
    }
    const { ask, below } = released
    expect((await ask(below('p2/acme/lib.json'))).body).toBe((await ask('p2/acme/lib.json')).body)
  })
})

describe('/api/repositories/<group>/<name>/stages', () => {
  it('lists the stages and each of them, for those who may push', async () => {
    const { repository, token, guest, id, staged, account } = await aStage()
    const url = `/api/repositories/${repository.path}/stages`
    const stages = (await callApi(t, token, 'GET', url)).json()
    const staged_by = { type: 'account', username: account.username }
    expect(stages).toMatchObject([
      { ...staged, stager: account.username, staged_by, approver: null, decided_at: null },
    ])
    expect((await callApi(t, token, 'GET', `${url}/${id}`)).json()).toEqual(stages[0])
    expect((await callApi(t, token, 'GET', `${url}?status=released`)).json()).toEqual([])
    for (const unknown of ['0', 'x', '999999999999999999']) {
      expect((await callApi(t, token, 'GET', `${url}/${unknown}?wait=1`)).statusCode).toBe(404)
    }
    expect((await callApi(t, guest.token, 'GET', `${url}/${id}`)).statusCode).toBe(403)
    expect((await callApi(t, token, 'GET', `${url}/${id}?wait=61`)).statusCode).toBe(400)
  })

  it('waits until the state changes, without a turn of the network or a connection', async () => {
    const { repository, token, id } = await aStage()
    const url = `/api/repositories/${repository.path}/stages/${id}`
    const waiting = Array.from({ length: 12 }, () => callApi(t, token, 'GET', `${url}?wait=60`))
    let ended = 0
    for (const one of waiting) void one.then(() => (ended += 1))
    // Others of the same network are served meanwhile.
    expect((await callApi(t, token, 'GET', url)).statusCode).toBe(200)
    expect(ended).toBe(0)
    await releaseStage(t.db, await stageOf(id))
    const statuses = (await Promise.all(waiting)).map((response) => response.json().status)
    expect(statuses).toEqual(Array.from({ length: 12 }, () => 'released'))
  })

  it('lets at most 50 requests of one holder wait', async () => {
    const { repository, token, id } = await aStage()
    const url = `/api/repositories/${repository.path}/stages/${id}?wait=60`
    const waiting = Array.from({ length: 60 }, () => callApi(t, token, 'GET', url))
    let refused = 0
    for (const one of waiting) void one.then(({ statusCode }) => (refused += Number(statusCode === 429)))
    await expect.poll(() => refused).toBe(10)
    await rejectStage(t.db, { ...(await stageOf(id)), reason: 'no' })
    const statuses = (await Promise.all(waiting)).map(({ statusCode }) => statusCode)
    expect(statuses.filter((status) => status === 200)).toHaveLength(50)
  })
})
