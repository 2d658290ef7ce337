import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { covers } from '../../src/domain/scopes.ts'
import { type AccountActor, aMember, anAccount, aRepository, signIn } from '../support/actors.ts'
import { followAndApprove } from '../support/browse.ts'
import { readBlocks } from '../support/document-commands.ts'
import { makeRepository, runBackend } from '../support/git-server.ts'
import { useListeningApp } from '../support/listening.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'
import { has } from '../support/requires.ts'
import { ask } from '../support/token-client.ts'

const isComplete = has('git-credential-oauth', 'git', 'curl')

describe.skipIf(!isComplete)('git with git-credential-oauth (git-credential-oauth is needed)', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  const blocks = await readBlocks()
  const textOf = (file: string, language: string) =>
    blocks.filter((block) => block.file === file && block.language === language).at(-1)?.text ?? ''
  let home: string
  let account: AccountActor
  let cookie: string
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-test-git-credential-'))
    // The helper starts the browser with it if the system has it. The test opens the printed URL instead.
    await mkdir(join(home, 'bin'))
    await writeFile(join(home, 'bin/open'), '#!/bin/sh\n', { mode: 0o755 })
    account = await anAccount(t.db)
    cookie = await signIn(t.app, account)
  })
  afterAll(async () => {
    spawnSync('git', ['credential-cache', 'exit'], { env: { ...process.env, HOME: home } })
    await rm(home, { recursive: true })
  })

  /** Registers the application of the helper, and writes the documented configuration for a host. */
  async function configure(file: string, host: string, url: string, scopes: string[]) {
    // The helper listens on any port of 127.0.0.1.
    const helper = await anApplication(t.db, { isPublic: true, redirectUri: 'http://127.0.0.1', scopes })
    const text = textOf(file, 'ini').replaceAll(host, url).replace('CLIENT_ID', helper.clientId)
    await writeFile(join(home, '.gitconfig'), text)
  }

  /** The person opens the URL in the browser, and agrees. */
  async function approve(link: string): Promise<void> {
    expect(new URL(link).searchParams.get('code_challenge_method')).toBe('S256')
    const back = await followAndApprove(t, link, cookie)
    expect(await (await fetch(back)).text()).toContain('You may close this page')
  }

  /** Runs shell lines. What the helper prints for the person is `opened`. */
  async function shell(lines: string, opened: (link: string) => Promise<void>) {
    const env = {
      PATH: `${home}/bin:${process.env['PATH']}`,
      HOME: home,
      GIT_TERMINAL_PROMPT: '0',
    }
    const child = spawn('bash', ['-ec', lines], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const closed = once(child, 'close')
    let [stdout, stderr, visited] = ['', '', '']
    child.stdout.on('data', (text: Buffer) => {
      stdout += text.toString()
    })
    child.stderr.on('data', (text: Buffer) => {
      stderr += text.toString()
    })
    onTestFinished(() => void child.kill())
    while (child.exitCode === null) {
      const [, link = ''] = /^(http.*)\n/m.exec(stderr) ?? []
      if (link !== visited) {
        visited = link
        await opened(link)
      }
      await sleep(20)
    }
    await closed
    return { code: child.exitCode, stdout, stderr, visited }
  }

  it('gets the password for a registry as docs/command-line.md says (OPENID 202, 203, 206)', async () => {
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'developer')
    const { baseUrl } = t.config
    await configure('docs/command-line.md', 'https://svc.example.com', baseUrl, ['registry-package:r'])
    const lines = textOf('docs/command-line.md', 'sh')
      .replaceAll('https://svc.example.com', baseUrl)
      .replace('acme/php', repository.path)
    const { code, stdout, visited } = await shell(lines, approve)
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      expect.objectContaining({ 'metadata-url': expect.anything() }),
    ])
    expect(new URL(visited).searchParams.get('scope')).toBe('registry-package:r')
  })

  describe('and a Git host that trusts svc, as docs/oauth-applications.md says', () => {
    let folder: string
    let resourceServer: ApplicationActor
    const host = createServer((request, response) => void serve(request, response))
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'svc-test-git-host-'))
      resourceServer = await anApplication(t.db, { isResourceServer: true })
      await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
    })
    afterAll(async () => {
      host.closeAllConnections()
      await promisify(host.close.bind(host))()
      await rm(folder, { recursive: true })
    })

    async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost')
      if (pathname.startsWith('/oauth2/')) return passOn(request, response)
      const [, basic = ''] = /^Basic (.*)$/.exec(request.headers.authorization ?? '') ?? []
      const token = Buffer.from(basic, 'base64')
        .toString()
        .replace(/^[^:]*:/, '')
      const isPush = `${pathname}${searchParams.get('service') ?? ''}`.includes('git-receive-pack')
      if (token !== '' && (await allows(token, isPush ? 'repo-code:rw' : 'repo-code:r')))
        return runBackend(folder, request, response)
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
    }
    async function allows(token: string, scope: string): Promise<boolean> {
      const seen = (await ask(t, resourceServer, 'introspect', { token })).json()
      return seen.active && seen.username === account.username && covers(seen.scope.split(' '), scope)
    }
    /** What a reverse proxy does. */
    async function passOn(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const { authorization = '', 'content-type': type = '' } = request.headers
      const answer = await fetch(`${t.config.authUrl}${request.url}`, {
        method: request.method ?? 'GET',
        headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
        body: chunks.length > 0 ? Buffer.concat(chunks) : null,
        redirect: 'manual',
      })
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
      response.end(await answer.text())
    }

    it('clones and pushes with a token of svc, which git keeps (OPENID 202, 203)', async () => {
      const { path, git, commit } = makeRepository(folder, 'lib')
      commit({ 'README.md': 'hello' })
      // The host has authenticated the person itself.
      git('-C', path, 'config', 'http.receivepack', 'true')
      const url = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
      await configure('docs/oauth-applications.md', 'https://git.example.com', url, ['repo-code:rw'])
      // The proxy shows the pages of svc to a browser.
      const throughHost = (link: string) => approve(link.replace(url, t.config.authUrl))
      const cloned = await shell(`git clone --quiet ${url}/lib.git work && ls work`, throughHost)
      expect([cloned.code, cloned.stdout]).toEqual([0, 'README.md\n'])
      expect(cloned.visited).toContain(`${url}/oauth2/auth?`)
      const pushed = await shell(
        `cd work && git config user.email ann@example.com && git config user.name Ann
         echo more > more.txt && git add . && git commit --quiet --message More && git push --quiet origin HEAD:more`,
        () => expect.fail('the token was not kept'),
      )
      expect([pushed.code, await readdir(join(folder, 'lib.git/refs/heads'))]).toEqual([0, ['main', 'more']])
    })
  })
})
