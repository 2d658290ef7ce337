import { once } from 'node:events'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { noteListingChange } from '../../../src/documents/listing.ts'
import { renderRoot } from '../../../src/packages/documents/render.ts'
import { aMember, anAccount, aPersonalToken, aRepository } from '../../support/actors.ts'
import { dropDatabase, onServer, useDatabase } from '../../support/database.ts'
import { databaseUrl, type Environment, runSvc, stopServer } from '../../support/program.ts'
import { aPackageZip, basic } from '../../support/registry-actors.ts'
import { runCommand } from '../../support/run-command.ts'
import { useServers } from '../../support/servers.ts'

describe('svc serve', () => {
  const database = useDatabase()
  const servers = useServers(database)
  const { environment, start } = servers

  it('says where it listens, in one line on standard output, stops with 0 on SIGTERM, and reads a file .env as commands do; variables of the environment take precedence', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'svc-test-env-'))
    const lines = [
      'BASE_URL=https://file.example.com',
      'LOG_LEVEL=silent',
      'AUTH_URL="https://set.example.com/auth"',
    ]
    await writeFile(join(cwd, '.env'), lines.join('\n'))
    const server = await start({ BASE_URL: 'https://set.example.com' }, cwd)
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    const metadata = await fetch(`${server.url}/.well-known/oauth-authorization-server`)
    expect(await metadata.json()).toMatchObject({ issuer: 'https://set.example.com/auth' })
    expect(await stopServer(server)).toEqual({
      code: 0,
      stdout: 'svc listens on https://set.example.com\n',
      stderr: '',
    })
    await writeFile(join(cwd, '.env'), 'PORT=many')
    expect((await runSvc(['migrate'], environment(), '', cwd)).stderr).toContain('PORT must be')
    await rm(join(cwd, '.env'))
    await mkdir(join(cwd, '.env'))
    expect((await runSvc(['migrate'], environment(), '', cwd)).stderr).toMatch(
      /\.env cannot be read \(E\w+\)/,
    )
    await rm(cwd, { recursive: true })
  })

  it('gives commands its public URL, unless their environment sets another, and serves no document with its former one', async () => {
    const repository = await aRepository(database.db, { visibility: 'public' })
    const former = { repositoryId: repository.id, baseUrl: 'https://former.example.com' }
    await noteListingChange(database.db, former.repositoryId)
    await renderRoot(database.db, former.repositoryId, former.baseUrl)
    const server = await start({ BASE_URL: 'https://noted.example.com' })
    const owner = await anAccount(database.db)
    await runCommand(['group', 'create', 'noted', '--owner', owner.username], environment())
    const create = async (name: string, more: Environment) => {
      const words = ['repository', 'create', `noted/${name}`, '--json']
      const { stdout } = await runCommand(words, environment(more))
      return JSON.parse(stdout).registry_url
    }
    const root = await fetch(`${server.url}/${repository.path}/-/packages/packages.json`)
    const document = await root.text()
    expect(document).toContain(`https://noted.example.com/${repository.path}`)
    expect(document).not.toContain(former.baseUrl)
    expect(await create('one', {})).toBe('https://noted.example.com/noted/one/-/packages/')
    expect(await create('two', { PORT: '4000' })).toBe('https://noted.example.com/noted/two/-/packages/')
    const given = { BASE_URL: 'https://given.example.com' }
    expect(await create('three', given)).toBe('https://given.example.com/noted/three/-/packages/')
    await stopServer(server)
    await stopServer(await start({ BASE_URL: 'https://moved.example.com' }))
    expect(await create('four', {})).toBe('https://moved.example.com/noted/four/-/packages/')
  })

  it('names files and lines of src/ in the stack of an error', async () => {
    const server = await start()
    await database.db.query('alter table repository rename to renamed')
    const { status } = await fetch(`${server.url}/acme/php/-/packages/packages.json`)
    await database.db.query('alter table renamed rename to repository')
    expect(status).toBe(500)
    const { stderr } = await stopServer(server)
    const stacks = stderr
      .split('\n')
      .flatMap((line) => (line.includes('"stack"') ? [JSON.parse(line).err.stack] : []))
    expect(stacks.join('\n')).toMatch(/ at async .*\/src\/groups\/for-each-request\.ts:\d+:\d+/)
    expect(stacks.join('\n')).not.toContain('/dist/')
  })

  it('says how many archives an older copy of DATA_DIR, and another DATA_DIR, lack', async () => {
    const repository = await aRepository(database.db)
    const account = await anAccount(database.db)
    await aMember(database.db, account, repository, 'developer')
    const token = await aPersonalToken(database.db, account, { scopes: ['registry-package:rw'] })
    const server = await start()
    const push = async (version: string) => {
      const pushed = await fetch(`${server.url}/${repository.path}/-/packages/upload/acme/lib/${version}`, {
        method: 'PUT',
        headers: { authorization: basic(token) },
        body: new Uint8Array(aPackageZip('acme/lib', { description: version })),
      })
      expect(pushed.status).toBe(201)
    }
    await push('1.0.0')
    const older = join(servers.dataDir, '..', `${basename(servers.dataDir)}-older`)
    await cp(servers.dataDir, older, { recursive: true })
    for (const version of ['2.0.0', '3.0.0']) await push(version)
    await stopServer(server)

    for (const [dataDir, missing] of [
      [older, 2],
      [join(servers.dataDir, 'other'), 3],
    ] as const) {
      const started = await start({ DATA_DIR: dataDir })
      await expect.poll(started.logged).toContain(`${dataDir} lacks ${missing} of 3 archives`)
      await stopServer(started)
    }
    await rm(older, { recursive: true })
  })

  it('says in one line that its port is taken', async () => {
    const other = createServer().listen(0, 'localhost')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const { code, stdout, stderr } = await runSvc(
      ['serve'],
      environment({ PORT: String(port), LOG_LEVEL: 'silent' }),
    )
    other.close()
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^svc: Another program listens on .*: stop it, or set PORT to another number\.\n$/)
  })

  it.each([
    [{ HOST: '192.0.2.1' }, 'This machine does not have the IP 192.0.2.1: check HOST.'],
    [{ DATA_DIR: '/dev/null' }, 'The folder /dev/null cannot be used (EEXIST). Set DATA_DIR to a folder'],
    [{ HOST: 'no-such-host.invalid' }, 'A host name in the configuration is unknown'],
    [
      { MIGRATIONS_DIR: '/nowhere' },
      'The migrations in /nowhere cannot be read (ENOENT): check MIGRATIONS_DIR.',
    ],
    [{ DATABASE_URL: 'postgres://127.0.0.1:1/svc' }, 'The database does not respond'],
    [{ PORT: 'x' }, 'PORT must be a whole number'],
  ])('says in one line why it cannot start with %j', async (wrong, message) => {
    const { code, stderr } = await runSvc(['serve'], environment({ LOG_LEVEL: 'silent', ...wrong }))
    expect(code).toBe(1)
    expect(stderr).toContain(message)
    expect(stderr).not.toMatch(/\n {4}at /)
  })

  it('starts twice at once on one empty database, which is migrated once', async () => {
    const name = `${database.connection.database}_empty`
    const server = { ...database.connection }
    await onServer(server, `create database ${name}`)
    const url = databaseUrl({ ...database.connection, database: name })
    const more = { DATABASE_URL: url, DATA_DIR: join(servers.dataDir, 'twice') }
    const both = await Promise.all([start(more), start(more)])
    for (const { url } of both) expect((await fetch(`${url}/readyz`)).status).toBe(200)
    await Promise.all(both.map(stopServer))
    await dropDatabase({ ...server, database: name })
  })
})
