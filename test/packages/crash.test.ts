import { createHash } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { aMember, anAccount, aPersonalToken, aRepository } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { countWaiting, whileLocked } from '../support/locks.ts'
import { endFetches } from '../support/mirrored-rows.ts'
import { runSvc, type Server } from '../support/program.ts'
import { aPackageZip, basic } from '../support/registry-actors.ts'
import { useServers } from '../support/servers.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { endCheck } from '../support/upstream-rows.ts'

describe('an upload whose server is killed (kill -9)', () => {
  const database = useDatabase()
  // Each test kills the server that the one before has started.
  const servers = useServers(database, afterAll)
  const { running, kill } = servers

  async function aRegistry() {
    const repository = await aRepository(database.db)
    const zip = aPackageZip('acme/lib', { description: repository.path })
    const account = await anAccount(database.db)
    await aMember(database.db, account, repository, 'developer')
    const headers = { authorization: basic(await aPersonalToken(database.db, account)) }
    const below = (server: Server, path: string) => `${server.url}/${repository.path}/-/packages/${path}`
    return {
      zip,
      path: `/${repository.path}/-/packages/upload/acme/lib/1.0.0`,
      headers,
      push: (server: Server) =>
        fetch(below(server, 'upload/acme/lib/1.0.0'), { method: 'PUT', headers, body: new Uint8Array(zip) }),
      pull: (server: Server, path: string) => fetch(below(server, path), { headers }),
    }
  }

  async function untilItWaits(): Promise<void> {
    // Other test files wait for locks in their own databases of this server.
    await expect.poll(() => countWaiting(database.db)).toBeGreaterThan(0)
  }

  const listFiles = (folder: string) => readdir(join(servers.dataDir, folder), { recursive: true })

  async function expectNothingPublished({
    pull,
    push,
  }: Awaited<ReturnType<typeof aRegistry>>): Promise<void> {
    const server = await running()
    expect((await pull(server, 'p2/acme/lib.json')).status).toBe(404)
    expect((await push(server)).status).toBe(201)
    expect((await pull(server, 'p2/acme/lib.json')).status).toBe(200)
  }

  it('has published nothing while the archive was on its way, or received and not yet kept', async () => {
    for (const isWhole of [false, true]) {
      const registry = await aRegistry()
      const { zip } = registry
      const server = await running()
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      socket.on('error', () => {})
      const { authorization } = registry.headers
      socket.write(`PUT ${registry.path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n`)
      socket.write(`Content-Length: ${zip.length}\r\n\r\n`)
      socket.write(zip.subarray(0, 100))
      await expect.poll(() => listFiles('tmp')).not.toEqual([])
      await whileLocked(database.db, 'repository_group', async () => {
        if (isWhole) {
          socket.write(zip.subarray(100))
          await untilItWaits()
        }
        await kill(server)
      })
      await expectNothingPublished(registry)
      for (const name of await listFiles('tmp')) await rm(join(servers.dataDir, 'tmp', name))
    }
  })

  it.each([
    ['the archive was kept and not yet named', 'package'],
    ['the version was named and not yet shown', 'package_document'],
    ['all was done but the commit', 'event'],
  ])('has published nothing while %s', async (_, table) => {
    const registry = await aRegistry()
    const server = await running()
    await whileLocked(
      database.db,
      table,
      async () => {
        const response = registry.push(server).catch(() => 'none')
        await untilItWaits()
        const sha256 = createHash('sha256').update(registry.zip).digest('hex')
        // A background job may be the one that waits. The upload has come this far when its archive is stored.
        await expect.poll(() => listFiles('archives')).toContain(join(sha256.slice(0, 2), `${sha256}.zip`))
        await kill(server)
        expect(await response).toBe('none')
      },
      'exclusive',
    )
    await expectNothingPublished(registry)
  })

  it('has lost nothing after it has responded', async () => {
    const { push, pull, zip } = await aRegistry()
    const server = await running()
    const { url } = (await (await push(server)).json()) as { url: string }
    await kill(server)
    const next = await running()
    expect(await (await pull(next, 'p2/acme/lib.json')).text()).toContain('"version":"1.0.0"')
    const dist = new URL(url).pathname.split('/-/packages/')[1] as string
    expect(Buffer.from(await (await pull(next, dist)).arrayBuffer()).equals(zip)).toBe(true)
  })
})

describe('a fetch from an upstream whose server is killed (kill -9)', () => {
  const database = useDatabase()
  const upstream = useUpstream()
  const servers = useServers(database)

  it('is repeated by another process when the turn of the killed one ends', async () => {
    const repository = await aRepository(database.db)
    const account = await anAccount(database.db)
    await aMember(database.db, account, repository, 'guest')
    const headers = { authorization: basic(await aPersonalToken(database.db, account)) }
    const added = await runSvc(
      ['upstream', 'add', repository.path, upstream.url],
      servers.environment(upstreamsHere),
    )
    expect([added.code, added.stderr]).toEqual([0, ''])
    upstream.offer('killed/document', ['1.0.0'])
    upstream.offer('killed/archive', ['1.0.0'])
    const get = ({ url }: Server, path: string) =>
      fetch(new URL(path, `${url}/${repository.path}/-/packages/`), { headers })

    const killed = await servers.start(upstreamsHere)
    const listed = await (await get(killed, 'p2/killed/archive.json')).json()
    const [{ dist }] = (listed as { packages: Record<string, [{ dist: { url: string } }]> }).packages[
      'killed/archive'
    ] ?? [{ dist: { url: '' } }]
    const archive = new URL(dist.url).pathname
    const source = '/archives/killed/archive/1.0.0.zip'
    const bytes = upstream.read(source) ?? Buffer.alloc(0)
    upstream.fail('/p2/killed/document.json', () => {})
    upstream.fail(source, (_, response) => {
      response.writeHead(200, { 'content-length': bytes.length }).write(bytes.subarray(0, 100))
    })
    const lost = [get(killed, 'p2/killed/document.json'), get(killed, archive)].map((response) =>
      response.then(
        () => 'response',
        () => 'none',
      ),
    )
    // Both requests have reached the upstream, and a part of the archive has arrived.
    await expect.poll(() => upstream.requests).toContain('GET /p2/killed/document.json')
    const received = async () => {
      const folder = join(servers.dataDir, 'tmp')
      const files = await readdir(folder)
      return Promise.all(files.map(async (name) => (await stat(join(folder, name))).size))
    }
    await expect.poll(received).toEqual([100])
    await servers.kill(killed)
    expect(await Promise.all(lost)).toEqual(['none', 'none'])
    upstream.fail('/p2/killed/document.json', null)
    upstream.fail(source, null)

    const other = await servers.start(upstreamsHere)
    const responses = [get(other, 'p2/killed/document.json'), get(other, archive)]
    // The turns end 45 and 60 seconds after the fetches began.
    expect(await endCheck(database.db, 'killed/document', 45)).toBe(1)
    expect(await endFetches(database.db, 60)).toBe(1)
    const [document, download] = await Promise.all(responses)
    expect([document?.status, await document?.text()]).toEqual([200, expect.stringContaining('"1.0.0"')])
    expect([download?.status, Buffer.from((await download?.arrayBuffer()) ?? new ArrayBuffer(0))]).toEqual([
      200,
      bytes,
    ])
  })
})
