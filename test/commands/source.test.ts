import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { aRepository } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { packageFiles, sourcesHere, useGitServer } from '../support/git-server.ts'
import { runSvc } from '../support/program.ts'
import { runCommand } from '../support/run-command.ts'
import { readSources } from '../support/source-actors.ts'
import { passSourceIntervals } from '../support/source-rows.ts'

const t = useApp(sourcesHere)
const svc = useCommands(t)
const server = useGitServer()

/** Runs `svc source add … --json` with the settings of the server. */
async function add(...words: string[]) {
  const own = { DATA_DIR: t.config.dataDir, BASE_URL: t.config.baseUrl, ...sourcesHere }
  const { code, stdout, stderr } = await runSvc(['source', 'add', ...words, '--json'], {
    ...svc.environment,
    ...own,
  })
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as { id: number; hook_url: string; hook_secret: string; host_keys: string[] }
}

describe('svc source', () => {
  it('adds a source, lists it and its refs, queues it, and removes it', async () => {
    const git = server.repository('command')
    git.commit(packageFiles('acme/command'), { tag: 'v1.0.0' })
    const { path } = await aRepository(t.db)
    const secretFile = join(t.config.dataDir, 'token.txt')
    await writeFile(secretFile, 'a-secret-token\n')
    const options = ['--branches', 'main', '--every', '30', '--secret-file', secretFile]
    const added = await add(path, git.url, ...options)
    expect(added).toEqual({
      id: expect.any(Number),
      hook_url: `http://svc.test/hooks/${added.id}`,
      hook_secret: expect.stringMatching(/^whsec_[\w+/]{43}=$/),
      host_keys: [],
      host_keys_confirmed: true,
    })
    await readSources(t)
    const id = String(added.id)
    const list = await svc.json<{ items: unknown[] }>('source', 'list', path)
    expect(list.items).toEqual([
      expect.objectContaining({ id: added.id, every: 30, failure: null, counts: { published: 2 } }),
    ])
    expect(JSON.stringify(list)).not.toMatch(/a-secret-token|whsec_/)
    expect((await svc.run('source', 'refs', id)).stdout).toBe(
      'branch main  published  acme/command  dev-main\ntag v1.0.0  published  acme/command  1.0.0\n',
    )
    git.commit({}, { tag: 'v1.1.0' })
    expect(await svc.json('source', 'sync', id)).toEqual({ id: added.id })
    await readSources(t)
    expect((await svc.run('source', 'list', path)).stdout).toContain('published 3')
    const words = ['source', 'hook-secret', id]
    const ours = { ...svc.environment, DATA_DIR: t.config.dataDir }
    const replaced = await runCommand([...words, '--json'], ours)
    expect(JSON.parse(replaced.stdout)).toEqual({
      id: added.id,
      hook_secret: expect.stringMatching(/^whsec_/),
    })
    expect((await runCommand([...words, '--secret-file', secretFile], ours)).stderr).toContain(
      '16 to 200 ASCII',
    )
    expect(await svc.json('source', 'remove', id)).toEqual({ id: added.id })
    expect(await svc.fail('source', 'sync', id)).toContain(`There is no source "${id}"`)
    expect(await svc.fail('source', 'remove', 'x')).toContain('is no id of a source')
  })

  it('is read again when its time has come', async () => {
    const git = server.repository('due')
    git.commit(packageFiles('acme/due'))
    const { path } = await aRepository(t.db)
    const { id } = await add(path, git.url)
    await readSources(t)
    git.commit({}, { tag: '1.0.0' })
    await readSources(t)
    const counts = async () => (await svc.run('source', 'list', path)).stdout
    expect(await counts()).toContain('published 1')
    await passSourceIntervals(t.db, id)
    await readSources(t)
    expect(await counts()).toContain('published 2')
  })
})

describe('/api/repositories/<group>/<name>/sources', () => {
  it('adds, lists, reads and removes a source for admins, and shows no secret later', async () => {
    const { call, repository, token } = await aCaller(t)
    const draft = { url: 'https://192.0.2.1/lib.git', secret: 'a-secret-token' }
    const refused = await call('POST', '/sources', draft)
    expect([refused.statusCode, refused.json().errmsg]).toEqual([
      400,
      expect.stringContaining('no public IP'),
    ])
    const another = await aCaller(t, { repository, role: 'developer' })
    expect((await another.call('GET', '/sources')).statusCode).toBe(403)
    const url = '/repositories/none/none/sources'
    expect((await callApi(t, token, 'GET', `/api${url}`)).statusCode).toBe(404)
    expect((await call('POST', '/sources/999/sync')).statusCode).toBe(404)
    expect((await call('DELETE', '/sources/999')).statusCode).toBe(404)
  })

  it('queues a source with status 202, and lists its refs', async () => {
    const git = server.repository('api')
    git.commit(packageFiles('acme/api'), { tag: '1.0.0' })
    const { call, repository } = await aCaller(t)
    const { id, hook_secret } = await add(repository.path, git.url)
    const queued = await call('POST', `/sources/${id}/sync`)
    expect([queued.statusCode, queued.json()]).toEqual([202, { id }])
    await readSources(t)
    const listed = await call('GET', '/sources')
    expect(listed.json()).toMatchObject([{ id, url: git.url, hook_url: `http://svc.test/hooks/${id}` }])
    expect(listed.body).not.toContain(hook_secret)
    expect((await call('GET', `/sources/${id}/refs`)).json()).toMatchObject([
      { kind: 'branch', name: 'main', state: 'published', package: 'acme/api', version: 'dev-main' },
      { kind: 'tag', name: '1.0.0', state: 'published', package: 'acme/api', version: '1.0.0' },
    ])
    const foreign = await aCaller(t)
    for (const [method, below] of [
      ['GET', 'refs'],
      ['POST', 'sync'],
    ] as const)
      expect((await foreign.call(method, `/sources/${id}/${below}`)).statusCode).toBe(404)
    expect((await foreign.call('DELETE', `/sources/${id}`)).statusCode).toBe(404)
    expect((await foreign.call('POST', `/sources/${id}/hook-secret`, {})).statusCode).toBe(404)
    const confirmation = { host_key: 'SHA256:any' }
    expect((await foreign.call('POST', `/sources/${id}/confirm`, confirmation)).statusCode).toBe(404)
    expect((await call('POST', `/sources/${id}/confirm`, confirmation)).json().errmsg).toContain(
      'only an SSH server',
    )
    const replaced = await call('POST', `/sources/${id}/hook-secret`, {})
    expect(replaced.json()).toEqual({ hook_secret: expect.stringMatching(/^whsec_/) })
    expect(replaced.json().hook_secret).not.toBe(hook_secret)
    expect((await call('DELETE', `/sources/${id}`)).statusCode).toBe(204)
    expect((await call('GET', '/sources')).json()).toEqual([])
  })
})
