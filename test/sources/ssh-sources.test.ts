import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { queuePushed } from '../../src/sources/sources.ts'
import { csrfTokenIn, post, signIn } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'
import { packageFiles, sourcesHere } from '../support/git-server.ts'
import { has } from '../support/requires.ts'
import { aSource } from '../support/source-actors.ts'
import { passSourceIntervals } from '../support/source-rows.ts'
import { type SshServer, startSshServer } from '../support/ssh-server.ts'

describe.runIf(has('sshd', 'ssh-keygen'))('a source over SSH', () => {
  const t = useApp(sourcesHere)
  const svc = useCommands(t)
  let server: SshServer
  beforeAll(async () => {
    server = await startSshServer()
  })
  afterAll(() => server.stop())

  it('is not read before a person has confirmed the key that the server shows', async () => {
    const git = server.repository('lib')
    git.commit(packageFiles('acme/lib'), { tag: '1.0.0' })
    const { account, call, repository } = await aCaller(t, { visibility: 'public' })
    const source = await aSource(t, { url: git.url, sshKey: server.key }, { place: repository })
    expect(source).toMatchObject({ hostKeys: [server.fingerprint], isConfirmed: false })
    await passSourceIntervals(t.db, Number(source.id))
    await queuePushed(t.db, source.id)
    await source.read()
    await expect(source.readAgain()).rejects.toThrow('confirm the key of the SSH server first')
    expect(await source.find()).toMatchObject({ failure: null, lookedAt: null, counts: {} })
    const waits = `waits for svc source confirm ${source.id} ${server.fingerprint}`
    expect((await svc.run('source', 'list', repository.path)).stdout).toContain(waits)
    const confirm = (host_key: string) => call('POST', `/sources/${source.id}/confirm`, { host_key })
    const shown = `the SSH server has shown a key with the fingerprint ${server.fingerprint}`
    expect((await confirm('SHA256:another')).json()).toMatchObject({ errcode: 3, errmsg: shown })
    expect(await svc.fail('source', 'confirm', source.id, 'SHA256:another')).toContain(shown)
    await source.read()
    expect(await source.find()).toMatchObject({ isConfirmed: false, lookedAt: null })
    const cookie = await signIn(t.app, account)
    const url = `/${repository.path}/-/sources/${source.id}`
    const page = await t.app.inject({ url, headers: { cookie } })
    expect(page.body).toContain(`<p><code>${server.fingerprint}</code></p>`)
    const [, host_key = ''] = /name="host_key" value="([^"]+)"/.exec(page.body) ?? []
    const form = { csrf_token: csrfTokenIn(page), host_key }
    const confirmed = await post(t.app, `${url}/confirm`, cookie, form)
    expect([confirmed.statusCode, confirmed.headers.location]).toEqual([303, url])
    expect(await svc.json('source', 'confirm', source.id, server.fingerprint)).toEqual({
      id: Number(source.id),
    })
    expect((await confirm(server.fingerprint)).statusCode).toBe(202)
    const events = await eventsOf(t.db, { repositoryId: repository.id, action: 'confirm-source' }, [
      'details',
    ])
    expect(events).toEqual([
      { details: { source: Number(source.id), url: git.url, host_key: server.fingerprint } },
    ])
    await source.read()
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 2 } })
    const [entry] = await source.entries('acme/lib')
    expect(entry).toMatchObject({ source: { type: 'git', url: git.url } })
  })

  it('is read at once when the server has the key that was given', async () => {
    const git = server.repository('given')
    git.commit(packageFiles('acme/given'), { tag: '1.0.0' })
    const wanted = { url: git.url, sshKey: server.key, hostKey: 'SHA256:another' }
    await expect(aSource(t, wanted)).rejects.toThrow('the SSH server has shown a key')
    const source = await aSource(t, { ...wanted, hostKey: server.fingerprint })
    await source.read()
    expect(await source.find()).toMatchObject({ isConfirmed: true, counts: { published: 2 } })
  })

  it('is not read with a key that the server does not know', async () => {
    const git = server.repository('other')
    git.commit(packageFiles('acme/other'), { tag: '1.0.0' })
    const other = await startSshServer()
    await other.stop()
    const source = await aSource(t, { url: git.url, sshKey: other.key, hostKey: server.fingerprint })
    await source.read()
    expect((await source.find())?.failure).toBe('the server does not accept the SSH key')
  })

  it('is not read from a server with another key than the pinned one', async () => {
    const git = server.repository('changed')
    git.commit(packageFiles('acme/changed'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, sshKey: server.key, hostKey: server.fingerprint })
    await server.changeKey()
    await source.read()
    expect((await source.find())?.failure).toContain('the SSH server has another key than the pinned one')
    expect(await source.entries('acme/changed')).toEqual([])
  })
})
