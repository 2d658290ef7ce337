import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { packageFiles, sourcesHere } from '../support/git-server.ts'
import { has } from '../support/requires.ts'
import { aSource } from '../support/source-actors.ts'
import { type SshServer, startSshServer } from '../support/ssh-server.ts'

describe.runIf(has('sshd', 'ssh-keygen'))('a source over SSH', () => {
  const t = useApp(sourcesHere)
  let server: SshServer
  beforeAll(async () => {
    server = await startSshServer()
  })
  afterAll(() => server.stop())

  it('is read with its key, pins the key of the server, and shows its fingerprint', async () => {
    const git = server.repository('lib')
    git.commit(packageFiles('acme/lib'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, sshKey: server.key })
    expect(source.hostKeys).toEqual([server.fingerprint])
    await source.read()
    expect(await source.find()).toMatchObject({ failure: null, counts: { published: 2 } })
    const [entry] = await source.entries('acme/lib')
    expect(entry).toMatchObject({ source: { type: 'git', url: git.url } })
    const { rows } = await t.db.query('select * from source')
    const body = server.key.split('\n')[2] as string
    expect(JSON.stringify([rows, t.log()])).not.toContain(body)
  })

  it('is not read with a key that the server does not know', async () => {
    const git = server.repository('other')
    git.commit(packageFiles('acme/other'), { tag: '1.0.0' })
    const other = await startSshServer()
    other.stop()
    const source = await aSource(t, { url: git.url, sshKey: other.key })
    await source.read()
    expect((await source.find())?.failure).toBe('the server does not accept the SSH key')
  })

  it('is not read from a server with another key than the pinned one', async () => {
    const git = server.repository('changed')
    git.commit(packageFiles('acme/changed'), { tag: '1.0.0' })
    const source = await aSource(t, { url: git.url, sshKey: server.key })
    await server.changeKey()
    await source.read()
    expect((await source.find())?.failure).toContain('the SSH server has another key than the pinned one')
    expect(await source.entries('acme/changed')).toEqual([])
  })
})
