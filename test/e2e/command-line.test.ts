import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { addCommandLineClient } from '../../src/oauth/command-line-client.ts'
import { aGroupMember, aMember, anAccount, aRepository, groupOf, signIn } from '../support/actors.ts'
import { open, submitConsent } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { pixel } from '../support/oauth-actors.ts'
import { liveGrantsOf } from '../support/oauth-rows.ts'
import { type Environment, freePort, paste, plainFolder, program, runSvc } from '../support/program.ts'
import { aPackageZip } from '../support/registry-actors.ts'
import { has } from '../support/requires.ts'
import { runCommand } from '../support/run-command.ts'
import { works } from '../support/token-client.ts'

interface StoredLogin {
  tokenEndpoint?: string
  accessToken: string
  refreshToken: string
  expiresAt: number
}

describe.skipIf(!has('composer', 'php', 'unzip'))('svc login (needs composer, php and unzip)', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  const server = `http://127.0.0.1:${port}`
  let home: string
  let env: Environment
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-test-login-'))
    env = { HOME: home, DATA_DIR: join(home, 'none') }
    await addCommandLineClient(t.db, { website: server, logo: pixel })
  })
  afterAll(() => rm(home, { recursive: true }))

  const file = () => join(home, '.config/svc/login.json')
  // A command in this process does not see another HOME.
  const svc = (...words: string[]) =>
    runCommand(words, { XDG_CONFIG_HOME: join(home, '.config'), DATA_DIR: join(home, 'none') })
  const svcProgram = (...words: string[]) => runSvc(words, env)
  const stored = async () =>
    JSON.parse(await readFile(file(), 'utf8')) as { latest: string; servers: Record<string, StoredLogin> }
  const login = async () => (await stored()).servers[server] ?? expect.fail()

  /** Runs `svc login`, and decides in the browser of the account. */
  async function signInHere(cookie: string, decision: string, at = env) {
    const child = spawn(process.execPath, [program, 'login', server], {
      cwd: plainFolder,
      env: { PATH: process.env['PATH'], ...at },
    })
    const closed = once(child, 'close')
    let printed = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text: Buffer) => {
        printed += text.toString()
      })
    while (!/confirm the code/.test(printed) && child.exitCode === null) await sleep(20)
    const [link = ''] = /\/device\?user_code=[A-Z-]+/.exec(printed) ?? []
    if (link) await submitConsent(t, await open(t, link, cookie), cookie, decision)
    const [code] = await closed
    return { code: code as number, printed }
  }

  it('gives the commands that the API has a token, refreshes and revokes it (OPENID 228)', async () => {
    const account = await anAccount(t.db)
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'developer')
    const cookie = await signIn(t.app, account)
    const done = await signInHere(cookie, 'approve')
    expect([done.code, done.printed]).toEqual([0, expect.stringContaining(`as ${account.username}`)])
    expect((await stat(file())).mode & 0o777).toBe(0o600)
    expect((await stat(join(home, '.config/svc'))).mode & 0o777).toBe(0o700)
    expect(done.printed).not.toContain((await login()).refreshToken)

    expect(JSON.parse((await svc('whoami', '--json')).stdout)).toMatchObject({
      server,
      username: account.username,
    })
    await writeFile(join(home, 'hello.zip'), aPackageZip('acme/hello'))
    const pushed = await svc(
      'push',
      repository.path,
      'acme/hello',
      '1.0.0',
      join(home, 'hello.zip'),
      '--json',
    )
    expect(JSON.parse(pushed.stdout)).toMatchObject({ name: 'acme/hello', version: '1.0.0' })
    expect(JSON.parse((await svc('repository', 'list', '--json')).stdout)).toMatchObject({
      items: [{ path: repository.path, role: 'developer' }],
      next: null,
    })
    expect((await svc('package', 'list', repository.path)).stdout).toBe('acme/hello  1.0.0  0\n')
    expect((await svc('version', 'list', repository.path, 'acme/hello')).stdout).toMatch(
      /^1\.0\.0 {2}[0-9a-f]{64}/,
    )
    expect((await svc('package', 'abandon', repository.path, 'acme/hello')).stdout).toMatch(/abandoned +true/)

    // What an application may not do names the page, and what needs the database says so.
    expect((await svc('token', 'create', 'ann', '--name', 'x')).stderr).toContain(`${server}/settings/tokens`)
    expect((await svc('collect-garbage')).stderr).toContain('run it on the server')
    expect((await svc('repository', 'show', 'acme/none')).stderr).toMatch(/^svc: The server returned 404: /)

    // Two commands at once with a token that has expired: both get the new pair.
    const before = await stored()
    const old = await login()
    before.servers[server] = { ...old, expiresAt: 0 }
    await writeFile(file(), JSON.stringify(before))
    const both = await Promise.all([svcProgram('whoami'), svcProgram('group', 'list')])
    expect(both.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ''],
      [0, ''],
    ])
    const renewed = await login()
    expect(renewed.accessToken).not.toBe(old.accessToken)
    expect(await works(t, renewed.accessToken)).toBe(true)

    // Composer works with the token, and keeps its other credentials.
    const auth = join(home, '.config/composer/auth.json')
    const project = join(home, 'project.json')
    await writeFile(
      project,
      JSON.stringify({ 'http-basic': { 'other.example.com': { username: 'a', password: 'b' } } }),
    )
    expect((await svcProgram('composer-auth', '--file', project)).stdout).toContain('It lasts 8 hours')
    expect(JSON.parse(await readFile(project, 'utf8'))['http-basic']).toMatchObject({
      'other.example.com': { username: 'a', password: 'b' },
      [`127.0.0.1:${port}`]: { username: 'svc', password: (await login()).accessToken },
    })
    expect((await stat(project)).mode & 0o777).toBe(0o600)
    await writeFile(join(home, 'broken.json'), '{')
    expect((await svcProgram('composer-auth', '--file', join(home, 'broken.json'))).stderr).toContain(
      'Nothing was changed',
    )
    const written = JSON.parse((await svcProgram('composer-auth', '--json')).stdout) as { file: string }
    expect([auth, join(home, '.composer/auth.json')]).toContain(written.file)
    const url = `${server}/${repository.path}/-/packages/`
    const installed = await paste(
      `export COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_NO_INTERACTION=1
      mkdir app && cd app
      echo '{"repositories":[{"type":"composer","url":"${url}"},{"packagist.org":false}],"config":{"secure-http":false}}' >composer.json
      composer require acme/hello:1.0.0 2>&1`,
      home,
    )
    expect([installed.code, installed.stdout]).toEqual([
      0,
      expect.stringContaining('Installing acme/hello (1.0.0)'),
    ])

    const { accessToken } = await login()
    expect((await svc('logout')).stdout).toBe(`Signed out from ${server}.\n`)
    expect(await works(t, accessToken)).toBe(false)
    expect((await svc('whoami')).stderr).toContain('There is no login')
    expect(await liveGrantsOf(t.db, account)).toEqual([])
  })

  it('searches, reports a lock file, and names the page of what an application may not do (OPENID 228)', async () => {
    const account = await anAccount(t.db)
    const repository = await aRepository(t.db)
    await aGroupMember(t.db, account, await groupOf(t.db, repository), 'developer')
    const cookie = await signIn(t.app, account)
    await signInHere(cookie, 'approve')
    await writeFile(join(home, 'hello.zip'), aPackageZip('acme/hello'))
    await svc('push', repository.path, 'acme/hello', '1.0.0', join(home, 'hello.zip'))
    expect((await svc('search', repository.path, 'hello')).stdout).toMatch(/^acme\/hello/)
    expect((await svc('search', repository.path, 'nothing')).stdout).toBe('Nothing.\n')
    expect((await svc('search', 'acme/none', 'x')).stderr).toMatch(/^svc: The server returned 404/)

    const lock = join(home, 'composer.lock')
    await writeFile(lock, JSON.stringify({ packages: [{ name: 'acme/hello', version: '1.0.0' }] }))
    const [group = ''] = repository.path.split('/')
    const report = await svc('project', 'report', `${group}/shop`, '--lock', lock, '--json')
    expect(report.stderr).toBe('')
    expect(JSON.parse(report.stdout)).toEqual({ project: 'shop', packages: 1, affected: [] })
    expect((await svc('project', 'list', group)).stdout).toBe('shop\n')
    const none = await svc('project', 'report', `${group}/shop`, '--lock', join(home, 'none.lock'))
    expect(none.stderr).toContain('cannot be read')
    for (const [words, page] of [
      [['stage', 'release', '17'], '/<group>/<name>/-/stages'],
      [['project', 'delete', `${group}/shop`], '/<group>/-/projects'],
    ] as const) {
      const refused = await svc(...words)
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`${server}${page}`)])
    }
  })

  it('refreshes once for two commands at once (OPENID 228)', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    await signInHere(cookie, 'approve')
    const before = await stored()
    const old = await login()
    let requests = 0
    const forward = async (request: IncomingMessage, response: ServerResponse) => {
      requests += 1
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const { headers } = request
      const answer = await fetch(`${server}/oauth2/token`, {
        method: 'POST',
        headers: { 'content-type': headers['content-type'] ?? '' },
        body: Buffer.concat(chunks),
      })
      // The other command has time to find the same old token.
      await sleep(3_000)
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
    }
    const counter = createServer((request, response) => void forward(request, response))
    counter.listen(0, '127.0.0.1')
    await once(counter, 'listening')
    const tokenEndpoint = `http://127.0.0.1:${(counter.address() as AddressInfo).port}/`
    before.servers[server] = { ...old, tokenEndpoint, expiresAt: 0 }
    await writeFile(file(), JSON.stringify(before))
    const both = await Promise.all([svcProgram('whoami'), svcProgram('group', 'list')])
    counter.close()
    expect(both.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ''],
      [0, ''],
    ])
    expect(requests).toBe(1)
    expect((await login()).refreshToken).not.toBe(old.refreshToken)
  })

  it('signs out on this machine, and leaves the others signed in (OPENID 228)', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const other = { ...env, HOME: join(home, 'other') }
    await signInHere(cookie, 'approve')
    await signInHere(cookie, 'approve', other)
    const { accessToken } = await login()
    await svc('logout')
    expect(await works(t, accessToken)).toBe(false)
    expect((await runSvc(['whoami', '--json'], other)).stdout).toContain(account.username)
    expect(await liveGrantsOf(t.db, account)).toHaveLength(1)
  })

  it('stops when the person denies, and when an administrator has suspended the command line', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const denied = await signInHere(cookie, 'deny')
    expect([denied.code, denied.printed]).toEqual([
      1,
      expect.stringContaining('svc: The account did not give its consent.'),
    ])
    await setApplicationStatus(t.db, 'svccommandline', 'suspended')
    const suspended = await signInHere(cookie, 'approve')
    expect([suspended.code, suspended.printed]).toEqual([
      1,
      expect.stringContaining('The server returned 401'),
    ])
    await addCommandLineClient(t.db, { website: server, logo: pixel })
    expect((await signInHere(cookie, 'approve')).code).toBe(1)
  })

  it.each([
    ['http://svc.example.com', 'Use https'],
    ['svc.example.com', 'is no URL of a server'],
    ['http://127.0.0.1:1', 'does not respond'],
  ])('refuses %s', async (url, reason) => {
    const { code, stderr } = await svc('login', url)
    expect([code, stderr]).toEqual([1, expect.stringContaining(reason)])
  })
})
